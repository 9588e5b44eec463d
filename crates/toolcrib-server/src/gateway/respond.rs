//! The answer to one posted message: plain where nothing is said before it, a stream of events where something is.

use std::convert::Infallible;
use std::future::ready;
use std::mem;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use hyper::{Response, StatusCode};
use tokio::time::sleep;
use toolcrib_wire::{KEEP_ALIVE, Raw};

use super::client::Open;
use super::outlet::{Heard, outlet};
use crate::front::reply::{self, Answered, Reply};

/// A silent answer becomes a stream, and a silent stream says that it is alive, this often.
const ALIVE: Duration = Duration::from_secs(15);

/// The last message, with the status that it has where it is alone.
pub(super) type Answer = (StatusCode, Raw);

/// What is being answered.
pub(super) struct Work {
    pub(super) answer: Pin<Box<dyn Future<Output = Option<Answer>> + Send>>,
    /// What comes before it.
    pub(super) heard: Heard,
    /// Whether the client takes events.
    pub(super) streams: bool,
    pub(super) open: Open,
    /// Whether it goes on although nobody waits for it any more: in the legacy era who breaks off has not called off
    /// what he asked for.
    pub(super) outlives: bool,
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.outlives {
            return;
        }
        let mut answer = mem::replace(&mut self.answer, Box::pin(ready(None)));
        let mut heard = mem::replace(&mut self.heard, outlet().1);
        self.open.go_on(async move {
            loop {
                tokio::select! {
                    Some(_) = heard.next() => {}
                    _ = &mut answer => return,
                }
            }
        });
    }
}

/// Waits for the first thing that is said, which decides how all is.
pub(super) async fn respond(mut work: Work) -> Answered {
    if !work.streams {
        return plain(work).await;
    }
    tokio::select! {
        biased;
        Some(first) = work.heard.next() => events(work, Some(first)).into(),
        answer = &mut work.answer => {
            work.outlives = false;
            match work.heard.try_next() {
                Some(first) => {
                    work.answer = Box::pin(ready(answer));
                    events(work, Some(first)).into()
                }
                None => whole(answer),
            }
        }
        () = sleep(ALIVE) => events(work, None).into(),
    }
}

/// Who takes no events hears only the answer.
async fn plain(mut work: Work) -> Answered {
    loop {
        tokio::select! {
            Some(_) = work.heard.next() => {}
            answer = &mut work.answer => {
                work.outlives = false;
                return whole(answer);
            }
        }
    }
}

fn whole(answer: Option<Answer>) -> Answered {
    match answer {
        Some((status, message)) => Answered::Message(status, message),
        None => reply::empty(StatusCode::ACCEPTED).into(),
    }
}

/// As it comes.
fn events(work: Work, first: Option<Raw>) -> Reply {
    let first = first.map(|message| reply::event(&message));
    let state = (Some(work), first.unwrap_or_else(|| KEEP_ALIVE.to_vec()));
    let body = stream::unfold(state, |(work, ready)| async move {
        if !ready.is_empty() {
            return Some((Ok::<_, Infallible>(Bytes::from(ready)), (work, Vec::new())));
        }
        let mut work = work?;
        let (bytes, work) = tokio::select! {
            biased;
            Some(message) = work.heard.next() => (reply::event(&message), Some(work)),
            answer = &mut work.answer => {
                work.outlives = false;
                (last(&mut work.heard, answer), None)
            }
            () = sleep(ALIVE) => (KEEP_ALIVE.to_vec(), Some(work)),
        };
        Some((Ok(Bytes::from(bytes)), (work, Vec::new())))
    });
    reply::stream(Response::new(Body::from_stream(body)))
}

/// What was said just before the answer, and the answer.
fn last(heard: &mut Heard, answer: Option<Answer>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(message) = heard.try_next() {
        bytes.extend(reply::event(&message));
    }
    if let Some((_, message)) = answer {
        bytes.extend(reply::event(&message));
    }
    bytes
}
