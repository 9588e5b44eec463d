//! Dispatches incoming messages to calls, the request handler or the mailbox without waiting.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use toolcrib_wire::notification::{Cancelled, Progress};
use toolcrib_wire::subscription::subscription_id_from_meta;
use toolcrib_wire::{
    Body, FrameError, FrameTooLarge, Id, MalformedMessage, Message, MessageKind, Notification,
    Packet, RawJson, Request, Response, RpcError, Version, build, code, method,
};

use super::anomaly::Anomaly;
use super::error::{BadResponse, PeerCallError};
use super::mailbox;
use super::pending_calls::PendingCall;
use super::server_requests::{RequestDisposition, RequestKey, RequestOrigin, ServerRequests};
use super::shared_state::SharedState;
use super::{CallNotification, CallOutcome, PeerEvent};
use crate::transport::{CloseReason, Incoming, LinkFault, Outgoing, OutgoingKind, OutgoingMessage};

/// Member that names the causing request, in `_meta` or next to it.
const RELATED_REQUEST: &str = "relatedRequestId";

pub(super) struct Dispatcher {
    shared: Arc<SharedState>,
    requests: ServerRequests,
    events: mailbox::MailboxSender<PeerEvent>,
    /// Requests that were not sent before the link ended.
    unsent: Vec<Id>,
    /// True if an oversized message was counted before its end.
    is_overrun: bool,
}

impl Dispatcher {
    pub(super) fn new(
        shared: Arc<SharedState>,
        requests: ServerRequests,
        events: mailbox::MailboxSender<PeerEvent>,
    ) -> Self {
        Dispatcher { shared, requests, events, unsent: Vec::new(), is_overrun: false }
    }

    /// Runs until the link closes.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Incoming>) {
        let reason = loop {
            tokio::select! {
                incoming = inbox.recv() => match incoming {
                    Some(Incoming::Closed(reason)) => break reason,
                    None => break CloseReason::StreamEnded,
                    Some(incoming) => self.handle_incoming(incoming),
                },
                (key, answer) = self.requests.next_response() => self.send_answer(&key, answer),
            }
        };
        let reason = self.shared.masked_reason(reason);
        self.shared.close(&reason, std::mem::take(&mut self.unsent));
        self.events.push_once(PeerEvent::Closed(reason), |_| false);
    }

    fn handle_incoming(&mut self, incoming: Incoming) {
        self.shared.state().last_received = Instant::now();
        match incoming {
            Incoming::Packet { packet, on } => self.handle_packet(packet, on.as_ref()),
            Incoming::Malformed { fault, on } => self.handle_malformed(fault, None, on.as_ref()),
            Incoming::Unframed(error) => self.handle_unframed(&error),
            Incoming::Overrun(overrun) => self.handle_overrun(&overrun),
            Incoming::Framing(framing) => self.shared.state().framing = Some(framing),
            // Reported when the link closes, which follows: a caller that retries must see the closed link.
            Incoming::Failed { request, fault } if fault.is_unsent() => {
                self.unsent.push(request);
            }
            Incoming::Failed { request, fault } => self.handle_failed(&request, fault),
            Incoming::DeadlinePaused { request, is_paused } => {
                self.set_timer_paused(&request, is_paused)
            }
            // `run` handles this.
            Incoming::Closed(_) => {}
        }
    }

    fn set_timer_paused(&self, request: &Id, is_paused: bool) {
        let state = self.shared.state();
        match state.calls.get(request) {
            Some(call) if is_paused => call.timer.pause(),
            Some(call) => call.timer.resume(),
            None => {}
        }
    }

    fn handle_packet(&mut self, packet: Packet, on: Option<&Id>) {
        let batch = matches!(packet, Packet::Batch(_)).then(|| self.requests.open_batch());
        for item in packet.into_messages() {
            match item {
                Ok(Message::Response(response)) => self.handle_response(response, on),
                Ok(Message::Notification(notification)) => {
                    self.handle_notification(notification, on)
                }
                Ok(Message::Request(request)) => self.handle_request(request, batch, on),
                Err(fault) => self.handle_malformed(fault, batch, on),
            }
        }
        if let Some(batch) = batch
            && let Some(answers) = self.requests.complete_in_batch(batch, None)
        {
            self.send_message(answers);
        }
    }

    fn handle_response(&mut self, response: Response, on: Option<&Id>) {
        let Some(id) = response.id.as_ref().or(on).cloned() else {
            return self.record_anomaly(Anomaly::NoId, &example(response.raw()));
        };
        let pending = self.shared.state().calls.find_pending(&id);
        let Some((number, as_text)) = pending else {
            return self.handle_stray(&id, &example(response.raw()));
        };
        let outcome = if as_text {
            self.record_anomaly(Anomaly::Malformed, &example(response.raw()));
            Err(PeerCallError::Malformed(BadResponse::IdOfAnotherType))
        } else {
            call_outcome(&response)
        };
        self.shared.state().calls.complete(number, outcome);
    }

    fn handle_notification(&mut self, notification: Notification, on: Option<&Id>) {
        let notification = self.shared.masked_notification(notification);
        match notification.method.as_str() {
            method::PROGRESS => self.handle_progress(&notification),
            method::CANCELLED => self.handle_cancelled(&notification),
            method::SUBSCRIPTION_ACKNOWLEDGED => {
                self.handle_acknowledged(&notification, on);
                self.queue_event(notification, false);
            }
            method::LOG_MESSAGE => {
                let in_call = self.handle_log(&notification, on);
                self.queue_event(notification, in_call);
            }
            _ => self.queue_event(notification, false),
        }
    }

    fn handle_progress(&self, notification: &Notification) {
        let token = Progress::read(notification.params.json()).map(|progress| progress.token);
        let state = self.shared.state();
        let Some(call) = token.ok().and_then(|token| state.calls.get(&token)) else {
            drop(state);
            return self
                .record_anomaly(Anomaly::UnknownProgress, &example(notification.params.message()));
        };
        call.timer.progress();
        deliver_notification(call, notification, CallNotification::Progress);
    }

    /// Returns whether a call received the message.
    fn handle_log(&self, notification: &Notification, on: Option<&Id>) -> bool {
        let state = self.shared.state();
        let call = match on {
            Some(on) => state.calls.get(on),
            None => state.calls.exclusive_call(),
        };
        call.is_some_and(|call| deliver_notification(call, notification, CallNotification::Log))
    }

    /// In the legacy era the server cancels its own request. In the modern era it ends one of ours.
    fn handle_cancelled(&mut self, notification: &Notification) {
        let Ok(cancelled) = Cancelled::read(notification.params.json()) else {
            return self
                .record_anomaly(Anomaly::Malformed, &example(notification.params.message()));
        };
        let mut state = self.shared.state();
        if !state.version.as_ref().is_some_and(Version::is_modern) {
            drop(state);
            let params = notification.params.raw();
            return self.requests.cancel(&cancelled.request, params.as_ref());
        }
        if let Some((number, _)) = state.calls.find_pending(&cancelled.request) {
            state.calls.complete(number, Err(PeerCallError::EndedByServer));
        }
    }

    fn handle_acknowledged(&self, notification: &Notification, on: Option<&Id>) {
        let meta = notification.params.json().get("_meta");
        let subscription = meta.and_then(subscription_id_from_meta);
        let state = self.shared.state();
        let call = subscription.as_ref().or(on).and_then(|id| state.calls.get(id));
        if let Some(acknowledged) = call.and_then(|call| call.acknowledged.as_ref()) {
            // A full queue already signals it.
            let _ = acknowledged.try_send(());
        }
    }

    fn queue_event(&self, notification: Notification, in_call: bool) {
        // One list change notification is as good as many. Limited to known methods, because a server can invent any
        // number of names.
        let once = [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED]
            .contains(&notification.method.as_str());
        let bytes = notification.params.message().text().len();
        let method = notification.method.clone();
        let event = PeerEvent::Notification { notification, in_call };
        if once {
            self.events.push_once(event, |queued| queued.is_notification(&method));
        } else {
            self.events.push(event, bytes);
        }
    }

    fn handle_request(&mut self, request: Request, batch: Option<u64>, on: Option<&Id>) {
        let request = self.shared.masked_request(request);
        let key = self.request_key(request.id.clone(), batch);
        let (origin, calls) = {
            let state = self.shared.state();
            let named = || related_request(&request.params).filter(|id| state.calls.was_issued(id));
            match on.cloned().or_else(named) {
                Some(id) => match state.calls.get(&id) {
                    Some(call) => (RequestOrigin::Call(call.tag), vec![call.candidate()]),
                    None => (RequestOrigin::Ended, Vec::new()),
                },
                None => (RequestOrigin::Unknown, state.calls.candidates()),
            }
        };
        match self.requests.accept(&key, request, origin, calls) {
            RequestDisposition::Running => {}
            RequestDisposition::Answered(answer) => self.send_answer(&key, Some(answer)),
            RequestDisposition::TooMany(answer) => {
                self.record_anomaly(Anomaly::TooManyRequests, "");
                self.send_answer(&key, Some(answer));
            }
        }
    }

    /// A malformed response fails its call and a malformed request gets an error response. Everything else is only
    /// counted.
    fn handle_malformed(
        &mut self,
        malformed: MalformedMessage,
        batch: Option<u64>,
        on: Option<&Id>,
    ) {
        self.record_anomaly(Anomaly::Malformed, &malformed.error.to_string());
        match (malformed.kind, malformed.id) {
            (MessageKind::Notification, _) => {}
            (MessageKind::Request, Some(id)) => {
                let key = self.request_key(id, batch);
                let refusal = RpcError::new(code::INVALID_REQUEST, malformed.error.to_string());
                let answer = build::error(Some(&key.id), &refusal);
                self.send_answer(&key, Some(answer));
            }
            (MessageKind::Request, None) => {}
            (MessageKind::Response | MessageKind::Unknown, id) => {
                let error = PeerCallError::Malformed(BadResponse::Fault(malformed.error));
                if let Some(id) = id.as_ref().or(on) {
                    self.fail_call(id, error);
                }
            }
        }
    }

    fn handle_unframed(&mut self, error: &FrameError) {
        match error {
            FrameError::Noise { excerpt, .. } => self.record_anomaly(Anomaly::Noise, excerpt),
            FrameError::BadHeader { excerpt } => self.record_anomaly(Anomaly::BadHeader, excerpt),
            FrameError::Truncated { excerpt, .. } => {
                self.record_anomaly(Anomaly::Truncated, excerpt)
            }
            FrameError::TooLarge { limit, head, id, kind: shape } => {
                if !std::mem::take(&mut self.is_overrun) {
                    self.record_anomaly(
                        Anomaly::TooLarge,
                        &clip_example(&String::from_utf8_lossy(head)),
                    );
                }
                self.fail_too_large(*limit, id.as_ref(), *shape);
            }
        }
    }

    /// Fails calls with an oversized response before the response ends, because a line without a newline never ends. A
    /// message whose id may still follow fails no call, except during the handshake, which cannot continue without it.
    fn handle_overrun(&mut self, overrun: &FrameTooLarge) {
        self.record_anomaly(
            Anomaly::TooLarge,
            &clip_example(&String::from_utf8_lossy(&overrun.head)),
        );
        self.is_overrun = true;
        let mut state = self.shared.state();
        let failed = match overrun.kind {
            MessageKind::Request | MessageKind::Notification => Vec::new(),
            _ if state.version.is_none() => state.calls.numbers(),
            MessageKind::Unknown if overrun.is_message => Vec::new(),
            MessageKind::Response | MessageKind::Unknown => {
                state.calls.single_pending().into_iter().collect()
            }
        };
        for number in failed {
            state.calls.complete(number, Err(PeerCallError::TooLarge { limit: overrun.limit }));
        }
    }

    /// An oversized response without an id belongs to the only pending call, if there is just one.
    fn fail_too_large(&self, limit: usize, id: Option<&Id>, shape: MessageKind) {
        let mut state = self.shared.state();
        let pending = match (shape, id, state.calls.numbers().as_slice()) {
            (MessageKind::Request | MessageKind::Notification, ..) => None,
            (_, Some(id), _) => state.calls.find_pending(id).map(|(number, _)| number),
            (_, None, [only]) => Some(*only),
            _ => None,
        };
        if let Some(number) = pending {
            state.calls.complete(number, Err(PeerCallError::TooLarge { limit }));
        }
    }

    fn handle_failed(&self, request: &Id, fault: LinkFault) {
        self.fail_call(request, PeerCallError::Failed(fault));
    }

    fn fail_call(&self, id: &Id, error: PeerCallError) {
        let mut state = self.shared.state();
        if let Some((number, _)) = state.calls.find_pending(id) {
            state.calls.complete(number, Err(error));
        }
    }

    fn handle_stray(&self, id: &Id, example: &str) {
        let anomaly = self.shared.state().calls.classify_stray(id);
        if let Some(anomaly) = anomaly {
            self.record_anomaly(anomaly, example);
        }
    }

    fn request_key(&mut self, id: Id, batch: Option<u64>) -> RequestKey {
        if let Some(batch) = batch {
            self.requests.expect_response(batch);
        }
        RequestKey { id, batch }
    }

    fn send_answer(&mut self, key: &RequestKey, answer: Option<RawJson>) {
        let message = match key.batch {
            Some(batch) => self.requests.complete_in_batch(batch, answer),
            None => answer,
        };
        if let Some(message) = message {
            self.send_message(message);
        }
    }

    fn send_message(&self, raw: RawJson) {
        let version = self.shared.state().version.clone();
        self.shared.enqueue(Outgoing::Message(OutgoingMessage {
            raw,
            kind: OutgoingKind::Response,
            version,
            headers: Vec::new(),
        }));
    }

    fn record_anomaly(&self, anomaly: Anomaly, example: &str) {
        if self.shared.record_anomaly(anomaly, example) {
            self.events.push_once(PeerEvent::Anomaly(anomaly), |_| false);
        }
    }
}

pub(super) fn call_outcome(response: &Response) -> CallOutcome {
    let body = response.result().map_err(|error| PeerCallError::Refused(error.clone()))?;
    // `json` returns an empty object for an absent or null result, which is not what the server sent.
    let kind = body.raw().map_or(toolcrib_wire::JsonKind::Null, |raw| raw.json().kind());
    if kind != toolcrib_wire::JsonKind::Object {
        return Err(PeerCallError::Malformed(BadResponse::NotAnObject(kind)));
    }
    Ok(body.clone())
}

/// Our request that a server request names as its cause. Only needed on a stream that all calls share.
fn related_request(params: &Body) -> Option<Id> {
    let meta = params.meta().and_then(|meta| meta.get(RELATED_REQUEST));
    let named = meta.or_else(|| params.get(RELATED_REQUEST))?;
    match (named.as_i64(), named.as_str()) {
        (Some(number), _) => Some(Id::Number(number)),
        (None, Some(text)) => Some(Id::from(&*text)),
        (None, None) => None,
    }
}

/// Delivers the notification to the call's sink. Returns false without a sink.
fn deliver_notification(
    call: &PendingCall,
    notification: &Notification,
    kind: fn(RawJson) -> CallNotification,
) -> bool {
    let (Some(listener), Some(params)) = (&call.listener, notification.params.raw()) else {
        return false;
    };
    listener.on_notification(kind(params));
    true
}

fn example(message: &RawJson) -> String {
    clip_example(message.text())
}

fn clip_example(text: &str) -> String {
    text.chars().take(200).collect()
}
