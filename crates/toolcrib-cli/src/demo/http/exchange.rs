//! One HTTP request and its answer: who may ask, in which era, and in which session.

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
use toolcrib_server::front::posted;
use toolcrib_server::front::reply::{self, Reply};
use toolcrib_server::identity::gate;
use toolcrib_wire::{Message, Packet, Request, RpcError, Version, header, method};

use super::PATH;
use super::sessions::Sessions;
use crate::demo::caller::{self, Caller};
use crate::demo::desk::Desk;
use crate::demo::hub::{Heard, Hub, message_of};
use crate::demo::work::Work;
use crate::demo::{LIMITS, QUEUE};

/// How long the body of a request may take.
const BODY: Duration = Duration::from_secs(30);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shop {
    hub: Arc<Hub>,
    sessions: Sessions,
}

impl Shop {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, sessions: Sessions::default() }
    }

    pub(super) async fn closing(&self) {
        self.hub.closing().await;
    }

    pub(super) async fn answer(&self, request: HttpRequest<Incoming>) -> Result<Reply, Infallible> {
        let (head, body) = request.into_parts();
        if !gate::lets_in(gate::Names::default(), &head.headers) {
            let reason = "this server answers programs of this machine only";
            return Ok(reply::refuse(StatusCode::FORBIDDEN, reason));
        }
        Ok(match (head.uri.path(), &head.method) {
            (PATH, &Method::POST) => self.post(&head, body).await,
            (PATH, &Method::DELETE) => self.delete(&head),
            (PATH, _) => reply::not_allowed("POST, DELETE"),
            _ => reply::empty(StatusCode::NOT_FOUND),
        })
    }

    async fn post(&self, head: &Parts, body: Incoming) -> Reply {
        match posted::read(&head.headers, body, &LIMITS, BODY, Reservation::default()).await {
            Ok(packet) => self.take(head, packet),
            Err(refusal) => *refusal,
        }
    }

    /// In which era something is meant.
    fn take(&self, head: &Parts, packet: Packet) -> Reply {
        let version = head.headers.text(header::PROTOCOL_VERSION).map(Version::from);
        let is_modern = version.as_ref().is_some_and(Version::is_modern);
        match packet {
            Packet::One(Message::Request(request)) if is_modern || caller::is_modern(&request) => {
                self.modern(head, &request)
            }
            Packet::One(Message::Notification(_)) if is_modern => {
                reply::empty(StatusCode::ACCEPTED)
            }
            _ if is_modern => {
                reply::refuse(StatusCode::BAD_REQUEST, "a request or a notification is wanted")
            }
            _ if matches!(version, Some(Version::Unknown(_))) => {
                reply::refuse(StatusCode::BAD_REQUEST, "this protocol version is not spoken here")
            }
            packet => self.legacy(head, packet),
        }
    }

    /// A request that stands for itself.
    fn modern(&self, head: &Parts, request: &Request) -> Reply {
        let desk = Arc::new(Desk::default());
        let caller = caller::read_meta(request)
            .and_then(|meta| check_headers(head, request).map(|()| meta))
            .and_then(Caller::modern);
        let work = match caller {
            Ok(caller) => self.hub.take(request, &caller, &desk),
            Err(error) => Work::Done(Err(error)),
        };
        match work {
            Work::Done(answer) => {
                let status = answer.as_ref().err().map_or(StatusCode::OK, reply::status_of);
                reply::json(status, &message_of(&request.id, answer))
            }
            work => self.stream(&desk, vec![Heard::Do(request.id.clone(), work)]),
        }
    }

    /// Whatever belongs to a session, or opens one.
    fn legacy(&self, head: &Parts, packet: Packet) -> Reply {
        let Some(id) = head.headers.text(header::SESSION_ID) else {
            return match packet {
                Packet::One(Message::Request(request)) if request.method == method::INITIALIZE => {
                    self.open(request)
                }
                _ => {
                    reply::refuse(StatusCode::BAD_REQUEST, "the header `Mcp-Session-Id` is missing")
                }
            };
        };
        let Some(desk) = self.sessions.find(id) else {
            return reply::refuse(StatusCode::NOT_FOUND, "there is no such session any more");
        };
        let heard: Vec<Heard> = packet
            .into_messages()
            .map(|message| self.hub.hear(&desk, message))
            .filter(|heard| !matches!(heard, Heard::Nothing))
            .collect();
        match &heard[..] {
            [] => reply::empty(StatusCode::ACCEPTED),
            [Heard::Say(message)] => reply::json(StatusCode::OK, message),
            _ => self.stream(&desk, heard),
        }
    }

    fn open(&self, request: Request) -> Reply {
        let desk = Arc::new(Desk::default());
        let heard = self.hub.hear(&desk, Ok(Message::Request(request)));
        let Heard::Say(answer) = heard else {
            return reply::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let answer = reply::json(StatusCode::OK, &answer);
        if !desk.is_open() {
            return answer;
        }
        match self.sessions.keep(desk) {
            Ok(id) => reply::with_session(answer, &id),
            Err(_) => reply::empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    fn delete(&self, head: &Parts) -> Reply {
        match head.headers.text(header::SESSION_ID) {
            None => reply::not_allowed("POST, DELETE"),
            Some(id) if self.sessions.end(id) => reply::empty(StatusCode::NO_CONTENT),
            Some(_) => reply::empty(StatusCode::NOT_FOUND),
        }
    }

    /// Starts what is to be done; the stream owns it.
    fn stream(&self, desk: &Arc<Desk>, heard: Vec<Heard>) -> Reply {
        let (out, queue) = mpsc::channel(QUEUE);
        let mut tasks = JoinSet::new();
        for heard in heard {
            let out = out.clone();
            match heard {
                Heard::Nothing => {}
                Heard::Say(message) => {
                    tasks.spawn(async move {
                        let _ = out.send(message).await;
                    });
                }
                Heard::Do(id, work) => {
                    let (hub, own) = (Arc::clone(&self.hub), Arc::clone(desk));
                    let task = tasks.spawn(hub.perform(own, id.clone(), work, out));
                    desk.started(id, task);
                }
            }
        }
        reply::events(None, queue, tasks)
    }
}

fn check_headers(head: &Parts, request: &Request) -> Result<(), RpcError> {
    header::check_standard(request, |name| head.headers.text(name))
        .map_err(|mismatch| RpcError::header_mismatch(mismatch.to_string()))
}
