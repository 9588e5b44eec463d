//! What can be made out of a message that is too large to be kept: what it is, and whose.

use crate::id::Id;
use crate::json::Json;
use crate::limits::Limits;
use crate::malformed::Shape;

/// Follows a message that passes by in chunks and remembers its id and little else. Many servers write the id
/// last, behind a result of any size.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    head: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The key or the value of a member of the message itself that is being read. None: it is too long to matter.
    word: Option<Vec<u8>>,
    is_id: bool,
    id: Option<Id>,
    has_method: bool,
    has_answer: bool,
}

/// As much of the beginning as a person may want to see.
const HEAD: usize = 1024;

/// Longer than any key that matters, and than any id of ours.
const WORD: usize = 256;

impl Outline {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let wanted = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..wanted]);
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            // Nearly all of a large message is inside strings, deep in its result.
            if self.in_string && self.depth > 1 && !self.escaped {
                let rest = &bytes[at..];
                at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                let Some(end) = bytes.get(at) else { return };
                self.take(*end);
            } else {
                self.take(*byte);
            }
            at += 1;
        }
    }

    /// Whether nothing that follows can tell more.
    pub(crate) fn is_settled(&self) -> bool {
        self.id.is_some() && (self.has_answer || self.has_method)
    }

    pub(crate) fn shape(&self) -> Shape {
        match (self.has_method, self.has_answer, &self.id) {
            (true, false, Some(_)) => Shape::Request,
            (true, false, None) => Shape::Notification,
            (false, true, _) => Shape::Response,
            _ => Shape::Unknown,
        }
    }

    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn into_parts(self) -> (Vec<u8>, Option<Id>) {
        (self.head, self.id)
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        match (byte, self.depth) {
            (b'{', 0) => {
                self.depth = 1;
                self.word = Some(Vec::new());
            }
            // Of a batch nothing is made out: it is no one's answer alone.
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
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 {
            match &mut self.word {
                Some(word) if word.len() < WORD => word.push(byte),
                word => *word = None,
            }
        }
    }

    fn end_key(&mut self) {
        let key = self.word.replace(Vec::new());
        self.is_id = key.as_deref() == Some(b"\"id\"");
        self.has_method |= key.as_deref() == Some(b"\"method\"");
        self.has_answer |= matches!(key.as_deref(), Some(b"\"result\"" | b"\"error\""));
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let value = self.word.replace(Vec::new());
        if std::mem::take(&mut self.is_id) {
            self.id = value.and_then(|value| read_id(&value));
        }
    }
}

fn read_id(value: &[u8]) -> Option<Id> {
    let json = Json::parse(str::from_utf8(value).ok()?, &Limits::default()).ok()?;
    Id::read(json).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outline(text: &[u8], chunk: usize) -> (Option<Id>, Shape, bool) {
        let mut outline = Outline::default();
        text.chunks(chunk).for_each(|chunk| outline.feed(chunk));
        let (shape, settled) = (outline.shape(), outline.is_settled());
        (outline.into_parts().1, shape, settled)
    }

    #[test]
    fn the_id_of_the_message_itself_is_found_wherever_it_stands() {
        use Shape::{Notification, Request, Response, Unknown};
        let long = "x".repeat(300);
        for (text, id, shape) in [
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
                assert_eq!((found.0, found.1), (id.map(Id::from), shape), "{text}");
            }
        }
        let id = Id::from("a\"b");
        assert_eq!(outline(br#"{"result":{},"id":"a\"b"}"#, 1), (Some(id), Shape::Response, true));
        let id = format!(r#"{{"result":{{}},"id":"{long}"}}"#);
        assert_eq!(outline(id.as_bytes(), 7).0, None, "no id of ours is that long");
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference_and_no_bytes_a_panic(bytes: Vec<u8>, text in "[{}\\[\\]:,\"\\\\id1 ]{0,60}", size in 1_usize..9) {
            for bytes in [&bytes[..], text.as_bytes()] {
                prop_assert_eq!(outline(bytes, size), outline(bytes, 1000));
            }
        }
    }
}
