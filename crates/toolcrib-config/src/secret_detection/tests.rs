//! Tests of secret detection over whole servers.

use crate::testing::compile_text_in;
use crate::{Dialect, MemoryLookup, Reference, SecretString};

const HOST: [(&str, &str); 4] = [
    ("GITHUB_TOKEN", "of-the-host"),
    ("REGION", "somewhere-far"),
    ("SECRET_OF_NOBODY", "not-given"),
    ("SHORT_KEY", "abc"),
];

fn check(server: &str, expected: &[&str]) {
    let text = format!("version: 1\nservers:\n  s: {server}\n");
    let world = HOST
        .iter()
        .fold(MemoryLookup::default(), |world, (name, value)| world.with_env(name, value));
    let world = world.with_file("/ws/.env", "FILE_TOKEN=of-the-file\nLEVEL=of-no-interest\n");
    let config = compile_text_in(&world, Dialect::Native, &text);
    assert_eq!(config.problems, [], "{server}");
    let host = HOST.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let find = |reference: &Reference| match reference {
        Reference::Env(name) => {
            host.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    let found = config.servers[0].secrets(&host, &find);
    let mut found: Vec<&str> = found.iter().map(SecretString::reveal).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, expected, "{server}");
}

#[test]
fn secrets_are_found_on_every_path_to_a_server() {
    check("{ command: x, env: { API_KEY: literal, LEVEL: literally } }", &["literal"]);
    check("{ command: x, env: { V: \"${GITHUB_TOKEN}\", W: \"${REGION}\" } }", &["of-the-host"]);
    check("{ command: x, env: { V: \"${NO_TOKEN:-instead}\" } }", &["instead"]);
    check(
        "{ command: x, env: { V: { from_env: GITHUB_TOKEN, prefix: \"Bearer \" } } }",
        &["of-the-host"],
    );
    check("{ command: x, env: { KEY: \"a-${SHORT_KEY}-z\" } }", &["a-abc-z"]);
    check("{ command: x, env_file: .env }", &["of-the-file"]);
    check(
        "{ command: x, args: [--token, literal, --level, literally, --key=other1] }",
        &["literal", "other1"],
    );
    check(
        "{ command: x, args: [--header, \"Authorization: Bearer ${GITHUB_TOKEN}\"] }",
        &["of-the-host"],
    );
    check(
        "{ url: \"https://a.test/?key=literal\", headers: { X-Api-Key: other1, Accept: text/plain } }",
        &["literal", "other1"],
    );
    check("{ url: \"https://a.test/\", auth: { kind: bearer, token: any1 } }", &["any1"]);
    check("{ url: \"https://a.test/\", auth: { kind: api_key, key: \"Bearer any1\" } }", &["any1"]);
    check(
        "{ url: \"https://a.test/\", auth: { kind: oauth, client_id: known1, client_secret: any1 } }",
        &["any1"],
    );
    check(
        "{ command: x, init: { config: { db: { password: literal, name: literally } }, config_delivery: env } }",
        &["literal"],
    );
}

#[test]
fn generated_values_are_secrets_and_harmless_values_are_not() {
    let (key, other) = ("9f86d081884c7d659a2feaa0c55ad015", "kJ8sPq2LmZ0xWv4T");
    check(
        &format!("{{ command: x, env: {{ V: {key}, W: \"${{NONE:-{other}}}\" }} }}"),
        &[key, other],
    );
    check(&format!("{{ command: x, args: [\"${{NONE:-{key}}}\"] }}"), &[key]);
    check(&format!("{{ url: \"https://a.test/\", headers: {{ X-Any: {key} }} }}"), &[key]);
    check(&format!("{{ command: x, env: {{ PROJECT_ID: {key}, COMMIT: {key} }} }}"), &[]);
    check(
        "{ command: x, env: { A: 'true', B: /srv/someone, C: production, D: '7420', E: claude-sonnet-4-20250514 } }",
        &[],
    );
}

#[test]
fn only_inherited_variables_are_considered() {
    check("{ command: x, inherit_env: all }", &["not-given", "of-the-host"]);
    check("{ command: x, inherit_env: [GITHUB_TOKEN, REGION] }", &["of-the-host"]);
    check("{ command: x }", &[]);
}

#[test]
fn credentials_are_found_with_and_without_scheme() {
    let parts = |text: &str| SecretString::new(text).parts();
    assert_eq!(parts("Bearer abc"), ["Bearer abc", "abc"].map(SecretString::new));
    assert_eq!(parts("abc\n"), ["abc\n", "abc"].map(SecretString::new));
}
