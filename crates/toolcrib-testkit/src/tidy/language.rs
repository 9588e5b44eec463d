//! Rules for names and prose: named actors, plain subjects, one name for one public type, verbs with an object.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{has_word, without_tests};
use super::{Finding, SourceFile, finding, findings_by_line};

// Cut in two, so that the rule does not find itself.
const VAGUE_ACTORS: [&str; 3] =
    [concat!("who", "ever"), concat!("no", "body"), concat!("some", "body")];

/// Fewer lines than this may have a vague actor: quoted texts of designs.
const MAX_VAGUE_LINES: usize = 29;

const RELATIVE_SUBJECTS: [&str; 3] = ["What", "Who", "That"];

/// A bare verb may be a function of this many types.
const MAX_OWNERS: usize = 5;

/// Verbs that need an object, because Rust gives them no fixed meaning.
const BARE_VERBS: &[&str] = &[
    "accept", "answer", "ask", "asked", "await", "become", "begin", "bring", "come", "cut", "do",
    "end", "ended", "enter", "give", "go", "hear", "heard", "hold", "judge", "keep", "kept",
    "know", "known", "learn", "leave", "let", "listen", "look", "make", "mark", "meet", "mind",
    "note", "place", "post", "put", "refuse", "refused", "said", "say", "see", "seen", "serve",
    "settle", "show", "shown", "speak", "stay", "take", "taken", "tell", "told", "turn", "use",
    "want", "wanted", "went",
];

/// Lines with a pronoun that names no actor.
pub(super) fn vague_actors(files: &[SourceFile]) -> Vec<Finding> {
    let prose = files.iter().filter(|file| file.is_rust() || file.path.ends_with(".md"));
    let found: Vec<Finding> = prose
        .flat_map(|file| {
            findings_by_line("vague-actor", file, |line| {
                let line = line.to_ascii_lowercase();
                let word = VAGUE_ACTORS.iter().find(|word| has_word(&line, word))?;
                Some(format!("`{word}` names no actor"))
            })
        })
        .collect();
    if found.len() > MAX_VAGUE_LINES { found } else { Vec::new() }
}

/// Comments that begin with a relative clause.
pub(super) fn relative_subjects(file: &SourceFile) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let comments = lines.iter().map(|line| comment_text(line)).collect::<Vec<_>>();
    let begins = |at: usize| {
        at == 0
            || comments[at - 1]
                .is_none_or(|text| text.is_empty() || text.ends_with(['.', ':', '?', ')']))
    };
    (0..lines.len())
        .filter(|at| begins(*at))
        .filter_map(|at| {
            let word = comments[at]?.split(|c: char| !c.is_alphanumeric()).next()?;
            let is_relative = RELATIVE_SUBJECTS.contains(&word);
            is_relative.then(|| {
                finding("comment-subject", file, at + 1, format!("a comment begins with `{word}`"))
            })
        })
        .collect()
}

fn comment_text(line: &str) -> Option<&str> {
    Some(line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim())
}

/// Names of tests that begin with a relative clause.
pub(super) fn test_names(file: &SourceFile) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let is_test = |line: &str| {
        ["#[test]", "#[tokio::test"].iter().any(|mark| line.trim_start().starts_with(mark))
    };
    let tests = lines.iter().enumerate().filter(|(_, line)| is_test(line));
    tests
        .filter_map(|(at, _)| {
            let (line, name) = lines[at..]
                .iter()
                .enumerate()
                .find_map(|(below, line)| Some((at + below, function_name(line)?)))?;
            let first = name.split('_').next()?;
            let is_relative = RELATIVE_SUBJECTS.iter().any(|word| word.eq_ignore_ascii_case(first));
            is_relative.then(|| {
                finding(
                    "test-name",
                    file,
                    line + 1,
                    format!("the test `{name}` begins with `{first}`"),
                )
            })
        })
        .collect()
}

fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_declaration = before
        .split_whitespace()
        .all(|word| word.starts_with("pub") || ["async", "const", "unsafe"].contains(&word));
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_declaration && !name.is_empty()).then_some(name)
}

/// Public types that share a name, across all crates.
pub(super) fn shared_type_names(files: &[SourceFile]) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_source(file)) {
        for (number, line) in without_tests(&file.text) {
            if let Some(name) = public_type(line) {
                types.entry(name).or_default().push((file, number));
            }
        }
    }
    let shared = types.into_iter().filter(|(_, places)| places.len() > 1);
    shared
        .flat_map(|(name, places)| {
            let text = format!("{} public types have the name `{name}`", places.len());
            places
                .into_iter()
                .map(move |(file, line)| finding("type-name", file, line, text.clone()))
        })
        .collect()
}

/// Sources of the product, without its test programs.
fn is_source(file: &SourceFile) -> bool {
    file.is_rust()
        && file.path.starts_with("crates/")
        && file.path.contains("/src/")
        && !file.path.contains("toolcrib-testkit")
}

fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let name =
        ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| rest.strip_prefix(word))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Bare verbs that are functions of many types.
pub(super) fn bare_verbs(files: &[SourceFile]) -> Vec<Finding> {
    let mut owners: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_source(file)) {
        let mut owner = String::new();
        for (_, line) in without_tests(&file.text) {
            if ["impl", "trait ", "pub trait ", "pub(crate) trait "]
                .iter()
                .any(|word| line.starts_with(word))
            {
                owner = format!("{}: {line}", file.path);
            }
            let name = function_name(line)
                .filter(|name| line.starts_with("    ") && BARE_VERBS.contains(name));
            if let Some(name) = name {
                owners.entry(name).or_default().insert(owner.clone());
            }
        }
    }
    let many = owners.into_iter().filter(|(_, owners)| owners.len() > MAX_OWNERS);
    many.map(|(name, owners)| Finding {
        rule: "bare-verb",
        path: owners
            .first()
            .and_then(|owner| owner.split(':').next())
            .unwrap_or_default()
            .to_owned(),
        line: 1,
        text: format!("`{name}` is a function of {} types; name its object", owners.len()),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceFile {
        SourceFile::new("crates/a/src/a.rs", text)
    }

    #[test]
    fn vague_actors_are_counted() {
        let line = format!("// {} reads\n", VAGUE_ACTORS[1]);
        assert!(vague_actors(&[source(&line.repeat(MAX_VAGUE_LINES))]).is_empty());
        assert_eq!(
            vague_actors(&[source(&line.repeat(MAX_VAGUE_LINES + 1))]).len(),
            MAX_VAGUE_LINES + 1
        );
    }

    #[test]
    fn relative_clauses_are_found_at_the_start_of_a_comment() {
        let text = format!(
            "/// {} it reads.\n/// A sentence over\n/// {} lines.\n",
            RELATIVE_SUBJECTS[0], RELATIVE_SUBJECTS[2]
        );
        let found = relative_subjects(&source(&text));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn relative_test_names_are_found() {
        let text = "#[test]\nfn what_stays() {}\n#[tokio::test]\nasync fn reload_keeps() {}\nfn what_helps() {}\n";
        assert_eq!(test_names(&source(text)).len(), 1);
    }

    #[test]
    fn shared_type_names_are_found_in_sources_only() {
        let [one, other] = ["crates/a/src/a.rs", "crates/b/src/b.rs"]
            .map(|path| SourceFile::new(path, "pub struct Place;\n"));
        let test = SourceFile::new("crates/b/tests/b.rs", "pub struct Place;\n");
        assert_eq!(shared_type_names(&[one.clone(), other]).len(), 2);
        assert!(shared_type_names(&[one, test]).is_empty());
    }

    #[test]
    fn bare_verbs_are_counted_by_owner() {
        let types = |count: usize| {
            let owner = |at: usize| {
                format!(
                    "impl A{at} {{\n    pub fn take(&self) {{}}\n    fn take_all(&self) {{}}\n}}\n"
                )
            };
            source(&(0..count).map(owner).collect::<String>())
        };
        assert!(bare_verbs(&[types(MAX_OWNERS)]).is_empty());
        assert_eq!(bare_verbs(&[types(MAX_OWNERS + 1)]).len(), 1);
    }
}
