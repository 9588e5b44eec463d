//! Untrusted folders: their configuration starts servers only after it was trusted.

use std::path::Path;

use serde_json::json;
use toolcrib::config::{ConfigFile, Workspace, compile};
use toolcrib::{Host, Problem, Trust, TrustFile};
use toolcrib_testkit::time_limit::with_time_limit;
use toolcrib_upstream::conn::ServerState;

use super::workspace::{
    TestWorkspace, call_count, counting_script, open_dialog, open_dialog_in, tool_names, wait_until,
};

/// Reads the real files without an environment.
struct RealFiles;

impl toolcrib::config::Lookup for RealFiles {
    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, path: &Path) -> toolcrib::config::FileLookup {
        toolcrib::internal::read_config_file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

fn trust_folder(file: &TrustFile, folder: &Path) {
    let named: Option<ConfigFile> = None;
    let workspace = Workspace { root: folder.to_owned(), home: None, config_file: named };
    let launches = compile(&workspace, &RealFiles).launches();
    file.trust(folder, launches.iter().map(|launch| launch.hash)).unwrap();
}

fn trust_problems(host: &Host) -> Vec<Problem> {
    let all = host.problems().into_iter();
    all.filter(|problem| problem.code == "trust.required").collect()
}

#[tokio::test]
async fn dialog_in_untrusted_folder_starts_no_server() {
    let workspace = TestWorkspace::new();
    workspace.write_servers(&json!({"here": workspace.scripted_entry(counting_script(), "here")}));
    let there = workspace.write_dispatch(
        "there",
        &json!({"fs": workspace.scripted_entry(counting_script(), "there-log")}),
    );
    let below = workspace.write_dispatch(
        "root/below",
        &json!({"fs": workspace.scripted_entry(counting_script(), "below-log")}),
    );
    let file = TrustFile::new(workspace.folder.path().join("trust.json"));
    let builder = workspace.builder().trust(Trust::root_only().with_file(file.path()));
    let host = with_time_limit(builder.start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    // The root is trusted because it was named. No other folder is, whether or not it is below the
    // root.
    assert_eq!(call_count(&open_dialog(&host, "default").await, "here__count").await.1, 1);
    for folder in [&there, &below] {
        let inside = open_dialog_in(&host, folder).await;
        assert!(!tool_names(&inside).await.iter().any(|name| name.starts_with("fs__")));
        let [problem] = &trust_problems(&host)[..] else { panic!("{:?}", host.problems()) };
        let fix = problem.fix.as_deref().unwrap();
        assert!(fix.contains(&format!("toolcrib trust {}", folder.display())), "{fix}");
        with_time_limit(inside.close()).await;
        wait_until("the folder's problems end", || trust_problems(&host).is_empty()).await;
    }
    assert_eq!((workspace.log("there-log").len(), workspace.log("below-log").len()), (0, 0));
    // A running host detects new trust.
    let inside = open_dialog_in(&host, &there).await;
    trust_folder(&file, &there);
    let is_on = || host.server("fs").is_ok_and(|server| server.state != ServerState::Disabled);
    wait_until("the trust is detected", is_on).await;
    assert_eq!(trust_problems(&host), []);
    let listed = tool_names(&inside).await;
    assert!(listed.contains(&"fs__count".to_owned()), "{listed:?}");
    assert_eq!(call_count(&inside, "fs__count").await.1, 1);
    assert_eq!(workspace.log("below-log").len(), 0);
    with_time_limit(host.close()).await;
}

#[tokio::test]
async fn unnamed_root_needs_trust_for_every_operation() {
    let workspace = TestWorkspace::new();
    let entry = workspace.scripted_entry(counting_script(), "log");
    workspace.write_servers(&json!({"s": entry}));
    let file = TrustFile::new(workspace.folder.path().join("trust.json"));
    let builder = || workspace.builder().trust(Trust::no_folder().with_file(file.path()));
    let host = with_time_limit(builder().start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    for done in [
        with_time_limit(host.enable_server("s", "me")).await,
        with_time_limit(host.connect_server("s")).await,
        with_time_limit(host.restart_server("s")).await,
    ] {
        assert!(done.unwrap_err().to_string().contains("not trusted"));
    }
    with_time_limit(host.reload()).await.unwrap();
    assert_eq!(host.server("s").unwrap().state, ServerState::Disabled);
    with_time_limit(host.close()).await;
    // An unreadable trust file trusts nothing and causes a problem.
    std::fs::write(file.path(), "{").unwrap();
    let host = with_time_limit(builder().start()).await.unwrap();
    with_time_limit(host.wait_until_settled()).await;
    assert!(host.problems().iter().any(|problem| problem.code == "trust.unreadable"));
    assert_eq!(host.server("s").unwrap().state, ServerState::Disabled);
    assert_eq!(workspace.log("log").len(), 0);
    with_time_limit(host.close()).await;
}
