//! Of which trace a request is.

use toolcrib_wire::{Json, Message, Packet, Raw, Request, build, method, parse};

use super::LIMITS;
use super::answer::empty;
use crate::front::headers::Headers;
use crate::trace;

/// Where only the head says of which trace a request is, the body does from now on: servers are told what it says. None
/// where the request stays as it is.
pub(super) fn traced(headers: &dyn Headers, request: &Request) -> Option<Request> {
    let parent = headers.text(trace::PARENT)?;
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    if !is_handed_on(&request.method) || meta.get(trace::PARENT).is_some() {
        return None;
    }
    let mut said = vec![(trace::PARENT, Some(Raw::string(parent)))];
    said.extend(headers.text(trace::STATE).map(|state| (trace::STATE, Some(Raw::string(state)))));
    let meta = Raw::from(meta).with_members(said);
    let params = request.params.raw().unwrap_or_else(empty).with_members([("_meta", Some(meta))]);
    let message = build::request(&request.id, &request.method, Some(params.json()));
    match parse(message.as_bytes().to_vec(), &LIMITS) {
        Ok(Packet::One(Message::Request(traced))) => Some(traced),
        // It was good without a trace.
        _ => None,
    }
}

/// Whether a server may be told what comes with it.
fn is_handed_on(called: &str) -> bool {
    use method::{COMPLETE, PROMPTS_GET, RESOURCES_READ, RESOURCES_SUBSCRIBE, TOOLS_CALL};
    [TOOLS_CALL, RESOURCES_READ, PROMPTS_GET, COMPLETE, RESOURCES_SUBSCRIBE].contains(&called)
}
