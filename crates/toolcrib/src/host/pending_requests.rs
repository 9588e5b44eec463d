//! The pending requests of one dialog: which calls may have caused each request, which call's
//! client answers it, and when it ends.
//!
//! A request ends when the server ends it, when it is answered, or when every call that may have
//! caused it was abandoned. An answered call does not end a request, because a server may send
//! requests in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};
use toolcrib_upstream::conn::peer::Cancellation;
use toolcrib_wire::{RawJson, RpcError};

use super::client_capabilities::DialogCapabilities;
use super::dialog::DialogState;

/// Maximum number of pending requests of one dialog.
const MAX_PENDING: usize = 32;

/// A request of a server that waits for the client's answer.
#[derive(Clone, Debug)]
pub struct PendingRequest {
    /// Number of the request, unique in its dialog.
    pub id: u64,
    /// The call that caused the request; `None` if several calls may have.
    pub call: Option<u64>,
    /// The open calls that may have caused the request.
    pub calls: Vec<u64>,
    /// The call in `calls` that delivers the request to its client, if calls have clients of their
    /// own.
    pub carrier: Option<u64>,
    /// The server's id.
    pub server: Arc<str>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The params of the request.
    pub params: RawJson,
    /// The server's cancellation message, if the server cancels the request.
    pub cancellation: Cancellation,
}

pub(super) type ClientAnswer = Result<RawJson, RpcError>;

/// The pending requests of one dialog.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    table: Mutex<RequestTable>,
    /// The number of the newest request; also sent when a request ends or changes its carrier.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct RequestTable {
    last: u64,
    waiting: BTreeMap<u64, WaitingRequest>,
    /// The running calls.
    calls: BTreeMap<u64, TrackedCall>,
    /// The calls that are unattended now.
    unattended: BTreeSet<u64>,
}

#[derive(Debug)]
struct WaitingRequest {
    request: PendingRequest,
    reply: oneshot::Sender<ClientAnswer>,
    /// Whether a call that may have caused the request was answered.
    may_outlive_calls: bool,
}

#[derive(Debug)]
struct TrackedCall {
    /// Number of requests to servers that belong to this call.
    requests: usize,
    /// The capabilities of the call's client. The default is the dialog's capabilities.
    capabilities: Option<DialogCapabilities>,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// The server answered the call.
    Answered,
    /// The call was cancelled at the server.
    Abandoned,
}

/// Why a request of a server was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddRequestError {
    TooMany,
    /// The call that caused the request was abandoned.
    CallEnded,
}

/// Marks a call as unattended while the guard lives: requests prefer other calls.
#[derive(Debug)]
pub struct UnattendedCall {
    dialog: Arc<DialogState>,
    call: u64,
}

impl UnattendedCall {
    pub(super) fn new(dialog: &Arc<DialogState>, call: u64) -> Self {
        dialog.requests.lock().unattended.insert(call);
        UnattendedCall { dialog: Arc::clone(dialog), call }
    }
}

impl Drop for UnattendedCall {
    fn drop(&mut self) {
        self.dialog.requests.lock().unattended.remove(&self.call);
    }
}

impl PendingRequests {
    pub(super) fn list(&self) -> Vec<PendingRequest> {
        self.lock().waiting.values().map(|it| it.request.clone()).collect()
    }

    /// Whether this request still waits for its answer.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.lock().waiting.contains_key(&id)
    }

    /// Delivers an answer to the server. Returns false if the request does not exist or the server
    /// has ended it.
    pub(super) fn answer(&self, id: u64, answer: ClientAnswer) -> bool {
        let waiting = self.lock().waiting.remove(&id);
        waiting.is_some_and(|it| it.reply.send(answer).is_ok())
    }

    /// The call among `calls` that most likely caused a request, with its capabilities. Attended
    /// calls without a pending request come first, then newer calls; among equals, a call with a
    /// client that can be asked.
    pub(super) fn likeliest_call(
        &self,
        calls: &[u64],
        default: DialogCapabilities,
        can_ask: impl Fn(DialogCapabilities) -> bool,
    ) -> Option<(u64, DialogCapabilities)> {
        self.lock().likeliest_call(calls, default, can_ask)
    }

    /// Ends all requests, because the dialog closes.
    pub(super) fn close(&self) {
        drop(std::mem::take(&mut self.lock().waiting));
    }

    /// Registers a request and assigns its number.
    pub(super) fn add(
        &self,
        mut request: PendingRequest,
    ) -> Result<(PendingRequest, oneshot::Receiver<ClientAnswer>), AddRequestError> {
        let mut table = self.lock();
        if table.waiting.len() >= MAX_PENDING {
            return Err(AddRequestError::TooMany);
        }
        // A call may have ended since the request was read.
        request.calls.retain(|call| table.calls.contains_key(call));
        if request.call.is_some() && request.calls.is_empty() {
            return Err(AddRequestError::CallEnded);
        }
        if request.carrier.is_none_or(|call| !request.calls.contains(&call)) {
            request.carrier = request.calls.last().copied();
        }
        table.last += 1;
        request.id = table.last;
        let (reply, answer) = oneshot::channel();
        let waiting = WaitingRequest { request: request.clone(), reply, may_outlive_calls: false };
        table.waiting.insert(request.id, waiting);
        self.changed.send_replace(request.id);
        Ok((request, answer))
    }

    /// Removes a request that the server has ended.
    pub(super) fn remove(&self, id: u64) {
        self.lock().waiting.remove(&id);
        self.changed.send_modify(|_| ());
    }

    pub(super) fn open_call(&self, call: u64, capabilities: Option<DialogCapabilities>) {
        let mut table = self.lock();
        let tracked = table.calls.entry(call).or_insert(TrackedCall { requests: 0, capabilities });
        tracked.requests += 1;
    }

    /// Ends the requests that only abandoned calls can have caused. Other requests get another
    /// carrier.
    pub(super) fn close_call(&self, call: u64, end: CallEnd, default: DialogCapabilities) {
        let mut table = self.lock();
        let Some(tracked) = table.calls.get_mut(&call) else { return };
        tracked.requests -= 1;
        if tracked.requests > 0 {
            return;
        }
        table.calls.remove(&call);
        // Nearly always there is no pending request.
        if table.waiting.is_empty() {
            return;
        }
        let ended = table.remove_call(call, end, default);
        drop(table);
        self.changed.send_modify(|_| ());
        for waiting in ended {
            // The server may have ended the request just now.
            let _ = waiting
                .reply
                .send(Err(RpcError::internal("the call that caused this request was cancelled")));
        }
    }

    /// Routes a request to another call, because this call's client cannot be asked. Returns false
    /// if there is no other call.
    pub(super) fn reroute(&self, id: u64, call: u64, default: DialogCapabilities) -> bool {
        let mut table = self.lock();
        let Some(waiting) = table.waiting.get(&id) else { return true };
        let request = waiting.request.clone();
        let others: Vec<u64> = request.calls.iter().copied().filter(|it| *it != call).collect();
        let carrier = table.likeliest_able_call(&others, &request, default);
        if let (Some(waiting), Some(_)) = (table.waiting.get_mut(&id), carrier) {
            waiting.request.carrier = carrier;
        }
        drop(table);
        self.changed.send_modify(|_| ());
        carrier.is_some()
    }

    /// A channel that changes whenever a request starts, ends or changes its carrier.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTable {
    fn likeliest_call(
        &self,
        calls: &[u64],
        default: DialogCapabilities,
        can_ask: impl Fn(DialogCapabilities) -> bool,
    ) -> Option<(u64, DialogCapabilities)> {
        let capabilities = |call: u64| self.calls.get(&call)?.capabilities;
        let capabilities = |call: u64| capabilities(call).unwrap_or(default);
        let is_asked = |call: u64| self.waiting.values().any(|it| it.request.carrier == Some(call));
        let rank = |call: u64| match (self.unattended.contains(&call), is_asked(call)) {
            (false, false) => 0,
            (false, true) => 1,
            (true, _) => 2,
        };
        let best = calls.iter().map(|call| rank(*call)).min()?;
        let mut equals: Vec<u64> = calls.iter().copied().filter(|it| rank(*it) == best).collect();
        equals.sort_unstable_by(|one, other| other.cmp(one));
        let able = equals.iter().find(|call| can_ask(capabilities(**call)));
        let call = *able.or(equals.first())?;
        Some((call, capabilities(call)))
    }

    /// The likeliest of the calls with a client that can be asked.
    fn likeliest_able_call(
        &self,
        calls: &[u64],
        request: &PendingRequest,
        default: DialogCapabilities,
    ) -> Option<u64> {
        let can_ask = |capabilities: DialogCapabilities| {
            capabilities.refusal(&request.method, request.params.json()).is_none()
        };
        let capabilities_of =
            |call: &u64| self.calls.get(call).and_then(|it| it.capabilities).unwrap_or(default);
        let able: Vec<u64> =
            calls.iter().copied().filter(|call| can_ask(capabilities_of(call))).collect();
        self.likeliest_call(&able, default, can_ask).map(|(call, _)| call)
    }

    /// Removes a call from all requests. Returns the requests that end with the call.
    fn remove_call(
        &mut self,
        call: u64,
        end: CallEnd,
        default: DialogCapabilities,
    ) -> Vec<WaitingRequest> {
        let mut ended = Vec::new();
        let affected = self.waiting.values().filter(|it| it.request.calls.contains(&call));
        let affected: Vec<u64> = affected.map(|it| it.request.id).collect();
        for id in affected {
            let Some(mut waiting) = self.waiting.remove(&id) else { continue };
            let request = &mut waiting.request;
            request.calls.retain(|it| *it != call);
            waiting.may_outlive_calls |= end == CallEnd::Answered;
            if request.carrier == Some(call) {
                request.carrier = self.likeliest_able_call(&request.calls, request, default);
            }
            match request.carrier.is_some() || waiting.may_outlive_calls {
                true => drop(self.waiting.insert(id, waiting)),
                false => ended.push(waiting),
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::{ObjectWriter, method};

    use super::*;

    const PERSON: DialogCapabilities = DialogCapabilities::PERSON_AND_MODEL;

    fn request(call: Option<u64>, calls: &[u64], carrier: u64) -> PendingRequest {
        PendingRequest {
            id: 0,
            call,
            calls: calls.to_vec(),
            carrier: Some(carrier),
            server: "server".into(),
            method: method::ELICIT.to_owned(),
            params: ObjectWriter::new().finish(),
            cancellation: Cancellation::default(),
        }
    }

    fn with_calls(calls: &[(u64, Option<DialogCapabilities>)]) -> PendingRequests {
        let requests = PendingRequests::default();
        calls.iter().for_each(|(call, capabilities)| requests.open_call(*call, *capabilities));
        requests
    }

    fn carrier(requests: &PendingRequests, id: u64) -> Option<Option<u64>> {
        requests.lock().waiting.get(&id).map(|it| it.request.carrier)
    }

    #[test]
    fn dis_41_newest_attended_call_without_a_request_carries_the_next_request() {
        let requests = with_calls(&[(1, None), (2, None), (3, None)]);
        let likeliest = |calls: &[u64]| {
            let found =
                requests.likeliest_call(calls, PERSON, |capabilities| capabilities.elicitation);
            found.map(|(call, _)| call)
        };
        assert_eq!(likeliest(&[1, 2, 3]), Some(3));
        let newest = requests.add(request(None, &[1, 2, 3], 3)).unwrap().0.id;
        assert_eq!(likeliest(&[1, 2, 3]), Some(2));
        requests.lock().unattended.insert(2);
        assert_eq!(likeliest(&[1, 2, 3]), Some(1), "the second call is unattended");
        let other = requests.add(request(None, &[1, 2, 3], 1)).unwrap();
        assert_eq!(likeliest(&[1, 2, 3]), Some(3), "each attended call has a request");
        requests.answer(newest, Err(RpcError::internal("no")));
        requests.lock().unattended.insert(3);
        assert_eq!(likeliest(&[1, 2, 3]), Some(1));
        requests.lock().unattended.insert(1);
        assert_eq!(likeliest(&[1, 2, 3]), Some(3), "all calls are unattended");
        assert_eq!(likeliest(&[]), None);
        drop(other);
    }

    #[test]
    fn among_equal_calls_a_capable_one_carries_the_request() {
        let requests = with_calls(&[(1, Some(PERSON)), (2, Some(DialogCapabilities::default()))]);
        let likeliest = || requests.likeliest_call(&[1, 2], PERSON, |it| it.elicitation).unwrap();
        assert_eq!(likeliest(), (1, PERSON));
        requests.lock().unattended.insert(1);
        assert_eq!(
            likeliest(),
            (2, DialogCapabilities::default()),
            "the capable call is unattended"
        );
    }

    #[test]
    fn dis_41_request_ends_when_every_possible_cause_was_abandoned() {
        let requests = with_calls(&[(1, None), (2, None)]);
        let (both, mut answer) = requests.add(request(None, &[1, 2], 2)).unwrap();
        let (own, mut own_answer) = requests.add(request(Some(2), &[2], 2)).unwrap();
        requests.close_call(2, CallEnd::Abandoned, PERSON);
        assert_eq!(carrier(&requests, both.id), Some(Some(1)), "the other call may have caused it");
        assert!(answer.try_recv().is_err());
        assert_eq!(carrier(&requests, own.id), None, "its only call was abandoned");
        assert!(own_answer.try_recv().unwrap().is_err(), "the server gets an error");
        assert!(!requests.answer(own.id, Ok(ObjectWriter::new().finish())));
        requests.close_call(1, CallEnd::Abandoned, PERSON);
        assert!(answer.try_recv().unwrap().is_err());
        assert!(requests.list().is_empty());
    }

    #[test]
    fn request_outlives_an_answered_call() {
        let requests = with_calls(&[(1, None), (2, None)]);
        let (asked, _answer) = requests.add(request(None, &[1, 2], 2)).unwrap();
        requests.close_call(2, CallEnd::Answered, PERSON);
        assert_eq!(carrier(&requests, asked.id), Some(Some(1)));
        requests.close_call(1, CallEnd::Abandoned, PERSON);
        assert_eq!(
            carrier(&requests, asked.id),
            Some(None),
            "the answered call may have caused it"
        );
        assert!(requests.answer(asked.id, Ok(ObjectWriter::new().finish())));
    }

    #[test]
    fn request_of_an_ended_call_is_refused() {
        let requests = with_calls(&[(1, None)]);
        assert_eq!(
            requests.add(request(Some(7), &[7], 7)).unwrap_err(),
            AddRequestError::CallEnded
        );
        let (asked, _answer) = requests.add(request(None, &[1, 7], 7)).unwrap();
        assert_eq!((asked.calls, asked.carrier), (vec![1], Some(1)));
    }

    #[test]
    fn request_is_rerouted_to_another_call() {
        let requests = with_calls(&[(1, None), (2, None)]);
        let (asked, _answer) = requests.add(request(None, &[1, 2], 2)).unwrap();
        assert!(requests.reroute(asked.id, 2, PERSON));
        assert_eq!(carrier(&requests, asked.id), Some(Some(1)));
        let (own, _answer) = requests.add(request(Some(2), &[2], 2)).unwrap();
        assert!(!requests.reroute(own.id, 2, PERSON));
    }
}
