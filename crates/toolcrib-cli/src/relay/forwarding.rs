//! Forwarding of one frame: the bytes for the receiver and the bytes back to the sender.

use toolcrib_server::message_stream::{frame_error, malformed_error};
use toolcrib_wire::{
    Frame, FrameError, Framing, MalformedMessage, Message, MessageLimits, RawJson, parse,
};

/// The decision for one message.
#[derive(Debug, PartialEq)]
pub(crate) enum Forwarding {
    /// The message is forwarded byte for byte.
    Unchanged,
    Rewritten(RawJson),
    /// The message is not forwarded; the sender gets this response.
    Reply(RawJson),
    Drop,
}

/// The bytes for both sides.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ForwardedBytes {
    pub(crate) to_receiver: Vec<u8>,
    pub(crate) to_sender: Vec<u8>,
}

/// Applies a decision to each message of a frame. Malformed messages are forwarded, so that the receiver reports the
/// error. A frame error is answered here with the host's own message, because no bytes are left to forward.
pub(crate) fn forward_frame(
    result: Result<Frame, FrameError>,
    limits: &MessageLimits,
    decide_forwarding: impl FnMut(&Message) -> Forwarding,
) -> ForwardedBytes {
    let frame = match result {
        Ok(frame) => frame,
        Err(error) => {
            return ForwardedBytes {
                to_receiver: Vec::new(),
                to_sender: encode_line(&frame_error(&error)),
            };
        }
    };
    let mut whole = Vec::with_capacity(frame.bytes.len() + 1);
    frame.framing.write(&frame.bytes, &mut whole);
    match parse(frame.bytes, limits) {
        Ok(packet) => forward_messages(whole, packet.into_messages().collect(), decide_forwarding),
        Err(_) => ForwardedBytes { to_receiver: whole, to_sender: Vec::new() },
    }
}

/// Encodes a message as one line.
pub(crate) fn encode_line(message: &RawJson) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.as_bytes().len() + 1);
    Framing::Newline.write(message.as_bytes(), &mut bytes);
    bytes
}

/// Splits a batch if one of its messages is not forwarded unchanged. Messages of a batch are independent.
fn forward_messages(
    whole: Vec<u8>,
    messages: Vec<Result<Message, MalformedMessage>>,
    mut decide_forwarding: impl FnMut(&Message) -> Forwarding,
) -> ForwardedBytes {
    let decisions: Vec<_> =
        messages.iter().map(|it| it.as_ref().map(&mut decide_forwarding)).collect();
    if decisions.iter().all(|it| matches!(it, Err(_) | Ok(Forwarding::Unchanged))) {
        return ForwardedBytes { to_receiver: whole, to_sender: Vec::new() };
    }
    let mut forwarded = ForwardedBytes::default();
    for (message, decision) in messages.iter().zip(decisions) {
        match (message, decision) {
            (Ok(message), Ok(Forwarding::Unchanged)) => {
                forwarded.to_receiver.extend(encode_line(message.raw()))
            }
            (_, Ok(Forwarding::Rewritten(other))) => {
                forwarded.to_receiver.extend(encode_line(&other))
            }
            (_, Ok(Forwarding::Reply(answer))) => forwarded.to_sender.extend(encode_line(&answer)),
            (Err(malformed), _) => {
                forwarded.to_sender.extend(malformed_error(malformed).iter().flat_map(encode_line))
            }
            _ => {}
        }
    }
    forwarded
}
