//! The Streamable HTTP transport: self-contained modern requests and legacy sessions.

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
    Id, Json, Message, Packet, RawJson, Request, RpcError, TextGuard, Version, build, header,
    method,
};

use super::batch::respond_to_batch;
use super::changes::{self, ChangeFilter};
use super::client::Client;
use super::clients::TooManyClients;
use super::post_response::{PendingResponse, respond};
use super::response_channel::response_channel;
use super::stream_client::too_many_requests_error;
use super::trace_context::with_trace_headers;
use super::{ClientIdentity, DIALOG_HEADER, DIALOG_META_KEY, Gateway, QUEUE_CAPACITY};
use crate::front::Front;
use crate::front::headers::Headers;
use crate::front::request_body;
use crate::front::response::{self, GatewayResponse, HttpResponse};
use crate::front::route;
use crate::identity::{AccessDenied, EntryPoint, Principal};

/// Maximum length of a dialog name.
const MAX_DIALOG_NAME: usize = 128;

/// Error text for a response without a waiting request.
const ORPHANED_RESPONSE: &str =
    "no request waits for this response: it was answered, cancelled or never sent";

/// Query parameters of the endpoint.
#[derive(Debug, Deserialize)]
pub(super) struct AgentQuery {
    agent: Option<String>,
}

/// Serves the endpoint for all servers.
pub(crate) async fn serve(
    front: &Arc<Front>,
    principal: &Principal,
    entry_point: EntryPoint,
    request: HttpRequest,
) -> HttpResponse {
    let Ok(Query(query)) = Query::try_from_uri(request.uri()) else {
        return response::error(StatusCode::BAD_REQUEST, "cannot parse the query string");
    };
    match client_identity(principal, &query, None) {
        Ok(identity) => handle_request(&front.gateway, identity, entry_point, request).await.into(),
        Err(refused) => *refused,
    }
}

/// Like [`serve`], for a POST whose body was already read.
pub(crate) async fn serve_whole(
    front: &Arc<Front>,
    principal: &Principal,
    entry_point: EntryPoint,
    headers: &dyn Headers,
    (body, guard): (Bytes, TextGuard),
) -> GatewayResponse {
    let gateway = &front.gateway;
    let read = client_identity(principal, &AgentQuery { agent: None }, None).and_then(|identity| {
        let packet =
            request_body::parse_message(headers, body, &gateway.message_limits().0, guard)?;
        count_batch(gateway, &identity, entry_point, &packet)?;
        Ok((packet, identity))
    });
    match read {
        Ok((packet, identity)) => handle_post(gateway, identity, headers, packet).await,
        Err(refused) => GatewayResponse::Http(*refused),
    }
}

/// Serves the endpoint of one server, under its original names.
pub(super) async fn serve_one_server(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    Query(query): Query<AgentQuery>,
    Path(server): Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    match client_identity(&principal, &query, Some(server.into())) {
        Ok(identity) => {
            let server = identity.server.as_deref().unwrap_or_default();
            let visible = front.visibility_as(&principal, &identity.agent);
            if !front.host.has_server(server) || !visible.includes(server) {
                return response::error(StatusCode::NOT_FOUND, "unknown server");
            }
            let entry_point = route::entry_point(request.extensions());
            handle_request(&front.gateway, identity, entry_point, request).await.into()
        }
        Err(refused) => *refused,
    }
}

/// The identity that a request acts as, or the error response.
pub(super) fn client_identity(
    principal: &Principal,
    query: &AgentQuery,
    server: Option<Arc<str>>,
) -> Result<ClientIdentity, Box<HttpResponse>> {
    let agent = principal.choose_agent(query.agent.as_deref()).map_err(|refused| {
        let status = match refused {
            AccessDenied::EmptyAgentName => StatusCode::BAD_REQUEST,
            _ => StatusCode::FORBIDDEN,
        };
        Box::new(response::error(status, &refused.to_string()))
    })?;
    let id = Some(Arc::clone(&principal.id));
    Ok(ClientIdentity {
        principal: id,
        agent,
        may_choose_agent: principal.may_choose_agent,
        server,
        dialog: None,
    })
}

async fn handle_request(
    gateway: &Arc<Gateway>,
    identity: ClientIdentity,
    entry_point: EntryPoint,
    request: HttpRequest,
) -> GatewayResponse {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    match head.method {
        Method::POST => match read_message(gateway, &identity, entry_point, headers, body).await {
            Ok(packet) => handle_post(gateway, identity, headers, packet).await,
            Err(refused) => GatewayResponse::Http(*refused),
        },
        Method::GET => open_event_stream(gateway, &identity, headers).into(),
        Method::DELETE => delete_session(gateway, &identity, headers).await.into(),
        _ => response::not_allowed("GET, POST, DELETE").into(),
    }
}

async fn handle_post(
    gateway: &Arc<Gateway>,
    identity: ClientIdentity,
    headers: &dyn Headers,
    packet: Packet,
) -> GatewayResponse {
    let version = headers.text(header::PROTOCOL_VERSION).map(Version::from);
    let is_modern = version.as_ref().is_some_and(Version::is_modern);
    match packet {
        Packet::One(Message::Request(request)) if is_modern || is_modern_request(&request) => {
            handle_modern(gateway, identity, headers, request).await
        }
        Packet::One(Message::Notification(_)) if is_modern => accepted(),
        _ if is_modern => bad_request("expected a request or a notification"),
        _ if matches!(version, Some(Version::Unknown(_))) => {
            bad_request("unsupported protocol version")
        }
        packet => handle_legacy(gateway, identity, headers, packet).await,
    }
}

/// Handles a modern request, which needs no session.
async fn handle_modern(
    gateway: &Arc<Gateway>,
    identity: ClientIdentity,
    headers: &dyn Headers,
    request: Request,
) -> GatewayResponse {
    let checked = check_version_meta(&request).and_then(|()| {
        header::check_standard_headers(&request, |name| headers.text(name))
            .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
    });
    if let Err(error) = checked {
        return error_response(&request, &error);
    }
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    let named = headers.text(DIALOG_HEADER).map(Into::into);
    let named = named.or_else(|| Some(meta.get(DIALOG_META_KEY)?.as_str()?.as_ref().into()));
    let is_name = |name: &Arc<str>| name.len() <= MAX_DIALOG_NAME && !name.trim().is_empty();
    let named: Option<Arc<str>> = named.filter(is_name);
    let client = meta.get(CLIENT_INFO).and_then(|client| client.get("name"));
    let client = client.and_then(|name| name.as_str()).unwrap_or_default();
    let handle = named
        .clone()
        .unwrap_or_else(|| client.chars().take(MAX_DIALOG_NAME).collect::<String>().into());
    let identity = ClientIdentity { dialog: named, ..identity };
    let Ok(client) = gateway.clients.get_or_create(gateway, identity, handle) else {
        return too_many_dialogs(&request);
    };
    match client.check_headers(&request, |name| headers.text(name)).await {
        Ok(()) => run_request(&client, headers, request, true).await,
        Err(error) => error_response(&request, &error),
    }
}

/// Handles messages of a legacy session, and the request that opens one.
async fn handle_legacy(
    gateway: &Arc<Gateway>,
    identity: ClientIdentity,
    headers: &dyn Headers,
    packet: Packet,
) -> GatewayResponse {
    let Some(id) = headers.text(header::SESSION_ID) else {
        return match packet {
            Packet::One(Message::Request(request)) if request.method == method::INITIALIZE => {
                open_session(gateway, identity, headers, request).await
            }
            _ => bad_request("the header `Mcp-Session-Id` is missing"),
        };
    };
    let Some(client) = gateway.clients.session(id, &identity) else {
        return session_not_found().into();
    };
    match packet {
        Packet::One(Message::Request(request)) => {
            run_request(&client, headers, request, false).await
        }
        Packet::One(Message::Notification(notification)) => {
            client.handle_notification(&notification);
            accepted()
        }
        Packet::One(Message::Response(response)) => {
            // SDKs answer a cancelled request with an error, which carries no data to lose.
            let is_error = response.result().is_err();
            match client.deliver_response(response) || is_error {
                true => accepted(),
                // A 404 would tell the client that its session has ended.
                false => response::error(StatusCode::CONFLICT, ORPHANED_RESPONSE).into(),
            }
        }
        batch => match respond_to_batch(&client, accepts_events(headers), batch).await {
            Some(answer) => answer,
            None => accepted(),
        },
    }
}

async fn open_session(
    gateway: &Arc<Gateway>,
    identity: ClientIdentity,
    headers: &dyn Headers,
    request: Request,
) -> GatewayResponse {
    let client = Client::new(gateway, identity);
    let id = request.id.clone();
    let answer = run_request(&client, headers, request, false).await;
    if client.legacy_session().is_none() {
        return answer;
    }
    match gateway.clients.register_session(gateway, &client) {
        Ok(session) => response::with_session_id(answer.into(), &session).into(),
        Err(TooManyClients) => {
            let error =
                RpcError::internal("too many sessions (gateway.limits.sessions); end one first");
            too_many_requests(&id, &error)
        }
    }
}

/// Runs one request of a client.
async fn run_request(
    client: &Arc<Client>,
    headers: &dyn Headers,
    request: Request,
    is_modern: bool,
) -> GatewayResponse {
    let (request, accepts_events) =
        (with_trace_headers(headers, &request).unwrap_or(request), accepts_events(headers));
    // The response never ends and consists only of events.
    if request.method == method::SUBSCRIPTIONS_LISTEN && !accepts_events {
        return response::empty(StatusCode::NOT_ACCEPTABLE).into();
    }
    if !client.has_capacity() {
        return too_many_requests(&request.id, &too_many_requests_error());
    }
    let (out, notifications) = response_channel();
    let response = client.response_future(request, out);
    let answer = Box::pin(async move {
        let message = response.await?;
        Some((response_status(&message, is_modern), message))
    });
    respond(PendingResponse {
        answer,
        notifications,
        accepts_events,
        activity: client.activity_guard(),
        continues_detached: !is_modern,
    })
    .await
}

/// Opens the stream for notifications of a legacy session.
fn open_event_stream(
    gateway: &Arc<Gateway>,
    identity: &ClientIdentity,
    headers: &dyn Headers,
) -> HttpResponse {
    let Some(id) = headers.text(header::SESSION_ID) else {
        return response::not_allowed("POST");
    };
    let Some(client) = gateway.clients.session(id, identity) else {
        return session_not_found();
    };
    if !accepts_events(headers) {
        return response::empty(StatusCode::NOT_ACCEPTABLE);
    }
    let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
    let open = client.activity_guard();
    let gateway = Arc::clone(gateway);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _open = open;
        tokio::select! {
            () = changes::forward_changes(Arc::clone(&client), ChangeFilter::All, out.into()) => {}
            () = client.wait_ended() => {}
            () = gateway.wait_closing() => {}
        }
    });
    response::events(None, queue, tasks)
}

async fn delete_session(
    gateway: &Arc<Gateway>,
    identity: &ClientIdentity,
    headers: &dyn Headers,
) -> HttpResponse {
    let Some(id) = headers.text(header::SESSION_ID) else {
        return response::not_allowed("POST");
    };
    let own = gateway.clients.session(id, identity).and_then(|_| gateway.clients.remove(id));
    match own {
        Some(client) => {
            client.close().await;
            response::empty(StatusCode::NO_CONTENT)
        }
        None => response::empty(StatusCode::NOT_FOUND),
    }
}

/// Reads a posted message, or returns the error response.
pub(super) async fn read_message(
    gateway: &Gateway,
    identity: &ClientIdentity,
    entry_point: EntryPoint,
    headers: &dyn Headers,
    body: HttpBody,
) -> Result<Packet, Box<HttpResponse>> {
    let (limits, read_timeout) = gateway.message_limits();
    let reservation = gateway.reservation(identity.may_choose_agent, &identity.agent);
    let packet =
        request_body::read_message(headers, body, &limits, read_timeout, reservation).await?;
    count_batch(gateway, identity, entry_point, &packet)?;
    Ok(packet)
}

/// Counts the messages of a batch; the first one was counted with the HTTP request.
fn count_batch(
    gateway: &Gateway,
    identity: &ClientIdentity,
    entry_point: EntryPoint,
    packet: &Packet,
) -> Result<(), Box<HttpResponse>> {
    if let Packet::Batch(messages) = packet
        && entry_point.is_rate_limited()
    {
        let counted = messages.iter().skip(1).try_for_each(|_| gateway.count_request(identity));
        counted.map_err(|refused| Box::new(response::too_many_requests(&refused.to_string())))?;
    }
    Ok(())
}

fn is_modern_request(request: &Request) -> bool {
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    meta.get(PROTOCOL_VERSION).is_some() || request.method == method::DISCOVER
}

/// A request that the header declares as modern must name the version in its body, too.
fn check_version_meta(request: &Request) -> Result<(), RpcError> {
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    match meta.get(PROTOCOL_VERSION) {
        Some(_) => Ok(()),
        None => {
            Err(RpcError::invalid_params(format!("`{PROTOCOL_VERSION}` is missing in `_meta`")))
        }
    }
}

/// The HTTP status of a single message. Errors have their own status in the modern era.
fn response_status(message: &RawJson, is_modern: bool) -> StatusCode {
    if !is_modern {
        return StatusCode::OK;
    }
    let code = message.json().get("error").and_then(|error| error.get("code")?.as_i64());
    code.map_or(StatusCode::OK, |code| response::status_for_error(&RpcError::new(code, "")))
}

fn too_many_dialogs(request: &Request) -> GatewayResponse {
    too_many_requests(
        &request.id,
        &RpcError::internal("too many dialogs (gateway.limits.sessions); end one first"),
    )
}

fn too_many_requests(id: &Id, error: &RpcError) -> GatewayResponse {
    GatewayResponse::Message(StatusCode::TOO_MANY_REQUESTS, build::error(Some(id), error))
}

fn error_response(request: &Request, error: &RpcError) -> GatewayResponse {
    GatewayResponse::Message(
        response::status_for_error(error),
        build::error(Some(&request.id), error),
    )
}

fn bad_request(reason: &str) -> GatewayResponse {
    response::error(StatusCode::BAD_REQUEST, reason).into()
}

fn session_not_found() -> HttpResponse {
    response::error(StatusCode::NOT_FOUND, "unknown session: it has ended or never existed")
}

fn accepted() -> GatewayResponse {
    response::empty(StatusCode::ACCEPTED).into()
}

fn accepts_events(headers: &dyn Headers) -> bool {
    let accepted = headers.text(ACCEPT.as_str());
    accepted.is_none_or(|kinds| {
        // Compares the usual spelling first, because searching is slow.
        kinds == "application/json, text/event-stream"
            || kinds.contains("text/event-stream")
            || kinds.contains("*/*")
    })
}
