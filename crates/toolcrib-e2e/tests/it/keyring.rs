//! Tests of the keyring with a real Secret Service, without one, and with a hanging one. Each runs in its own
//! process, because a session has one bus.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use toolcrib_config::SecretString;
use toolcrib_upstream::secrets::{CredentialStore, KeyringError, StorageMode, StorageStatus};

use crate::secrets_fixture::{lookup, lookup_error};
use crate::test_host::TestHost;

/// Environment variable that selects the session type.
const SESSION_VARIABLE: &str = "TOOLCRIB_TEST_SESSION";
const FOLDER_VARIABLE: &str = "TOOLCRIB_TEST_FOLDER";

/// Starts the keyring daemon with an empty keyring, then the given command. The daemon is ready before it
/// daemonizes, and exits with the session bus.
const DAEMON_SCRIPT: &str = r#"
printf password | gnome-keyring-daemon --daemonize --unlock --components=secrets >/dev/null || exit 9
exec "$@"
"#;

/// Runs [`session_entry_point`] in a session. It must succeed in time.
fn run_in_session(session: &str, bus: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let mut command = match bus {
        Some(bus) => {
            let mut command = Command::new(&test);
            command.env_clear().env("DBUS_SESSION_BUS_ADDRESS", bus);
            command
        }
        None => {
            let mut command = Command::new("dbus-run-session");
            command.args(["--", "sh", "-c", DAEMON_SCRIPT, "sh"]).arg(&test).env_clear();
            command
        }
    };
    command
        .args(["--exact", "keyring::session_entry_point", "--nocapture"])
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env(SESSION_VARIABLE, session)
        .env(FOLDER_VARIABLE, folder.path().join("keep"))
        .stdin(Stdio::null());
    let started = Instant::now();
    let output = command.output().unwrap_or_else(|error| {
        panic!("`dbus-run-session` of the package dbus-daemon is needed: {error}")
    });
    let stdout = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{errors}\n(gnome-keyring must be installed)");
    assert!(started.elapsed() < Duration::from_secs(60));
    folder
}

fn stored_text(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder.join("keep")).unwrap();
    entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn secret_service_stores_the_key_and_other_programs_secrets() {
    let folder = run_in_session("daemon", None);
    assert!(!stored_text(folder.path()).contains("c4nary"));
}

#[test]
fn missing_session_bus_falls_back_to_files() {
    let folder = run_in_session("none", Some("unix:path=/nowhere/at/all"));
    assert!(stored_text(folder.path()).contains("c4nary"));
}

#[test]
fn hanging_session_bus_costs_one_timeout_and_falls_back_to_files() {
    let bus = tempfile::tempdir().unwrap();
    let path = bus.path().join("bus");
    // The kernel accepts connections, but no process responds.
    let _listener = UnixListener::bind(&path).unwrap();
    let folder = run_in_session("hanging", Some(&format!("unix:path={}", path.display())));
    assert!(stored_text(folder.path()).contains("c4nary"));
}

/// Entry point of the processes that other tests start. Run as a test, it uses private files and no keyring.
#[tokio::test]
async fn session_entry_point() {
    #[allow(clippy::disallowed_methods, reason = "environment variables configure the test binary")]
    let given = |name: &str| std::env::var(name).ok();
    let own = tempfile::tempdir().unwrap();
    let session = given(SESSION_VARIABLE).unwrap_or_default();
    let storage = if session.is_empty() { StorageMode::File } else { StorageMode::Auto };
    let folder = given(FOLDER_VARIABLE).map_or_else(|| own.path().join("keep"), Into::into);
    let store = CredentialStore::open(folder.clone(), storage);
    let started = Instant::now();
    for text in ["c4nary", "c4nary-2"] {
        store.write("n", &SecretString::new(text)).await.unwrap();
        let again = CredentialStore::open(folder.clone(), storage);
        assert_eq!(again.read("n").await.unwrap(), Some(SecretString::new(text)));
    }
    let standing = store.storage_status().await.unwrap();
    match session.as_str() {
        "daemon" => {
            assert_eq!(standing, StorageStatus::Sealed);
            read_other_programs_secrets().await;
        }
        "none" => assert!(
            matches!(standing, StorageStatus::PlainWithout(KeyringError::Absent(_))),
            "{standing:?}"
        ),
        "hanging" => {
            let late = KeyringError::Timeout(Duration::from_secs(5));
            assert_eq!(standing, StorageStatus::PlainWithout(late));
            assert_eq!(store.problem().unwrap().code, "credentials.unsealed");
            // One timeout of five seconds, regardless of the number of writes.
            assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
        }
        _ => assert_eq!(standing, StorageStatus::Plain),
    }
}

/// Reads secrets that other programs have stored.
async fn read_other_programs_secrets() {
    use keyring_core::api::CredentialStoreApi;
    let put = || {
        let store = zbus_secret_service_keyring_store::Store::new().unwrap();
        for (service, user) in [("toolcrib", "git"), ("other", "git")] {
            let entry = store.build(service, user, None).unwrap();
            entry.set_secret(format!("c4nary {service}").as_bytes()).unwrap();
        }
    };
    tokio::task::spawn_blocking(put).await.unwrap();
    let host = TestHost::new();
    let stores = json!({"mine": {"kind": "keyring", "service": "other"}});
    assert_eq!(lookup(&host, &stores, "keyring:git").await.unwrap(), "c4nary toolcrib");
    assert_eq!(lookup(&host, &stores, "mine:git").await.unwrap(), "c4nary other");
    assert_eq!(lookup_error(&host, &stores, "keyring:none").await.0, "secret.missing");
    host.close().await;
}
