//! Forbidden dependencies between crates, checked with cargo, so that heavy dependencies stay in their
//! crates.

use std::path::Path;

use crate::command::{self, CommandError};

/// `(crate, forbidden dependencies)`; dev-dependencies do not count.
pub const FORBIDDEN_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("toolcrib-config", &["tokio", "toolcrib-testkit"]),
    ("toolcrib-wire", &["tokio", "toolcrib-testkit"]),
    (
        "toolcrib-http",
        &[
            "axum",
            "clap",
            "serde_json",
            "toolcrib",
            "toolcrib-config",
            "toolcrib-server",
            "toolcrib-testkit",
            "toolcrib-upstream",
            "toolcrib-wire",
        ],
    ),
    ("toolcrib-upstream", &["axum", "clap", "rusqlite", "toolcrib", "toolcrib-testkit"]),
    ("toolcrib", &["axum", "clap", "toolcrib-testkit"]),
    ("toolcrib-server", &["clap", "toolcrib-testkit"]),
    ("toolcrib-cli", &["toolcrib-testkit"]),
    // It consists of tests, so all of its dependencies are dev-dependencies.
    ("toolcrib-e2e", &["tokio", "toolcrib", "toolcrib-testkit"]),
];

/// Lists every package that `package` needs on any platform, itself first.
pub fn list_dependencies(root: &Path, package: &str) -> Result<Vec<String>, CommandError> {
    let args =
        ["tree", "--locked", "-p", package, "-e", "normal", "--target", "all", "--prefix", "none"];
    Ok(parse_package_names(&command::run_cargo(root, &args)?))
}

/// Parses the names in an unindented tree: `serde v1.0.0 (*)` is `serde`.
fn parse_package_names(tree: &str) -> Vec<String> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Returns the forbidden packages that are among the dependencies.
pub fn find_forbidden<'a>(dependencies: &[String], forbidden: &[&'a str]) -> Vec<&'a str> {
    forbidden.iter().copied().filter(|name| dependencies.iter().any(|need| need == name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "toolcrib-config v0.1.0 (/somewhere)\nserde v1.0.0\nserde_json v1.0.0 (*)\n";

    #[test]
    fn forbidden_dependency_is_found_by_its_full_name() {
        let dependencies = parse_package_names(TREE);
        assert_eq!(find_forbidden(&dependencies, &["serde", "tokio"]), ["serde"]);
        assert!(find_forbidden(&dependencies, &["json", "serde_jso", "tokio"]).is_empty());
    }
}
