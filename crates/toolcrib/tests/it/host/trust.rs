//! Folders that nobody named: what is configured in them starts when it is trusted.

use std::path::Path;

use serde_json::json;
use toolcrib::config::{Named, Workspace, compile};
use toolcrib::host::Trust;
use toolcrib::store::TrustFile;
use toolcrib::{Host, Problem};
use toolcrib_testkit::time_limit::within;
use toolcrib_upstream::conn::State;

use super::stage::{Stage, counted, counting, dialog, dialog_in, names, until};

/// The files as they are, for whoever only reads them.
struct Files;

impl toolcrib::config::Lookup for Files {
    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, path: &Path) -> toolcrib::config::File {
        toolcrib::host::file(path)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

fn trust(file: &TrustFile, folder: &Path) {
    let named: Option<Named> = None;
    let workspace = Workspace { root: folder.to_owned(), home: None, named };
    let launches = compile(&workspace, &Files).launches();
    file.trust(folder, launches.iter().map(|launch| launch.hash)).unwrap();
}

fn untrusted(host: &Host) -> Vec<Problem> {
    let all = host.problems().into_iter();
    all.filter(|problem| problem.code == "trust.required").collect()
}

#[tokio::test]
async fn a_dialog_elsewhere_starts_nothing_until_its_folder_is_trusted() {
    let stage = Stage::new();
    stage.servers(&json!({"here": stage.scripted(counting(), "here")}));
    let there = stage.dispatch("there", &json!({"fs": stage.scripted(counting(), "there-log")}));
    let below =
        stage.dispatch("root/below", &json!({"fs": stage.scripted(counting(), "below-log")}));
    let file = TrustFile::new(stage.folder.path().join("trust.json"));
    let builder = stage.builder().trust(Trust::of_root().kept_in(file.path()));
    let host = within(builder.start()).await.unwrap();
    within(host.settled()).await;
    // The root was named. A folder is not, whether it is below the root or not.
    assert_eq!(counted(&dialog(&host, "default").await, "here__count").await.1, 1);
    for folder in [&there, &below] {
        let inside = dialog_in(&host, folder).await;
        assert!(!names(&inside).await.iter().any(|name| name.starts_with("fs__")));
        let [problem] = &untrusted(&host)[..] else { panic!("{:?}", host.problems()) };
        let fix = problem.fix.as_deref().unwrap();
        assert!(fix.contains(&format!("toolcrib trust {}", folder.display())), "{fix}");
        within(inside.end()).await;
        until("its problems go with it", || untrusted(&host).is_empty()).await;
    }
    assert_eq!((stage.log("there-log").len(), stage.log("below-log").len()), (0, 0));
    // A host notices by itself what is trusted while it runs.
    let inside = dialog_in(&host, &there).await;
    trust(&file, &there);
    let is_on = || host.server("fs").is_ok_and(|server| server.state != State::Disabled);
    until("it is noticed", is_on).await;
    assert_eq!(untrusted(&host), []);
    let listed = names(&inside).await;
    assert!(listed.contains(&"fs__count".to_owned()), "{listed:?}");
    assert_eq!(counted(&inside, "fs__count").await.1, 1);
    assert_eq!(stage.log("below-log").len(), 0);
    within(host.close()).await;
}

#[tokio::test]
async fn a_root_that_was_only_found_needs_trust_and_nobody_goes_round_that() {
    let stage = Stage::new();
    let entry = stage.scripted(counting(), "log");
    stage.servers(&json!({"s": entry}));
    let file = TrustFile::new(stage.folder.path().join("trust.json"));
    let builder = || stage.builder().trust(Trust::of_nothing().kept_in(file.path()));
    let host = within(builder().start()).await.unwrap();
    within(host.settled()).await;
    for done in [
        within(host.enable("s", "me")).await,
        within(host.connect("s")).await,
        within(host.restart("s")).await,
    ] {
        assert!(done.unwrap_err().to_string().contains("not trusted"));
    }
    within(host.reload()).await.unwrap();
    assert_eq!(host.server("s").unwrap().state, State::Disabled);
    within(host.close()).await;
    // A file of trust that cannot be read trusts nothing, and says so.
    std::fs::write(file.path(), "{").unwrap();
    let host = within(builder().start()).await.unwrap();
    within(host.settled()).await;
    assert!(host.problems().iter().any(|problem| problem.code == "trust.unreadable"));
    assert_eq!(host.server("s").unwrap().state, State::Disabled);
    assert_eq!(stage.log("log").len(), 0);
    within(host.close()).await;
}
