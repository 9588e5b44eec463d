//! `toolcrib explain`.

use serde_json::Value as Json;

use crate::Place;

const FILE: &str = r#"version: 1
servers:
  files:
    command: files-server
    args: [--root, .]
    env: { LEVEL: debug-canary, TOKEN: "${TOKEN}" }
  docs: { url: "https://example.com/mcp", headers: { X-Key: header-canary } }
"#;

fn place() -> Place {
    Place::new().file("toolcrib.yaml", FILE)
}

#[test]
fn a_server_is_shown_whole_with_the_origin_of_each_value() {
    let ran = place().run_with(&["explain", "files"], &[("TOKEN", "t")]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    insta::assert_snapshot!(ran.out);
}

#[test]
fn literals_show_only_when_asked_for_and_then_the_output_compiles_to_the_same() {
    let place = place();
    let env = [("TOKEN", "t")];
    let masked = place.run_with(&["explain"], &env);
    let json = place.run_with(&["explain", "--json"], &env);
    for shown in [&masked.out, &json.out] {
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("***"));
    }
    let revealed = place.run_with(&["explain", "--reveal"], &env);
    assert!(revealed.out.contains("debug-canary") && revealed.out.contains("header-canary"));
    let again = Place::new().file("toolcrib.yaml", &revealed.out);
    let again = again.run_with(&["explain", "--reveal", "--json"], &env);
    let first = place.run_with(&["explain", "--reveal", "--json"], &env);
    let config =
        |ran: &crate::Ran| serde_json::from_str::<Json>(&ran.out).unwrap()["config"].clone();
    assert_eq!(config(&again), config(&first));
}

#[test]
fn an_unknown_server_is_told_with_those_there_are() {
    let ran = place().run_with(&["explain", "fils"], &[("TOKEN", "t")]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: there is no server `fils`; there are files, docs\n");
}

#[test]
fn a_server_that_is_written_wrongly_is_told_with_its_problems() {
    let place =
        Place::new().file("toolcrib.yaml", "version: 1\nservers: { a: { url: 'ftp://x' } }\n");
    let ran = place.run(&["explain", "a"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("url.scheme"), "{}", ran.out);
}
