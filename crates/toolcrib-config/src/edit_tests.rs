//! Tests of adding and removing entries in each syntax.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const PATH: [&str; 2] = ["servers", "ours"];

fn ours() -> Json {
    json!({"command": "/bin/x", "args": ["a b", "--c"], "headers": {"X-Y": "z"}})
}

/// Adds the entry and removes it again. Returns the text with the entry and the text without it.
fn there_and_back(syntax: Syntax, text: &str) -> (String, String) {
    let with = with_entry(syntax, text, &PATH, &ours()).unwrap();
    assert_eq!(find_entry(syntax, &with, &PATH).unwrap(), Some(ours()), "{with}");
    assert_eq!(with_entry(syntax, &with, &PATH, &ours()).unwrap(), with, "edits are idempotent");
    let without = without_entry(syntax, &with, &PATH).unwrap();
    assert_eq!(find_entry(syntax, &without, &PATH).unwrap(), None, "{without}");
    (with, without)
}

#[test]
fn json_edit_keeps_comments_and_formatting() {
    let text = "{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"}, // one\n\t},\n\t\"z\": 1 /* last */\n}\n";
    let (with, without) = there_and_back(Syntax::Json, text);
    let added =
        "\t\t\"ours\": {\n\t\t\t\"command\": \"/bin/x\",\n\t\t\t\"args\": [\"a b\", \"--c\"],\n";
    assert!(with.contains(added), "{with}");
    for kept in ["\t// mine\n", "\"a\": {\"command\": \"x\"}, // one\n", "\"z\": 1 /* last */\n}\n"]
    {
        assert!(with.contains(kept), "{kept:?} in {with}");
    }
    assert_eq!(without, text);
}

#[test]
fn toml_edit_keeps_comments_and_order() {
    let text =
        "# top\nmodel = \"m\" # mine\n\n[servers.a] # one\ncommand = 'x'\n\n[other]\nk = 1\n";
    let (with, without) = there_and_back(Syntax::Toml, text);
    let added = "[servers.ours]\ncommand = \"/bin/x\"\nargs = [\"a b\", \"--c\"]\nheaders = { X-Y = \"z\" }\n";
    assert!(with.contains(added), "{with}");
    for kept in
        ["# top\nmodel = \"m\" # mine\n", "[servers.a] # one\ncommand = 'x'\n", "[other]\nk = 1\n"]
    {
        assert!(with.contains(kept), "{kept:?} in {with}");
    }
    assert_eq!(without, text);
}

#[test]
fn yaml_edit_changes_whole_lines() {
    let text = "# top\nmodel: m # mine\nservers:  # all\n    # one\n    a:\n        command: x\n\n# then\nother:\n  - 1\n";
    let (with, without) = there_and_back(Syntax::Yaml, text);
    let added =
        "        command: x\n    ours:\n      command: /bin/x\n      args:\n        - \"a b\"\n";
    assert!(with.contains(added), "{with}");
    assert_eq!(without, text);
    let (with, _) = there_and_back(Syntax::Yaml, "model: m");
    assert!(with.starts_with("model: m\nservers:\n  ours:\n    command: /bin/x\n"), "{with}");
}

#[test]
fn empty_file_gets_the_entry_alone() {
    for syntax in [Syntax::Json, Syntax::Toml, Syntax::Yaml] {
        for text in ["", "\n", "\u{feff}"] {
            there_and_back(syntax, text);
        }
    }
    there_and_back(Syntax::Json, "{}");
    there_and_back(Syntax::Yaml, "# only this\n");
    there_and_back(Syntax::Yaml, "servers:\n");
}

#[test]
fn edit_keeps_line_endings_and_bom() {
    for (syntax, text) in [
        (Syntax::Json, "\u{feff}{\r\n  \"servers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n"),
        (Syntax::Toml, "# a\r\n[servers.a]\r\nx = 1\r\n"),
        (Syntax::Yaml, "servers:\r\n  a:\r\n    x: 1\r\n"),
    ] {
        let (with, without) = there_and_back(syntax, text);
        assert_eq!(with.matches('\n').count(), with.matches("\r\n").count(), "{with:?}");
        assert_eq!(with.starts_with('\u{feff}'), text.starts_with('\u{feff}'));
        assert_eq!(without, text);
    }
}

#[test]
fn existing_entry_is_replaced_in_place() {
    for (syntax, text, after) in [
        (Syntax::Json, r#"{"servers": {"ours": {"url": "u"}, "b": 1}}"#, "\"b\": 1"),
        (Syntax::Toml, "[servers.ours]\nurl = 'u'\n\n[servers.b]\nx = 1\n", "[servers.b]"),
        (Syntax::Yaml, "servers:\n  ours:\n    url: u\n  # next\n  b:\n    x: 1\n", "  # next\n"),
    ] {
        let with = with_entry(syntax, text, &PATH, &ours()).unwrap();
        assert!(!with.contains("url"), "{with}");
        assert!(with.find("/bin/x") < with.find(after), "{with}");
    }
}

#[test]
fn unsafe_edits_are_rejected() {
    for (syntax, text) in [
        (Syntax::Json, "[1]"),
        (Syntax::Json, r#"{"servers": []}"#),
        (Syntax::Json, r#"{"servers": 1}"#),
        (Syntax::Toml, "servers = 1\n"),
        (Syntax::Yaml, "servers: { a: { x: 1 } }\n"),
        (Syntax::Yaml, "servers: [1]\n"),
        (Syntax::Yaml, "{servers: {a: 1}}\n"),
        (Syntax::Yaml, "text: |\n  servers:\nservers: {a: 1}\n"),
        (Syntax::Yaml, "- 1\n"),
        (Syntax::Yaml, "a: 1\r\nb: 2\n"),
    ] {
        let left = with_entry(syntax, text, &PATH, &ours());
        assert_eq!(left, Err(EditError::Unsafe), "{text:?}");
    }
}

#[test]
fn syntax_errors_in_edited_files_are_located() {
    for (syntax, text, line) in [
        (Syntax::Json, "{\n  \"a\": [1\n}", 2),
        (Syntax::Toml, "a = 1\nb = = 2\n", 2),
        (Syntax::Yaml, "a: 1\nb: [1\n", 2),
    ] {
        match with_entry(syntax, text, &PATH, &ours()) {
            Err(EditError::Unreadable { location, .. }) => {
                assert!(location.line >= line, "{location:?}")
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Fragments of files, combined at random.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"servers\"",
    "\"ours\"",
    "servers",
    "ours",
    "// c\n",
    "/* c */",
    "\n",
    " ",
    "  ",
    "1",
    "0x1F",
    "'x'",
    "- ",
    "# c\n",
    "=",
    "[servers]",
    "[servers.ours]",
    "[[servers]]",
    "\r\n",
    "\"",
    "|\n",
    "&a ",
    "*a",
    "null",
    "true",
    "servers:\n",
    "  ours:\n",
    "    x: 1\n",
    "---\n",
    "...\n",
    "\t",
    "é",
    "\u{feff}",
    "{\"servers\": {",
];

proptest! {
    #[test]
    fn edits_of_arbitrary_text_are_exact_or_rejected(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24)
    ) {
        let text = pieces.concat();
        for syntax in [Syntax::Json, Syntax::Toml, Syntax::Yaml] {
            if let Ok(with) = with_entry(syntax, &text, &PATH, &ours()) {
                prop_assert_eq!(find_entry(syntax, &with, &PATH), Ok(Some(ours())));
            }
            if let Ok(without) = without_entry(syntax, &text, &PATH) {
                prop_assert_eq!(find_entry(syntax, &without, &PATH), Ok(None));
            }
        }
    }
}
