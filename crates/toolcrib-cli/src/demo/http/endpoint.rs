//! HTTP request handling: access check, protocol era and session.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request as HttpRequest, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_server::body_budget::Reservation;
use toolcrib_server::front::headers::Headers;
use toolcrib_server::front::request_body;
use toolcrib_server::front::response::{self, HttpResponse};
use toolcrib_server::identity::origin_guard::{self, AllowedNames};
use toolcrib_wire::{Message, Packet, Request, RpcError, Version, header, method};

use super::PATH;
use super::sessions::Sessions;
use crate::demo::caller::{self, Caller};
use crate::demo::client_session::ClientSession;
use crate::demo::request_action::RequestAction;
use crate::demo::server::{DemoServer, MessageOutcome, response_message};
use crate::demo::{LIMITS, QUEUE_CAPACITY};

/// Time limit for reading a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct HttpEndpoint {
    server: Arc<DemoServer>,
    sessions: Sessions,
}

impl HttpEndpoint {
    pub(super) fn new(server: Arc<DemoServer>) -> Self {
        Self { server, sessions: Sessions::default() }
    }

    pub(super) async fn closed(&self) {
        self.server.closed().await;
    }

    pub(super) async fn handle(
        &self,
        request: HttpRequest<Incoming>,
    ) -> Result<HttpResponse, Infallible> {
        let (head, body) = request.into_parts();
        if !origin_guard::is_allowed(AllowedNames::default(), &head.headers) {
            let reason = "this server accepts requests from this machine only";
            return Ok(response::error(StatusCode::FORBIDDEN, reason));
        }
        Ok(match (head.uri.path(), &head.method) {
            (PATH, &Method::POST) => self.handle_post(&head, body).await,
            (PATH, &Method::DELETE) => self.handle_delete(&head),
            (PATH, _) => response::not_allowed("POST, DELETE"),
            _ => response::empty(StatusCode::NOT_FOUND),
        })
    }

    async fn handle_post(&self, head: &Parts, body: Incoming) -> HttpResponse {
        match request_body::read_message(
            &head.headers,
            body,
            &LIMITS,
            BODY_TIMEOUT,
            Reservation::default(),
        )
        .await
        {
            Ok(packet) => self.dispatch_packet(head, packet),
            Err(refusal) => *refusal,
        }
    }

    /// Dispatches a packet by its protocol era.
    fn dispatch_packet(&self, head: &Parts, packet: Packet) -> HttpResponse {
        let version = head.headers.text(header::PROTOCOL_VERSION).map(Version::from);
        let is_modern = version.as_ref().is_some_and(Version::is_modern);
        match packet {
            Packet::One(Message::Request(request)) if is_modern || caller::is_modern(&request) => {
                self.handle_modern(head, &request)
            }
            Packet::One(Message::Notification(_)) if is_modern => {
                response::empty(StatusCode::ACCEPTED)
            }
            _ if is_modern => {
                response::error(StatusCode::BAD_REQUEST, "expected a request or a notification")
            }
            _ if matches!(version, Some(Version::Unknown(_))) => {
                response::error(StatusCode::BAD_REQUEST, "unsupported protocol version")
            }
            packet => self.handle_legacy(head, packet),
        }
    }

    /// Handles a modern request, which needs no session.
    fn handle_modern(&self, head: &Parts, request: &Request) -> HttpResponse {
        let session = Arc::new(ClientSession::default());
        let caller = caller::read_meta(request)
            .and_then(|meta| check_headers(head, request).map(|()| meta))
            .and_then(Caller::modern);
        let action = match caller {
            Ok(caller) => self.server.handle_request(request, &caller, &session),
            Err(error) => RequestAction::Done(Err(error)),
        };
        match action {
            RequestAction::Done(response) => {
                let status =
                    response.as_ref().err().map_or(StatusCode::OK, response::status_for_error);
                response::json(status, &response_message(&request.id, response))
            }
            action => {
                self.start_stream(&session, vec![MessageOutcome::Run(request.id.clone(), action)])
            }
        }
    }

    /// Handles a message of a session, or opens a session.
    fn handle_legacy(&self, head: &Parts, packet: Packet) -> HttpResponse {
        let Some(id) = head.headers.text(header::SESSION_ID) else {
            return match packet {
                Packet::One(Message::Request(request)) if request.method == method::INITIALIZE => {
                    self.open_session(request)
                }
                _ => response::error(
                    StatusCode::BAD_REQUEST,
                    "the header `Mcp-Session-Id` is missing",
                ),
            };
        };
        let Some(session) = self.sessions.find(id) else {
            return response::error(StatusCode::NOT_FOUND, "the session does not exist");
        };
        let outcome: Vec<MessageOutcome> = packet
            .into_messages()
            .map(|message| self.server.handle_message(&session, message))
            .filter(|outcome| !matches!(outcome, MessageOutcome::None))
            .collect();
        match &outcome[..] {
            [] => response::empty(StatusCode::ACCEPTED),
            [MessageOutcome::Reply(message)] => response::json(StatusCode::OK, message),
            _ => self.start_stream(&session, outcome),
        }
    }

    fn open_session(&self, request: Request) -> HttpResponse {
        let session = Arc::new(ClientSession::default());
        let outcome = self.server.handle_message(&session, Ok(Message::Request(request)));
        let MessageOutcome::Reply(response) = outcome else {
            return response::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let response = response::json(StatusCode::OK, &response);
        if !session.is_open() {
            return response;
        }
        match self.sessions.insert(session) {
            Ok(id) => response::with_session_id(response, &id),
            Err(_) => response::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    fn handle_delete(&self, head: &Parts) -> HttpResponse {
        match head.headers.text(header::SESSION_ID) {
            None => response::not_allowed("POST, DELETE"),
            Some(id) if self.sessions.remove(id) => response::empty(StatusCode::NO_CONTENT),
            Some(_) => response::empty(StatusCode::NOT_FOUND),
        }
    }

    /// Starts the actions in an event stream, which owns their tasks.
    fn start_stream(
        &self,
        session: &Arc<ClientSession>,
        outcomes: Vec<MessageOutcome>,
    ) -> HttpResponse {
        let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
        let mut tasks = JoinSet::new();
        for outcome in outcomes {
            let out = out.clone();
            match outcome {
                MessageOutcome::None => {}
                MessageOutcome::Reply(message) => {
                    tasks.spawn(async move {
                        let _ = out.send(message).await;
                    });
                }
                MessageOutcome::Run(id, action) => {
                    let server = Arc::clone(&self.server);
                    let running = server.run_action(Arc::clone(session), id.clone(), action, out);
                    let task = tasks.spawn(running);
                    session.track_task(id, task);
                }
            }
        }
        response::events(None, queue, tasks)
    }
}

fn check_headers(head: &Parts, request: &Request) -> Result<(), RpcError> {
    header::check_standard_headers(request, |name| head.headers.text(name))
        .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
}
