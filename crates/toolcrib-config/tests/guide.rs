//! Checks that every configuration example of the user guide compiles without problems.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::path::{Path, PathBuf};

use toolcrib_config::{ConfigFile, Dialect, MemoryLookup, Workspace, compile};

/// Variables used by the examples.
const VARIABLES: [&str; 4] = ["API_TOKEN", "DOCS_TOKEN", "PLAYWRIGHT_TOKEN", "VAULT_TOKEN"];

/// Files used by the examples.
const FILES: [(&str, &str); 4] = [
    (".env", ""),
    (".mcp.json", "{}"),
    (".vscode/mcp.json", "{}"),
    (".minds/mcp.yaml", "version: 1"),
];

#[test]
fn guide_examples_compile_without_problems() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut checked = 0;
    for page in markdown_files(&guide) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (language, example) in examples(&text) {
            let Some(dialect) = example_dialect(&page, language, example) else {
                continue;
            };
            let problems = compile_problems(dialect, language, example);
            assert!(problems.is_empty(), "{}: {problems:#?}\n{example}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 10, "only {checked} examples were found");
}

#[test]
fn wrong_guide_example_has_problems() {
    let text = "```yaml\nversion: 1\nservers: { git: { comand: git-mcp } }\n```\n";
    let examples: Vec<_> = examples(text).collect();
    let [(language, example)] = examples[..] else {
        panic!("expected one example, found {}", examples.len())
    };
    assert!(!compile_problems(Dialect::Native, language, example).is_empty());
}

fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|it| it == "md");
    let below = folders.iter().flat_map(|folder| markdown_files(folder));
    files.into_iter().filter(is_page).chain(below).collect()
}

/// Returns the fenced blocks of a page with their languages.
fn examples(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n```")
        .enumerate()
        .filter(|(index, _)| index % 2 == 1)
        .filter_map(|(_, block)| block.split_once('\n'))
}

/// Returns the dialect of an example. A page about a format contains that format; other pages contain native
/// files.
fn example_dialect(page: &Path, language: &str, example: &str) -> Option<Dialect> {
    let of_page = page.file_stem().and_then(|stem| Dialect::from_word(stem.to_str()?));
    match language {
        "jsonc" => Some(Dialect::Opencode),
        "json" => of_page,
        // Team files and editor comments define no servers.
        "yaml" if example.starts_with("members:") || example.starts_with('#') => None,
        "yaml" => Some(of_page.unwrap_or(Dialect::Native)),
        _ => None,
    }
}

fn compile_problems(dialect: Dialect, language: &str, example: &str) -> Vec<String> {
    let root = PathBuf::from("/ws");
    let name = format!("example.{}", if language == "yaml" { "yaml" } else { "json" });
    let mut lookup = MemoryLookup::default().with_file(root.join(&name), example);
    lookup = VARIABLES.iter().fold(lookup, |lookup, name| lookup.with_env(name, "value"));
    lookup =
        FILES.iter().fold(lookup, |lookup, (path, text)| lookup.with_file(root.join(path), *text));
    let config_file = ConfigFile { path: name.into(), dialect: Some(dialect) };
    let config = compile(&Workspace { root, home: None, config_file: Some(config_file) }, &lookup);
    config.problems.iter().map(|problem| format!("{}: {}", problem.code, problem.text)).collect()
}
