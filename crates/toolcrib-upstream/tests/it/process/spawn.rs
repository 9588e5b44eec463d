//! What a child gets, what becomes of its stderr, and why it did not start.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolcrib_upstream::process::{Child, Exit, Launch, SpawnError};

use super::{Scene, group_of};

#[tokio::test]
async fn dom_08_hol_24_arguments_arrive_unchanged() {
    // HOL-24 as well.
    let scene = Scene::new();
    let args = ["two words", "$HOME", "$(id)", "`id`", "; exit 1", "a\"b'c", "*", "\\", "", "ü\n"];
    let mut launch = Launch::new("/usr/bin/printf", "/");
    launch.args = ["%s\\0"].iter().chain(&args).map(Into::into).collect();
    let child = scene.instance.spawn(launch).await.unwrap();
    assert_eq!(output(child).await, format!("{}\0", args.join("\0")));
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given_and_the_mark() {
    let scene = Scene::new();
    let mut launch = Launch::new("/usr/bin/env", "/");
    launch.args = vec!["-0".into()];
    launch.env.insert("GREETING".into(), "hello $USER\nagain".into());
    // A host that was itself started as a child passes its own mark on with the rest of its environment.
    launch.env.insert("TOOLCRIB_OWNER".into(), "somebody else".into());
    let child = scene.instance.spawn(launch).await.unwrap();
    let mark = child.mark();
    assert_eq!(mark.instance, scene.instance.id());
    let output = output(child).await;
    let found: BTreeSet<&str> = output.split_terminator('\0').collect();
    let owner = format!("TOOLCRIB_OWNER={mark}");
    assert_eq!(found, BTreeSet::from(["GREETING=hello $USER\nagain", owner.as_str()]));
}

#[tokio::test]
async fn min_14_the_working_directory_is_the_given_one() {
    let scene = Scene::new();
    let folder = scene.notes.canonicalize().unwrap();
    let child = scene.instance.spawn(Launch::new("/bin/pwd", &folder)).await.unwrap();
    assert_eq!(output(child).await.trim_end(), folder.to_str().unwrap());
}

#[tokio::test]
async fn dis_50_a_child_has_the_hosts_privileges() {
    let scene = Scene::new();
    let child = scene.instance.spawn(scene.script("id -u")).await.unwrap();
    let host = rustix::process::geteuid().as_raw().to_string();
    assert_eq!(output(child).await.trim_end(), host);
}

#[tokio::test]
async fn a_child_leads_its_own_group_and_does_not_inherit_the_ledger() {
    let scene = Scene::new();
    let child = scene.instance.spawn(scene.script("exec cat")).await.unwrap();
    assert_eq!(group_of(child.pid()), child.pid());
    let open = |pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let files = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        files.filter(|file| file.starts_with(scene.state.path())).count()
    };
    assert_eq!((open(std::process::id()), open(child.pid())), (1, 0));
}

#[tokio::test]
async fn a_child_hears_every_signal_as_any_program_does() {
    let scene = Scene::new();
    let script = "exec cat /proc/self/status";
    let told = output(scene.instance.spawn(scene.script(script)).await.unwrap()).await;
    let mask = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0, "{told}");
    // What Rust ignores for itself; what whoever started this program ignores stays so.
    let pipe = 1 << (rustix::process::Signal::PIPE.as_raw() - 1);
    assert_eq!(mask("SigIgn:") & pipe, 0, "{told}");
}

#[tokio::test]
async fn a_name_is_looked_for_where_the_child_would_look() {
    let scene = Scene::new();
    let (first, second) = (scene.notes.join("first"), scene.notes.join("second"));
    for (folder, mode) in [(&first, 0o600), (&second, 0o700)] {
        fs::create_dir(folder).unwrap();
        // Without a first line that names what runs it, as `execvp` takes it.
        fs::write(folder.join("server"), "echo \"$0 $1\"\n").unwrap();
        fs::set_permissions(folder.join("server"), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut launch = Launch::new("server", &scene.notes);
    launch.args = vec!["two words".into()];
    launch.env.insert("PATH".into(), "/nowhere:first:second".into());
    let child = scene.instance.spawn(launch).await.unwrap();
    assert_eq!(output(child).await, "second/server two words\n");
}

#[tokio::test]
async fn the_pipes_carry_bytes_both_ways() {
    let scene = Scene::new();
    let mut child = scene.instance.spawn(scene.script("exec cat")).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"id\":1}\n").await.unwrap();
    drop(stdin);
    assert_eq!(output(child).await, "{\"id\":1}\n");
}

#[tokio::test]
async fn dom_24_stderr_is_log_and_not_protocol() {
    let scene = Scene::new();
    let script = r#"echo '{"jsonrpc":"2.0","id":1,"result":{}}' >&2; printf 'caf\351' >&2; echo out; exit 3"#;
    let mut child = scene.instance.spawn(scene.script(script)).await.unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).await.unwrap();
    assert_eq!(stdout, "out\n");
    assert_eq!(child.exited().await, Exit::Code(3));
    assert_eq!(child.stderr().text(), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\ncaf\u{fffd}");
}

#[tokio::test]
async fn a_flood_on_stderr_neither_blocks_the_child_nor_grows_memory() {
    const FLOOD: u64 = 20_000_000;
    let scene = Scene::new();
    let script = format!("head -c {FLOOD} /dev/zero | tr '\\0' x >&2; echo end >&2; echo through");
    let child = scene.instance.spawn(scene.script(&script)).await.unwrap();
    let tail = child.stderr().clone();
    assert_eq!(output(child).await, "through\n");
    assert!(tail.text().ends_with("xend\n"));
    assert_eq!(tail.text().len(), 64 << 10);
    assert_eq!(tail.dropped(), FLOOD + 4 - (64 << 10));
}

#[tokio::test]
async fn a_missing_program_is_named_with_a_fix() {
    let scene = Scene::new();
    let mut launch = Launch::new("npx", "/");
    launch.env.insert("PATH".into(), "/nowhere-canary".into());
    launch.env.insert("TOKEN".into(), "canary".into());
    let error = refused(&scene, launch).await;
    assert_eq!(error.code(), "stdio.spawn.not_found");
    assert_eq!(error.to_string(), "cannot find the program `npx`");
    assert!(error.fix().contains("Node.js"), "{}", error.fix());
    // DIS-43: not even where the value would explain something.
    let told = format!("{error} {error:?} {}", error.fix());
    assert!(!told.contains("canary"), "{told}");
    assert_eq!(
        refused(&scene, Launch::new("/nowhere/npx", "/")).await.code(),
        "stdio.spawn.not_found"
    );
}

#[tokio::test]
async fn a_file_that_cannot_run_is_told_from_a_missing_one() {
    let scene = Scene::new();
    let folder = scene.notes.as_path();
    let file = |name: &str, text: &str, mode: u32| {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "#!/bin/sh\n", 0o600);
    file("orphaned", "#!/nowhere/interpreter\n", 0o700);
    for name in ["plain", "orphaned"] {
        let mut launch = Launch::new(name, "/");
        launch.env.insert("PATH".into(), folder.into());
        assert_eq!(refused(&scene, launch).await.code(), "stdio.spawn.not_executable", "{name}");
        let relative = Launch::new(format!("./{name}"), folder);
        assert_eq!(refused(&scene, relative).await.code(), "stdio.spawn.not_executable", "{name}");
    }
}

#[tokio::test]
async fn a_bad_working_directory_is_told_from_a_bad_program() {
    let scene = Scene::new();
    for cwd in ["/nowhere", "/bin/sh"] {
        assert_eq!(
            refused(&scene, Launch::new("/bin/sh", cwd)).await.code(),
            "stdio.spawn.cwd",
            "{cwd}"
        );
    }
}

#[tokio::test]
async fn what_no_program_can_be_given_is_refused() {
    let scene = Scene::new();
    let mut launch = Launch::new("/bin/echo", "/");
    launch.args = vec!["a\0b".into()];
    assert_eq!(refused(&scene, launch).await.code(), "stdio.spawn.other");
}

async fn refused(scene: &Scene, launch: Launch) -> SpawnError {
    scene.instance.spawn(launch).await.unwrap_err()
}

/// Closes stdin, reads stdout to its end, waits for the process.
async fn output(mut child: Child) -> String {
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(child.exited().await, Exit::Code(0), "{}", child.stderr().text());
    text
}
