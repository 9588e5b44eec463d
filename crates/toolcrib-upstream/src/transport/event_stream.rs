//! Reads an event stream and remembers where to resume it.

use std::mem;
use std::time::Duration;

use toolcrib_wire::{
    Id, MalformedMessage, Message, MessageKind, MessageLimits, Packet, ParseError, SseDecoder,
    SseEvent, SseItem, SseTooLarge, parse, recover_id,
};

use super::http_fault::HttpFault;
use super::http_response::ResponseBody;
use super::link::Incoming;

/// Consecutive attempts to resume a stream without a new event.
const MAX_ATTEMPTS: u32 = 5;

/// First delay when the server names none. It doubles with each failed attempt.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Longest delay that a server can request.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(600);

pub(super) struct EventStream {
    body: ResponseBody,
    limits: MessageLimits,
    decoder: SseDecoder,
    ended: bool,
    pub(super) cursor: StreamCursor,
}

/// Position in a stream, kept over reconnects.
#[derive(Debug, Default)]
pub(super) struct StreamCursor {
    last_id: Option<String>,
    retry: Option<Duration>,
    failed_attempts: u32,
}

impl EventStream {
    pub(super) fn new(body: ResponseBody, limits: MessageLimits, cursor: StreamCursor) -> Self {
        Self { body, limits, decoder: SseDecoder::new(&limits), ended: false, cursor }
    }

    /// The next event, or `None` at the end. Comments only reset the read timeout.
    pub(super) async fn next(
        &mut self,
    ) -> Result<Option<Result<SseEvent, SseTooLarge>>, HttpFault> {
        loop {
            let found = self.decoder.next();
            self.update_cursor();
            match found {
                Some(Ok(SseItem::Event(event))) => return Ok(Some(Ok(event))),
                Some(Ok(SseItem::Comment)) => continue,
                Some(Err(too_large)) => return Ok(Some(Err(too_large))),
                None if self.ended => return Ok(None),
                None => {}
            }
            match self.body.next_chunk().await? {
                Some(chunk) => self.decoder.push(&chunk),
                None => {
                    self.ended = true;
                    let fresh = SseDecoder::new(&self.limits);
                    let rest = mem::replace(&mut self.decoder, fresh).finish();
                    return Ok(rest.map(Ok));
                }
            }
        }
    }

    fn update_cursor(&mut self) {
        let cursor = &mut self.cursor;
        if let Some(id) = self.decoder.last_id()
            && cursor.last_id.as_deref() != Some(id)
        {
            cursor.last_id = Some(id.to_owned());
            cursor.failed_attempts = 0;
        }
        if let Some(milliseconds) = self.decoder.retry() {
            cursor.retry = Some(Duration::from_millis(milliseconds));
        }
    }
}

impl StreamCursor {
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Resets the attempts after a new event or a long-lived stream.
    pub(super) fn reset_attempts(&mut self) {
        self.failed_attempts = 0;
    }

    /// The delay before the next attempt, or `None` after the last one.
    pub(super) fn next_delay(&mut self) -> Option<Duration> {
        let delay =
            self.retry.unwrap_or(RETRY_DELAY * (1 << self.failed_attempts.min(MAX_ATTEMPTS)));
        self.failed_attempts += 1;
        (self.failed_attempts <= MAX_ATTEMPTS).then_some(delay.min(MAX_RETRY_DELAY))
    }
}

/// Converts an event to an inbox item. Returns `None` for an event without a message.
pub(super) fn parse_event(
    event: Result<SseEvent, SseTooLarge>,
    on: Option<Id>,
    limits: &MessageLimits,
) -> Option<Incoming> {
    match event {
        // The first event of a resumable stream has an id and no data.
        Ok(event) if event.data.is_empty() => None,
        Ok(event) if event.event.as_deref().is_some_and(|kind| kind != "message") => None,
        Ok(event) => Some(parse_message(event.data, on, limits)),
        Err(SseTooLarge { limit, head }) => {
            let fault = ParseError::TooLarge { size: limit.saturating_add(1), limit };
            let id = recover_id(&head);
            Some(Incoming::Malformed {
                fault: MalformedMessage { error: fault, id, kind: MessageKind::Unknown },
                on,
            })
        }
    }
}

pub(super) fn parse_message(bytes: Vec<u8>, on: Option<Id>, limits: &MessageLimits) -> Incoming {
    match parse(bytes, limits) {
        Ok(packet) => Incoming::Packet { packet, on },
        Err(fault) => Incoming::Malformed { fault, on },
    }
}

/// Free bytes before a response, so that a new envelope can be written around the result in place. A client's request
/// id may be this much longer than ours.
pub(super) const HEADROOM: usize = 40;

/// Parses a message behind the headroom. Sizes and offsets in errors do not count the headroom.
pub(super) fn parse_after_headroom(bytes: Vec<u8>, on: &Id, limits: &MessageLimits) -> Incoming {
    let limits = MessageLimits { size: limits.size.saturating_add(HEADROOM), ..*limits };
    let mut item = parse_message(bytes, Some(on.clone()), &limits);
    if let Incoming::Malformed { fault, .. } = &mut item
        && let ParseError::NotUtf8 { at } = &mut fault.error
    {
        *at = at.saturating_sub(HEADROOM);
    }
    item
}

/// True if the item completes the request, with a result or an error. On the stream of a request, a response without an
/// id belongs to that request.
pub(super) fn settles_request(incoming: &Incoming, request: &Id) -> bool {
    let is_own = |id: &Option<Id>| id.as_ref().is_none_or(|id| id == request);
    let good = |message: &Message| match message {
        Message::Response(response) => is_own(&response.id),
        _ => false,
    };
    let bad = |malformed: &MalformedMessage| {
        matches!(malformed.kind, MessageKind::Response | MessageKind::Unknown)
            && is_own(&malformed.id)
    };
    match incoming {
        Incoming::Packet { packet: Packet::One(message), .. } => good(message),
        Incoming::Packet { packet: Packet::Batch(items), .. } => {
            items.iter().any(|item| item.as_ref().map_or_else(bad, good))
        }
        Incoming::Malformed { fault, .. } => bad(fault),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Incoming {
        parse_message(text.as_bytes().to_vec(), None, &MessageLimits::default())
    }

    #[test]
    fn headroom_is_hidden_from_message_and_errors() {
        let answer = br#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let limits = MessageLimits { size: answer.len(), ..MessageLimits::default() };
        let behind = |text: &[u8]| {
            parse_after_headroom([&[b' '; HEADROOM], text].concat(), &Id::from(7), &limits)
        };
        let Incoming::Packet { packet: Packet::One(message), .. } = behind(answer) else {
            panic!("expected a message")
        };
        assert_eq!(message.raw().as_bytes(), answer);
        let Incoming::Malformed { fault, .. } = behind(b"{\"a\":\"\xff\"}") else {
            panic!("expected a malformed message")
        };
        assert_eq!(fault.error, ParseError::NotUtf8 { at: 6 });
    }

    #[test]
    fn only_own_response_settles_request() {
        let own = Id::from(7);
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, true),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}"#, true),
            (r#"[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":7,"result":{}}]"#, true),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":3}"#, true),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, false),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, false),
            (r#"{"jsonrpc":"2.0","method":"n"}"#, false),
            ("noise", true),
            (r#"{"jsonrpc":"2.0","method":7}"#, false),
        ] {
            assert_eq!(settles_request(&parsed(text), &own), expected, "{text}");
        }
    }

    #[test]
    fn retries_are_bounded_and_use_server_delay() {
        let mut cursor = StreamCursor::default();
        let pauses: Vec<_> = std::iter::from_fn(|| cursor.next_delay()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16].map(Duration::from_secs));
        cursor.reset_attempts();
        cursor.retry = Some(Duration::from_millis(500));
        assert_eq!(cursor.next_delay(), Some(Duration::from_millis(500)));
        cursor.retry = Some(Duration::from_secs(1 << 40));
        assert_eq!(cursor.next_delay(), Some(MAX_RETRY_DELAY));
    }
}
