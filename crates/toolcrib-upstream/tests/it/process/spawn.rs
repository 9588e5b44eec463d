//! Tests of spawning: arguments, environment, stderr, and errors.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolcrib_upstream::process::{Child, LaunchSpec, ProcessExit, SpawnError};

use super::{ProcessFixture, process_group};

#[tokio::test]
async fn dom_08_hol_24_arguments_arrive_unchanged() {
    // Covers HOL-24 as well.
    let fixture = ProcessFixture::new();
    let args = ["two words", "$HOME", "$(id)", "`id`", "; exit 1", "a\"b'c", "*", "\\", "", "ü\n"];
    let mut launch = LaunchSpec::new("/usr/bin/printf", "/");
    launch.args = ["%s\\0"].iter().chain(&args).map(Into::into).collect();
    let child = fixture.instance.spawn(launch).await.unwrap();
    assert_eq!(read_output(child).await, format!("{}\0", args.join("\0")));
}

#[tokio::test]
async fn environment_is_the_given_one_plus_the_owner_mark() {
    let fixture = ProcessFixture::new();
    let mut launch = LaunchSpec::new("/usr/bin/env", "/");
    launch.args = vec!["-0".into()];
    launch.env.insert("GREETING".into(), "hello $USER\nagain".into());
    // A host that is itself a child inherits an owner mark in its environment.
    launch.env.insert("TOOLCRIB_OWNER".into(), "somebody else".into());
    let child = fixture.instance.spawn(launch).await.unwrap();
    let mark = child.mark();
    assert_eq!(mark.instance, fixture.instance.id());
    let output = read_output(child).await;
    let found: BTreeSet<&str> = output.split_terminator('\0').collect();
    let owner = format!("TOOLCRIB_OWNER={mark}");
    assert_eq!(found, BTreeSet::from(["GREETING=hello $USER\nagain", owner.as_str()]));
}

#[tokio::test]
async fn min_14_working_directory_is_the_given_one() {
    let fixture = ProcessFixture::new();
    let folder = fixture.notes.canonicalize().unwrap();
    let child = fixture.instance.spawn(LaunchSpec::new("/bin/pwd", &folder)).await.unwrap();
    assert_eq!(read_output(child).await.trim_end(), folder.to_str().unwrap());
}

#[tokio::test]
async fn dis_50_child_has_the_hosts_privileges() {
    let fixture = ProcessFixture::new();
    let child = fixture.instance.spawn(fixture.script("id -u")).await.unwrap();
    let host = rustix::process::geteuid().as_raw().to_string();
    assert_eq!(read_output(child).await.trim_end(), host);
}

#[tokio::test]
async fn child_leads_its_own_group_and_does_not_inherit_the_ledger() {
    let fixture = ProcessFixture::new();
    let child = fixture.instance.spawn(fixture.script("exec cat")).await.unwrap();
    assert_eq!(process_group(child.pid()), child.pid());
    let open = |pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let files = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        files.filter(|file| file.starts_with(fixture.state.path())).count()
    };
    assert_eq!((open(std::process::id()), open(child.pid())), (1, 0));
}

#[tokio::test]
async fn child_starts_with_default_signal_handling() {
    let fixture = ProcessFixture::new();
    let script = "exec cat /proc/self/status";
    let text = read_output(fixture.instance.spawn(fixture.script(script)).await.unwrap()).await;
    let mask = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0, "{text}");
    // Rust ignores SIGPIPE for itself. Other ignored signals are inherited from the test's parent.
    let pipe = 1 << (rustix::process::Signal::PIPE.as_raw() - 1);
    assert_eq!(mask("SigIgn:") & pipe, 0, "{text}");
}

#[tokio::test]
async fn program_names_are_searched_in_the_childs_path() {
    let fixture = ProcessFixture::new();
    let (first, second) = (fixture.notes.join("first"), fixture.notes.join("second"));
    for (folder, mode) in [(&first, 0o600), (&second, 0o700)] {
        fs::create_dir(folder).unwrap();
        // A script without an interpreter line, which `execvp` runs with the shell.
        fs::write(folder.join("server"), "echo \"$0 $1\"\n").unwrap();
        fs::set_permissions(folder.join("server"), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut launch = LaunchSpec::new("server", &fixture.notes);
    launch.args = vec!["two words".into()];
    launch.env.insert("PATH".into(), "/nowhere:first:second".into());
    let child = fixture.instance.spawn(launch).await.unwrap();
    assert_eq!(read_output(child).await, "second/server two words\n");
}

#[tokio::test]
async fn pipes_carry_bytes_both_ways() {
    let fixture = ProcessFixture::new();
    let mut child = fixture.instance.spawn(fixture.script("exec cat")).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"id\":1}\n").await.unwrap();
    drop(stdin);
    assert_eq!(read_output(child).await, "{\"id\":1}\n");
}

#[tokio::test]
async fn dom_24_stderr_is_log_and_not_protocol() {
    let fixture = ProcessFixture::new();
    let script = r#"echo '{"jsonrpc":"2.0","id":1,"result":{}}' >&2; printf 'caf\351' >&2; echo out; exit 3"#;
    let mut child = fixture.instance.spawn(fixture.script(script)).await.unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).await.unwrap();
    assert_eq!(stdout, "out\n");
    assert_eq!(child.exited().await, ProcessExit::Code(3));
    assert_eq!(child.stderr().text(), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\ncaf\u{fffd}");
}

#[tokio::test]
async fn stderr_flood_neither_blocks_the_child_nor_grows_memory() {
    const FLOOD: u64 = 20_000_000;
    let fixture = ProcessFixture::new();
    let script = format!("head -c {FLOOD} /dev/zero | tr '\\0' x >&2; echo end >&2; echo through");
    let child = fixture.instance.spawn(fixture.script(&script)).await.unwrap();
    let tail = child.stderr().clone();
    assert_eq!(read_output(child).await, "through\n");
    assert!(tail.text().ends_with("xend\n"));
    assert_eq!(tail.text().len(), 64 << 10);
    assert_eq!(tail.dropped(), FLOOD + 4 - (64 << 10));
}

#[tokio::test]
async fn missing_program_is_reported_with_a_fix() {
    let fixture = ProcessFixture::new();
    let mut launch = LaunchSpec::new("npx", "/");
    launch.env.insert("PATH".into(), "/nowhere-canary".into());
    launch.env.insert("TOKEN".into(), "canary".into());
    let error = spawn_error(&fixture, launch).await;
    assert_eq!(error.code(), "stdio.spawn.not_found");
    assert_eq!(error.to_string(), "cannot find the program `npx`");
    assert!(error.fix().contains("Node.js"), "{}", error.fix());
    // DIS-43: not even if the value would explain the error.
    let text = format!("{error} {error:?} {}", error.fix());
    assert!(!text.contains("canary"), "{text}");
    assert_eq!(
        spawn_error(&fixture, LaunchSpec::new("/nowhere/npx", "/")).await.code(),
        "stdio.spawn.not_found"
    );
}

#[tokio::test]
async fn non_executable_file_differs_from_a_missing_one() {
    let fixture = ProcessFixture::new();
    let folder = fixture.notes.as_path();
    let file = |name: &str, text: &str, mode: u32| {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "#!/bin/sh\n", 0o600);
    file("orphaned", "#!/nowhere/interpreter\n", 0o700);
    for name in ["plain", "orphaned"] {
        let mut launch = LaunchSpec::new(name, "/");
        launch.env.insert("PATH".into(), folder.into());
        assert_eq!(
            spawn_error(&fixture, launch).await.code(),
            "stdio.spawn.not_executable",
            "{name}"
        );
        let relative = LaunchSpec::new(format!("./{name}"), folder);
        assert_eq!(
            spawn_error(&fixture, relative).await.code(),
            "stdio.spawn.not_executable",
            "{name}"
        );
    }
}

#[tokio::test]
async fn bad_working_directory_differs_from_a_bad_program() {
    let fixture = ProcessFixture::new();
    for cwd in ["/nowhere", "/bin/sh"] {
        assert_eq!(
            spawn_error(&fixture, LaunchSpec::new("/bin/sh", cwd)).await.code(),
            "stdio.spawn.cwd",
            "{cwd}"
        );
    }
}

#[tokio::test]
async fn arguments_with_nul_bytes_are_rejected() {
    let fixture = ProcessFixture::new();
    let mut launch = LaunchSpec::new("/bin/echo", "/");
    launch.args = vec!["a\0b".into()];
    assert_eq!(spawn_error(&fixture, launch).await.code(), "stdio.spawn.other");
}

async fn spawn_error(fixture: &ProcessFixture, launch: LaunchSpec) -> SpawnError {
    fixture.instance.spawn(launch).await.unwrap_err()
}

/// Closes stdin, reads stdout to its end and waits for the exit.
async fn read_output(mut child: Child) -> String {
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(child.exited().await, ProcessExit::Code(0), "{}", child.stderr().text());
    text
}
