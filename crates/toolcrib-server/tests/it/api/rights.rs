//! Who may do what: every endpoint by every kind of principal, in one table.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcrib_server::api;
use toolcrib_server::identity::Tokens;
use toolcrib_testkit::scripted::Script;

use super::{By, Crib};
use crate::scene::Scene;

/// What the owner gets, what the principal gets whose dialog it is, and what everybody else who is let in gets.
type Row = (&'static str, &'static str, [&'static str; 3]);

/// `{…}` in a path stand for a server or dialog that is there. Codes are those of errors.
const TABLE: [Row; 41] = [
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
fn the_table_has_every_endpoint() {
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
    let listed = TABLE.iter().map(|(what, ..)| (*what).to_owned());
    assert_eq!(listed.filter(|what| what != "GET /nothing").collect::<BTreeSet<_>>(), described);
}

#[tokio::test]
async fn each_principal_may_do_what_the_table_says() {
    // A server without a grant looks unknown; here everybody has one.
    let granted = json!({"access": {"grant": "open"}});
    let scene = Scene::new(&[("one", Script::default(), granted)]).await;
    let tokens = Tokens::of(&scene.path("state"));
    let token = |name: &str, owner| tokens.issue(name, name, owner).unwrap().0;
    let (owner, coder, writer) =
        (token("boss", true), token("coder", false), token("writer", false));
    let crib = Crib::of(scene).await;
    for row in &TABLE {
        let (owners, own, others) = (row.2[0], row.2[1], row.2[2]);
        for (by, expected) in [
            (By::Socket, owners),
            (By::Token(&owner), owners),
            (By::Token(&coder), own),
            (By::Token(&writer), others),
            (By::Tcp, "401 token.missing"),
            (By::Token("toolcrib_made_up"), "401 token.unknown"),
        ] {
            let dialog = prepare(&crib, By::Token(&coder), row).await;
            assert_eq!(outcome(&crib, by, row, &dialog).await, expected, "{} by {by:?}", row.0);
        }
    }
    crib.end().await;
}

#[tokio::test]
async fn everybody_of_this_machine_is_nobody_special() {
    let crib = Crib::new(&[("one", Script::default(), json!({}))]).await;
    for row in &TABLE {
        let dialog = prepare(&crib, By::Socket, row).await;
        assert_eq!(
            outcome(&crib, By::Tcp, row, &dialog).await,
            row.2[2],
            "{} by {:?}",
            row.0,
            By::Tcp
        );
    }
    crib.end().await;
}

/// The dialog is there, and the server is up. The dialog's id, which holds for everybody.
async fn prepare(crib: &Crib, by: By<'_>, row: &Row) -> String {
    if row.0.contains("{dialog}") {
        let made = crib.ask(by, "POST dialogs", Some(json!({"id": "theirs"}))).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    if row.0.ends_with("/connect") || row.0.ends_with("/refresh") {
        crib.host().enable("one", "test").await.unwrap();
        crib.host().restart("one").await.unwrap();
    }
    let all = crib.host().dialogs();
    let theirs = all.iter().find(|dialog| dialog.id().ends_with("theirs"));
    theirs.map(|dialog| dialog.id().to_owned()).unwrap_or_default()
}

async fn outcome(crib: &Crib, by: By<'_>, (what, said, _): &Row, dialog: &str) -> String {
    let path = [
        ("{server}", "one"),
        ("{dialog}", dialog),
        ("{call}", "999999"),
        ("{request}", "1"),
        ("{name}", "n"),
    ];
    let what = path.iter().fold((*what).to_owned(), |what, (sign, name)| what.replace(sign, name));
    let what = what.replacen(" /", " ", 1);
    if what == "GET events" && crib.status(by, &what).await == 200 {
        return "200".to_owned();
    }
    let (query, body) = if said.starts_with('?') { (*said, "") } else { ("", *said) };
    let body: Option<Value> = serde_json::from_str(body).ok();
    let answer = crib.ask(by, &format!("{what}{query}"), body).await;
    match answer.status < 300 {
        true => answer.status.to_string(),
        false => format!("{} {}", answer.status, answer.failure().1),
    }
}
