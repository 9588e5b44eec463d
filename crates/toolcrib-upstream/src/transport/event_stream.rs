//! One stream of events: its messages, and where to take it up again when it breaks.

use std::mem;
use std::time::Duration;

use toolcrib_wire::{
    Fault, Id, Limits, Malformed, Message, Packet, Shape, SseDecoder, SseEvent, SseItem,
    SseTooLarge, parse, recover_id,
};

use super::answer::Body;
use super::http_fault::HttpFault;
use super::link::Incoming;

/// Tries to take up a stream that bring nothing new.
const FRUITLESS: u32 = 5;

/// Waited where the server does not say how long, doubled with each fruitless try.
const PAUSE: Duration = Duration::from_secs(1);

/// No server makes us wait longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

pub(super) struct EventStream {
    body: Body,
    limits: Limits,
    decoder: SseDecoder,
    ended: bool,
    pub(super) cursor: Cursor,
}

/// Where a stream stands, over all the connections it takes.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    last_id: Option<String>,
    retry: Option<Duration>,
    fruitless: u32,
}

impl EventStream {
    pub(super) fn new(body: Body, limits: Limits, cursor: Cursor) -> Self {
        Self { body, limits, decoder: SseDecoder::new(&limits), ended: false, cursor }
    }

    /// The next event; none at the end. Comments count as signs of life and nothing else.
    pub(super) async fn next(
        &mut self,
    ) -> Result<Option<Result<SseEvent, SseTooLarge>>, HttpFault> {
        loop {
            let found = self.decoder.next();
            self.mark();
            match found {
                Some(Ok(SseItem::Event(event))) => return Ok(Some(Ok(event))),
                Some(Ok(SseItem::Comment)) => continue,
                Some(Err(too_large)) => return Ok(Some(Err(too_large))),
                None if self.ended => return Ok(None),
                None => {}
            }
            match self.body.chunk().await? {
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

    fn mark(&mut self) {
        let cursor = &mut self.cursor;
        if let Some(id) = self.decoder.last_id()
            && cursor.last_id.as_deref() != Some(id)
        {
            cursor.last_id = Some(id.to_owned());
            cursor.fruitless = 0;
        }
        if let Some(milliseconds) = self.decoder.retry() {
            cursor.retry = Some(Duration::from_millis(milliseconds));
        }
    }
}

impl Cursor {
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// It brought something, or lasted.
    pub(super) fn was_fruitful(&mut self) {
        self.fruitless = 0;
    }

    /// How long to wait before the next try; none if there have been enough.
    pub(super) fn next_try(&mut self) -> Option<Duration> {
        let pause = self.retry.unwrap_or(PAUSE * (1 << self.fruitless.min(FRUITLESS)));
        self.fruitless += 1;
        (self.fruitless <= FRUITLESS).then_some(pause.min(LONGEST_PAUSE))
    }
}

/// An event as the inbox takes it; none if it carries no message.
pub(super) fn incoming(
    event: Result<SseEvent, SseTooLarge>,
    on: Option<Id>,
    limits: &Limits,
) -> Option<Incoming> {
    match event {
        // The first event of a resumable stream has an id and nothing else.
        Ok(event) if event.data.is_empty() => None,
        Ok(event) if event.event.as_deref().is_some_and(|kind| kind != "message") => None,
        Ok(event) => Some(message(event.data, on, limits)),
        Err(SseTooLarge { limit, head }) => {
            let fault = Fault::TooLarge { size: limit.saturating_add(1), limit };
            let id = recover_id(&head);
            Some(Incoming::Malformed { fault: Malformed { fault, id, shape: Shape::Unknown }, on })
        }
    }
}

pub(super) fn message(bytes: Vec<u8>, on: Option<Id>, limits: &Limits) -> Incoming {
    match parse(bytes, limits) {
        Ok(packet) => Incoming::Packet { packet, on },
        Err(fault) => Incoming::Malformed { fault, on },
    }
}

/// Room before an answer, so that another can be written around its result where that is: as much as the id of a
/// client's request may be longer than that of ours.
pub(super) const ROOM: usize = 40;

/// A message behind that room, which nobody is told of.
pub(super) fn behind_room(bytes: Vec<u8>, on: &Id, limits: &Limits) -> Incoming {
    let limits = Limits { size: limits.size.saturating_add(ROOM), ..*limits };
    let mut item = message(bytes, Some(on.clone()), &limits);
    if let Incoming::Malformed { fault, .. } = &mut item
        && let Fault::NotUtf8 { at } = &mut fault.fault
    {
        *at = at.saturating_sub(ROOM);
    }
    item
}

/// Whether this settles a request, well or badly. What names no request is, on the stream of one, about that one.
pub(super) fn answers(incoming: &Incoming, request: &Id) -> bool {
    let is_own = |id: &Option<Id>| id.as_ref().is_none_or(|id| id == request);
    let good = |message: &Message| match message {
        Message::Response(response) => is_own(&response.id),
        _ => false,
    };
    let bad = |malformed: &Malformed| {
        matches!(malformed.shape, Shape::Response | Shape::Unknown) && is_own(&malformed.id)
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

    fn arrived(text: &str) -> Incoming {
        message(text.as_bytes().to_vec(), None, &Limits::default())
    }

    #[test]
    fn nobody_is_told_of_the_room_before_a_message() {
        let answer = br#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let limits = Limits { size: answer.len(), ..Limits::default() };
        let behind =
            |text: &[u8]| behind_room([&[b' '; ROOM], text].concat(), &Id::from(7), &limits);
        let Incoming::Packet { packet: Packet::One(message), .. } = behind(answer) else {
            panic!("no message")
        };
        assert_eq!(message.raw().as_bytes(), answer);
        let Incoming::Malformed { fault, .. } = behind(b"{\"a\":\"\xff\"}") else {
            panic!("it is no text")
        };
        assert_eq!(fault.fault, Fault::NotUtf8 { at: 6 });
    }

    #[test]
    fn only_its_own_answer_ends_the_wait_for_one() {
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
            assert_eq!(answers(&arrived(text), &own), expected, "{text}");
        }
    }

    #[test]
    fn tries_are_bounded_and_the_server_sets_the_pace() {
        let mut cursor = Cursor::default();
        let pauses: Vec<_> = std::iter::from_fn(|| cursor.next_try()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16].map(Duration::from_secs));
        cursor.was_fruitful();
        cursor.retry = Some(Duration::from_millis(500));
        assert_eq!(cursor.next_try(), Some(Duration::from_millis(500)));
        cursor.retry = Some(Duration::from_secs(1 << 40));
        assert_eq!(cursor.next_try(), Some(LONGEST_PAUSE));
    }
}
