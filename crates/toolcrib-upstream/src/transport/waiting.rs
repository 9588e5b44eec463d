//! Who waits for a request over HTTP, and for how long.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use toolcrib_wire::Id;

use super::link::Incoming;

/// Who waits for a request, so that he can be told that it is not the server that takes its time.
#[derive(Clone, Copy)]
pub(super) struct Waiting<'a> {
    request: Option<(&'a mpsc::Sender<Incoming>, &'a Id)>,
    /// How long the server may take to begin its answer, each time that the request is sent. What a token takes is
    /// not the server's time.
    pub(super) limit: Option<Duration>,
}

impl<'a> Waiting<'a> {
    pub(super) const NOBODY: Self = Self { request: None, limit: None };

    pub(super) fn for_answer(inbox: &'a mpsc::Sender<Incoming>, id: &'a Id) -> Self {
        Self { request: Some((inbox, id)), limit: None }
    }

    /// The shorter time counts; zero means without limit.
    pub(super) fn at_most(self, time: Duration) -> Self {
        let limit = self.limit.into_iter().chain(limit(time)).min();
        Self { limit, ..self }
    }

    /// The time that a token takes is not the request's.
    pub(super) async fn while_standing<T>(self, work: impl Future<Output = T>) -> T {
        self.say(true).await;
        let done = work.await;
        self.say(false).await;
        done
    }

    async fn say(self, stands: bool) {
        if let Some((inbox, id)) = self.request {
            // What nobody takes any more is dropped.
            let _ = inbox.send(Incoming::Standing { request: id.clone(), stands }).await;
        }
    }
}

/// Zero means without limit.
pub(super) fn limit(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}
