//! Bad text: each flaw has a code and a place, and nothing takes more than its share of time or stack.

use proptest::prelude::*;

use super::*;
use crate::Severity;

const SYNTAXES: [Syntax; 3] = [Syntax::Yaml, Syntax::Json, Syntax::Toml];

/// The code, line and column of each flaw, in order.
fn flaws(syntax: Syntax, text: impl AsRef<[u8]>) -> Vec<(&'static str, u32, u32)> {
    let parsed = parse(syntax, text.as_ref());
    let place = |flaw: &Flaw| parsed.lines.place(flaw.offset);
    let shown = |flaw: &Flaw| (flaw.code, place(flaw).line, place(flaw).column);
    parsed.flaws.iter().map(shown).collect()
}

fn json(syntax: Syntax, text: &str) -> String {
    let parsed = parse(syntax, text.as_bytes());
    assert_eq!(parsed.flaws, [], "{text}");
    parsed.doc.unwrap().json(Doc::ROOT).to_string()
}

#[test]
fn nesting_without_end_is_refused_in_every_syntax() {
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let block: String = (0..3000).map(|i| " ".repeat(i) + "a:\n").collect();
    let cases = [
        (Syntax::Yaml, deep("[", "]")),
        (Syntax::Yaml, deep("{a: ", "}")),
        (Syntax::Yaml, "[".repeat(100_000)),
        (Syntax::Yaml, "- ".repeat(500_000)),
        (Syntax::Yaml, "? ".repeat(500_000)),
        (Syntax::Yaml, block),
        (Syntax::Json, deep("[", "]")),
        (Syntax::Json, deep("{\"a\":", "}")),
        (Syntax::Json, "[".repeat(100_000)),
        (Syntax::Json, format!("{}1{}", "[".repeat(200), "]".repeat(200))),
        (Syntax::Toml, format!("a = {}", deep("[", "]"))),
        (Syntax::Toml, format!("a = {}", deep("{a = ", "}"))),
        (Syntax::Toml, format!("a{} = 1", ".a".repeat(100_000))),
        (Syntax::Toml, format!("[a{}]", ".a".repeat(100_000))),
        (Syntax::Toml, format!("[[a{}]]", ".a".repeat(100_000))),
    ];
    for (syntax, text) in cases {
        let start: String = text.chars().take(40).collect();
        let found = flaws(syntax, &text);
        assert_eq!(found.len(), 1, "{start}: {found:?}");
        let code = found[0].0;
        let refused = code == "file.too_deep" || code == "yaml.syntax";
        assert!(refused, "{start}: {found:?}");
    }
}

#[test]
fn tables_within_dotted_keys_multiply_and_are_refused() {
    let keys = format!("a{}", ".a".repeat(78));
    let text = format!("x = {}1{}", format!("{{ {keys} = ").repeat(79), "}".repeat(79));
    assert_eq!(flaws(Syntax::Toml, &text)[0].0, "file.too_deep");
}

#[test]
fn as_deep_as_is_allowed_is_read() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for syntax in [Syntax::Yaml, Syntax::Json] {
        assert_eq!(flaws(syntax, nested(MAX_DEPTH - 1)), []);
    }
    assert_eq!(flaws(Syntax::Toml, format!("a = {}", nested(70))), []);
}

#[test]
fn aliases_cannot_multiply_values() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_string();
    for level in 1..10 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    assert_eq!(flaws(Syntax::Yaml, &bomb), [("file.too_many_values", 6, 40)]);

    let mut merges = "a0: &a0 { k0: 1, l0: 2, m0: 3 }\n".to_string();
    for level in 1..30 {
        let below = level - 1;
        merges += &format!(
            "a{level}: &a{level} {{ <<: [*a{below}, *a{below}, *a{below}], k{level}: {{ <<: *a{below} }} }}\n"
        );
    }
    let found = flaws(Syntax::Yaml, &merges);
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), ["file.too_many_values"]);
}

#[test]
fn aliases_cannot_multiply_text() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100_000));
    let found = flaws(Syntax::Yaml, &text);
    assert_eq!(found, [("file.too_many_values", 2, 5 + 4 * 15)]);
    let key = format!("a: &a {{ {}: 1 }}\nb: [{}]\n", "k".repeat(1000), "*a, ".repeat(100_000));
    assert_eq!(flaws(Syntax::Yaml, &key)[0].0, "file.too_many_values");
}

#[test]
fn aliases_cannot_deepen_the_tree() {
    let mut chain = "a0: &a0 [x]\n".to_string();
    for level in 1..200 {
        chain += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    // Each alias adds a level to what it stands for; the 127th is one too many below the root's map.
    assert_eq!(flaws(Syntax::Yaml, &chain), [("file.too_deep", 128, 14)]);
}

#[test]
fn an_alias_needs_a_target_that_is_complete() {
    assert_eq!(flaws(Syntax::Yaml, "a: *nobody\n"), [("yaml.syntax", 1, 4)]);
    assert_eq!(flaws(Syntax::Yaml, "a: &a [1, *a]\n"), [("yaml.alias", 1, 11)]);
    assert_eq!(flaws(Syntax::Yaml, "a: &a { b: { <<: *a } }\n"), [("yaml.alias", 1, 18)]);
}

#[test]
fn a_merge_fills_in_and_takes_nothing_but_maps() {
    let merged = "base: &base { a: 1, b: 2 }\nmore: &more { b: 3, c: 4 }\nown: { <<: [*base, *more], a: 0 }\n";
    assert!(json(Syntax::Yaml, merged).ends_with(r#""own":{"a":0,"b":2,"c":4}}"#));
    assert_eq!(flaws(Syntax::Yaml, "a:\n  <<: 7\n  b: 1\n"), [("yaml.merge", 2, 7)]);
    assert_eq!(flaws(Syntax::Yaml, "a: &a {}\nb: { <<: [*a, 7] }\n"), [("yaml.merge", 2, 15)]);
}

#[test]
fn size_is_limited_before_anything_is_parsed() {
    let large = vec![b'a'; 10 << 20];
    for syntax in SYNTAXES {
        assert_eq!(flaws(syntax, &large), [("file.too_large", 1, 1)]);
    }
}

#[test]
fn one_key_as_long_as_the_file_is_refused() {
    let key = "k".repeat(MAX_BYTES - 100);
    assert_eq!(flaws(Syntax::Json, format!("\n  {{\"{key}\": 1}}")), [("key.too_long", 2, 4)]);
    assert_eq!(flaws(Syntax::Toml, format!("\n{key} = 1")), [("key.too_long", 2, 1)]);
    // YAML's own limit on a key that nothing announces comes first.
    assert_eq!(flaws(Syntax::Yaml, format!("a:\n  {key}: 1"))[0].0, "yaml.syntax");
    assert_eq!(flaws(Syntax::Yaml, format!("a:\n  ? {key}\n  : 1")), [("key.too_long", 2, 5)]);
    let longest = "k".repeat(MAX_KEY);
    assert_eq!(flaws(Syntax::Json, format!("{{\"{longest}\": 1}}")), []);
}

#[test]
fn duplicate_keys_are_told_at_the_second_with_the_way_to_their_map() {
    let yaml = "a: 1\ns:\n  x: { k: 1, 'k': 2, \"k\": 3 }\na: 2\n";
    let parsed = parse(Syntax::Yaml, yaml.as_bytes());
    let paths: Vec<_> = parsed.flaws.iter().map(|flaw| flaw.path.join(".")).collect();
    assert_eq!(paths, ["s.x", "s.x", ""]);
    let code = "key.duplicate";
    assert_eq!(flaws(Syntax::Yaml, yaml), [(code, 3, 14), (code, 3, 22), (code, 4, 1)]);
    assert_eq!(flaws(Syntax::Json, r#"{"a": {"b": 1, "b": 2}}"#), [(code, 1, 16)]);
    assert_eq!(flaws(Syntax::Toml, "[a]\nb = 1\nb = 2\n"), [("toml.syntax", 3, 1)]);
}

#[test]
fn many_duplicates_end_the_reading() {
    let many = |entry: &dyn Fn(usize) -> String| -> String { (0..120_000).map(entry).collect() };
    let yaml = many(&|i| format!("k{}: 1\n", i % 60_000));
    let found = flaws(Syntax::Yaml, &yaml);
    assert_eq!(found.len(), MAX_FLAWS + 1);
    assert_eq!(found[MAX_FLAWS], ("file.too_many_flaws", 61_001, 1));
    let json = format!("{{{}\"z\":0}}", many(&|i| format!("\"k{}\":1,", i % 60_000)));
    assert_eq!(flaws(Syntax::Json, &json)[MAX_FLAWS].0, "file.too_many_flaws");
}

#[test]
fn a_key_that_is_no_text_is_told() {
    let code = "key.not_text";
    let found = flaws(Syntax::Yaml, "7: a\ntrue: b\n~: c\n1.5: d\n[1]: e\n{a: b}: f\n");
    let lines: Vec<_> = found.iter().map(|(code, line, _)| (*code, *line)).collect();
    assert_eq!(lines, [(code, 1), (code, 2), (code, 3), (code, 4), (code, 5), (code, 6)]);
    let parsed = parse(Syntax::Yaml, b"7: a\n[1]: e\n");
    let severities: Vec<_> = parsed.flaws.iter().map(|flaw| flaw.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error]);
    assert_eq!(parsed.doc.unwrap().json(Doc::ROOT).to_string(), r#"{"7":"a"}"#);
    assert_eq!(flaws(Syntax::Json, "{7: 1}")[0].0, "json.syntax");
}

#[test]
fn a_second_document_is_refused() {
    assert_eq!(flaws(Syntax::Yaml, "a: 1\n---\nb: 2\n"), [("yaml.documents", 2, 1)]);
    assert_eq!(flaws(Syntax::Yaml, "---\na: 1\n...\n"), []);
    assert_eq!(flaws(Syntax::Json, "{} {}")[0].0, "json.syntax");
}

#[test]
fn the_first_byte_that_is_no_text_has_a_place() {
    for syntax in SYNTAXES {
        assert_eq!(flaws(syntax, b"# \xc3\xa4\xc3\xa4\n#\xff\n"), [("file.not_utf8", 2, 2)]);
        assert_eq!(flaws(syntax, b"#\xc3"), [("file.not_utf8", 1, 2)]);
    }
}

#[test]
fn a_mark_at_the_start_and_windows_line_ends_are_nothing_special() {
    let texts = [
        (Syntax::Yaml, "a: 1\r\nb: [x,\r\n  y]\r\n"),
        (Syntax::Json, "{\"a\": 1,\r\n\"b\": [\"x\", \"y\"]}\r\n"),
        (Syntax::Toml, "a = 1\r\nb = [\"x\",\r\n\"y\"]\r\n"),
    ];
    for (syntax, text) in texts {
        let marked = format!("\u{feff}{text}");
        assert_eq!(json(syntax, &marked), r#"{"a":1,"b":["x","y"]}"#);
        let parsed = parse(syntax, marked.as_bytes());
        let doc = parsed.doc.unwrap();
        let b = doc.get(Doc::ROOT, "b").unwrap();
        assert_eq!(doc.place(b).line, 2);
        assert!(!parsed.lines.line(2).unwrap().contains('\r'));
    }
}

#[test]
fn a_tab_is_no_indentation() {
    assert_eq!(flaws(Syntax::Yaml, "a:\n\tb: 1\n").len(), 1);
    assert_eq!(flaws(Syntax::Yaml, "a:\n\tb: 1\n")[0].0, "yaml.syntax");
    assert_eq!(json(Syntax::Json, "{\t\"a\":\t1}"), r#"{"a":1}"#);
}

#[test]
fn what_is_not_finished_is_told_where_it_ends() {
    for (syntax, text, code) in [
        (Syntax::Yaml, "a: [1,\n", "yaml.syntax"),
        (Syntax::Yaml, "a: \"x\n", "yaml.syntax"),
        (Syntax::Yaml, "a: b: c\n", "yaml.syntax"),
        (Syntax::Json, "{\"a\": ", "json.syntax"),
        (Syntax::Json, "{\"a\" 1}", "json.syntax"),
        (Syntax::Json, "{'a': 1}", "json.syntax"),
        (Syntax::Json, "{\"a\": NaN}", "json.syntax"),
        (Syntax::Toml, "a = ", "toml.syntax"),
        (Syntax::Toml, "a = [1,\n", "toml.syntax"),
    ] {
        let found = flaws(syntax, text);
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [code], "{text}");
    }
}

#[test]
fn an_empty_file_is_an_empty_value() {
    for text in ["", "\n\n", "# note\n", "---\n", "\u{feff}"] {
        assert_eq!(json(Syntax::Yaml, text), "null", "{text:?}");
    }
    assert_eq!(json(Syntax::Json, " // note\n"), "null");
    assert_eq!(json(Syntax::Toml, "# note\n"), "{}");
}

#[test]
fn a_column_counts_characters_however_long_the_line() {
    let text = format!("a: \"{}\" }}", "ä".repeat(1 << 20));
    assert_eq!(flaws(Syntax::Yaml, &text), [("yaml.syntax", 1, (1 << 20) + 7)]);
    let lines = Lines::of("é\nxäz\n");
    let place = |offset| (lines.place(offset).line, lines.place(offset).column);
    assert_eq!(place(0), (1, 1));
    assert_eq!(place(3), (2, 1));
    assert_eq!(place(6), (2, 3));
    assert_eq!(place(999), (3, 1));
}

#[test]
fn places_on_one_long_line_are_found_at_once() {
    let text = format!("[{}]", "1,".repeat(400_000));
    let doc = parse(Syntax::Json, text.as_bytes()).doc.unwrap();
    let Kind::Seq(items) = doc.kind(Doc::ROOT) else { panic!() };
    for (index, item) in items.iter().enumerate() {
        assert_eq!(doc.place(*item).column as usize, 2 + 2 * index);
        assert_eq!(doc.path(*item), format!("[{index}]"));
    }
}

#[test]
fn numbers_keep_the_text_that_was_written() {
    let parsed = parse(
        Syntax::Yaml,
        b"[0x1F, 0o17, 1e3, -7, +7, 99999999999999999999, .5, 1_000, .nan, 0x]",
    );
    let doc = parsed.doc.unwrap();
    let Kind::Seq(items) = doc.kind(Doc::ROOT) else { panic!() };
    let shown: Vec<_> = items
        .iter()
        .map(|item| match doc.kind(*item) {
            Kind::Number(written) => (written.as_str(), doc.json(*item).to_string()),
            _ => (describe(&doc, *item), doc.json(*item).to_string()),
        })
        .collect();
    let expected = [
        ("0x1F", "31"),
        ("0o17", "15"),
        ("1e3", "1000.0"),
        ("-7", "-7"),
        ("+7", "7"),
        ("99999999999999999999", "1e+20"),
        (".5", "0.5"),
        ("a text", "\"1_000\""),
        ("a text", "\".nan\""),
        ("a text", "\"0x\""),
    ];
    assert_eq!(shown, expected.map(|(written, json)| (written, json.to_string())));
}

#[test]
fn a_number_out_of_range_is_wrong_and_not_rounded() {
    let wrong = |syntax, text: &str, key: &str| {
        let doc = parse(syntax, text.as_bytes()).doc.unwrap();
        let node = doc.get(Doc::ROOT, key).unwrap();
        read::<f64>(&doc, node).wrongs.pop().map(|wrong| wrong.text)
    };
    assert_eq!(wrong(Syntax::Yaml, "a: 1.5", "a"), None);
    let told = || Some("the number is out of range".to_string());
    assert_eq!(wrong(Syntax::Yaml, "a: 1e999", "a"), told());
    assert_eq!(wrong(Syntax::Json, "{\"a\": -1e999}", "a"), told());
    assert_eq!(wrong(Syntax::Toml, "a = nan", "a"), told());
    assert_eq!(wrong(Syntax::Toml, "a = inf", "a"), told());
}

#[test]
fn tables_stand_in_the_order_of_the_file() {
    let text = "[z]\nk = 1\n[a]\nk = 2\n[m.y]\nk = 3\n[m.b]\nk = 4\n";
    assert_eq!(
        json(Syntax::Toml, text),
        r#"{"z":{"k":1},"a":{"k":2},"m":{"y":{"k":3},"b":{"k":4}}}"#
    );
}

fn check_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    for syntax in SYNTAXES {
        let parsed = parse(syntax, bytes);
        prop_assert_eq!(parsed.doc.is_none(), parsed.flaws.iter().any(is_fatal));
        for flaw in &parsed.flaws {
            let place = parsed.lines.place(flaw.offset);
            let line = parsed.lines.line(place.line);
            prop_assert!(line.is_some(), "{:?}", flaw);
            prop_assert!(!flaw.fix.is_empty());
        }
    }
    Ok(())
}

/// Flaws after which there is no tree.
fn is_fatal(flaw: &Flaw) -> bool {
    !matches!(flaw.code, "key.duplicate" | "key.not_text")
}

proptest! {
    #[test]
    fn any_bytes_give_a_tree_or_a_flaw_with_a_place(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_bytes(&bytes)?;
    }

    #[test]
    fn any_marks_give_a_tree_or_a_flaw_with_a_place(text in "[-a1 \\n\\t:{}\\[\\],'\"&*<?|>!%@`#=.\\\\~ä]{0,80}") {
        check_bytes(text.as_bytes())?;
    }
}
