//! Checks the dependencies of all crates and their licences.

use toolcrib_testkit::command::{self, CommandError};
use toolcrib_testkit::dependencies::{FORBIDDEN_DEPENDENCIES, find_forbidden, list_dependencies};
use toolcrib_testkit::{licence, workspace_root};

#[test]
fn crates_have_no_forbidden_dependencies() -> Result<(), CommandError> {
    let root = workspace_root();
    let mut checked = Vec::new();
    for (package, forbidden) in FORBIDDEN_DEPENDENCIES {
        let manifest = root.join("crates").join(package).join("Cargo.toml");
        assert!(manifest.exists(), "the rule for {package} is for a missing crate");
        let dependencies = list_dependencies(&root, package)?;
        assert_eq!(
            dependencies.first().map(String::as_str),
            Some(*package),
            "cargo tree described another crate"
        );
        let found = find_forbidden(&dependencies, forbidden);
        assert!(found.is_empty(), "{package} must not depend on {found:?}");
        checked.push(*package);
    }
    eprintln!("dependencies: checked {checked:?}");
    assert!(checked.contains(&"toolcrib-config"), "no crate was checked");
    Ok(())
}

/// Control: the same functions find a dependency that exists.
#[test]
fn existing_dependency_is_found() -> Result<(), CommandError> {
    let dependencies = list_dependencies(&workspace_root(), "toolcrib-config")?;
    assert_eq!(find_forbidden(&dependencies, &["serde", "tokio"]), ["serde"]);
    Ok(())
}

#[test]
fn every_crate_of_the_workspace_has_a_rule() {
    let crates = std::fs::read_dir(workspace_root().join("crates")).expect("cannot list crates/");
    let folders = crates.map(|entry| entry.expect("cannot read a folder entry").path());
    // A folder without a manifest is left over from another branch.
    for folder in folders.filter(|folder| folder.join("Cargo.toml").exists()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = name == "toolcrib-testkit"
            || FORBIDDEN_DEPENDENCIES.iter().any(|(package, _)| *package == name);
        assert!(known, "crates/{name} has no line in toolcrib_testkit::directions::FORBIDDEN");
    }
}

#[test]
fn dependency_licences_are_allowed() -> Result<(), CommandError> {
    let metadata =
        command::run_cargo(&workspace_root(), &["metadata", "--format-version", "1", "--locked"])?;
    let disallowed = licence::find_disallowed(&metadata).expect("cargo printed invalid JSON");
    assert!(disallowed.is_empty(), "licences:\n{}", disallowed.join("\n"));
    Ok(())
}
