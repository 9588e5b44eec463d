//! Masks a server's secrets in the server's output.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_config::{MASK, SecretString};
use toolcrib_wire::{RawJson, RpcError, StringKind, base64};

use super::secret_forms::{MIN_SECRET_LENGTH, secret_forms};

/// Minimum length of a secret in members that hold protocol keywords.
const MIN_WORD_LENGTH: usize = 8;

/// Maximum number of secrets that are added after the connection was opened, such as renewed tokens. The
/// oldest are dropped first.
const MAX_ADDED: usize = 32;

/// Members with values that are opaque to clients. Masking them would break the protocol.
const OPAQUE_MEMBERS: [&str; 6] =
    ["requestState", "nextCursor", "progressToken", "taskId", "elicitationId", "$ref"];

/// Members whose values are protocol keywords. A short secret may equal one.
const KEYWORD_MEMBERS: [&str; 9] = [
    "type",
    "role",
    "mode",
    "level",
    "action",
    "method",
    "mimeType",
    "resultType",
    "protocolVersion",
];

/// Values of `type` in schemas and content. A short secret may equal one.
const TYPE_KEYWORDS: [&str; 16] = [
    "array",
    "audio",
    "boolean",
    "elicitation",
    "image",
    "integer",
    "null",
    "number",
    "object",
    "ref/prompt",
    "ref/resource",
    "resource",
    "resource_link",
    "string",
    "text",
    "tool_use",
];

/// Minimum length of an alphabetic secret in a name. Shorter ones may match by chance.
const MIN_NAME_SECRET_LENGTH: usize = 16;

/// Members that identify tools, prompts and resources.
const NAME_MEMBERS: [&str; 4] = ["name", "uri", "uriTemplate", "required"];

/// Masks the secrets of one server in its output. Clones share the secrets.
#[derive(Clone, Debug, Default)]
pub struct SecretMask(Arc<Mutex<SecretSet>>);

#[derive(Debug, Default)]
struct SecretSet {
    given: Vec<SecretString>,
    added: VecDeque<SecretString>,
    /// All encodings of the secrets.
    forms: Arc<[SecretString]>,
}

/// Kind of a server's JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskContext {
    /// Server description, request or notification.
    Message,
    /// A page of a list. Names in it must stay usable.
    Listing,
    /// Error data.
    Error,
    /// Result of a tool, a resource or a prompt.
    Result,
}

impl SecretMask {
    /// Creates a mask for the secrets that a server is given.
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let forms = all_forms(&secrets, &VecDeque::new());
        let set = SecretSet { given: secrets, added: VecDeque::new(), forms };
        SecretMask(Arc::new(Mutex::new(set)))
    }

    /// Adds a secret that was given to the server later.
    pub fn add_secret(&self, secret: &SecretString) {
        let mut secrets = self.secrets();
        if secrets.given.contains(secret) || secrets.added.contains(secret) {
            return;
        }
        if secrets.added.len() == MAX_ADDED {
            secrets.added.pop_front();
        }
        secrets.added.push_back(secret.clone());
        secrets.forms = all_forms(&secrets.given, &secrets.added);
    }

    /// Masks the secrets in a text.
    pub fn mask_text(&self, text: String) -> String {
        let ranges = find_secrets(&text, &self.forms());
        replace_ranges(text, ranges)
    }

    /// Masks the secrets in a text that may be truncated inside a secret, at its end or before `…`.
    pub fn mask_excerpt(&self, text: String) -> String {
        let forms = self.forms();
        let mut ranges = find_secrets(&text, &forms);
        let dots = text.match_indices('…').map(|(at, _)| at);
        for end in dots.chain([text.len()]) {
            let before = text.get(..end).unwrap_or_default();
            let longest =
                forms.iter().filter_map(|form| partial_secret_at_end(before, form.reveal()));
            ranges.extend(longest.max().map(|length| end - length..end));
        }
        replace_ranges(text, ranges)
    }

    /// Masks the secrets in a JSON value, whatever escapes it uses. Returns `None` if it holds none.
    pub fn mask_json(&self, raw: &RawJson, context: MaskContext) -> Option<RawJson> {
        let forms = self.forms();
        if !may_contain_secret(raw.text(), &forms, context) {
            return None;
        }
        raw.map_strings(|kind, text| match kind {
            StringKind::Key if matches!(context, MaskContext::Message | MaskContext::Listing) => {
                None
            }
            StringKind::Key => mask_string(text, &forms, MIN_WORD_LENGTH),
            StringKind::Value { key } if is_exempt(key, context) => None,
            StringKind::Value { key: "blob" } if context == MaskContext::Result => {
                mask_blob(text, &forms)
            }
            StringKind::Value { key: "type" } if !TYPE_KEYWORDS.contains(&text) => {
                mask_string(text, &forms, MIN_SECRET_LENGTH)
            }
            StringKind::Value { key } if KEYWORD_MEMBERS.contains(&key) => {
                mask_string(text, &forms, MIN_WORD_LENGTH)
            }
            StringKind::Value { .. } => mask_string(text, &forms, MIN_SECRET_LENGTH),
        })
    }

    /// Returns whether a masked definition still contains a secret in a name, key or reference, which cannot be
    /// masked without breaking it. Ignores short alphabetic secrets such as `postgres`, which may be a word
    /// of the name.
    pub fn contains_secret(&self, definition: &RawJson) -> bool {
        let forms = self.forms();
        let certain = |form: &&SecretString| {
            let form = form.reveal();
            let is_word = form.chars().all(|c| c.is_alphabetic() || "-_".contains(c));
            form.len() >= if is_word { MIN_NAME_SECRET_LENGTH } else { MIN_WORD_LENGTH }
        };
        let certain: Vec<SecretString> = forms.iter().filter(certain).cloned().collect();
        let mut is_left = false;
        if may_contain_secret(definition.text(), &certain, MaskContext::Listing) {
            let _ = definition.map_strings(|_, text| {
                is_left |= certain.iter().any(|form| text.contains(form.reveal()));
                None
            });
        }
        is_left
    }

    /// Masks the secrets in an error response. Returns `None` if it holds none.
    pub fn mask_rpc_error(&self, error: &RpcError) -> Option<RpcError> {
        let whole = error.to_raw();
        self.mask_json(&whole, MaskContext::Error)?;
        let message = self.mask_text(error.message.clone());
        let masked = RpcError::new(error.code, message);
        Some(match &error.data {
            Some(data) => {
                let data = self.mask_json(data, MaskContext::Error).unwrap_or_else(|| data.clone());
                masked.with_data(data)
            }
            None => masked,
        })
    }

    /// Length of the longest encoding of a secret.
    pub fn longest_form(&self) -> usize {
        self.forms().iter().map(|form| form.reveal().len()).max().unwrap_or_default()
    }

    fn forms(&self) -> Arc<[SecretString]> {
        Arc::clone(&self.secrets().forms)
    }

    fn secrets(&self) -> MutexGuard<'_, SecretSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_exempt(key: &str, context: MaskContext) -> bool {
    match context {
        MaskContext::Error => false,
        MaskContext::Listing => OPAQUE_MEMBERS.contains(&key) || NAME_MEMBERS.contains(&key),
        MaskContext::Message | MaskContext::Result => OPAQUE_MEMBERS.contains(&key),
    }
}

/// Masks the secrets of at least `shortest` bytes. Returns `None` if there are none.
fn mask_string(text: &str, forms: &[SecretString], shortest: usize) -> Option<String> {
    let mut ranges = find_secrets(text, forms);
    ranges.retain(|range| range.len() >= shortest);
    (!ranges.is_empty()).then(|| replace_ranges(text.to_owned(), ranges))
}

/// Returns whether a JSON text may contain a secret. An escape sequence may hide one.
fn may_contain_secret(text: &str, forms: &[SecretString], context: MaskContext) -> bool {
    !forms.is_empty()
        && (text.contains('\\')
            || (context == MaskContext::Result && text.contains("\"blob\""))
            || forms.iter().any(|form| text.contains(form.reveal())))
}

/// Masks the secrets in base64 data of a resource.
fn mask_blob(text: &str, forms: &[SecretString]) -> Option<String> {
    let bytes = base64::decode(text)?;
    let text = String::from_utf8(bytes).ok()?;
    mask_string(&text, forms, MIN_SECRET_LENGTH).map(|text| base64::encode(text.as_bytes()))
}

/// Finds the byte ranges of all secrets.
fn find_secrets(text: &str, forms: &[SecretString]) -> Vec<Range<usize>> {
    let found = forms.iter().flat_map(|form| {
        let form = form.reveal();
        text.match_indices(form).map(move |(at, _)| at..at + form.len())
    });
    found.collect()
}

/// Length of the longest proper prefix of `secret` at the end of `text`.
fn partial_secret_at_end(text: &str, secret: &str) -> Option<usize> {
    let beginnings = (MIN_SECRET_LENGTH..secret.len()).rev().filter_map(|end| secret.get(..end));
    beginnings.filter(|part| text.ends_with(part)).map(str::len).next()
}

/// Replaces each range with `***`. Overlapping ranges become one.
fn replace_ranges(text: String, mut ranges: Vec<Range<usize>>) -> String {
    if ranges.is_empty() {
        return text;
    }
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut shown, mut done) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        if range.start >= done {
            shown.push_str(text.get(done..range.start).unwrap_or_default());
            shown.push_str(MASK);
        }
        done = done.max(range.end);
    }
    shown.push_str(text.get(done..).unwrap_or_default());
    shown
}

fn all_forms(given: &[SecretString], added: &VecDeque<SecretString>) -> Arc<[SecretString]> {
    let mut forms: Vec<SecretString> =
        given.iter().chain(added).flat_map(|secret| secret_forms(secret.reveal())).collect();
    forms.retain(|form| form.reveal().len() >= MIN_SECRET_LENGTH);
    forms.sort_unstable();
    forms.dedup();
    forms.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secrets: &[&str]) -> SecretMask {
        SecretMask::new(secrets.iter().map(|secret| SecretString::new(*secret)).collect())
    }

    fn raw(text: &str) -> RawJson {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn truncated_text_keeps_no_part_of_a_secret() {
        let mask = mask(&["c4nary-long", "c4nary", "abc"]);
        for (text, shown) in [
            ("c4nary-long c4nary abc", "*** *** abc"),
            ("so it is c4nary-lo", "so it is ***"),
            ("so it is c4na", "so it is ***"),
            ("so it is c4na…", "so it is ***…"),
            ("so it is c4na… and more", "so it is ***… and more"),
            ("so it is c4n", "so it is c4n"),
            ("c4na is not at the end", "c4na is not at the end"),
            ("", ""),
        ] {
            assert_eq!(mask.mask_excerpt(text.to_owned()), shown);
        }
    }

    #[test]
    fn secrets_are_masked_in_every_encoding() {
        let mask = mask(&["a\"b\\c/d e", "overlap", "laps-on"]);
        for (text, shown) in [
            (r#"a"b\c/d e"#, "***"),
            (r#"{"k":"a\"b\\c/d e"}"#, r#"{"k":"***"}"#),
            (r#"a\\\"b\\\\c/d e"#, "***"),
            ("?k=a%22b%5Cc%2Fd+e&x", "?k=***&x"),
            ("?k=a%22b%5Cc%2Fd%20e&x", "?k=***&x"),
            ("?k=a%22b\\c/d%20e&x", "?k=***&x"),
            ("overlaps-on", "***"),
            ("overlapoverlap", "******"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(mask.mask_text(text.to_owned()), shown);
        }
    }

    #[test]
    fn masking_json_preserves_all_other_bytes() {
        let mask = mask(&["c4nary-1", "text", "a\"bc"]);
        for (context, text, shown) in [
            (
                MaskContext::Result,
                r#"{ "n":1.50, "content":[{"type":"text","text":"it is c4n\u0061ry-1"}]}"#,
                Some(r#"{ "n":1.50, "content":[{"type":"text","text":"it is ***"}]}"#),
            ),
            (MaskContext::Result, r#"{"c4nary-1":1,"text":2}"#, Some(r#"{"***":1,"text":2}"#)),
            (MaskContext::Message, r#"{"c4nary-1":1}"#, None),
            (MaskContext::Error, r#"{"taskId":"c4nary-1"}"#, Some(r#"{"taskId":"***"}"#)),
            (
                MaskContext::Message,
                r#"{"level":"c4nary-1","type":"text"}"#,
                Some(r#"{"level":"***","type":"text"}"#),
            ),
            (MaskContext::Result, r#"{"x":"a\"bc"}"#, Some(r#"{"x":"***"}"#)),
            (
                MaskContext::Listing,
                r#"{"tools":[{"name":"c4nary-1","description":"c4nary-1"}]}"#,
                Some(r#"{"tools":[{"name":"c4nary-1","description":"***"}]}"#),
            ),
            (MaskContext::Message, r#"{"name":"c4nary-1"}"#, Some(r#"{"name":"***"}"#)),
            (
                MaskContext::Result,
                r#"{"blob":"eCBjNG5hcnktMSB5"}"#,
                Some(r#"{"blob":"eCAqKiogeQ=="}"#),
            ),
            (MaskContext::Result, r#"{"requestState":"c4nary-1"}"#, None),
            (MaskContext::Result, r#"{"x":"\u00e9\\"}"#, None),
        ] {
            let masked = mask.mask_json(&raw(text), context);
            assert_eq!(masked.as_ref().map(RawJson::text), shown, "{text}");
        }
    }

    #[test]
    fn secrets_in_names_keys_and_references_are_detected() {
        let mask = mask(&["c4nary-1", "postgres", "s3cr", "averylongpassphrase"]);
        for (text, is_left) in [
            (r#"{"name":"x_c4nary-1"}"#, true),
            (r#"{"name":"x","inputSchema":{"properties":{"c4nary\u002d1":{}}}}"#, true),
            (r##"{"name":"x","inputSchema":{"$ref":"#/$defs/c4nary-1"}}"##, true),
            (r#"{"name":"x_YzRuYXJ5LTE"}"#, true),
            (r#"{"name":"averylongpassphrase"}"#, true),
            (r#"{"name":"postgres_query","uri":"s3cr"}"#, false),
            (r#"{"name":"x","description":"***"}"#, false),
        ] {
            assert_eq!(mask.contains_secret(&raw(text)), is_left, "{text}");
        }
        let schema = raw(r#"{"type":"s3cr","items":{"type":["string","s3cr"]}}"#);
        let masked = mask.mask_json(&schema, MaskContext::Listing).unwrap();
        assert_eq!(masked.text(), r#"{"type":"***","items":{"type":["string","***"]}}"#);
    }

    #[test]
    fn rpc_errors_are_masked_in_message_and_data() {
        let mask = mask(&["c4nary-1"]);
        let error = RpcError::new(-32000, "no c4nary-1").with_data(raw(r#"{"k":["c4nary-1"]}"#));
        let masked = mask.mask_rpc_error(&error).unwrap();
        let expected = r#"{"code":-32000,"message":"no ***","data":{"k":["***"]}}"#;
        assert_eq!(masked.to_raw().text(), expected);
        assert!(mask.mask_rpc_error(&RpcError::new(1, "fine")).is_none());
    }

    #[test]
    fn added_secrets_are_shared_by_clones_and_bounded() {
        let mask = mask(&["given-secret"]);
        let other = mask.clone();
        for number in 0..2 * MAX_ADDED {
            other.add_secret(&SecretString::new(format!("learned-{number:03}")));
        }
        let last = format!("learned-{:03} given-secret", 2 * MAX_ADDED - 1);
        assert_eq!(mask.mask_text(last), "*** ***");
        assert_eq!(mask.secrets().added.len(), MAX_ADDED);
    }
}
