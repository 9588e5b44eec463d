//! The crates depend on each other, and on the outside, only in the directions the design allows.

use toolcrib_testkit::ask::{self, AskError};
use toolcrib_testkit::directions::{FORBIDDEN, needs, trespassers};
use toolcrib_testkit::{licence, workspace_root};

#[test]
fn no_crate_needs_what_is_forbidden_to_it() -> Result<(), AskError> {
    let root = workspace_root();
    let mut checked = Vec::new();
    for (package, forbidden) in FORBIDDEN {
        let manifest = root.join("crates").join(package).join("Cargo.toml");
        assert!(manifest.exists(), "the rule for {package} names a crate that does not exist");
        let needs = needs(&root, package)?;
        assert_eq!(
            needs.first().map(String::as_str),
            Some(*package),
            "cargo tree described another crate"
        );
        let found = trespassers(&needs, forbidden);
        assert!(found.is_empty(), "{package} must not depend on {found:?}");
        checked.push(*package);
    }
    eprintln!("directions: checked {checked:?}");
    assert!(checked.contains(&"toolcrib-config"), "the check looked at nothing");
    Ok(())
}

/// The control: by the very same functions, a dependency that exists is seen.
#[test]
fn the_check_can_fail() -> Result<(), AskError> {
    let needs = needs(&workspace_root(), "toolcrib-config")?;
    assert_eq!(trespassers(&needs, &["serde", "tokio"]), ["serde"]);
    Ok(())
}

#[test]
fn every_crate_of_the_workspace_has_a_rule() {
    let crates = std::fs::read_dir(workspace_root().join("crates")).expect("crates/ can be listed");
    let folders = crates.map(|entry| entry.expect("a folder entry").path());
    // A folder without a manifest is what another branch left behind.
    for folder in folders.filter(|folder| folder.join("Cargo.toml").exists()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known =
            name == "toolcrib-testkit" || FORBIDDEN.iter().any(|(package, _)| *package == name);
        assert!(known, "crates/{name} has no line in toolcrib_testkit::directions::FORBIDDEN");
    }
}

#[test]
fn every_dependency_may_be_shipped_under_our_licences() -> Result<(), AskError> {
    let metadata =
        ask::cargo(&workspace_root(), &["metadata", "--format-version", "1", "--locked"])?;
    let refused = licence::refused(&metadata).expect("cargo prints JSON");
    assert!(refused.is_empty(), "licences:\n{}", refused.join("\n"));
    Ok(())
}
