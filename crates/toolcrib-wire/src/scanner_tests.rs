//! Compares the scanner with serde_json.

use super::*;

fn is_json_elsewhere(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn scan(text: &str, depth: usize) -> Result<(), ParseError> {
    let mut scanner = Scanner::new(text, depth);
    let scanned = scanner.skip_value().and_then(|_| scanner.expect_end());
    scanned.map_err(|error| scanner.parse_error(error))
}

#[test]
fn scanner_accepts_exactly_what_serde_json_accepts() {
    let texts = [
        "{}",
        "[]",
        " [ ] ",
        "{\"a\":1}",
        "[1,2]",
        "[1,]",
        "[,1]",
        "{\"a\":}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":1,}",
        "\"x",
        "\"\\x\"",
        "\"\\u00zz\"",
        "\"\\u00e9\"",
        "\"\\u00e\"",
        "01",
        "-",
        "-0",
        "1.",
        "1.5",
        "1e",
        "1e+9",
        ".5",
        "+1",
        "tru",
        "true",
        "nul",
        "null",
        "falsey",
        "[true,false,null]",
        "{\"a\":[{\"b\":[]}]}",
        "\"tab\there\"",
        "\"\u{1}\"",
        "",
        " ",
        "}",
        "[}",
        "{]",
        "1 2",
        "[[[]]]",
        "\"0123456\\n89abcdef\\\"\"",
        "\"01234567\u{8}9\"",
        "\"ünïcödé — long enough for two words\"",
        "[\"a\":1]",
        "{\"a\",1}",
        "\"\\",
    ];
    for text in texts {
        assert_eq!(scan(text, 128).is_ok(), is_json_elsewhere(text), "{text:?}");
    }
}

#[test]
fn strings_are_checked_like_serde_json_at_every_length() {
    let odd = [
        "\\\\", "\\\"", "\\u00e9", "\\ud83d", "é", "\\x", "\\u00g0", "\u{1}", "\n", "\"", "\u{7f}",
    ];
    for odd in odd {
        for (length, place) in
            (0..100).flat_map(|length| [0, length / 2, length].map(|n| (length, n)))
        {
            let text = format!("\"{}{odd}{}\"", "a".repeat(place), "b".repeat(length - place));
            for text in [format!("{{{text}:{text}}}"), format!("[{text},1]"), text] {
                assert_eq!(scan(&text, 128).is_ok(), is_json_elsewhere(&text), "{text:?}");
                let cut = &text[..text.len() - 1];
                assert_eq!(scan(cut, 128).is_ok(), is_json_elsewhere(cut), "{cut:?}");
            }
        }
    }
}

#[test]
fn mismatched_brackets_are_rejected_at_every_depth() {
    for depth in [1, 2, 62, 63, 64, 65, 66, 120] {
        let pair = |level: usize| {
            if level.is_multiple_of(3) { ("{\"a\" :", "}") } else { ("[ ", " ]") }
        };
        let opening: String = (0..depth).map(|level| pair(level).0).collect();
        let closing: Vec<_> = (0..depth).rev().map(|level| pair(level).1).collect();
        let text = format!("{opening}1{}", closing.concat());
        assert_eq!(scan(&text, depth), Ok(()), "{text}");
        assert_eq!(scan(&text, depth - 1), Err(ParseError::TooDeep { limit: depth - 1 }), "{text}");
        for wrong in 0..depth {
            let mut closing = closing.clone();
            closing[wrong] = if closing[wrong] == "}" { "]" } else { "}" };
            let text = format!("{opening}1{}", closing.concat());
            assert!(matches!(scan(&text, depth), Err(ParseError::Syntax { .. })), "{text}");
        }
    }
    for (text, depth) in [("{}", 1), ("[{}]", 2), ("{\"a\":{}}", 2), ("[]", 1), ("{ }", 1)] {
        assert_eq!(scan(text, depth), Ok(()), "{text}");
        assert_eq!(scan(text, depth - 1), Err(ParseError::TooDeep { limit: depth - 1 }), "{text}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    assert_eq!(scan("[[[]]]", 3), Ok(()));
    assert_eq!(scan("[[{\"a\":[]}]]", 3), Err(ParseError::TooDeep { limit: 3 }));
    assert_eq!(scan(&"[".repeat(1_000_000), 128), Err(ParseError::TooDeep { limit: 128 }));
    assert_eq!(scan(&"{\"a\":".repeat(1_000_000), 128), Err(ParseError::TooDeep { limit: 128 }));
}

#[test]
fn skip_trusted_value_finds_the_same_end() {
    for text in [
        "{}",
        "[ ]",
        "\"a\"",
        "\"\"",
        r#""\\""#,
        r#""\"""#,
        r#""a\\\"b\\""#,
        "-1.5e+3",
        "true",
        r#"{ "a" : [ 1 , "]}\"" , { "b" : null } ] , "c" : "\\" }"#,
        "[[],[[]],{}]",
    ] {
        let first = Scanner::new(text, 9).skip_value();
        for rest in ["", " ", ",1", "]", "}"] {
            let longer = format!(" {text}{rest}");
            let found = Scanner::new(&longer, 9).skip_trusted_value();
            assert_eq!(first, Ok(found.start - 1..found.end - 1), "{longer}");
        }
    }
    // Unchecked text gives a meaningless result but no panic.
    for text in ["", "\"", "\"\\", "[", "]", "{\"a", ","] {
        assert!(Scanner::new(text, 9).skip_trusted_value().end <= text.len(), "{text}");
    }
}
