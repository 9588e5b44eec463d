//! Rule for the host library: only the files that choose a session know protocol eras.

use super::source::{code, has_word, without_tests};
use super::{Finding, SourceFile, finding};

const SOURCES: &str = "crates/toolcrib/src/";

/// Parts of the library that handle eras: a lease has one as its key, and the store has the one that worked.
const ERA_MODULES: [&str; 2] = ["lease/", "store/"];

/// Files of the host that handle eras: the era of a dialog's client, and the session that fits it.
const ERA_FILES: [&str; 2] = ["dialog.rs", "running_server.rs"];

/// Finds mentions of `Era` in other files. They ask `AgreedProtocol` for the difference that they need.
pub(super) fn check_mentions(file: &SourceFile) -> Vec<Finding> {
    let is_allowed = |path: &str| {
        ERA_MODULES.iter().any(|module| path.starts_with(module))
            || ERA_FILES.contains(&file.name())
    };
    if !file.is_rust() || file.path.strip_prefix(SOURCES).is_none_or(is_allowed) {
        return Vec::new();
    }
    without_tests(&file.text)
        .into_iter()
        .filter(|(_, line)| has_word(code(line), "Era"))
        .map(|(number, _)| {
            finding("era", file, number, "only the files that choose a session know eras")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_outside_of_session_choice_are_found() {
        let text = "use toolcrib_wire::{Body, Era};\n// Era\nfn a() {}\n";
        for (path, lines) in [
            ("crates/toolcrib/src/host/call.rs", &[1][..]),
            ("crates/toolcrib/src/registry/mod.rs", &[1]),
            ("crates/toolcrib/src/host/dialog.rs", &[]),
            ("crates/toolcrib/src/host/servers/running_server.rs", &[]),
            ("crates/toolcrib/src/lease/event.rs", &[]),
            ("crates/toolcrib/tests/it/host/call.rs", &[]),
            ("crates/toolcrib-server/src/gateway/dispatch.rs", &[]),
        ] {
            let found = check_mentions(&SourceFile::new(path, text));
            assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), lines, "{path}");
        }
    }
}
