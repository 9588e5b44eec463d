//! Permissions of every endpoint for every kind of principal, in one table.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcrib_server::api;
use toolcrib_server::identity::TokenStore;
use toolcrib_testkit::scripted::Script;

use super::{Credential, TestApi};
use crate::fixture::TestHost;

/// Request, body, and outcomes for the owner, for the dialog's principal, and for other authenticated principals.
type Row = (&'static str, &'static str, [&'static str; 3]);

/// `{…}` in a path stands for an existing server or dialog. Codes are problem codes.
const PERMISSIONS: [Row; 41] = [
    ("GET /openapi.json", "", ["200"; 3]),
    ("GET /status", "", ["200"; 3]),
    ("GET /problems", "", ["200"; 3]),
    ("GET /definitions", "", ["200", DENIED, DENIED]),
    ("POST /definitions/accept", "{}", ["200", DENIED, DENIED]),
    ("GET /events", "", ["200"; 3]),
    ("GET /reload", "", ["200"; 3]),
    ("POST /reload", "", ["200", DENIED, DENIED]),
    ("GET /calls", "", ["200", DENIED, DENIED]),
    ("GET /servers", "", ["200"; 3]),
    ("POST /servers", r#"{"id":"x","no":1}"#, ["400 server.entry.invalid", DENIED, DENIED]),
    ("GET /servers/{server}", "", ["200"; 3]),
    ("DELETE /servers/{server}", "", ["409 server.in_file", DENIED, DENIED]),
    ("GET /servers/{server}/log", "", ["200", DENIED, DENIED]),
    ("POST /servers/{server}/disconnect", "", ["200", DENIED, DENIED]),
    ("POST /servers/{server}/restart", "", ["200", DENIED, DENIED]),
    ("POST /servers/{server}/connect", "", ["409 server.connected", DENIED, DENIED]),
    ("POST /servers/{server}/refresh", "", ["200"; 3]),
    ("POST /servers/{server}/disable", "", ["200", DENIED, DENIED]),
    ("POST /servers/{server}/enable", "", ["200", DENIED, DENIED]),
    ("GET /tools", "", ["200"; 3]),
    ("GET /why", "?tool=one__echo", ["200"; 3]),
    ("GET /resources", "", ["200"; 3]),
    ("GET /resources/content", "?uri=x://y", ["404 unknown_resource"; 3]),
    ("GET /prompts", "", ["200"; 3]),
    ("POST /prompts/{name}", "", ["404 unknown_tool"; 3]),
    ("POST /dialogs", "{}", ["201"; 3]),
    ("GET /dialogs", "", ["200"; 3]),
    ("GET /dialogs/{dialog}", "", ["200", "200", HIDDEN]),
    ("GET /dialogs/{dialog}/tools", "", ["200", "200", HIDDEN]),
    (
        "POST /dialogs/{dialog}/calls",
        r#"{"tool":"x"}"#,
        ["404 unknown_tool", "404 unknown_tool", HIDDEN],
    ),
    ("GET /dialogs/{dialog}/calls/{call}", "", ["404 call.unknown", "404 call.unknown", HIDDEN]),
    ("DELETE /dialogs/{dialog}/calls/{call}", "", ["404 call.unknown", "404 call.unknown", HIDDEN]),
    ("PUT /dialogs/{dialog}/servers/{server}", r#"{"enabled":true}"#, ["200", "200", HIDDEN]),
    ("GET /dialogs/{dialog}/leases", "", ["200", "200", HIDDEN]),
    (
        "DELETE /dialogs/{dialog}/leases/{server}",
        "",
        ["404 lease.unknown", "404 lease.unknown", HIDDEN],
    ),
    ("GET /dialogs/{dialog}/reminders", "", ["200", "200", HIDDEN]),
    ("GET /dialogs/{dialog}/requests", "", ["200", "200", HIDDEN]),
    (
        "POST /dialogs/{dialog}/requests/{request}",
        r#"{"result":{}}"#,
        ["404 request.unknown", "404 request.unknown", HIDDEN],
    ),
    ("DELETE /dialogs/{dialog}", "", ["204", "204", HIDDEN]),
    ("GET /nothing", "", ["404 endpoint.unknown"; 3]),
];

const DENIED: &str = "403 denied.owner";
const HIDDEN: &str = "404 dialog.unknown";

#[test]
fn permission_table_covers_every_endpoint() {
    let described = api::openapi();
    let described: BTreeSet<String> = described["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let path = path.strip_prefix("/api/v1").unwrap();
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let listed = PERMISSIONS.iter().map(|(what, ..)| (*what).to_owned());
    assert_eq!(listed.filter(|what| what != "GET /nothing").collect::<BTreeSet<_>>(), described);
}

#[tokio::test]
async fn endpoint_permissions_match_the_table() {
    // A server without a grant looks unknown, so this one is granted to all.
    let granted = json!({"access": {"grant": "open"}});
    let host_fixture = TestHost::new(&[("one", Script::default(), granted)]).await;
    let tokens = TokenStore::in_folder(&host_fixture.path("state"));
    let token = |name: &str, owner| tokens.issue(name, name, owner).unwrap().0;
    let (owner, coder, writer) =
        (token("boss", true), token("coder", false), token("writer", false));
    let api_server = TestApi::over(host_fixture).await;
    for row in &PERMISSIONS {
        let (owners, own, others) = (row.2[0], row.2[1], row.2[2]);
        for (by, expected) in [
            (Credential::Socket, owners),
            (Credential::Token(&owner), owners),
            (Credential::Token(&coder), own),
            (Credential::Token(&writer), others),
            (Credential::Anonymous, "401 token.missing"),
            (Credential::Token("toolcrib_made_up"), "401 token.unknown"),
        ] {
            let dialog = prepare(&api_server, Credential::Token(&coder), row).await;
            assert_eq!(
                outcome(&api_server, by, row, &dialog).await,
                expected,
                "{} by {by:?}",
                row.0
            );
        }
    }
    api_server.close().await;
}

#[tokio::test]
async fn anonymous_local_principal_has_default_permissions() {
    let api_server = TestApi::new(&[("one", Script::default(), json!({}))]).await;
    for row in &PERMISSIONS {
        let dialog = prepare(&api_server, Credential::Socket, row).await;
        assert_eq!(
            outcome(&api_server, Credential::Anonymous, row, &dialog).await,
            row.2[2],
            "{} by {:?}",
            row.0,
            Credential::Anonymous
        );
    }
    api_server.close().await;
}

/// Creates the dialog and connects the server. Returns the dialog id, which is the same for all principals.
async fn prepare(api_server: &TestApi, by: Credential<'_>, row: &Row) -> String {
    if row.0.contains("{dialog}") {
        let made = api_server.send(by, "POST dialogs", Some(json!({"id": "theirs"}))).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    if row.0.ends_with("/connect") || row.0.ends_with("/refresh") {
        api_server.host().enable_server("one", "test").await.unwrap();
        api_server.host().restart_server("one").await.unwrap();
    }
    let all = api_server.host().dialogs();
    let theirs = all.iter().find(|dialog| dialog.id().ends_with("theirs"));
    theirs.map(|dialog| dialog.id().to_owned()).unwrap_or_default()
}

async fn outcome(
    api_server: &TestApi,
    by: Credential<'_>,
    (what, said, _): &Row,
    dialog: &str,
) -> String {
    let path = [
        ("{server}", "one"),
        ("{dialog}", dialog),
        ("{call}", "999999"),
        ("{request}", "1"),
        ("{name}", "n"),
    ];
    let what = path.iter().fold((*what).to_owned(), |what, (sign, name)| what.replace(sign, name));
    let what = what.replacen(" /", " ", 1);
    if what == "GET events" && api_server.status(by, &what).await == 200 {
        return "200".to_owned();
    }
    let (query, body) = if said.starts_with('?') { (*said, "") } else { ("", *said) };
    let body: Option<Value> = serde_json::from_str(body).ok();
    let answer = api_server.send(by, &format!("{what}{query}"), body).await;
    match answer.status < 300 {
        true => answer.status.to_string(),
        false => format!("{} {}", answer.status, answer.status_and_code().1),
    }
}
