//! Finds the id and kind of a message that is too large to keep.

use crate::id::Id;
use crate::json::Json;
use crate::limits::MessageLimits;
use crate::parse_error::MessageKind;

/// Reads a message in chunks and keeps its id and little else. Many servers write the id last, after a result of any
/// size.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    head: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The key or value of a top-level member that is being read. `None` if it is too long to matter.
    token: Option<Vec<u8>>,
    is_id: bool,
    id: Option<Id>,
    has_method: bool,
    has_response: bool,
}

/// Bytes of the beginning that are kept for people.
const MAX_HEAD: usize = 1024;

/// Longer than all keys and ids of this program.
const MAX_TOKEN: usize = 256;

impl Outline {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let wanted = MAX_HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..wanted]);
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            // Nearly all of a large message is inside strings, deep in its result.
            if self.in_string && self.depth > 1 && !self.escaped {
                let rest = &bytes[at..];
                at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                let Some(end) = bytes.get(at) else { return };
                self.process_byte(*end);
            } else {
                self.process_byte(*byte);
            }
            at += 1;
        }
    }

    /// Returns whether the rest of the message cannot add anything.
    pub(crate) fn is_complete(&self) -> bool {
        self.id.is_some() && (self.has_response || self.has_method)
    }

    pub(crate) fn kind(&self) -> MessageKind {
        match (self.has_method, self.has_response, &self.id) {
            (true, false, Some(_)) => MessageKind::Request,
            (true, false, None) => MessageKind::Notification,
            (false, true, _) => MessageKind::Response,
            _ => MessageKind::Unknown,
        }
    }

    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn into_parts(self) -> (Vec<u8>, Option<Id>) {
        (self.head, self.id)
    }

    fn process_byte(&mut self, byte: u8) {
        if self.in_string {
            self.push_token_byte(byte);
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        match (byte, self.depth) {
            (b'{', 0) => {
                self.depth = 1;
                self.token = Some(Vec::new());
            }
            // A batch has no id or kind of its own.
            (b'[', 0) => self.depth = 2,
            (b'{' | b'[', _) => self.depth += 1,
            (b'}' | b']', _) => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            (b':', 1) => self.end_key(),
            (b',', 1) => self.end_member(),
            (b' ' | b'\t' | b'\r' | b'\n', _) => {}
            (byte, _) => {
                self.in_string = byte == b'"';
                self.push_token_byte(byte);
            }
        }
    }

    fn push_token_byte(&mut self, byte: u8) {
        if self.depth == 1 {
            match &mut self.token {
                Some(token) if token.len() < MAX_TOKEN => token.push(byte),
                token => *token = None,
            }
        }
    }

    fn end_key(&mut self) {
        let key = self.token.replace(Vec::new());
        self.is_id = key.as_deref() == Some(b"\"id\"");
        self.has_method |= key.as_deref() == Some(b"\"method\"");
        self.has_response |= matches!(key.as_deref(), Some(b"\"result\"" | b"\"error\""));
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = self.token.replace(Vec::new());
        if std::mem::take(&mut self.is_id) {
            self.id = value.and_then(|value| read_id(&value));
        }
    }
}

fn read_id(value: &[u8]) -> Option<Id> {
    let json = Json::parse(str::from_utf8(value).ok()?, &MessageLimits::default()).ok()?;
    Id::read(json).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outline(text: &[u8], chunk: usize) -> (Option<Id>, MessageKind, bool) {
        let mut outline = Outline::default();
        text.chunks(chunk).for_each(|chunk| outline.feed(chunk));
        let (kind, settled) = (outline.kind(), outline.is_complete());
        (outline.into_parts().1, kind, settled)
    }

    #[test]
    fn top_level_id_is_found_at_any_position() {
        use MessageKind::{Notification, Request, Response, Unknown};
        let long = "x".repeat(300);
        for (text, id, kind) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"text":"\"id\":9"}}"#, Some(7), Response),
            (r#"{"result":{"a":[{"id":8}],"b":"}\\\",\"id\":9"},"id":7}"#, Some(7), Response),
            (r#" { "error" : {} , "id" : 7 } "#, Some(7), Response),
            (r#"{"id":7,"method":"ping"}"#, Some(7), Request),
            (r#"{"method":"m","params":{"id":7}}"#, None, Notification),
            (r#"{"id":7}"#, Some(7), Unknown),
            (r#"{"id":null,"result":{}}"#, None, Response),
            (r#"{"id":{"id":7},"result":{}}"#, None, Response),
            (r#"[{"id":7,"result":{}}]"#, None, Unknown),
            (r#"{"result":"cut off","id":7"#, None, Response),
            ("]}]},:\"", None, Unknown),
            (&format!(r#"{{"{long}":1,"result":"{long}","id":7}}"#), Some(7), Response),
        ] {
            for chunk in [1, 3, 1000] {
                let found = outline(text.as_bytes(), chunk);
                assert_eq!((found.0, found.1), (id.map(Id::from), kind), "{text}");
            }
        }
        let id = Id::from("a\"b");
        assert_eq!(
            outline(br#"{"result":{},"id":"a\"b"}"#, 1),
            (Some(id), MessageKind::Response, true)
        );
        let id = format!(r#"{{"result":{{}},"id":"{long}"}}"#);
        assert_eq!(outline(id.as_bytes(), 7).0, None, "ids of this program are shorter");
    }

    proptest! {
        #[test]
        fn chunking_does_not_change_the_outline(bytes: Vec<u8>, text in "[{}\\[\\]:,\"\\\\id1 ]{0,60}", size in 1_usize..9) {
            for bytes in [&bytes[..], text.as_bytes()] {
                prop_assert_eq!(outline(bytes, size), outline(bytes, 1000));
            }
        }
    }
}
