//! `toolcrib token`: what tells those apart who come over HTTP.

use serde_json::{Value as Json, json};
use toolcrib::access::DEFAULT_AGENT;
use toolcrib_config::model::security::Protection;
use toolcrib_server::identity::{Issued, Tokens};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args::{NewToken, Token};
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{Table, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, what: &Token) -> Exit {
    let done = settings.state_folder().and_then(|state| {
        let tokens = Tokens::of(&state);
        match what {
            Token::New(new) => issue(settings, out, &tokens, new),
            Token::List => list(settings, out, &tokens),
            Token::Revoke { which } => revoke(settings, out, &tokens, which),
            Token::Open => open(settings, out, &tokens),
        }
    });
    match done {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

/// The secret is told here and nowhere else.
fn issue(settings: &Settings, out: &Out, tokens: &Tokens, new: &NewToken) -> Result<(), String> {
    let agent = new.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let name = new.name.as_deref().unwrap_or(if new.owner { "owner" } else { agent });
    let was_first = !tokens.is_protected();
    let made = tokens.issue(name, agent, new.owner);
    let (secret, issued) = made.map_err(|error| chain(&error))?;
    if settings.json {
        let mut told = to_json(&issued);
        told["token"] = json!(secret);
        out.json(&told);
        return Ok(());
    }
    out.result(&format!("{secret}\n"));
    let rights = if new.owner { " and has your rights" } else { "" };
    out.note(&format!(
        "token {} stands for the agent `{agent}`{rights}; it is shown only now",
        issued.id
    ));
    out.note("a client sends it as `Authorization: Bearer TOKEN`");
    if was_first {
        out.note("from now on nobody comes in over HTTP without one");
    }
    Ok(())
}

fn list(settings: &Settings, out: &Out, tokens: &Tokens) -> Result<(), String> {
    let all = tokens.list().map_err(|error| chain(&error))?;
    if settings.json {
        let all: Vec<Json> = all.iter().map(to_json).collect();
        out.json(&json!({ "tokens": all }));
        return Ok(());
    }
    let mut table = Table::new(&["ID", "NAME", "AGENT", "", "MADE"]);
    for token in all.iter() {
        let owner = if token.owner { "owner" } else { "" };
        let cells = [&token.id, &token.name, &token.agent, owner, &token.created];
        table.row(cells.map(|cell| plain(printable(cell))));
    }
    out.result(&table.text());
    match (all.is_empty(), tokens.is_protected()) {
        (true, true) => out.note(NO_TOKEN_LEFT),
        (true, false) => {
            out.note(
                "there are no tokens: whoever can reach the host on this machine is `default`",
            );
        }
        (false, false) => {
            out.note("the host is open: nobody needs a token (`toolcrib token open`)")
        }
        (false, true) => {}
    }
    Ok(())
}

fn revoke(settings: &Settings, out: &Out, tokens: &Tokens, which: &str) -> Result<(), String> {
    let ended = tokens.revoke(which).map_err(|error| chain(&error))?;
    if ended.is_empty() {
        return Err(format!("there is no token `{which}`; `toolcrib token list` shows all"));
    }
    if settings.json {
        let ended: Vec<Json> = ended.iter().map(to_json).collect();
        out.json(&json!({ "revoked": ended }));
        return Ok(());
    }
    for token in &ended {
        out.result(&format!("{} {} is revoked\n", token.id, printable(&token.name)));
    }
    let is_left = !tokens.list().map_err(|error| chain(&error))?.is_empty();
    if !is_left && tokens.is_protected() {
        out.note(NO_TOKEN_LEFT);
    }
    Ok(())
}

const NO_TOKEN_LEFT: &str = "there are no tokens, and the host stays protected: nobody comes in over HTTP until you \
     make one, or open the host with `toolcrib token open`";

fn open(settings: &Settings, out: &Out, tokens: &Tokens) -> Result<(), String> {
    tokens.open().map_err(|error| chain(&error))?;
    let is_configured = settings.effective().security.protection != Protection::Open;
    if settings.json {
        out.json(&json!({ "open": !is_configured }));
        return Ok(());
    }
    match is_configured {
        true => out.note("the configuration still asks for tokens: see `gateway` in it"),
        false => {
            out.result("the host is open: whoever can reach it on this machine is `default`\n")
        }
    }
    Ok(())
}

/// What is no secret.
fn to_json(token: &Issued) -> Json {
    let Issued { id, name, agent, owner, created, .. } = token;
    json!({"id": id, "name": name, "agent": agent, "owner": owner, "created": created})
}
