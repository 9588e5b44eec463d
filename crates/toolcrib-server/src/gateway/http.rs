//! Streamable HTTP: requests of the modern era that stand for themselves, and sessions of the legacy one.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body as HttpBody;
use axum::extract::{Path, Query, Request as HttpRequest, State};
use bytes::Bytes;
use hyper::header::ACCEPT;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_wire::meta::{CLIENT_INFO, PROTOCOL_VERSION};
use toolcrib_wire::{
    Held, Id, Json, Message, Packet, Raw, Request, RpcError, Version, build, header, method,
};

use super::batch::together;
use super::changes::{self, Wants};
use super::client::Client;
use super::clients::TooMany;
use super::outlet::outlet;
use super::respond::{Work, respond};
use super::stream::too_many;
use super::traced::traced;
use super::{DIALOG, DIALOG_HEADER, Gateway, QUEUE, Who};
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::posted;
use crate::front::reply::{self, Answered, Reply};
use crate::front::route;
use crate::identity::{Door, Principal, Refused};

/// The longest name of a dialog.
const HANDLE: usize = 128;

/// Why an answer is refused.
const UNWANTED: &str =
    "nobody waits for this answer: the request was answered, cancelled or never made";

/// What an address may say besides its path.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    agent: Option<String>,
}

/// Everything that the principal may see.
pub(crate) async fn all(
    front: &Arc<Front>,
    principal: &Principal,
    door: Door,
    request: HttpRequest,
) -> Reply {
    let Ok(Query(asked)) = Query::try_from_uri(request.uri()) else {
        return reply::refuse(StatusCode::BAD_REQUEST, "the query of the address cannot be read");
    };
    match who(principal, &asked, None) {
        Ok(who) => answer(&front.gateway, who, door, request).await.into(),
        Err(refused) => *refused,
    }
}

/// The same for a message that was posted and is here as a whole.
pub(crate) async fn whole(
    front: &Arc<Front>,
    principal: &Principal,
    door: Door,
    headers: &dyn Headers,
    (body, held): (Bytes, Held),
) -> Answered {
    let gateway = &front.gateway;
    let read = who(principal, &Asked { agent: None }, None).and_then(|who| {
        let packet = posted::understand(headers, body, &gateway.bounds().0, held)?;
        count(gateway, &who, door, &packet)?;
        Ok((packet, who))
    });
    match read {
        Ok((packet, who)) => post(gateway, who, headers, packet).await,
        Err(refused) => Answered::Reply(*refused),
    }
}

/// What one server has, under its own names.
pub(super) async fn one(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<Asked>,
    Path(server): Path<String>,
    request: HttpRequest,
) -> Reply {
    match who(&principal, &asked, Some(server.into())) {
        Ok(who) => {
            let server = who.server.as_deref().unwrap_or_default();
            let visible = front.visible_as(&principal, &who.agent);
            if !front.host.has_server(server) || !visible.includes(server) {
                return reply::refuse(StatusCode::NOT_FOUND, "there is no such server");
            }
            let door = route::door(request.extensions());
            answer(&front.gateway, who, door, request).await.into()
        }
        Err(refused) => *refused,
    }
}

/// As whom somebody asks, or why he may not.
pub(super) fn who(
    principal: &Principal,
    asked: &Asked,
    server: Option<Arc<str>>,
) -> Result<Who, Box<Reply>> {
    let agent = principal.agent(asked.agent.as_deref()).map_err(|refused| {
        let status = match refused {
            Refused::NoAgent => StatusCode::BAD_REQUEST,
            _ => StatusCode::FORBIDDEN,
        };
        Box::new(reply::refuse(status, &refused.to_string()))
    })?;
    let id = Some(Arc::clone(&principal.id));
    Ok(Who { principal: id, agent, chooses: principal.chooses, server, dialog: None })
}

async fn answer(gateway: &Arc<Gateway>, who: Who, door: Door, request: HttpRequest) -> Answered {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    match head.method {
        Method::POST => match read(gateway, &who, door, headers, body).await {
            Ok(packet) => post(gateway, who, headers, packet).await,
            Err(refused) => Answered::Reply(*refused),
        },
        Method::GET => listen(gateway, &who, headers).into(),
        Method::DELETE => delete(gateway, &who, headers).await.into(),
        _ => reply::not_allowed("GET, POST, DELETE").into(),
    }
}

async fn post(gateway: &Arc<Gateway>, who: Who, headers: &dyn Headers, packet: Packet) -> Answered {
    let version = headers.text(header::PROTOCOL_VERSION).map(Version::from);
    let is_modern = version.as_ref().is_some_and(Version::is_modern);
    match packet {
        Packet::One(Message::Request(request)) if is_modern || says_modern(&request) => {
            modern(gateway, who, headers, request).await
        }
        Packet::One(Message::Notification(_)) if is_modern => accepted(),
        _ if is_modern => bad("a request or a notification is wanted"),
        _ if matches!(version, Some(Version::Unknown(_))) => {
            bad("this protocol version is not spoken here")
        }
        packet => legacy(gateway, who, headers, packet).await,
    }
}

/// A request that stands for itself.
async fn modern(
    gateway: &Arc<Gateway>,
    who: Who,
    headers: &dyn Headers,
    request: Request,
) -> Answered {
    let checked = says_all(&request).and_then(|()| {
        header::check_standard(&request, |name| headers.text(name))
            .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
    });
    if let Err(error) = checked {
        return refused(&request, &error);
    }
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    let named = headers.text(DIALOG_HEADER).map(Into::into);
    let named = named.or_else(|| Some(meta.get(DIALOG)?.as_str()?.as_ref().into()));
    let is_name = |name: &Arc<str>| name.len() <= HANDLE && !name.trim().is_empty();
    let named: Option<Arc<str>> = named.filter(is_name);
    let client = meta.get(CLIENT_INFO).and_then(|client| client.get("name"));
    let client = client.and_then(|name| name.as_str()).unwrap_or_default();
    let handle =
        named.clone().unwrap_or_else(|| client.chars().take(HANDLE).collect::<String>().into());
    let who = Who { dialog: named, ..who };
    let Ok(client) = gateway.clients.handle(gateway, who, handle) else {
        return full(&request);
    };
    match client.check_headers(&request, |name| headers.text(name)).await {
        Ok(()) => run(&client, headers, request, true).await,
        Err(error) => refused(&request, &error),
    }
}

/// Whatever belongs to a session, or opens one.
async fn legacy(
    gateway: &Arc<Gateway>,
    who: Who,
    headers: &dyn Headers,
    packet: Packet,
) -> Answered {
    let Some(id) = headers.text(header::SESSION_ID) else {
        return match packet {
            Packet::One(Message::Request(request)) if request.method == method::INITIALIZE => {
                open(gateway, who, headers, request).await
            }
            _ => bad("the header `Mcp-Session-Id` is missing"),
        };
    };
    let Some(client) = gateway.clients.session(id, &who) else {
        return no_session().into();
    };
    match packet {
        Packet::One(Message::Request(request)) => run(&client, headers, request, false).await,
        Packet::One(Message::Notification(told)) => {
            client.heed(&told);
            accepted()
        }
        Packet::One(Message::Response(response)) => {
            // SDKs answer a question that was cancelled with an error: there is no answer in it that could be lost.
            let is_error = response.answer().is_err();
            match client.answered(response) || is_error {
                true => accepted(),
                // Not 404, which would tell the client that its session has ended.
                false => reply::refuse(StatusCode::CONFLICT, UNWANTED).into(),
            }
        }
        batch => match together(&client, takes_events(headers), batch).await {
            Some(answer) => answer,
            None => accepted(),
        },
    }
}

async fn open(
    gateway: &Arc<Gateway>,
    who: Who,
    headers: &dyn Headers,
    request: Request,
) -> Answered {
    let client = Client::new(gateway, who);
    let id = request.id.clone();
    let answer = run(&client, headers, request, false).await;
    if client.opened().is_none() {
        return answer;
    }
    match gateway.clients.keep(gateway, &client) {
        Ok(session) => reply::with_session(answer.into(), &session).into(),
        Err(TooMany) => {
            let error = RpcError::internal("too many sessions; end one, or wait until one ends");
            too_much(&id, &error)
        }
    }
}

/// One request of a client.
async fn run(
    client: &Arc<Client>,
    headers: &dyn Headers,
    request: Request,
    is_modern: bool,
) -> Answered {
    let (request, streams) = (traced(headers, &request).unwrap_or(request), takes_events(headers));
    // The answer to that has no end, and is all events.
    if request.method == method::SUBSCRIPTIONS_LISTEN && !streams {
        return reply::empty(StatusCode::NOT_ACCEPTABLE).into();
    }
    if !client.has_room() {
        return too_much(&request.id, &too_many());
    }
    let (out, heard) = outlet();
    let answering = client.answering(request, out);
    let answer = Box::pin(async move {
        let message = answering.await?;
        Some((status(&message, is_modern), message))
    });
    respond(Work { answer, heard, streams, open: client.busy(), outlives: !is_modern }).await
}

/// The stream on which a session of the legacy era is told what it did not ask for.
fn listen(gateway: &Arc<Gateway>, who: &Who, headers: &dyn Headers) -> Reply {
    let Some(id) = headers.text(header::SESSION_ID) else {
        return reply::not_allowed("POST");
    };
    let Some(client) = gateway.clients.session(id, who) else {
        return no_session();
    };
    if !takes_events(headers) {
        return reply::empty(StatusCode::NOT_ACCEPTABLE);
    }
    let (out, queue) = mpsc::channel(QUEUE);
    let open = client.busy();
    let gateway = Arc::clone(gateway);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _open = open;
        tokio::select! {
            () = changes::tell(Arc::clone(&client), Wants::All, out.into()) => {}
            () = client.gone() => {}
            () = gateway.closing() => {}
        }
    });
    reply::events(None, queue, tasks)
}

async fn delete(gateway: &Arc<Gateway>, who: &Who, headers: &dyn Headers) -> Reply {
    let Some(id) = headers.text(header::SESSION_ID) else {
        return reply::not_allowed("POST");
    };
    let own = gateway.clients.session(id, who).and_then(|_| gateway.clients.remove(id));
    match own {
        Some(client) => {
            client.end().await;
            reply::empty(StatusCode::NO_CONTENT)
        }
        None => reply::empty(StatusCode::NOT_FOUND),
    }
}

/// What was posted, or why it is not taken.
pub(super) async fn read(
    gateway: &Gateway,
    who: &Who,
    door: Door,
    headers: &dyn Headers,
    body: HttpBody,
) -> Result<Packet, Box<Reply>> {
    let (limits, longest) = gateway.bounds();
    let held = gateway.reservation(who.chooses, &who.agent);
    let packet = posted::read(headers, body, &limits, longest, held).await?;
    count(gateway, who, door, &packet)?;
    Ok(packet)
}

/// The messages of a batch count one by one; the first was counted as the request that brought them.
fn count(gateway: &Gateway, who: &Who, door: Door, packet: &Packet) -> Result<(), Box<Reply>> {
    if let Packet::Batch(messages) = packet
        && door.is_paced()
    {
        let counted = messages.iter().skip(1).try_for_each(|_| gateway.count(who));
        counted.map_err(|refused| Box::new(reply::later(&refused.to_string())))?;
    }
    Ok(())
}

fn says_modern(request: &Request) -> bool {
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    meta.get(PROTOCOL_VERSION).is_some() || request.method == method::DISCOVER
}

/// The header alone makes a request modern; then the body has to say the same.
fn says_all(request: &Request) -> Result<(), RpcError> {
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    match meta.get(PROTOCOL_VERSION) {
        Some(_) => Ok(()),
        None => Err(RpcError::invalid_params(format!("`_meta` has no `{PROTOCOL_VERSION}`"))),
    }
}

/// In the modern era an error that is alone has a status of its own.
fn status(message: &Raw, is_modern: bool) -> StatusCode {
    if !is_modern {
        return StatusCode::OK;
    }
    let code = message.json().get("error").and_then(|error| error.get("code")?.as_i64());
    code.map_or(StatusCode::OK, |code| reply::status_of(&RpcError::new(code, "")))
}

fn full(request: &Request) -> Answered {
    too_much(&request.id, &RpcError::internal("too many dialogs; end one, or wait until one ends"))
}

fn too_much(id: &Id, error: &RpcError) -> Answered {
    Answered::Message(StatusCode::TOO_MANY_REQUESTS, build::error(Some(id), error))
}

fn refused(request: &Request, error: &RpcError) -> Answered {
    Answered::Message(reply::status_of(error), build::error(Some(&request.id), error))
}

fn bad(reason: &str) -> Answered {
    reply::refuse(StatusCode::BAD_REQUEST, reason).into()
}

fn no_session() -> Reply {
    reply::refuse(StatusCode::NOT_FOUND, "there is no such session any more")
}

fn accepted() -> Answered {
    reply::empty(StatusCode::ACCEPTED).into()
}

fn takes_events(headers: &dyn Headers) -> bool {
    let accepted = headers.text(ACCEPT.as_str());
    accepted.is_none_or(|kinds| {
        // As every client writes it; looking for words in a text is dear.
        kinds == "application/json, text/event-stream"
            || kinds.contains("text/event-stream")
            || kinds.contains("*/*")
    })
}
