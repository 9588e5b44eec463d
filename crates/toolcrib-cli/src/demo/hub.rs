//! Doing the work: what all clients share, and what happens between a request and its answer.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use toolcrib_server::lines::refusal;
use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::{Id, Malformed, Message, ObjectWriter, Raw, Request, RpcError, build, method};

use super::caller::Caller;
use super::desk::Desk;
use super::respond::respond;
use super::state::{State, Tally};
use super::tools;
use super::work::{Slow, Work};

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    news: watch::Sender<News>,
}

/// What may interest those who listen.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    tally: Tally,
    closing: bool,
}

/// A tool call that is under way, for as long as this lives.
struct UnderWay<'a>(&'a Hub);

/// What a message leads to.
#[derive(Debug)]
pub(crate) enum Heard {
    Nothing,
    Say(Raw),
    Do(Id, Work),
}

impl Hub {
    pub(crate) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), news: watch::Sender::default() }
    }

    /// Takes whatever comes on a channel that has no headers.
    pub(crate) fn hear(&self, desk: &Desk, message: Result<Message, Malformed>) -> Heard {
        match message {
            Ok(Message::Request(request)) => {
                let caller = desk.caller(&request);
                let work = match caller {
                    Ok(caller) => self.take(&request, &caller, desk),
                    Err(error) => Work::Done(Err(error)),
                };
                match work {
                    Work::Done(answer) => Heard::Say(message_of(&request.id, answer)),
                    work => Heard::Do(request.id, work),
                }
            }
            Ok(Message::Notification(told)) => {
                if let (method::CANCELLED, Ok(cancelled)) =
                    (told.method.as_str(), Cancelled::read(told.params.json()))
                {
                    desk.cancel(&cancelled.request);
                }
                Heard::Nothing
            }
            Ok(Message::Response(answer)) => {
                desk.answered(answer);
                Heard::Nothing
            }
            Err(malformed) => refusal(&malformed).map_or(Heard::Nothing, Heard::Say),
        }
    }

    pub(crate) fn take(&self, request: &Request, caller: &Caller, desk: &Desk) -> Work {
        let work = self
            .change(|state| desk.with_session(|session| respond(request, caller, session, state)));
        match work {
            Work::Slow(_) | Work::Ask(_) | Work::Listen(_) if !desk.has_room() => {
                Work::Done(Err(RpcError::internal("too many requests at once")))
            }
            work => work,
        }
    }

    /// Does what is left to do and sends the answer; what is sent to nobody does not matter.
    pub(crate) async fn perform(
        self: Arc<Self>,
        desk: Arc<Desk>,
        id: Id,
        work: Work,
        out: mpsc::Sender<Raw>,
    ) {
        let doing = async {
            match work {
                Work::Done(answer) => answer,
                Work::Slow(slow) => {
                    let _counted = UnderWay::new(&self);
                    take_time(&slow, &out).await
                }
                Work::Ask(question) => {
                    let _counted = UnderWay::new(&self);
                    tools::greeting(desk.ask(&question, &out).await)
                }
                Work::Listen(filter) => self.listen(&id, &filter, &out).await,
            }
        };
        let answer = tokio::select! {
            // The listeners among them have a better answer to the end than an error.
            biased;
            answer = doing => answer,
            () = self.closing() => Err(RpcError::internal("the server is ending")),
        };
        let _ = out.send(message_of(&id, answer)).await;
    }

    /// Ends everything that is under way, each with an answer.
    pub(crate) fn close(&self) {
        self.news.send_modify(|news| news.closing = true);
    }

    pub(crate) async fn closing(&self) {
        // The sender is our own, so it does not go before us.
        let _ = self.news.subscribe().wait_for(|news| news.closing).await;
    }

    /// Changes the state, and tells those who listen if they would see it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut state);
        self.news.send_if_modified(|news| {
            let changed = news.tally != state.tally;
            news.tally = state.tally;
            changed
        });
        outcome
    }

    /// Tells of changes until the server ends, which is the answer.
    async fn listen(
        &self,
        id: &Id,
        filter: &SubscriptionFilter,
        out: &mpsc::Sender<Raw>,
    ) -> Result<Raw, RpcError> {
        let mut news = self.news.subscribe();
        let _ = out.send(filter.acknowledged(id)).await;
        let meta = subscription_meta(id);
        let mut closing = news.borrow().closing;
        while !closing {
            if news.changed().await.is_err() {
                break;
            }
            closing = news.borrow_and_update().closing;
            for uri in filter.uris.iter().filter(|_| !closing) {
                let params = ObjectWriter::new().json("_meta", meta.json()).string("uri", uri);
                let params = params.finish();
                let update = build::notification(method::RESOURCE_UPDATED, Some(params.json()));
                let _ = out.send(update).await;
            }
        }
        let result =
            ObjectWriter::new().string("resultType", "complete").json("_meta", meta.json());
        Ok(result.finish())
    }
}

impl<'a> UnderWay<'a> {
    fn new(hub: &'a Hub) -> Self {
        hub.change(|state| state.tally.running += 1);
        Self(hub)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.tally.running -= 1);
    }
}

async fn take_time(slow: &Slow, out: &mpsc::Sender<Raw>) -> Result<Raw, RpcError> {
    for step in 1..=slow.steps {
        sleep(slow.pause()).await;
        if let Some(progress) = slow.progress(step) {
            let _ = out.send(progress).await;
        }
    }
    slow.result()
}

pub(crate) fn message_of(id: &Id, answer: Result<Raw, RpcError>) -> Raw {
    match answer {
        Ok(result) => build::response(id, result),
        Err(error) => build::error(Some(id), &error),
    }
}
