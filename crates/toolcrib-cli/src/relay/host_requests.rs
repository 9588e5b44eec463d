//! Requests of hosts that the client has not answered yet.

use std::collections::VecDeque;

use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::{Id, Notification, RawJson, Request, Response, method};

use super::forwarding::Forwarding;

/// Maximum number of open requests. The oldest request is forgotten beyond it.
const MAX_OPEN: usize = 256;

#[derive(Debug, Default)]
pub(super) struct HostRequests {
    /// Open requests, oldest first.
    open: VecDeque<HostRequest>,
    /// Number of hosts that have ended.
    hosts_ended: u64,
}

/// The id of a request at the host and at the client.
#[derive(Debug)]
struct HostRequest {
    host_id: Id,
    client_id: Id,
}

impl HostRequests {
    /// Forwards a request. Each host numbers its requests from one, so requests of later hosts get ids that no earlier
    /// host can have used.
    pub(super) fn on_request(&mut self, request: &Request) -> Forwarding {
        let host_id = request.id.clone();
        let client_id = match self.hosts_ended {
            0 => host_id.clone(),
            hosts_ended => Id::from(format!("{hosts_ended}:{host_id}").as_str()),
        };
        let forwarding = match client_id == host_id {
            true => Forwarding::Unchanged,
            false => Forwarding::Rewritten(request.with_id(&client_id)),
        };
        if self.open.len() == MAX_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(HostRequest { host_id, client_id });
        forwarding
    }

    /// Forwards a response to the host that waits for it. Other responses are dropped, because the current host may
    /// have reused the id.
    pub(super) fn on_response(&mut self, answer: &Response) -> Forwarding {
        let Some(id) = &answer.id else { return Forwarding::Unchanged };
        match self.remove_request(|request_ids| request_ids.client_id == *id) {
            Some(request_ids) if request_ids.host_id == *id => Forwarding::Unchanged,
            Some(request_ids) => Forwarding::Rewritten(answer.with_id(&request_ids.host_id)),
            None => Forwarding::Drop,
        }
    }

    /// Translates the request id of a cancellation.
    pub(super) fn on_notification(&mut self, told: &Notification) -> Forwarding {
        let cancelled = Cancelled::read(told.params.json());
        let (method::CANCELLED, Ok(cancelled)) = (told.method.as_str(), cancelled) else {
            return Forwarding::Unchanged;
        };
        match self.remove_request(|request_ids| request_ids.host_id == cancelled.request) {
            Some(request_ids) if request_ids.client_id != request_ids.host_id => {
                Forwarding::Rewritten(
                    Cancelled { request: request_ids.client_id, ..cancelled }.build(),
                )
            }
            _ => Forwarding::Unchanged,
        }
    }

    /// Returns cancellations of all open requests for the client.
    pub(super) fn on_host_end(&mut self, why: &'static str) -> impl Iterator<Item = RawJson> {
        self.hosts_ended += 1;
        let open = self.open.drain(..).map(|request_ids| request_ids.client_id);
        open.map(move |request| Cancelled { request, reason: Some(why.into()) }.build())
    }

    fn remove_request(&mut self, matches: impl Fn(&HostRequest) -> bool) -> Option<HostRequest> {
        let index = self.open.iter().position(matches)?;
        self.open.remove(index)
    }
}
