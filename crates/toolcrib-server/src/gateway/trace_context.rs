//! Copies trace context from HTTP headers into requests.

use toolcrib_wire::{Json, Message, Packet, RawJson, Request, build, method, parse};

use super::LIMITS;
use super::dispatch::empty_result;
use crate::front::headers::Headers;
use crate::trace;

/// Copies trace headers into the `_meta` of a forwarded request that has no trace context. Returns `None` if the
/// request needs no change.
pub(super) fn with_trace_headers(headers: &dyn Headers, request: &Request) -> Option<Request> {
    let parent = headers.text(trace::TRACEPARENT)?;
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    if !is_forwarded(&request.method) || meta.get(trace::TRACEPARENT).is_some() {
        return None;
    }
    let mut trace_members = vec![(trace::TRACEPARENT, Some(RawJson::string(parent)))];
    trace_members.extend(
        headers
            .text(trace::TRACESTATE)
            .map(|state| (trace::TRACESTATE, Some(RawJson::string(state)))),
    );
    let meta = RawJson::from(meta).with_members(trace_members);
    let params =
        request.params.raw().unwrap_or_else(empty_result).with_members([("_meta", Some(meta))]);
    let message = build::request(&request.id, &request.method, Some(params.json()));
    match parse(message.as_bytes().to_vec(), &LIMITS) {
        Ok(Packet::One(Message::Request(traced))) => Some(traced),
        // The request is valid without the trace context.
        _ => None,
    }
}

/// Returns whether the `_meta` of this method is forwarded to a server.
fn is_forwarded(called: &str) -> bool {
    use method::{COMPLETE, PROMPTS_GET, RESOURCES_READ, RESOURCES_SUBSCRIBE, TOOLS_CALL};
    [TOOLS_CALL, RESOURCES_READ, PROMPTS_GET, COMPLETE, RESOURCES_SUBSCRIBE].contains(&called)
}
