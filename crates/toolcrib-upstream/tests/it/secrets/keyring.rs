//! A real Secret Service, none, and one that hangs; each in a process of its own, since a session has one bus.

use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use toolcrib_upstream::secrets::{Keep, KeyringError, Standing, Storage};

use super::*;

/// Tells the test binary which session it is in.
const SESSION: &str = "TOOLCRIB_TEST_SESSION";
const FOLDER: &str = "TOOLCRIB_TEST_FOLDER";

/// Starts the daemon with an empty keyring, and then what is given. It is there before it goes to the background,
/// and ends with the session's bus.
const WITH_DAEMON: &str = r#"
printf password | gnome-keyring-daemon --daemonize --unlock --components=secrets >/dev/null || exit 9
exec "$@"
"#;

/// Runs [`inside`] in a session, which must end well and in time.
fn run(session: &str, bus: Option<&str>) -> TempDir {
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
            command.args(["--", "sh", "-c", WITH_DAEMON, "sh"]).arg(&test).env_clear();
            command
        }
    };
    command
        .args(["--exact", "secrets::keyring::inside", "--nocapture"])
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env(SESSION, session)
        .env(FOLDER, folder.path().join("keep"))
        .stdin(Stdio::null());
    let begun = Instant::now();
    let output = command.output().unwrap_or_else(|error| {
        panic!("`dbus-run-session` of the package dbus-daemon is needed: {error}")
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}\n(gnome-keyring must be installed)");
    assert!(begun.elapsed() < Duration::from_secs(60));
    folder
}

fn files(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder.join("keep")).unwrap();
    entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_secret_service_holds_the_key_and_secrets_of_others() {
    let folder = run("daemon", None);
    assert!(!files(folder.path()).contains("c4nary"));
}

#[test]
fn without_a_session_bus_the_file_is_used() {
    let folder = run("none", Some("unix:path=/nowhere/at/all"));
    assert!(files(folder.path()).contains("c4nary"));
}

#[test]
fn a_bus_that_hangs_costs_one_wait_and_the_file_is_used() {
    let bus = tempfile::tempdir().unwrap();
    let path = bus.path().join("bus");
    // Connections are taken by the kernel, and nobody ever answers.
    let _listener = UnixListener::bind(&path).unwrap();
    let folder = run("hanging", Some(&format!("unix:path={}", path.display())));
    assert!(files(folder.path()).contains("c4nary"));
}

/// What the others start in a session of its own. Started by nobody, it keeps a file and asks no keyring.
#[tokio::test]
async fn inside() {
    #[allow(clippy::disallowed_methods, reason = "the one way to tell a test binary something")]
    let given = |name: &str| std::env::var(name).ok();
    let own = tempfile::tempdir().unwrap();
    let session = given(SESSION).unwrap_or_default();
    let storage = if session.is_empty() { Storage::File } else { Storage::Auto };
    let folder = given(FOLDER).map_or_else(|| own.path().join("keep"), Into::into);
    let keep = Keep::open(folder.clone(), storage);
    let begun = Instant::now();
    for text in ["c4nary", "c4nary-2"] {
        keep.write("n", &Hidden::new(text)).await.unwrap();
        let again = Keep::open(folder.clone(), storage);
        assert_eq!(again.read("n").await.unwrap(), Some(Hidden::new(text)));
    }
    let standing = keep.standing().await.unwrap();
    match session.as_str() {
        "daemon" => {
            assert_eq!(standing, Standing::Sealed);
            of_others().await;
        }
        "none" => assert!(
            matches!(standing, Standing::PlainWithout(KeyringError::Absent(_))),
            "{standing:?}"
        ),
        "hanging" => {
            let late = KeyringError::Late(Duration::from_secs(5));
            assert_eq!(standing, Standing::PlainWithout(late));
            assert_eq!(keep.problem().unwrap().code, "credentials.unsealed");
            // Five seconds once, however much is written.
            assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        }
        _ => assert_eq!(standing, Standing::Plain),
    }
}

/// Secrets that other programs have put there.
async fn of_others() {
    use keyring_core::api::CredentialStoreApi;
    let put = || {
        let store = zbus_secret_service_keyring_store::Store::new().unwrap();
        for (service, user) in [("toolcrib", "git"), ("other", "git")] {
            let entry = store.build(service, user, None).unwrap();
            entry.set_secret(format!("c4nary {service}").as_bytes()).unwrap();
        }
    };
    tokio::task::spawn_blocking(put).await.unwrap();
    let scene = Scene::new();
    let stores = json!({"mine": {"kind": "keyring", "service": "other"}});
    assert_eq!(found(&scene, &stores, "keyring:git").await.unwrap(), "c4nary toolcrib");
    assert_eq!(found(&scene, &stores, "mine:git").await.unwrap(), "c4nary other");
    assert_eq!(told(&scene, &stores, "keyring:none").await.0, "secret.missing");
    scene.close().await;
}
