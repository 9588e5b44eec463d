//! Tests of the decoder with valid and broken streams in both framings and any chunks.

use proptest::prelude::*;

use super::*;

fn limits(size: usize) -> MessageLimits {
    MessageLimits { size, ..MessageLimits::default() }
}

/// Decodes all chunks, by `push` and `reserve` in turns.
fn decode<'c>(
    chunks: impl IntoIterator<Item = &'c [u8]>,
    limits: &MessageLimits,
) -> Vec<Result<Frame, FrameError>> {
    let mut decoder = FrameDecoder::new(limits);
    let mut found = Vec::new();
    for (n, chunk) in chunks.into_iter().enumerate() {
        if n % 2 == 0 {
            decoder.push(chunk);
        } else {
            decoder.reserve(chunk.len()).extend_from_slice(chunk);
        }
        while let Some(item) = decoder.next() {
            found.push(item);
        }
    }
    found.extend(decoder.finish());
    found
}

/// Decodes a stream to short texts: `n:` and `c:` mark the framing of a message.
fn decode_to_text(stream: &[u8], size: usize) -> Vec<String> {
    let show = |item: Result<Frame, FrameError>| match item {
        Ok(Frame { framing: Framing::Newline, bytes }) => {
            format!("n:{}", String::from_utf8_lossy(&bytes))
        }
        Ok(Frame { framing: Framing::ContentLength, bytes }) => {
            format!("c:{}", String::from_utf8_lossy(&bytes))
        }
        Err(error) => error.to_string(),
    };
    decode([stream], &limits(size)).into_iter().map(show).collect()
}

#[test]
fn both_framings_can_alternate_in_one_stream() {
    // DIS-47, DKR-08: `Content-Length` is used where a message has it, newlines everywhere else.
    let stream = "{\"a\":\"é\"}\nContent-Length: 10\r\n\r\n{\"b\":\"ü\"}content-length:2\nX-More: 1\nContent-Type: x; charset=utf-8\n\n{}\r\n[{}]\n";
    assert_eq!(
        decode_to_text(stream.as_bytes(), 99),
        ["n:{\"a\":\"é\"}", "c:{\"b\":\"ü\"}", "c:{}", "n:[{}]"]
    );
    assert_eq!(decode_to_text(b"Content-Type: json\r\nCONTENT-LENGTH: 2\r\n\r\n{}", 99), ["c:{}"]);
    assert_eq!(
        decode_to_text(b"Content-Length: 5\r\n\r\n{\n\n\n}{}\n", 99),
        ["c:{\n\n\n}", "n:{}"]
    );
}

#[test]
fn carriage_returns_and_blank_lines_are_ignored() {
    // DKR-04: a trailing carriage return is tolerated.
    assert_eq!(decode_to_text(b"{}\r\n\r\n\n  \n {\"a\":1} \r\n", 99), ["n:{}", "n:{\"a\":1}"]);
    assert_eq!(decode_to_text(b"\xef\xbb\xbf{}\n", 99), ["n:{}"]);
}

#[test]
fn noise_is_reported_with_a_short_excerpt_and_decoding_continues() {
    // DOM-25, DKR-06: a line that is not a message is reported and decoding continues.
    let stream = b"Server v1.0 ready!\n[INFO] listening\n{}\nWarning: x\n{oops\n{}\n";
    assert_eq!(
        decode_to_text(stream, 99),
        [
            "a line of 18 bytes is not a message: \"Server v1.0 ready!\"",
            "a line of 16 bytes is not a message: \"[INFO] listening\"",
            "n:{}",
            "a line of 10 bytes is not a message: \"Warning: x\"",
            "n:{oops",
            "n:{}",
        ]
    );
    let long = [vec![b'x'; 5000], b"\n".to_vec()].concat();
    let Err(FrameError::Noise { length, excerpt }) = &decode([&long[..]], &limits(9999))[0] else {
        panic!()
    };
    assert_eq!((*length, excerpt.len()), (5000, EXCERPT_BYTES));
}

#[test]
fn endless_line_is_reported_once_at_the_limit_and_not_buffered() {
    for (start, kind, is_message) in [
        ("x", MessageKind::Unknown, false),
        ("{\"x\":\"", MessageKind::Unknown, true),
        ("{\"result\":\"", MessageKind::Response, true),
        ("{\"method\":\"m\",\"params\":\"", MessageKind::Notification, true),
    ] {
        let mut decoder = FrameDecoder::new(&limits(1000));
        decoder.push(start.as_bytes());
        let mut reported = Vec::new();
        for round in 0..100 {
            decoder.push(&[b'y'; 100]);
            assert_eq!(decoder.next(), None);
            reported.extend(decoder.take_too_large().map(|overrun| (round, overrun)));
            assert!(decoder.buffer.capacity() < 10_000);
        }
        let [(round, overrun)] = &reported[..] else { panic!("{reported:?}") };
        assert!((9..=10).contains(round), "{round}");
        assert_eq!((overrun.limit, overrun.kind), (1000, kind));
        assert_eq!(overrun.is_message, is_message);
        assert!(overrun.head.starts_with(start.as_bytes()));
    }
}

#[test]
fn oversized_message_is_dropped_and_the_next_one_decoded() {
    let line = format!("{{\"id\":1,\"x\":\"{}\"}}\n{{}}\n", "y".repeat(50));
    assert_eq!(
        decode_to_text(line.as_bytes(), 20),
        ["a message is over the limit of 20 bytes", "n:{}"]
    );
    let counted = format!("Content-Length: 30\r\n\r\n{}{{}}\n", "z".repeat(30));
    assert_eq!(
        decode_to_text(counted.as_bytes(), 20),
        ["a message is over the limit of 20 bytes", "n:{}"]
    );
    let Err(FrameError::TooLarge { id, .. }) = &decode([line.as_bytes()], &limits(20))[0] else {
        panic!()
    };
    assert_eq!(*id, Some(crate::Id::from(1)));
    // A message of exactly the limit is allowed, with and without a carriage return.
    assert_eq!(decode_to_text(b"{\"a\":1}\r\n{\"a\":2}\n", 7), ["n:{\"a\":1}", "n:{\"a\":2}"]);
    assert_eq!(
        decode_to_text(b"{\"a\":12}\n{}\n", 7),
        ["a message is over the limit of 7 bytes", "n:{}"]
    );
}

#[test]
fn bad_headers_are_skipped_and_the_next_message_decoded() {
    for (stream, expected) in [
        ("Content-Length: x\n{}\n", "invalid header lines: \"Content-Length: x\""),
        ("Content-Length: -2\n{}\n", "invalid header lines: \"Content-Length: -2\""),
        (
            "Content-Length: 99999999999999999999999\n{}\n",
            "invalid header lines: \"Content-Length: 99999999999999999999999\"",
        ),
        ("Content-Length: 2\n{}\n", "invalid header lines: \"{}\""),
        ("Content-Type: x\n\n{}\n", "invalid header lines: \"no content-length\""),
    ] {
        assert_eq!(decode_to_text(stream.as_bytes(), 99), [expected, "n:{}"]);
    }
}

#[test]
fn truncated_last_message_is_reported_and_missing_line_feed_is_accepted() {
    assert_eq!(
        decode_to_text(b"{\"a\":", 99),
        ["the stream ended after 5 bytes of a message: \"{\\\"a\\\":\""]
    );
    assert_eq!(
        decode_to_text(b"Content-Length: 9\r\n\r\n{}", 99),
        ["the stream ended after 2 bytes of a message: \"{}\""]
    );
    assert_eq!(decode_to_text(b"{}\n{\"a\":1}", 99), ["n:{}", "n:{\"a\":1}"]);
    assert_eq!(decode_to_text(b"{}\n \r\n", 99), ["n:{}"]);
}

#[test]
fn endless_line_takes_linear_time_and_bounded_memory() {
    let limits = limits(8 << 20);
    for chunk in [1, 7, 64 * 1024] {
        let mut decoder = FrameDecoder::new(&limits);
        let chunk = vec![b'{'; chunk];
        // 100 MB for large chunks. With a rescan per byte, 2 MB of single bytes would take hours.
        let total = if chunk.len() < 1024 { 2 << 20 } else { 100 << 20 };
        for _ in 0..total / chunk.len() {
            decoder.push(&chunk);
            assert_eq!(decoder.next(), None);
            assert!(decoder.buffer.len() <= limits.size + chunk.len() + 1);
        }
        decoder.push(b"\n{}\n");
        let first = decoder.next().unwrap();
        assert_eq!(matches!(first, Err(FrameError::TooLarge { .. })), total > limits.size);
        let frame = Frame { framing: Framing::Newline, bytes: b"{}".to_vec() };
        assert_eq!(decoder.next(), Some(Ok(frame)));
        decoder.push(b"");
        assert!(
            decoder.buffer.capacity() <= 4 * LARGE_MESSAGE,
            "an idle decoder has a small buffer"
        );
    }
}

#[test]
fn large_messages_are_decoded_between_small_ones() {
    let large = format!("{{\"x\":\"{}\"}}", "é".repeat(40_000));
    let stream = format!("{{}}\n{large}\nContent-Length: {}\r\n\r\n{large}{{}}\n", large.len());
    for size in [1000, 64 * 1024, 1 << 20] {
        let found = decode(stream.as_bytes().chunks(size), &MessageLimits::default());
        let lengths: Vec<_> =
            found.iter().map(|frame| frame.as_ref().unwrap().bytes.len()).collect();
        assert_eq!(lengths, [2, large.len(), large.len(), 2], "{size}");
    }
}

/// Streams of valid and invalid pieces.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let message = prop_oneof![
        Just("{\"a\":\"é\"}".to_owned()),
        Just("{}".to_owned()),
        Just("[{\"a\":1}]".to_owned()),
        "\\{\"x\":\"[a-z]{0,60}\"\\}",
    ];
    let piece = prop_oneof![
        message.clone().prop_map(|message| format!("{message}\n").into_bytes()),
        message.clone().prop_map(|message| format!("{message}\r\n").into_bytes()),
        message
            .prop_map(|message| format!("Content-Length: {}\r\n\r\n{message}", message.len())
                .into_bytes()),
        Just(b"\r\n".to_vec()),
        Just(b"banner\n".to_vec()),
        Just(b"Content-Length: 7\n".to_vec()),
        Just(b"Content-Type: x\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_the_result(stream in streams(), sizes in prop::collection::vec(1..9usize, 1..9)) {
        let limits = limits(40);
        let whole = decode([&stream[..]], &limits);
        let bytes = decode(stream.chunks(1), &limits);
        let mut rest = &stream[..];
        let mut sizes = sizes.into_iter().cycle();
        let cut = decode(
            std::iter::from_fn(|| {
                let (head, tail) = rest.split_at(rest.len().min(sizes.next()?));
                rest = tail;
                (!head.is_empty()).then_some(head)
            }),
            &limits,
        );
        // The length of the reported head depends on the chunks.
        let comparable = |mut found: Vec<Result<Frame, FrameError>>| -> Vec<_> {
            for item in &mut found {
                if let Err(FrameError::TooLarge { head, .. }) = item {
                    head.clear();
                }
            }
            found
        };
        let whole = comparable(whole);
        prop_assert_eq!(&comparable(bytes), &whole);
        prop_assert_eq!(&comparable(cut), &whole);
    }

    #[test]
    fn written_messages_are_decoded_back(messages in prop::collection::vec(("\\{\"[a-zé\\n ]{0,30}\"\\}", any::<bool>()), 0..6)) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (message, by_length) in messages {
            let framing = if by_length { Framing::ContentLength } else { Framing::Newline };
            framing.write(message.as_bytes(), &mut stream);
            let bytes = if by_length { message } else { message.replace('\n', " ") };
            expected.push(Ok(Frame { framing, bytes: bytes.into_bytes() }));
        }
        prop_assert_eq!(decode(stream.chunks(3), &MessageLimits::default()), expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(stream in any::<Vec<u8>>(), size in 1..9usize) {
        decode(stream.chunks(size), &limits(5));
    }
}

#[test]
fn abandoned_message_is_reported_with_its_id_and_the_next_one_decoded() {
    for (first, rest) in [
        (&br#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"b":"#[..], &b"1}}\n{\"id\":8}\n"[..]),
        (
            b"Content-Length: 55\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":7,",
            b"\"method\":\"a\",\"params\":{\"b\":12}}\n{\"id\":8}\n",
        ),
    ] {
        let mut decoder = FrameDecoder::new(&MessageLimits::default());
        decoder.push(first);
        assert!(decoder.next().is_none() && decoder.buffered() > 0);
        decoder.abandon();
        let mut reported = Vec::new();
        reported.extend(decoder.next());
        assert_eq!(decoder.buffered(), 0);
        decoder.push(rest);
        reported.extend(std::iter::from_fn(|| decoder.next()));
        let [Err(FrameError::TooLarge { id, .. }), Ok(next)] = &reported[..] else {
            panic!("{reported:?}")
        };
        assert_eq!(id, &Some(crate::Id::Number(7)));
        assert_eq!(next.bytes, b"{\"id\":8}");
    }
}
