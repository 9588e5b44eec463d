//! `toolcrib token`: manages the tokens of HTTP clients.

use serde_json::{Value as Json, json};
use toolcrib::internal::DEFAULT_AGENT;
use toolcrib_config::model::security::GatewayProtection;
use toolcrib_server::identity::{IssuedToken, TokenStore};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args::{NewTokenArgs, TokenCommand};
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal_text::{Table, plain_cell, printable};

pub(crate) fn run(settings: &Settings, out: &Output, command: &TokenCommand) -> Exit {
    let done = settings.state_folder().and_then(|state| {
        let tokens = TokenStore::in_folder(&state);
        match command {
            TokenCommand::New(new) => issue_token(settings, out, &tokens, new),
            TokenCommand::List => list_tokens(settings, out, &tokens),
            TokenCommand::Revoke { which } => revoke_tokens(settings, out, &tokens, which),
            TokenCommand::Open => open_host(settings, out, &tokens),
        }
    });
    match done {
        Ok(()) => Exit::Done,
        Err(text) => {
            out.print_error(&text);
            Exit::Failed
        }
    }
}

/// Creates a token and prints its secret, which is not stored.
fn issue_token(
    settings: &Settings,
    out: &Output,
    tokens: &TokenStore,
    new: &NewTokenArgs,
) -> Result<(), String> {
    let agent = new.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let name = new.name.as_deref().unwrap_or(if new.owner { "owner" } else { agent });
    let was_first = !tokens.is_protected();
    let made = tokens.issue(name, agent, new.owner);
    let (secret, issued) = made.map_err(|error| chain(&error))?;
    if settings.json {
        let mut document = token_json(&issued);
        document["token"] = json!(secret);
        out.print_json(&document);
        return Ok(());
    }
    out.print_result(&format!("{secret}\n"));
    let rights = if new.owner { " and has your rights" } else { "" };
    out.print_note(&format!(
        "token {} authenticates the agent `{agent}`{rights}; its secret is shown only once",
        issued.id
    ));
    out.print_note("a client sends it as `Authorization: Bearer TOKEN`");
    if was_first {
        out.print_note("from now on HTTP clients need a token");
    }
    Ok(())
}

fn list_tokens(settings: &Settings, out: &Output, tokens: &TokenStore) -> Result<(), String> {
    let all = tokens.list().map_err(|error| chain(&error))?;
    if settings.json {
        let all: Vec<Json> = all.iter().map(token_json).collect();
        out.print_json(&json!({ "tokens": all }));
        return Ok(());
    }
    let mut table = Table::new(&["ID", "NAME", "AGENT", "", "MADE"]);
    for token in all.iter() {
        let owner = if token.owner { "owner" } else { "" };
        let cells = [&token.id, &token.name, &token.agent, owner, &token.created];
        table.add_row(cells.map(|cell| plain_cell(printable(cell))));
    }
    out.print_result(&table.render());
    match (all.is_empty(), tokens.is_protected()) {
        (true, true) => out.print_note(NO_TOKEN_LEFT),
        (true, false) => {
            out.print_note(
                "there are no tokens: every client on this machine is the agent `default`",
            );
        }
        (false, false) => {
            out.print_note("the host is open: no client needs a token (`toolcrib token open`)")
        }
        (false, true) => {}
    }
    Ok(())
}

fn revoke_tokens(
    settings: &Settings,
    out: &Output,
    tokens: &TokenStore,
    which: &str,
) -> Result<(), String> {
    let ended = tokens.revoke(which).map_err(|error| chain(&error))?;
    if ended.is_empty() {
        return Err(format!("there is no token `{which}`; `toolcrib token list` shows all"));
    }
    if settings.json {
        let ended: Vec<Json> = ended.iter().map(token_json).collect();
        out.print_json(&json!({ "revoked": ended }));
        return Ok(());
    }
    for token in &ended {
        out.print_result(&format!("{} {} is revoked\n", token.id, printable(&token.name)));
    }
    let is_left = !tokens.list().map_err(|error| chain(&error))?.is_empty();
    if !is_left && tokens.is_protected() {
        out.print_note(NO_TOKEN_LEFT);
    }
    Ok(())
}

const NO_TOKEN_LEFT: &str = "there are no tokens, and the host stays protected: no HTTP client is admitted until you \
     create one, or open the host with `toolcrib token open`";

fn open_host(settings: &Settings, out: &Output, tokens: &TokenStore) -> Result<(), String> {
    tokens.allow_anonymous().map_err(|error| chain(&error))?;
    let is_configured = settings.compile_trusted().security.protection != GatewayProtection::Open;
    if settings.json {
        out.print_json(&json!({ "open": !is_configured }));
        return Ok(());
    }
    match is_configured {
        true => {
            out.print_note("the configuration still requires tokens: see its `gateway` section")
        }
        false => out.print_result(
            "the host is open: every client on this machine is the agent `default`\n",
        ),
    }
    Ok(())
}

/// The public members of a token.
fn token_json(token: &IssuedToken) -> Json {
    let IssuedToken { id, name, agent, owner, created, .. } = token;
    json!({"id": id, "name": name, "agent": agent, "owner": owner, "created": created})
}
