//! Every configuration example of the user guide compiles without a problem.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

use std::path::{Path, PathBuf};

use toolcrib_config::{Dialect, Memory, Named, Workspace, compile};

/// Variables that the examples use.
const VARIABLES: [&str; 4] = ["API_TOKEN", "DOCS_TOKEN", "PLAYWRIGHT_TOKEN", "VAULT_TOKEN"];

/// Files that the examples name.
const FILES: [(&str, &str); 4] = [
    (".env", ""),
    (".mcp.json", "{}"),
    (".vscode/mcp.json", "{}"),
    (".minds/mcp.yaml", "version: 1"),
];

#[test]
fn examples_of_the_guide_compile() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut checked = 0;
    for page in pages(&guide) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (language, example) in examples(&text) {
            let Some(dialect) = dialect(&page, language, example) else {
                continue;
            };
            let problems = problems(dialect, language, example);
            assert!(problems.is_empty(), "{}: {problems:#?}\n{example}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 10, "only {checked} examples were found");
}

#[test]
fn a_wrong_example_is_found() {
    let text = "```yaml\nversion: 1\nservers: { git: { comand: git-mcp } }\n```\n";
    let examples: Vec<_> = examples(text).collect();
    let [(language, example)] = examples[..] else { panic!("one example") };
    assert!(!problems(Dialect::Native, language, example).is_empty());
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|it| it == "md");
    let below = folders.iter().flat_map(|folder| pages(folder));
    files.into_iter().filter(is_page).chain(below).collect()
}

/// The fenced blocks of a page, each with its language.
fn examples(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n```")
        .enumerate()
        .filter(|(index, _)| index % 2 == 1)
        .filter_map(|(_, block)| block.split_once('\n'))
}

/// The dialect of an example: a page of a format holds that format, every other page holds native files.
fn dialect(page: &Path, language: &str, example: &str) -> Option<Dialect> {
    let of_page = page.file_stem().and_then(|stem| Dialect::from_word(stem.to_str()?));
    match language {
        "jsonc" => Some(Dialect::Opencode),
        "json" => of_page,
        // A team file and a comment for editors are no servers.
        "yaml" if example.starts_with("members:") || example.starts_with('#') => None,
        "yaml" => Some(of_page.unwrap_or(Dialect::Native)),
        _ => None,
    }
}

fn problems(dialect: Dialect, language: &str, example: &str) -> Vec<String> {
    let root = PathBuf::from("/ws");
    let name = format!("example.{}", if language == "yaml" { "yaml" } else { "json" });
    let mut world = Memory::default().with_file(root.join(&name), example);
    world = VARIABLES.iter().fold(world, |world, name| world.with_env(name, "value"));
    world = FILES.iter().fold(world, |world, (path, text)| world.with_file(root.join(path), *text));
    let named = Named { path: name.into(), dialect: Some(dialect) };
    let config = compile(&Workspace { root, home: None, named: Some(named) }, &world);
    config.problems.iter().map(|problem| format!("{}: {}", problem.code, problem.text)).collect()
}
