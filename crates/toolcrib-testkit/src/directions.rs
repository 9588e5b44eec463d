//! Which crate may depend on which, asked of cargo: a heavy dependency stays where it was meant to be.

use std::path::Path;

use crate::ask::{self, AskError};

/// `(crate, what it must never depend on)`; dev-dependencies do not count.
pub const FORBIDDEN: &[(&str, &[&str])] = &[
    ("toolcrib-config", &["tokio", "toolcrib-testkit"]),
    ("toolcrib-wire", &["tokio", "toolcrib-testkit"]),
    ("toolcrib-upstream", &["axum", "clap", "rusqlite", "toolcrib", "toolcrib-testkit"]),
    ("toolcrib", &["axum", "clap", "toolcrib-testkit"]),
    ("toolcrib-server", &["clap", "toolcrib-testkit"]),
    ("toolcrib-cli", &["toolcrib-testkit"]),
];

/// Every package that `package` needs on any platform, itself first.
pub fn needs(root: &Path, package: &str) -> Result<Vec<String>, AskError> {
    let args =
        ["tree", "--locked", "-p", package, "-e", "normal", "--target", "all", "--prefix", "none"];
    Ok(names(&ask::cargo(root, &args)?))
}

/// The names in a tree that was printed without indentation: `serde v1.0.0 (*)` is `serde`.
fn names(tree: &str) -> Vec<String> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What of `forbidden` is in the tree; empty is good.
pub fn trespassers<'a>(needs: &[String], forbidden: &[&'a str]) -> Vec<&'a str> {
    forbidden.iter().copied().filter(|name| needs.iter().any(|need| need == name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "toolcrib-config v0.1.0 (/somewhere)\nserde v1.0.0\nserde_json v1.0.0 (*)\n";

    #[test]
    fn a_forbidden_dependency_is_found_by_its_whole_name() {
        let needs = names(TREE);
        assert_eq!(trespassers(&needs, &["serde", "tokio"]), ["serde"]);
        assert!(trespassers(&needs, &["json", "serde_jso", "tokio"]).is_empty());
    }
}
