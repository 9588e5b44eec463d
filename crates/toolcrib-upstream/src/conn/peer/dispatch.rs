//! Takes what comes in and never waits: each message goes to its call, its handler or the mailbox.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use toolcrib_wire::notice::{Cancelled, Progress};
use toolcrib_wire::subscription::subscription_of;
use toolcrib_wire::{
    Body, FrameError, Id, Malformed, Message, Notification, Overrun, Packet, Raw, Request,
    Response, RpcError, Shape, Version, build, code, method,
};

use super::asks::{Asks, Origin, Taken, Ticket};
use super::calls::Waiting;
use super::error::{BadAnswer, CallError};
use super::mailbox;
use super::oddity::Odd;
use super::shared::Shared;
use super::{Event, Outcome, Remark};
use crate::transport::{CloseReason, Incoming, LinkFault, Outgoing, Outward, What};

/// Where a server names the request that caused its own, in `_meta` or beside it.
const RELATED_REQUEST: &str = "relatedRequestId";

pub(super) struct Dispatch {
    shared: Arc<Shared>,
    asks: Asks,
    events: mailbox::Sender<Event>,
    /// Calls that the link ended before.
    unsent: Vec<Id>,
    /// Whether a message that is over the limit was counted before its end.
    is_overrun: bool,
}

impl Dispatch {
    pub(super) fn new(shared: Arc<Shared>, asks: Asks, events: mailbox::Sender<Event>) -> Self {
        Dispatch { shared, asks, events, unsent: Vec::new(), is_overrun: false }
    }

    /// Until the link is closed.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Incoming>) {
        let reason = loop {
            tokio::select! {
                incoming = inbox.recv() => match incoming {
                    Some(Incoming::Closed(reason)) => break reason,
                    None => break CloseReason::Ended,
                    Some(incoming) => self.take(incoming),
                },
                (ticket, answer) = self.asks.next() => self.answered(&ticket, answer),
            }
        };
        let reason = self.shared.masked_reason(reason);
        self.shared.end(&reason, std::mem::take(&mut self.unsent));
        self.events.push_once(Event::Closed(reason), |_| false);
    }

    fn take(&mut self, incoming: Incoming) {
        self.shared.state().heard = Instant::now();
        match incoming {
            Incoming::Packet { packet, on } => self.packet(packet, on.as_ref()),
            Incoming::Malformed { fault, on } => self.malformed(fault, None, on.as_ref()),
            Incoming::Unframed(error) => self.unframed(&error),
            Incoming::Overrun(overrun) => self.overrun(&overrun),
            Incoming::Framing(framing) => self.shared.state().framing = Some(framing),
            // Told with the end of the link, which follows: whoever tries again must know of it.
            Incoming::Failed { request, fault } if fault.is_unsent() => {
                self.unsent.push(request);
            }
            Incoming::Failed { request, fault } => self.failed(&request, fault),
            Incoming::Standing { request, stands } => self.standing(&request, stands),
            // The loop has taken it.
            Incoming::Closed(_) => {}
        }
    }

    fn standing(&self, request: &Id, stands: bool) {
        let state = self.shared.state();
        match state.calls.get(request) {
            Some(waiting) if stands => waiting.clock.pause(),
            Some(waiting) => waiting.clock.resume(),
            None => {}
        }
    }

    fn packet(&mut self, packet: Packet, on: Option<&Id>) {
        let batch = matches!(packet, Packet::Batch(_)).then(|| self.asks.open_batch());
        for item in packet.into_messages() {
            match item {
                Ok(Message::Response(response)) => self.response(response, on),
                Ok(Message::Notification(notification)) => self.notification(notification, on),
                Ok(Message::Request(request)) => self.request(request, batch, on),
                Err(fault) => self.malformed(fault, batch, on),
            }
        }
        if let Some(batch) = batch
            && let Some(answers) = self.asks.gather(batch, None)
        {
            self.send(answers);
        }
    }

    fn response(&mut self, response: Response, on: Option<&Id>) {
        let Some(id) = response.id.as_ref().or(on).cloned() else {
            return self.odd(Odd::NoId, &example(response.raw()));
        };
        let meant = self.shared.state().calls.meant(&id);
        let Some((number, as_text)) = meant else {
            return self.stray(&id, &example(response.raw()));
        };
        let outcome = if as_text {
            self.odd(Odd::Malformed, &example(response.raw()));
            Err(CallError::Malformed(BadAnswer::IdOfAnotherType))
        } else {
            outcome(&response)
        };
        self.shared.state().calls.settle(number, outcome);
    }

    fn notification(&mut self, notification: Notification, on: Option<&Id>) {
        let notification = self.shared.masked_notification(notification);
        match notification.method.as_str() {
            method::PROGRESS => self.progress(&notification),
            method::CANCELLED => self.cancelled(&notification),
            method::SUBSCRIPTION_ACKNOWLEDGED => {
                self.acknowledged(&notification, on);
                self.notice(notification, false);
            }
            method::LOG_MESSAGE => {
                let in_call = self.log(&notification, on);
                self.notice(notification, in_call);
            }
            _ => self.notice(notification, false),
        }
    }

    fn progress(&self, notification: &Notification) {
        let token = Progress::read(notification.params.json()).map(|progress| progress.token);
        let state = self.shared.state();
        let Some(waiting) = token.ok().and_then(|token| state.calls.get(&token)) else {
            drop(state);
            return self.odd(Odd::UnknownProgress, &example(notification.params.message()));
        };
        waiting.clock.progress();
        remark(waiting, notification, Remark::Progress);
    }

    /// Whether a call was told.
    fn log(&self, notification: &Notification, on: Option<&Id>) -> bool {
        let state = self.shared.state();
        let waiting = match on {
            Some(on) => state.calls.get(on),
            None => state.calls.alone(),
        };
        waiting.is_some_and(|waiting| remark(waiting, notification, Remark::Log))
    }

    /// In the legacy era a server calls off its own request, in the modern era it ends one of ours.
    fn cancelled(&mut self, notification: &Notification) {
        let Ok(cancelled) = Cancelled::read(notification.params.json()) else {
            return self.odd(Odd::Malformed, &example(notification.params.message()));
        };
        let mut state = self.shared.state();
        if !state.version.as_ref().is_some_and(Version::is_modern) {
            drop(state);
            let words = notification.params.raw();
            return self.asks.call_off(&cancelled.request, words.as_ref());
        }
        if let Some((number, _)) = state.calls.meant(&cancelled.request) {
            state.calls.settle(number, Err(CallError::EndedByServer));
        }
    }

    fn acknowledged(&self, notification: &Notification, on: Option<&Id>) {
        let meta = notification.params.json().get("_meta");
        let subscription = meta.and_then(subscription_of);
        let state = self.shared.state();
        let waiting = subscription.as_ref().or(on).and_then(|id| state.calls.get(id));
        if let Some(acknowledged) = waiting.and_then(|waiting| waiting.acknowledged.as_ref()) {
            // A full queue says the same already.
            let _ = acknowledged.try_send(());
        }
    }

    fn notice(&self, notification: Notification, in_call: bool) {
        // That a list has changed says as much once as many times. Only methods that are known: there is no end
        // to what a server can make up.
        let once = [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED]
            .contains(&notification.method.as_str());
        let bytes = notification.params.message().text().len();
        let method = notification.method.clone();
        let event = Event::Notification { notification, in_call };
        if once {
            self.events.push_once(event, |queued| queued.is(&method));
        } else {
            self.events.push(event, bytes);
        }
    }

    fn request(&mut self, request: Request, batch: Option<u64>, on: Option<&Id>) {
        let request = self.shared.masked_request(request);
        let ticket = self.ticket(request.id.clone(), batch);
        let (origin, calls) = {
            let state = self.shared.state();
            let named = || related_request(&request.params).filter(|id| state.calls.has_begun(id));
            match on.cloned().or_else(named) {
                Some(id) => match state.calls.get(&id) {
                    Some(waiting) => (Origin::Call(waiting.tag), vec![waiting.candidate()]),
                    None => (Origin::Ended, Vec::new()),
                },
                None => (Origin::Unknown, state.calls.candidates()),
            }
        };
        match self.asks.take(&ticket, request, origin, calls) {
            Taken::Later => {}
            Taken::Now(answer) => self.answered(&ticket, Some(answer)),
            Taken::TooMany(answer) => {
                self.odd(Odd::TooManyRequests, "");
                self.answered(&ticket, Some(answer));
            }
        }
    }

    /// A bad answer fails its call, a bad request is answered, the rest is only counted.
    fn malformed(&mut self, malformed: Malformed, batch: Option<u64>, on: Option<&Id>) {
        self.odd(Odd::Malformed, &malformed.fault.to_string());
        match (malformed.shape, malformed.id) {
            (Shape::Notification, _) => {}
            (Shape::Request, Some(id)) => {
                let ticket = self.ticket(id, batch);
                let refusal = RpcError::new(code::INVALID_REQUEST, malformed.fault.to_string());
                let answer = build::error(Some(&ticket.id), &refusal);
                self.answered(&ticket, Some(answer));
            }
            (Shape::Request, None) => {}
            (Shape::Response | Shape::Unknown, id) => {
                let error = CallError::Malformed(BadAnswer::Fault(malformed.fault));
                if let Some(id) = id.as_ref().or(on) {
                    self.fail(id, error);
                }
            }
        }
    }

    fn unframed(&mut self, error: &FrameError) {
        match error {
            FrameError::Noise { excerpt, .. } => self.odd(Odd::Noise, excerpt),
            FrameError::BadHeader { excerpt } => self.odd(Odd::BadHeader, excerpt),
            FrameError::Truncated { excerpt, .. } => self.odd(Odd::Truncated, excerpt),
            FrameError::TooLarge { limit, head, id, shape } => {
                if !std::mem::take(&mut self.is_overrun) {
                    self.odd(Odd::TooLarge, &clip(&String::from_utf8_lossy(head)));
                }
                self.too_large(*limit, id.as_ref(), *shape);
            }
        }
    }

    /// Fails calls whose answer is over the limit, before the answer ends: a line without a newline has no end. A message
    /// whose id may follow fails nobody yet, except during the handshake, when no call can go on without it.
    fn overrun(&mut self, overrun: &Overrun) {
        self.odd(Odd::TooLarge, &clip(&String::from_utf8_lossy(&overrun.head)));
        self.is_overrun = true;
        let mut state = self.shared.state();
        let failed = match overrun.shape {
            Shape::Request | Shape::Notification => Vec::new(),
            _ if state.version.is_none() => state.calls.numbers(),
            Shape::Unknown if overrun.is_message => Vec::new(),
            Shape::Response | Shape::Unknown => state.calls.only().into_iter().collect(),
        };
        for number in failed {
            state.calls.settle(number, Err(CallError::TooLarge { limit: overrun.limit }));
        }
    }

    /// A server that forgets even the id has answered somebody: if only one call is under way it must be that.
    fn too_large(&self, limit: usize, id: Option<&Id>, shape: Shape) {
        let mut state = self.shared.state();
        let meant = match (shape, id, state.calls.numbers().as_slice()) {
            (Shape::Request | Shape::Notification, ..) => None,
            (_, Some(id), _) => state.calls.meant(id).map(|(number, _)| number),
            (_, None, [only]) => Some(*only),
            _ => None,
        };
        if let Some(number) = meant {
            state.calls.settle(number, Err(CallError::TooLarge { limit }));
        }
    }

    fn failed(&self, request: &Id, fault: LinkFault) {
        self.fail(request, CallError::Failed(fault));
    }

    fn fail(&self, id: &Id, error: CallError) {
        let mut state = self.shared.state();
        if let Some((number, _)) = state.calls.meant(id) {
            state.calls.settle(number, Err(error));
        }
    }

    fn stray(&self, id: &Id, example: &str) {
        let odd = self.shared.state().calls.stray(id);
        if let Some(odd) = odd {
            self.odd(odd, example);
        }
    }

    fn ticket(&mut self, id: Id, batch: Option<u64>) -> Ticket {
        if let Some(batch) = batch {
            self.asks.expect(batch);
        }
        Ticket { id, batch }
    }

    fn answered(&mut self, ticket: &Ticket, answer: Option<Raw>) {
        let message = match ticket.batch {
            Some(batch) => self.asks.gather(batch, answer),
            None => answer,
        };
        if let Some(message) = message {
            self.send(message);
        }
    }

    fn send(&self, raw: Raw) {
        let version = self.shared.state().version.clone();
        self.shared.post(Outgoing::Message(Outward {
            raw,
            what: What::Answer,
            version,
            headers: Vec::new(),
        }));
    }

    fn odd(&self, odd: Odd, example: &str) {
        if self.shared.odd(odd, example) {
            self.events.push_once(Event::Odd(odd), |_| false);
        }
    }
}

pub(super) fn outcome(response: &Response) -> Outcome {
    let body = response.answer().map_err(|error| CallError::Refused(error.clone()))?;
    // `json` takes an absent or null result for an empty object, which is not what was sent.
    let kind = body.raw().map_or(toolcrib_wire::Kind::Null, |raw| raw.json().kind());
    if kind != toolcrib_wire::Kind::Object {
        return Err(CallError::Malformed(BadAnswer::NotAnObject(kind)));
    }
    Ok(body.clone())
}

/// The request of ours that a request of the server names as its cause. Only needed where nothing else tells: on a
/// stream that all calls share.
fn related_request(params: &Body) -> Option<Id> {
    let meta = params.meta().and_then(|meta| meta.get(RELATED_REQUEST));
    let named = meta.or_else(|| params.get(RELATED_REQUEST))?;
    match (named.as_i64(), named.as_str()) {
        (Some(number), _) => Some(Id::Number(number)),
        (None, Some(text)) => Some(Id::from(&*text)),
        (None, None) => None,
    }
}

/// Whether somebody listens to what is said about the call.
fn remark(waiting: &Waiting, notification: &Notification, kind: fn(Raw) -> Remark) -> bool {
    let (Some(remarks), Some(params)) = (&waiting.remarks, notification.params.raw()) else {
        return false;
    };
    remarks.hear(kind(params));
    true
}

fn example(message: &Raw) -> String {
    clip(message.text())
}

fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}
