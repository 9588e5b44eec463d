//! What an agent sees: tools and why, resources, prompts.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{Dialog, Turn};
use toolcrib_upstream::conn;
use toolcrib_wire::{ObjectWriter, Raw};

use super::asked::{At, Header, Said, Sent, Who};
use super::fail::Fail;
use super::scope;
use super::settle::{Wait, is_settled};
use super::shape::{
    Gates, PromptArguments, PromptShape, Prompts, ResourceShape, Resources, TemplateShape,
    ToolShape, Tools,
};
use crate::front::Front;
use crate::front::reply::{self, Reply};
use crate::identity::Principal;

/// Whose tools, and how long they are waited for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ToolsAsked {
    /// Only those of one server.
    server: Option<String>,
    agent: Option<String>,
    dialog: Option<String>,
    /// `true`: until each server has told what it offers or has failed once; `false`: what is known now.
    wait: Option<bool>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct ListAsked {
    agent: Option<String>,
    dialog: Option<String>,
    wait: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct WhyAsked {
    tool: String,
    agent: Option<String>,
    dialog: Option<String>,
    wait: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ReadAsked {
    uri: String,
    /// Where several servers have the URI.
    server: Option<String>,
    agent: Option<String>,
    dialog: Option<String>,
    wait: Option<bool>,
}

pub(crate) async fn tools(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<ToolsAsked>,
) -> Result<Json<Tools>, Fail> {
    let dialog =
        scope::dialog(&front, &who, asked.agent.as_deref(), asked.dialog.or(header)).await?;
    listed(&front, &who, &dialog, asked.server.as_deref(), Wait::of(asked.wait)).await.map(Json)
}

/// The tools that a dialog sees, of one server or of all.
pub(crate) async fn listed(
    front: &Front,
    who: &Principal,
    dialog: &Dialog,
    server: Option<&str>,
    wait: Wait,
) -> Result<Tools, Fail> {
    let host = &front.host;
    let visible = || front.visible_as(who, dialog.agent());
    // A request for a server that looks unknown waits no longer than one for a server that is unknown.
    let is_enough = |turn: &Turn| {
        server.is_some_and(|name| {
            is_settled(host, turn, name) || (turn.version() > 0 && !visible().includes(name))
        })
    };
    let turn = wait.turn(dialog, is_enough).await;
    let mut tools = turn.tools();
    if let Some(name) = server {
        let key = scope::server(front, &visible(), name)?.key;
        tools.retain(|tool| tool.server().is_some_and(|of| of.key == key));
    }
    Ok(Tools {
        version: turn.version(),
        tools: tools.iter().map(|tool| ToolShape::from(&**tool)).collect(),
        problems: scope::problems(front, &visible()),
    })
}

pub(crate) async fn why(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<WhyAsked>,
) -> Result<Json<Gates>, Fail> {
    let dialog =
        scope::dialog(&front, &who, asked.agent.as_deref(), asked.dialog.or(header)).await?;
    // A tool may be known from an earlier time while its server is still coming.
    let seen = |turn: &Turn| {
        turn.why(&asked.tool).shown_to(&front.visible_as(&who, dialog.agent()), &asked.tool)
    };
    let is_enough = |turn: &Turn| {
        let why = seen(turn);
        let server = why.server.as_deref().and_then(|key| front.host.server(key).ok());
        why.gates.is_some()
            && why.left_out.is_none()
            && server.is_none_or(|server| server.state != conn::State::Connecting)
    };
    let turn = Wait::of(asked.wait).turn(&dialog, is_enough).await;
    Ok(Json(Gates::of(&seen(&turn), dialog.agent())))
}

pub(crate) async fn resources(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<ListAsked>,
) -> Result<Json<Resources>, Fail> {
    let dialog =
        scope::dialog(&front, &who, asked.agent.as_deref(), asked.dialog.or(header)).await?;
    let turn = Wait::of(asked.wait).turn(&dialog, |_| false).await;
    Ok(Json(Resources {
        version: turn.version(),
        resources: turn.resources().iter().map(|it| ResourceShape::from(&**it)).collect(),
        templates: turn.templates().iter().map(|it| TemplateShape::from(&**it)).collect(),
    }))
}

/// The result of `resources/read`, byte for byte.
pub(crate) async fn content(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<ReadAsked>,
) -> Result<Reply, Fail> {
    let dialog =
        scope::dialog(&front, &who, asked.agent.as_deref(), asked.dialog.or(header)).await?;
    let is_listed = |turn: &Turn| {
        asked.server.is_none() && turn.resources().iter().any(|it| it.uri() == asked.uri)
    };
    let turn = Wait::of(asked.wait).turn(&dialog, is_listed).await;
    let read = turn.read(&asked.uri, asked.server.as_deref()).await;
    read.map(|raw| reply::json(StatusCode::OK, &raw)).map_err(|error| Fail::from(&error))
}

pub(crate) async fn prompts(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    Said(asked): Said<ListAsked>,
) -> Result<Json<Prompts>, Fail> {
    let dialog =
        scope::dialog(&front, &who, asked.agent.as_deref(), asked.dialog.or(header)).await?;
    let turn = Wait::of(asked.wait).turn(&dialog, |_| false).await;
    let prompts = turn.prompts().iter().map(|it| PromptShape::from(&**it)).collect();
    Ok(Json(Prompts { version: turn.version(), prompts }))
}

/// The result of `prompts/get`, byte for byte.
pub(crate) async fn prompt(
    State(front): State<Arc<Front>>,
    Who(who): Who,
    Header(header): Header,
    At(name): At<String>,
    Said(asked): Said<ListAsked>,
    Sent(sent, _held): Sent<PromptArguments>,
) -> Result<Reply, Fail> {
    let dialog =
        scope::dialog(&front, &who, asked.agent.as_deref(), asked.dialog.or(header)).await?;
    let is_listed = |turn: &Turn| turn.prompts().iter().any(|it| it.name() == name);
    let turn = Wait::of(asked.wait).turn(&dialog, is_listed).await;
    let got = turn.prompt(&name, filled_in(&sent)).await;
    got.map(|raw| reply::json(StatusCode::OK, &raw)).map_err(|error| Fail::from(&error))
}

fn filled_in(sent: &PromptArguments) -> Raw {
    let empty = ObjectWriter::new();
    sent.arguments.iter().fold(empty, |writer, (name, text)| writer.string(name, text)).finish()
}
