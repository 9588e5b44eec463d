//! One frame on its way: what of it goes on, and what goes back to whoever sent it.

use toolcrib_server::lines::{refusal, unframed};
use toolcrib_wire::{Frame, FrameError, Framing, Limits, Malformed, Message, Raw, parse};

/// What becomes of a message.
#[derive(Debug, PartialEq)]
pub(crate) enum Fate {
    /// It goes on, byte for byte.
    On,
    OnAs(Raw),
    /// It does not go on, and is answered with this.
    Back(Raw),
    Nowhere,
}

/// The bytes that go on, and those that go back.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Passed {
    pub(crate) on: Vec<u8>,
    pub(crate) back: Vec<u8>,
}

/// Decides for each message of a frame. What is none goes on, for whoever gets it to say what is wrong with it; only
/// what is not even a frame is answered here, in the words of the host, since nothing is left of it.
pub(crate) fn pass(
    found: Result<Frame, FrameError>,
    limits: &Limits,
    fate: impl FnMut(&Message) -> Fate,
) -> Passed {
    let frame = match found {
        Ok(frame) => frame,
        Err(error) => return Passed { on: Vec::new(), back: line(&unframed(&error)) },
    };
    let mut whole = Vec::with_capacity(frame.bytes.len() + 1);
    frame.framing.write(&frame.bytes, &mut whole);
    match parse(frame.bytes, limits) {
        Ok(packet) => decide(whole, packet.into_messages().collect(), fate),
        Err(_) => Passed { on: whole, back: Vec::new() },
    }
}

/// A message as it is written.
pub(crate) fn line(message: &Raw) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.as_bytes().len() + 1);
    Framing::Newline.write(message.as_bytes(), &mut bytes);
    bytes
}

/// A batch of which something does not go on is taken apart: each of its messages counts for itself anyway.
fn decide(
    whole: Vec<u8>,
    messages: Vec<Result<Message, Malformed>>,
    mut fate: impl FnMut(&Message) -> Fate,
) -> Passed {
    let fates: Vec<_> = messages.iter().map(|it| it.as_ref().map(&mut fate)).collect();
    if fates.iter().all(|it| matches!(it, Err(_) | Ok(Fate::On))) {
        return Passed { on: whole, back: Vec::new() };
    }
    let mut passed = Passed::default();
    for (message, fate) in messages.iter().zip(fates) {
        match (message, fate) {
            (Ok(message), Ok(Fate::On)) => passed.on.extend(line(message.raw())),
            (_, Ok(Fate::OnAs(other))) => passed.on.extend(line(&other)),
            (_, Ok(Fate::Back(answer))) => passed.back.extend(line(&answer)),
            (Err(malformed), _) => passed.back.extend(refusal(malformed).iter().flat_map(line)),
            _ => {}
        }
    }
    passed
}
