//! The deprecated HTTP+SSE transport: one event stream, and messages that are posted beside it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, Request as HttpRequest, State};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_wire::{MalformedMessage, Message};

use super::client::Client;
use super::clients::{ClientTable, StreamSession};
use super::stream_client::StreamClient;
use super::streamable_http::{AgentQuery, client_identity, read_message};
use super::{ClientIdentity, Gateway, QUEUE_CAPACITY};
use crate::front::Front;
use crate::front::response::{self, HttpResponse};
use crate::front::route::entry_point;
use crate::identity::Principal;
use crate::message_stream::malformed_error;

/// Query of a posted message.
#[derive(Debug, Deserialize)]
pub(super) struct SessionQuery {
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

pub(super) async fn serve(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    Query(query): Query<AgentQuery>,
    Query(posted): Query<SessionQuery>,
    request: HttpRequest,
) -> HttpResponse {
    let identity = match client_identity(&principal, &query, None) {
        Ok(identity) => identity,
        Err(refused) => return *refused,
    };
    match (request.method(), posted.session) {
        (&Method::GET, _) => open_stream(&front.gateway, identity),
        (&Method::POST, Some(session)) => {
            post_message(&front.gateway, &identity, &session, request).await
        }
        (&Method::POST, None) => {
            response::error(StatusCode::BAD_REQUEST, "the query parameter `sessionId` is missing")
        }
        _ => response::not_allowed("GET, POST"),
    }
}

/// Opens the stream, and sends the address for messages as its first event.
fn open_stream(gateway: &Arc<Gateway>, identity: ClientIdentity) -> HttpResponse {
    let client = Client::new(gateway, identity);
    let Ok(session) = ClientTable::register_stream(gateway, &client) else {
        return response::error(StatusCode::TOO_MANY_REQUESTS, "too many sessions");
    };
    let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
    let (inbox, posted) = mpsc::channel(QUEUE_CAPACITY);
    client.set_inbox(inbox);
    let mut tasks = JoinSet::new();
    let endpoint = format!("/sse?sessionId={}", session.session);
    tasks.spawn(run_session(StreamClient::new(client, out), posted, Arc::clone(gateway), session));
    response::events(Some(response::named_event("endpoint", endpoint.as_bytes())), queue, tasks)
}

async fn run_session(
    mut stream_client: StreamClient,
    mut posted: mpsc::Receiver<Result<Message, MalformedMessage>>,
    gateway: Arc<Gateway>,
    _held: StreamSession,
) {
    loop {
        tokio::select! {
            message = posted.recv() => match message {
                Some(Ok(message)) => stream_client.handle_message(Ok(message)).await,
                Some(Err(malformed)) => {
                    if let Some(error) = malformed_error(&malformed) {
                        stream_client.handle_message(Err(error)).await;
                    }
                }
                None => break,
            },
            () = stream_client.client.wait_ended() => break,
            () = gateway.wait_closing() => break,
        }
    }
    stream_client.close().await;
}

async fn post_message(
    gateway: &Arc<Gateway>,
    identity: &ClientIdentity,
    session: &str,
    request: HttpRequest,
) -> HttpResponse {
    let Some(client) = gateway.clients.session(session, identity) else {
        return response::error(
            StatusCode::NOT_FOUND,
            "unknown session: it has ended or never existed",
        );
    };
    let (head, body) = request.into_parts();
    let packet =
        match read_message(gateway, identity, entry_point(&head.extensions), &head.headers, body)
            .await
        {
            Ok(packet) => packet,
            Err(refused) => return *refused,
        };
    for message in packet.into_messages() {
        if !client.deliver(message).await {
            return response::error(
                StatusCode::NOT_FOUND,
                "unknown session: it has ended or never existed",
            );
        }
    }
    response::empty(StatusCode::ACCEPTED)
}
