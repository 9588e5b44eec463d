//! The waiting caller of an HTTP request, and its time limit.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use toolcrib_wire::Id;

use super::link::Incoming;

/// The caller of a request. It learns when the request waits for something other than the server.
#[derive(Clone, Copy)]
pub(super) struct RequestWaiter<'a> {
    request: Option<(&'a mpsc::Sender<Incoming>, &'a Id)>,
    /// Limit for the response head, per attempt. Time spent on a token does not count.
    pub(super) limit: Option<Duration>,
}

impl<'a> RequestWaiter<'a> {
    pub(super) const NONE: Self = Self { request: None, limit: None };

    pub(super) fn for_request(inbox: &'a mpsc::Sender<Incoming>, id: &'a Id) -> Self {
        Self { request: Some((inbox, id)), limit: None }
    }

    /// Applies the shorter limit. Zero means no limit.
    pub(super) fn with_limit(self, time: Duration) -> Self {
        let limit = self.limit.into_iter().chain(nonzero(time)).min();
        Self { limit, ..self }
    }

    /// Runs `work` while the deadline of the caller is paused.
    pub(super) async fn pause_while<T>(self, work: impl Future<Output = T>) -> T {
        self.report_pause(true).await;
        let done = work.await;
        self.report_pause(false).await;
        done
    }

    async fn report_pause(self, is_paused: bool) {
        if let Some((inbox, id)) = self.request {
            // Dropped if the inbox is gone.
            let _ = inbox.send(Incoming::DeadlinePaused { request: id.clone(), is_paused }).await;
        }
    }
}

/// Zero means no limit.
pub(super) fn nonzero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}
