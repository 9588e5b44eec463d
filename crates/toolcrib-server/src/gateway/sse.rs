//! The old HTTP+SSE: one stream for everything that is said, and messages posted beside it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, Request as HttpRequest, State};
use hyper::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_wire::{Malformed, Message};

use super::client::Client;
use super::clients::{Clients, Held};
use super::http::{Asked, read, who};
use super::stream::Talk;
use super::{Gateway, QUEUE, Who};
use crate::front::Front;
use crate::front::reply::{self, Reply};
use crate::front::route::door;
use crate::identity::Principal;
use crate::lines::refusal;

/// Where messages of one stream are posted.
#[derive(Debug, Deserialize)]
pub(super) struct Posted {
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

pub(super) async fn serve(
    State(front): State<Arc<Front>>,
    Extension(principal): Extension<Principal>,
    Query(asked): Query<Asked>,
    Query(posted): Query<Posted>,
    request: HttpRequest,
) -> Reply {
    let who = match who(&principal, &asked, None) {
        Ok(who) => who,
        Err(refused) => return *refused,
    };
    match (request.method(), posted.session) {
        (&Method::GET, _) => open(&front.gateway, who),
        (&Method::POST, Some(session)) => post(&front.gateway, &who, &session, request).await,
        (&Method::POST, None) => {
            reply::refuse(StatusCode::BAD_REQUEST, "the session's id is missing in the address")
        }
        _ => reply::not_allowed("GET, POST"),
    }
}

/// Opens the stream, and says on it where messages are to be posted.
fn open(gateway: &Arc<Gateway>, who: Who) -> Reply {
    let client = Client::new(gateway, who);
    let Ok(held) = Clients::hold(gateway, &client) else {
        return reply::refuse(StatusCode::TOO_MANY_REQUESTS, "too many sessions");
    };
    let (out, queue) = mpsc::channel(QUEUE);
    let (inbox, posted) = mpsc::channel(QUEUE);
    client.hears(inbox);
    let mut tasks = JoinSet::new();
    let endpoint = format!("/sse?sessionId={}", held.session);
    tasks.spawn(converse(Talk::new(client, out), posted, Arc::clone(gateway), held));
    reply::events(Some(reply::named("endpoint", endpoint.as_bytes())), queue, tasks)
}

async fn converse(
    mut talk: Talk,
    mut posted: mpsc::Receiver<Result<Message, Malformed>>,
    gateway: Arc<Gateway>,
    _held: Held,
) {
    loop {
        tokio::select! {
            came = posted.recv() => match came {
                Some(Ok(message)) => talk.hear(Ok(message)).await,
                Some(Err(malformed)) => {
                    if let Some(said) = refusal(&malformed) {
                        talk.hear(Err(said)).await;
                    }
                }
                None => break,
            },
            () = talk.client.gone() => break,
            () = gateway.closing() => break,
        }
    }
    talk.end().await;
}

async fn post(gateway: &Arc<Gateway>, who: &Who, session: &str, request: HttpRequest) -> Reply {
    let Some(client) = gateway.clients.session(session, who) else {
        return reply::refuse(StatusCode::NOT_FOUND, "there is no such session any more");
    };
    let (head, body) = request.into_parts();
    let packet = match read(gateway, who, door(&head.extensions), &head.headers, body).await {
        Ok(packet) => packet,
        Err(refused) => return *refused,
    };
    for message in packet.into_messages() {
        if !client.put(message).await {
            return reply::refuse(StatusCode::NOT_FOUND, "there is no such session any more");
        }
    }
    reply::empty(StatusCode::ACCEPTED)
}
