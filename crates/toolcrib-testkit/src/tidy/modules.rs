//! Rule for imports inside the two library crates: they follow the module order of ARCHITECTURE.md downwards.

use super::source::{code, is_name, without_tests};
use super::{Finding, SourceFile, finding};

/// The modules of one crate from the top down. A module may use lower modules, but no neighbour.
struct ModuleOrder {
    sources: &'static str,
    levels: &'static [&'static [&'static str]],
}

const MODULE_ORDERS: &[ModuleOrder] = &[
    ModuleOrder {
        sources: "crates/toolcrib/src/",
        levels: &[&["host"], &["lease"], &["registry", "results", "access", "store"]],
    },
    ModuleOrder {
        sources: "crates/toolcrib-upstream/src/",
        levels: &[
            &["supervise"],
            &["conn"],
            &["auth"],
            &["secrets"],
            &["transport"],
            &["process", "schema"],
            &["disk", "signals"],
        ],
    },
];

/// Findings and a note on the number of checked imports.
pub(super) struct ModuleReport {
    pub(super) findings: Vec<Finding>,
    pub(super) note: String,
}

pub(super) fn check_directions(files: &[SourceFile]) -> ModuleReport {
    let sources: Vec<_> = files.iter().filter_map(ModuleSource::from_file).collect();
    let imports: usize = sources.iter().map(|source| source.imports().len()).sum();
    let mut findings: Vec<_> = sources.iter().flat_map(ModuleSource::findings).collect();
    for order in MODULE_ORDERS {
        let is_manifest =
            |file: &&SourceFile| file.path == order.sources.replace("src/", "Cargo.toml");
        let manifest = files.iter().find(is_manifest);
        let has_modules = sources.iter().any(|source| source.order.sources == order.sources);
        if let Some(manifest) = manifest.filter(|_| !has_modules) {
            let text = "no module was found: has the layout changed?";
            findings.push(finding("module-direction", manifest, 1, text));
        }
    }
    ModuleReport {
        findings,
        note: format!("module direction: {} files, {imports} imports", sources.len()),
    }
}

/// A file of a library crate below its root.
struct ModuleSource<'a> {
    file: &'a SourceFile,
    order: &'static ModuleOrder,
    module: &'a str,
    /// Number of `super::` steps to the crate's root.
    depth: usize,
}

impl<'a> ModuleSource<'a> {
    fn from_file(file: &'a SourceFile) -> Option<Self> {
        let order = MODULE_ORDERS.iter().find(|order| file.path.starts_with(order.sources))?;
        let path = file.path.strip_prefix(order.sources)?.strip_suffix(".rs")?;
        // The root only declares and re-exports modules, so it may use all of them.
        if path == "lib" {
            return None;
        }
        let path = path.strip_suffix("/mod").unwrap_or(path);
        let module = path.split('/').next().unwrap_or(path);
        Some(Self { file, order, module, depth: path.split('/').count() })
    }

    fn findings(&self) -> Vec<Finding> {
        let Some(own) = self.level(self.module) else {
            let text = format!("module `{}` is not in the module order", self.module);
            return vec![finding("module-direction", self.file, 1, text)];
        };
        let imports = self.imports();
        imports
            .iter()
            .filter_map(|(line, name)| {
                self.describe_violation(own, name)
                    .map(|text| finding("module-direction", self.file, *line, text))
            })
            .collect()
    }

    fn describe_violation(&self, own: usize, name: &str) -> Option<String> {
        match self.level(name) {
            _ if name == self.module => None,
            Some(other) if other > own => None,
            Some(_) => Some(format!("`{}` must not use `{name}`: imports point down", self.module)),
            None => Some(format!(
                "`crate::{name}` is not in the module order: name the module that contains it"
            )),
        }
    }

    /// Returns the level of a module; 0 is the top.
    fn level(&self, module: &str) -> Option<usize> {
        self.order.levels.iter().position(|level| level.contains(&module))
    }

    /// Returns the modules that this file names from the crate's root, with their lines.
    fn imports(&self) -> Vec<(usize, String)> {
        let lines = without_tests(&self.file.text);
        let text: String = lines.iter().map(|(_, line)| format!("{}\n", code(line))).collect();
        let up = "super::".repeat(self.depth);
        let mut imports = Vec::new();
        for prefix in ["crate::", up.as_str()] {
            for (at, _) in text.match_indices(prefix).filter(|(at, _)| begins_path(&text[..*at])) {
                let line = text[..at].matches('\n').count();
                let number = lines.get(line).map_or(1, |(number, _)| *number);
                let names = first_segments(&text[at + prefix.len()..]);
                imports.extend(names.into_iter().map(|name| (number, name)));
            }
        }
        imports
    }
}

/// Returns true at the first step of a path: `super::super::` is one path.
fn begins_path(before: &str) -> bool {
    !before.ends_with("::") && !before.ends_with(is_name)
}

/// Returns the first segment of a path, or of each path in a group `{a::b, c}`.
fn first_segments(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return first_name(rest).into_iter().collect();
    };
    let mut depth = 0_usize;
    let mut items = vec![String::new()];
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            '{' => depth += 1,
            ',' if depth == 0 => items.push(String::new()),
            _ if depth == 0 => items.last_mut().into_iter().for_each(|item| item.push(c)),
            _ => {}
        }
    }
    items.iter().filter_map(|item| first_name(item.trim_start())).collect()
}

fn first_name(path: &str) -> Option<String> {
    let name: String = path.chars().take_while(|c| is_name(*c)).collect();
    // `self` and a further `super` stay inside a module that was already checked.
    (!name.is_empty() && name != "self" && name != "super").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &str, text: &str) -> Vec<String> {
        let files = [SourceFile::new(&format!("crates/toolcrib/src/{path}"), text)];
        check_directions(&files)
            .findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.text))
            .collect()
    }

    #[test]
    fn downward_imports_pass() {
        assert!(
            wrong(
                "host/call.rs",
                "use crate::lease::Lease;\nuse crate::{access, registry::Snapshot};\n"
            )
            .is_empty()
        );
        assert!(
            wrong("lease/worker.rs", "use crate::lease::Lease;\nuse super::event::step;\n")
                .is_empty()
        );
    }

    #[test]
    fn upward_and_sideways_imports_are_found_with_their_line() {
        let up = wrong("store.rs", "//! S.\n\npub(crate) use crate::host::Host;\n");
        assert_eq!(up, ["3: `store` must not use `host`: imports point down"]);
        assert_eq!(wrong("store.rs", "use crate::registry;\n").len(), 1);
        assert_eq!(
            wrong("access.rs", "use crate::{\n    lease::{self, Lease},\n    host,\n};\n").len(),
            2
        );
        assert_eq!(wrong("results/text.rs", "fn a() { crate::host::go() }\n").len(), 1);
    }

    #[test]
    fn super_paths_are_resolved_from_the_crate_root() {
        assert_eq!(wrong("store.rs", "use super::host;\n").len(), 1);
        assert_eq!(wrong("store/mod.rs", "use super::host;\n").len(), 1);
        assert_eq!(wrong("store/disk.rs", "use super::super::host;\n").len(), 1);
        assert!(
            wrong("store/disk.rs", "use super::host;\n").is_empty(),
            "`super::host` in store/disk.rs is `store::host`"
        );
    }

    #[test]
    fn crate_root_may_import_everything() {
        let root = SourceFile::new("crates/toolcrib/src/lib.rs", "pub use crate::host::Host;\n");
        let files = [root, SourceFile::new("crates/toolcrib/src/host.rs", "")];
        assert!(check_directions(&files).findings.is_empty());
    }

    #[test]
    fn comments_and_tests_are_ignored() {
        let text = "// use crate::host;\n#[cfg(test)]\nmod tests {\n    use crate::host;\n}\n";
        assert!(wrong("store.rs", text).is_empty());
    }

    #[test]
    fn unlisted_modules_are_found() {
        assert_eq!(wrong("helpers.rs", "").len(), 1);
        assert_eq!(wrong("store.rs", "use crate::Host;\n").len(), 1);
    }

    #[test]
    fn missing_modules_are_reported() {
        let none = check_directions(&[]);
        assert!(none.findings.is_empty());
        assert_eq!(none.note, "module direction: 0 files, 0 imports");
        let empty = check_directions(&[SourceFile::new("crates/toolcrib/Cargo.toml", "")]);
        assert_eq!(empty.findings.len(), 1);
        let some = check_directions(&[SourceFile::new(
            "crates/toolcrib/src/lease.rs",
            "use crate::store;\n",
        )]);
        assert_eq!(some.note, "module direction: 1 files, 1 imports");
    }
}
