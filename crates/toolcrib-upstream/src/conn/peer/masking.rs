//! Masks secrets in everything a server sends before other layers see it.
//!
//! Results stay unmasked unless the configuration enables it.

use toolcrib_wire::{
    Body, Id, Message, MessageLimits, Notification, Packet, RawJson, Request, build, method, parse,
};

use super::error::{BadResponse, PeerCallError};
use super::pending_calls::CallOutcome;
use super::shared_state::SharedState;
use crate::signals::MaskContext;
use crate::transport::CloseReason;

/// The original message was within the limits, so the masked one needs none.
const LIMITS: MessageLimits = MessageLimits { size: usize::MAX, depth: usize::MAX, batch: 1 };

impl SharedState {
    /// Returns whether a response has to be masked.
    pub(super) fn must_mask(&self, method: &str, body: &Body) -> bool {
        match content_kind(method) {
            MaskContext::Result => self.masks_results || requires_input(body),
            MaskContext::Message | MaskContext::Listing | MaskContext::Error => true,
        }
    }

    pub(super) fn masked_outcome(&self, method: &str, outcome: CallOutcome) -> CallOutcome {
        match outcome {
            Ok(body) => {
                let context =
                    if requires_input(&body) { MaskContext::Message } else { content_kind(method) };
                let result =
                    body.raw().and_then(|raw| self.link_info.mask.mask_json(&raw, context));
                match result {
                    Some(result) => result_body(result),
                    None => Ok(body),
                }
            }
            Err(error) => Err(self.masked_error(error)),
        }
    }

    fn masked_error(&self, error: PeerCallError) -> PeerCallError {
        let mask = &self.link_info.mask;
        match error {
            PeerCallError::Refused(refusal) => {
                PeerCallError::Refused(mask.mask_rpc_error(&refusal).unwrap_or(refusal))
            }
            PeerCallError::Failed(fault) => PeerCallError::Failed(fault.masked(mask)),
            PeerCallError::Closed(reason) => PeerCallError::Closed(self.masked_reason(reason)),
            PeerCallError::Unsent(reason) => PeerCallError::Unsent(self.masked_reason(reason)),
            PeerCallError::Unanswered { method, cause } => {
                PeerCallError::Unanswered { method: mask.mask_text(method), cause }
            }
            PeerCallError::Timeout { .. }
            | PeerCallError::Malformed(_)
            | PeerCallError::TooLarge { .. }
            | PeerCallError::EndedByServer
            | PeerCallError::TooManyRounds(_) => error,
        }
    }

    pub(super) fn masked_reason(&self, reason: CloseReason) -> CloseReason {
        match reason {
            CloseReason::Broken(fault) => CloseReason::Broken(fault.masked(&self.link_info.mask)),
            CloseReason::HostClosed | CloseReason::StreamEnded | CloseReason::Exited(_) => reason,
        }
    }

    pub(super) fn masked_notification(&self, notification: Notification) -> Notification {
        // The URI of an updated resource has to stay usable, unless the resource is not offered because of a secret.
        let contains_secret = |params: RawJson| self.link_info.mask.contains_secret(&params);
        let context = match notification.method.as_str() {
            method::RESOURCE_UPDATED if !notification.params.raw().is_some_and(contains_secret) => {
                MaskContext::Listing
            }
            _ => MaskContext::Message,
        };
        let Some(params) = self.masked_params(&notification.params, context) else {
            return notification;
        };
        let message = build::notification(&notification.method, Some(params.json()));
        match parse_message(&message) {
            Some(Message::Notification(masked)) => masked,
            _ => notification,
        }
    }

    pub(super) fn masked_request(&self, request: Request) -> Request {
        let Some(params) = self.masked_params(&request.params, MaskContext::Message) else {
            return request;
        };
        let message = build::request(&request.id, &request.method, Some(params.json()));
        match parse_message(&message) {
            Some(Message::Request(masked)) => masked,
            _ => request,
        }
    }

    fn masked_params(&self, params: &Body, context: MaskContext) -> Option<RawJson> {
        self.link_info.mask.mask_json(&params.raw()?, context)
    }
}

fn content_kind(method: &str) -> MaskContext {
    match method {
        method::INITIALIZE | method::DISCOVER => MaskContext::Message,
        method::TOOLS_LIST
        | method::PROMPTS_LIST
        | method::RESOURCES_LIST
        | method::RESOURCE_TEMPLATES_LIST => MaskContext::Listing,
        _ => MaskContext::Result,
    }
}

/// Returns whether the server requests input before its result.
fn requires_input(body: &Body) -> bool {
    body.result_type().as_deref() == Some("input_required")
}

fn result_body(result: RawJson) -> CallOutcome {
    let message = build::response(&Id::Number(0), result);
    match parse_message(&message) {
        Some(Message::Response(response)) => super::dispatch::call_outcome(&response),
        _ => Err(PeerCallError::Malformed(BadResponse::NotAnObject(toolcrib_wire::JsonKind::Null))),
    }
}

fn parse_message(message: &RawJson) -> Option<Message> {
    match parse(message.as_bytes(), &LIMITS) {
        Ok(Packet::One(message)) => Some(message),
        _ => None,
    }
}
