//! Tests of malformed text: every defect has a code and a location, and time and stack are bounded.

use proptest::prelude::*;

use super::*;
use crate::Severity;

const SYNTAXES: [Syntax; 3] = [Syntax::Yaml, Syntax::Json, Syntax::Toml];

/// Returns the code, line and column of each defect.
fn defects(syntax: Syntax, text: impl AsRef<[u8]>) -> Vec<(&'static str, u32, u32)> {
    let parsed = parse(syntax, text.as_ref());
    let place = |defect: &Defect| parsed.lines.location(defect.offset);
    let shown = |defect: &Defect| (defect.code, place(defect).line, place(defect).column);
    parsed.defects.iter().map(shown).collect()
}

fn json(syntax: Syntax, text: &str) -> String {
    let parsed = parse(syntax, text.as_bytes());
    assert_eq!(parsed.defects, [], "{text}");
    parsed.doc.unwrap().json(Doc::ROOT).to_string()
}

#[test]
fn unbounded_nesting_is_rejected_in_every_syntax() {
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
        let found = defects(syntax, &text);
        assert_eq!(found.len(), 1, "{start}: {found:?}");
        let code = found[0].0;
        let refused = code == "file.too_deep" || code == "yaml.syntax";
        assert!(refused, "{start}: {found:?}");
    }
}

#[test]
fn nested_dotted_toml_keys_are_rejected() {
    let keys = format!("a{}", ".a".repeat(78));
    let text = format!("x = {}1{}", format!("{{ {keys} = ").repeat(79), "}".repeat(79));
    assert_eq!(defects(Syntax::Toml, &text)[0].0, "file.too_deep");
}

#[test]
fn maximum_depth_is_accepted() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for syntax in [Syntax::Yaml, Syntax::Json] {
        assert_eq!(defects(syntax, nested(MAX_DEPTH - 1)), []);
    }
    assert_eq!(defects(Syntax::Toml, format!("a = {}", nested(70))), []);
}

#[test]
fn alias_expansion_of_values_is_limited() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_string();
    for level in 1..10 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    assert_eq!(defects(Syntax::Yaml, &bomb), [("file.too_many_values", 6, 40)]);

    let mut merges = "a0: &a0 { k0: 1, l0: 2, m0: 3 }\n".to_string();
    for level in 1..30 {
        let below = level - 1;
        merges += &format!(
            "a{level}: &a{level} {{ <<: [*a{below}, *a{below}, *a{below}], k{level}: {{ <<: *a{below} }} }}\n"
        );
    }
    let found = defects(Syntax::Yaml, &merges);
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), ["file.too_many_values"]);
}

#[test]
fn alias_expansion_of_text_is_limited() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100_000));
    let found = defects(Syntax::Yaml, &text);
    assert_eq!(found, [("file.too_many_values", 2, 5 + 4 * 15)]);
    let key = format!("a: &a {{ {}: 1 }}\nb: [{}]\n", "k".repeat(1000), "*a, ".repeat(100_000));
    assert_eq!(defects(Syntax::Yaml, &key)[0].0, "file.too_many_values");
}

#[test]
fn alias_expansion_of_depth_is_limited() {
    let mut chain = "a0: &a0 [x]\n".to_string();
    for level in 1..200 {
        chain += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    // Each alias adds one level. The 127th is one too many below the root's map.
    assert_eq!(defects(Syntax::Yaml, &chain), [("file.too_deep", 128, 14)]);
}

#[test]
fn alias_to_missing_or_enclosing_anchor_is_rejected() {
    assert_eq!(defects(Syntax::Yaml, "a: *nobody\n"), [("yaml.syntax", 1, 4)]);
    assert_eq!(defects(Syntax::Yaml, "a: &a [1, *a]\n"), [("yaml.alias", 1, 11)]);
    assert_eq!(defects(Syntax::Yaml, "a: &a { b: { <<: *a } }\n"), [("yaml.alias", 1, 18)]);
}

#[test]
fn merge_keys_accept_only_maps_and_do_not_override() {
    let merged = "base: &base { a: 1, b: 2 }\nmore: &more { b: 3, c: 4 }\nown: { <<: [*base, *more], a: 0 }\n";
    assert!(json(Syntax::Yaml, merged).ends_with(r#""own":{"a":0,"b":2,"c":4}}"#));
    assert_eq!(defects(Syntax::Yaml, "a:\n  <<: 7\n  b: 1\n"), [("yaml.merge", 2, 7)]);
    assert_eq!(defects(Syntax::Yaml, "a: &a {}\nb: { <<: [*a, 7] }\n"), [("yaml.merge", 2, 15)]);
}

#[test]
fn file_size_is_checked_before_parsing() {
    let large = vec![b'a'; 10 << 20];
    for syntax in SYNTAXES {
        assert_eq!(defects(syntax, &large), [("file.too_large", 1, 1)]);
    }
}

#[test]
fn key_length_is_limited() {
    let key = "k".repeat(MAX_BYTES - 100);
    assert_eq!(defects(Syntax::Json, format!("\n  {{\"{key}\": 1}}")), [("key.too_long", 2, 4)]);
    assert_eq!(defects(Syntax::Toml, format!("\n{key} = 1")), [("key.too_long", 2, 1)]);
    // YAML's own limit on implicit keys applies first.
    assert_eq!(defects(Syntax::Yaml, format!("a:\n  {key}: 1"))[0].0, "yaml.syntax");
    assert_eq!(defects(Syntax::Yaml, format!("a:\n  ? {key}\n  : 1")), [("key.too_long", 2, 5)]);
    let longest = "k".repeat(MAX_KEY);
    assert_eq!(defects(Syntax::Json, format!("{{\"{longest}\": 1}}")), []);
}

#[test]
fn duplicate_keys_are_reported_at_the_second_with_the_path_of_their_map() {
    let yaml = "a: 1\ns:\n  x: { k: 1, 'k': 2, \"k\": 3 }\na: 2\n";
    let parsed = parse(Syntax::Yaml, yaml.as_bytes());
    let paths: Vec<_> = parsed.defects.iter().map(|defect| defect.path.join(".")).collect();
    assert_eq!(paths, ["s.x", "s.x", ""]);
    let code = "key.duplicate";
    assert_eq!(defects(Syntax::Yaml, yaml), [(code, 3, 14), (code, 3, 22), (code, 4, 1)]);
    assert_eq!(defects(Syntax::Json, r#"{"a": {"b": 1, "b": 2}}"#), [(code, 1, 16)]);
    assert_eq!(defects(Syntax::Toml, "[a]\nb = 1\nb = 2\n"), [("toml.syntax", 3, 1)]);
}

#[test]
fn duplicate_key_reports_are_limited() {
    let many = |entry: &dyn Fn(usize) -> String| -> String { (0..120_000).map(entry).collect() };
    let yaml = many(&|i| format!("k{}: 1\n", i % 60_000));
    let found = defects(Syntax::Yaml, &yaml);
    assert_eq!(found.len(), MAX_DEFECTS + 1);
    assert_eq!(found[MAX_DEFECTS], ("file.too_many_flaws", 61_001, 1));
    let json = format!("{{{}\"z\":0}}", many(&|i| format!("\"k{}\":1,", i % 60_000)));
    assert_eq!(defects(Syntax::Json, &json)[MAX_DEFECTS].0, "file.too_many_flaws");
}

#[test]
fn non_text_keys_are_reported() {
    let code = "key.not_text";
    let found = defects(Syntax::Yaml, "7: a\ntrue: b\n~: c\n1.5: d\n[1]: e\n{a: b}: f\n");
    let lines: Vec<_> = found.iter().map(|(code, line, _)| (*code, *line)).collect();
    assert_eq!(lines, [(code, 1), (code, 2), (code, 3), (code, 4), (code, 5), (code, 6)]);
    let parsed = parse(Syntax::Yaml, b"7: a\n[1]: e\n");
    let severities: Vec<_> = parsed.defects.iter().map(|defect| defect.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error]);
    assert_eq!(parsed.doc.unwrap().json(Doc::ROOT).to_string(), r#"{"7":"a"}"#);
    assert_eq!(defects(Syntax::Json, "{7: 1}")[0].0, "json.syntax");
}

#[test]
fn second_yaml_document_is_rejected() {
    assert_eq!(defects(Syntax::Yaml, "a: 1\n---\nb: 2\n"), [("yaml.documents", 2, 1)]);
    assert_eq!(defects(Syntax::Yaml, "---\na: 1\n...\n"), []);
    assert_eq!(defects(Syntax::Json, "{} {}")[0].0, "json.syntax");
}

#[test]
fn invalid_utf8_is_located() {
    for syntax in SYNTAXES {
        assert_eq!(defects(syntax, b"# \xc3\xa4\xc3\xa4\n#\xff\n"), [("file.not_utf8", 2, 2)]);
        assert_eq!(defects(syntax, b"#\xc3"), [("file.not_utf8", 1, 2)]);
    }
}

#[test]
fn bom_and_crlf_are_accepted() {
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
        assert_eq!(doc.location(b).line, 2);
        assert!(!parsed.lines.line_text(2).unwrap().contains('\r'));
    }
}

#[test]
fn tab_indentation_is_rejected_in_yaml() {
    assert_eq!(defects(Syntax::Yaml, "a:\n\tb: 1\n").len(), 1);
    assert_eq!(defects(Syntax::Yaml, "a:\n\tb: 1\n")[0].0, "yaml.syntax");
    assert_eq!(json(Syntax::Json, "{\t\"a\":\t1}"), r#"{"a":1}"#);
}

#[test]
fn unterminated_input_is_a_syntax_error() {
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
        let found = defects(syntax, text);
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [code], "{text}");
    }
}

#[test]
fn empty_file_is_an_empty_value() {
    for text in ["", "\n\n", "# note\n", "---\n", "\u{feff}"] {
        assert_eq!(json(Syntax::Yaml, text), "null", "{text:?}");
    }
    assert_eq!(json(Syntax::Json, " // note\n"), "null");
    assert_eq!(json(Syntax::Toml, "# note\n"), "{}");
}

#[test]
fn column_counts_characters_on_long_lines() {
    let text = format!("a: \"{}\" }}", "ä".repeat(1 << 20));
    assert_eq!(defects(Syntax::Yaml, &text), [("yaml.syntax", 1, (1 << 20) + 7)]);
    let lines = LineIndex::new("é\nxäz\n");
    let place = |offset| (lines.location(offset).line, lines.location(offset).column);
    assert_eq!(place(0), (1, 1));
    assert_eq!(place(3), (2, 1));
    assert_eq!(place(6), (2, 3));
    assert_eq!(place(999), (3, 1));
}

#[test]
fn locations_on_one_long_line_are_computed_quickly() {
    let text = format!("[{}]", "1,".repeat(400_000));
    let doc = parse(Syntax::Json, text.as_bytes()).doc.unwrap();
    let NodeKind::Seq(items) = doc.kind(Doc::ROOT) else { panic!() };
    for (index, item) in items.iter().enumerate() {
        assert_eq!(doc.location(*item).column as usize, 2 + 2 * index);
        assert_eq!(doc.path(*item), format!("[{index}]"));
    }
}

#[test]
fn numbers_keep_their_source_text() {
    let parsed = parse(
        Syntax::Yaml,
        b"[0x1F, 0o17, 1e3, -7, +7, 99999999999999999999, .5, 1_000, .nan, 0x]",
    );
    let doc = parsed.doc.unwrap();
    let NodeKind::Seq(items) = doc.kind(Doc::ROOT) else { panic!() };
    let shown: Vec<_> = items
        .iter()
        .map(|item| match doc.kind(*item) {
            NodeKind::Number(written) => (written.as_str(), doc.json(*item).to_string()),
            _ => (describe_node(&doc, *item), doc.json(*item).to_string()),
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
fn number_out_of_range_is_an_error() {
    let error_text = |syntax, text: &str, key: &str| {
        let doc = parse(syntax, text.as_bytes()).doc.unwrap();
        let node = doc.get(Doc::ROOT, key).unwrap();
        deserialize::<f64>(&doc, node).errors.pop().map(|error| error.text)
    };
    assert_eq!(error_text(Syntax::Yaml, "a: 1.5", "a"), None);
    let told = || Some("the number is out of range".to_string());
    assert_eq!(error_text(Syntax::Yaml, "a: 1e999", "a"), told());
    assert_eq!(error_text(Syntax::Json, "{\"a\": -1e999}", "a"), told());
    assert_eq!(error_text(Syntax::Toml, "a = nan", "a"), told());
    assert_eq!(error_text(Syntax::Toml, "a = inf", "a"), told());
}

#[test]
fn toml_tables_keep_file_order() {
    let text = "[z]\nk = 1\n[a]\nk = 2\n[m.y]\nk = 3\n[m.b]\nk = 4\n";
    assert_eq!(
        json(Syntax::Toml, text),
        r#"{"z":{"k":1},"a":{"k":2},"m":{"y":{"k":3},"b":{"k":4}}}"#
    );
}

fn check_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    for syntax in SYNTAXES {
        let parsed = parse(syntax, bytes);
        prop_assert_eq!(parsed.doc.is_none(), parsed.defects.iter().any(is_fatal));
        for defect in &parsed.defects {
            let place = parsed.lines.location(defect.offset);
            let line = parsed.lines.line_text(place.line);
            prop_assert!(line.is_some(), "{:?}", defect);
            prop_assert!(!defect.fix.is_empty());
        }
    }
    Ok(())
}

/// Returns whether the defect leaves no tree.
fn is_fatal(defect: &Defect) -> bool {
    !matches!(defect.code, "key.duplicate" | "key.not_text")
}

proptest! {
    #[test]
    fn arbitrary_bytes_give_a_tree_or_a_located_defect(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_bytes(&bytes)?;
    }

    #[test]
    fn arbitrary_punctuation_gives_a_tree_or_a_located_defect(text in "[-a1 \\n\\t:{}\\[\\],'\"&*<?|>!%@`#=.\\\\~ä]{0,80}") {
        check_bytes(text.as_bytes())?;
    }
}
