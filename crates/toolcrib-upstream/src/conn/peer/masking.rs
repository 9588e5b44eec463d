//! The border: secrets that the server was given are masked in all that it says before anybody above sees it. Results
//! stay as they are unless the configuration wants them masked, too.

use toolcrib_wire::{
    Body, Id, Limits, Message, Notification, Packet, Raw, Request, build, method, parse,
};

use super::calls::Outcome;
use super::error::{BadAnswer, CallError};
use super::shared::Shared;
use crate::signals::Said;
use crate::transport::CloseReason;

/// What was within the limits stays so without its secrets.
const LIMITS: Limits = Limits { size: usize::MAX, depth: usize::MAX, batch: 1 };

impl Shared {
    /// Whether an answer has to be looked at.
    pub(super) fn masks(&self, method: &str, body: &Body) -> bool {
        match said(method) {
            Said::Result => self.masks_results || is_question(body),
            Said::Message | Said::Listing | Said::Error => true,
        }
    }

    pub(super) fn masked_outcome(&self, method: &str, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(body) => {
                let said = if is_question(&body) { Said::Message } else { said(method) };
                let result = body.raw().and_then(|raw| self.facts.mask.mask_json(&raw, said));
                match result {
                    Some(result) => result_body(result),
                    None => Ok(body),
                }
            }
            Err(error) => Err(self.masked_error(error)),
        }
    }

    fn masked_error(&self, error: CallError) -> CallError {
        let mask = &self.facts.mask;
        match error {
            CallError::Refused(refusal) => {
                CallError::Refused(mask.mask_rpc_error(&refusal).unwrap_or(refusal))
            }
            CallError::Failed(fault) => CallError::Failed(fault.masked(mask)),
            CallError::Closed(reason) => CallError::Closed(self.masked_reason(reason)),
            CallError::Unsent(reason) => CallError::Unsent(self.masked_reason(reason)),
            CallError::Unanswered { method, cause } => {
                CallError::Unanswered { method: mask.mask_text(method), cause }
            }
            CallError::Timeout { .. }
            | CallError::Malformed(_)
            | CallError::TooLarge { .. }
            | CallError::EndedByServer
            | CallError::TooManyRounds(_) => error,
        }
    }

    pub(super) fn masked_reason(&self, reason: CloseReason) -> CloseReason {
        match reason {
            CloseReason::Broken(fault) => CloseReason::Broken(fault.masked(&self.facts.mask)),
            CloseReason::Asked | CloseReason::Ended | CloseReason::Exited(_) => reason,
        }
    }

    pub(super) fn masked_notification(&self, notification: Notification) -> Notification {
        // The URI of a resource that changed has to stay usable, unless the resource is not offered for its secret.
        let is_left = |params: Raw| self.facts.mask.is_left_in(&params);
        let said = match notification.method.as_str() {
            method::RESOURCE_UPDATED if !notification.params.raw().is_some_and(is_left) => {
                Said::Listing
            }
            _ => Said::Message,
        };
        let Some(params) = self.masked_params(&notification.params, said) else {
            return notification;
        };
        let message = build::notification(&notification.method, Some(params.json()));
        match read(&message) {
            Some(Message::Notification(masked)) => masked,
            _ => notification,
        }
    }

    pub(super) fn masked_request(&self, request: Request) -> Request {
        let Some(params) = self.masked_params(&request.params, Said::Message) else {
            return request;
        };
        let message = build::request(&request.id, &request.method, Some(params.json()));
        match read(&message) {
            Some(Message::Request(masked)) => masked,
            _ => request,
        }
    }

    fn masked_params(&self, params: &Body, said: Said) -> Option<Raw> {
        self.facts.mask.mask_json(&params.raw()?, said)
    }
}

fn said(called: &str) -> Said {
    match called {
        method::INITIALIZE | method::DISCOVER => Said::Message,
        method::TOOLS_LIST
        | method::PROMPTS_LIST
        | method::RESOURCES_LIST
        | method::RESOURCE_TEMPLATES_LIST => Said::Listing,
        _ => Said::Result,
    }
}

/// Whether the server asks for something before it gives its result.
fn is_question(body: &Body) -> bool {
    body.result_type().as_deref() == Some("input_required")
}

fn result_body(result: Raw) -> Outcome {
    let message = build::response(&Id::Number(0), result);
    match read(&message) {
        Some(Message::Response(response)) => super::dispatch::outcome(&response),
        _ => Err(CallError::Malformed(BadAnswer::NotAnObject(toolcrib_wire::Kind::Null))),
    }
}

fn read(message: &Raw) -> Option<Message> {
    match parse(message.as_bytes(), &LIMITS) {
        Ok(Packet::One(message)) => Some(message),
        _ => None,
    }
}
