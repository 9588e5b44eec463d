//! The one place that masks secrets: text of a server, without the secrets that the server was given.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_config::{Hidden, MASK};
use toolcrib_wire::{Raw, RpcError, StringKind, base64};

use super::secret_forms::{SHORTEST, forms_of};

/// A shorter secret may be a word of the protocol.
const SHORTEST_WORD: usize = 8;

/// Secrets that came after the connection was opened, such as renewed tokens; the oldest go first.
const LEARNED: usize = 32;

/// Members whose values only their server understands: to change one would break the conversation.
const OPAQUE: [&str; 6] =
    ["requestState", "nextCursor", "progressToken", "taskId", "elicitationId", "$ref"];

/// Members whose values are words of the protocol; a short secret may be equal to one.
const WORDS: [&str; 9] = [
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

/// Words that `type` has in schemas and in content; a short secret may be equal to one.
const TYPES: [&str; 16] = [
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

/// A secret of at least this length is in no name by chance.
const SURELY_SECRET: usize = 16;

/// Members by which tools, prompts and resources are asked for.
const NAMES: [&str; 4] = ["name", "uri", "uriTemplate", "required"];

/// Masks the secrets of one server in what the server says. Clones share the secrets.
#[derive(Clone, Debug, Default)]
pub struct SecretMask(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    given: Vec<Hidden>,
    learned: VecDeque<Hidden>,
    /// Every way in which one of them may be written.
    forms: Arc<[Hidden]>,
}

/// What a JSON value of a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// How the server describes itself, a question, a notification.
    Message,
    /// A page of a list: names in it have to stay usable.
    Listing,
    /// The data of an error.
    Error,
    /// The result of a tool, a resource or a prompt.
    Result,
}

impl SecretMask {
    pub fn new(secrets: Vec<Hidden>) -> Self {
        let forms = all_forms(&secrets, &VecDeque::new());
        let known = Known { given: secrets, learned: VecDeque::new(), forms };
        SecretMask(Arc::new(Mutex::new(known)))
    }

    /// Adds a secret that the server is given from now on.
    pub fn learn(&self, secret: &Hidden) {
        let mut known = self.known();
        if known.given.contains(secret) || known.learned.contains(secret) {
            return;
        }
        if known.learned.len() == LEARNED {
            known.learned.pop_front();
        }
        known.learned.push_back(secret.clone());
        known.forms = all_forms(&known.given, &known.learned);
    }

    /// The text without secrets.
    pub fn mask_text(&self, text: String) -> String {
        let places = whole_places(&text, &self.forms());
        replaced(text, places)
    }

    /// The same for a text that may have been cut, at its end or before `…`, within a secret.
    pub fn mask_excerpt(&self, text: String) -> String {
        let forms = self.forms();
        let mut places = whole_places(&text, &forms);
        let dots = text.match_indices('…').map(|(at, _)| at);
        for end in dots.chain([text.len()]) {
            let before = text.get(..end).unwrap_or_default();
            let longest = forms.iter().filter_map(|form| beginning_at_end(before, form.reveal()));
            places.extend(longest.max().map(|length| end - length..end));
        }
        replaced(text, places)
    }

    /// A JSON value without secrets, whatever escapes they are written with; none where nothing is masked.
    pub fn mask_json(&self, raw: &Raw, said: Said) -> Option<Raw> {
        let forms = self.forms();
        if !may_hold(raw.text(), &forms, said) {
            return None;
        }
        raw.map_strings(|kind, text| match kind {
            StringKind::Key if matches!(said, Said::Message | Said::Listing) => None,
            StringKind::Key => masked(text, &forms, SHORTEST_WORD),
            StringKind::Value { key } if is_kept(key, said) => None,
            StringKind::Value { key: "blob" } if said == Said::Result => masked_blob(text, &forms),
            StringKind::Value { key: "type" } if !TYPES.contains(&text) => {
                masked(text, &forms, SHORTEST)
            }
            StringKind::Value { key } if WORDS.contains(&key) => {
                masked(text, &forms, SHORTEST_WORD)
            }
            StringKind::Value { .. } => masked(text, &forms, SHORTEST),
        })
    }

    /// Whether a definition that was masked still has a secret in it: in a name, a key or a reference, which would lead
    /// nowhere if it was masked. A short secret of letters alone, such as `postgres`, may be a word of that name.
    pub fn is_left_in(&self, definition: &Raw) -> bool {
        let forms = self.forms();
        let certain = |form: &&Hidden| {
            let form = form.reveal();
            let is_word = form.chars().all(|c| c.is_alphabetic() || "-_".contains(c));
            form.len() >= if is_word { SURELY_SECRET } else { SHORTEST_WORD }
        };
        let certain: Vec<Hidden> = forms.iter().filter(certain).cloned().collect();
        let mut is_left = false;
        if may_hold(definition.text(), &certain, Said::Listing) {
            let _ = definition.map_strings(|_, text| {
                is_left |= certain.iter().any(|form| text.contains(form.reveal()));
                None
            });
        }
        is_left
    }

    /// An error that a server answered with, without secrets; none where nothing is masked.
    pub fn mask_rpc_error(&self, error: &RpcError) -> Option<RpcError> {
        let whole = error.to_raw();
        self.mask_json(&whole, Said::Error)?;
        let message = self.mask_text(error.message.clone());
        let masked = RpcError::new(error.code, message);
        Some(match &error.data {
            Some(data) => {
                let data = self.mask_json(data, Said::Error).unwrap_or_else(|| data.clone());
                masked.with_data(data)
            }
            None => masked,
        })
    }

    /// The length of the longest form of a secret.
    pub fn longest(&self) -> usize {
        self.forms().iter().map(|form| form.reveal().len()).max().unwrap_or_default()
    }

    fn forms(&self) -> Arc<[Hidden]> {
        Arc::clone(&self.known().forms)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_kept(key: &str, said: Said) -> bool {
    match said {
        Said::Error => false,
        Said::Listing => OPAQUE.contains(&key) || NAMES.contains(&key),
        Said::Message | Said::Result => OPAQUE.contains(&key),
    }
}

/// A text without the secrets of at least this length; none where nothing is masked.
fn masked(text: &str, forms: &[Hidden], shortest: usize) -> Option<String> {
    let mut places = whole_places(text, forms);
    places.retain(|place| place.len() >= shortest);
    (!places.is_empty()).then(|| replaced(text.to_owned(), places))
}

/// Whether a secret may be in a JSON text. An escape may hide one.
fn may_hold(text: &str, forms: &[Hidden], said: Said) -> bool {
    !forms.is_empty()
        && (text.contains('\\')
            || (said == Said::Result && text.contains("\"blob\""))
            || forms.iter().any(|form| text.contains(form.reveal())))
}

/// Bytes in base64, as resources have them.
fn masked_blob(text: &str, forms: &[Hidden]) -> Option<String> {
    let bytes = base64::decode(text)?;
    let text = String::from_utf8(bytes).ok()?;
    masked(&text, forms, SHORTEST).map(|text| base64::encode(text.as_bytes()))
}

/// Where secrets stand in a text.
fn whole_places(text: &str, forms: &[Hidden]) -> Vec<Range<usize>> {
    let found = forms.iter().flat_map(|form| {
        let form = form.reveal();
        text.match_indices(form).map(move |(at, _)| at..at + form.len())
    });
    found.collect()
}

/// How much of a secret's beginning, but not all of it, a text ends with.
fn beginning_at_end(text: &str, secret: &str) -> Option<usize> {
    let beginnings = (SHORTEST..secret.len()).rev().filter_map(|end| secret.get(..end));
    beginnings.filter(|part| text.ends_with(part)).map(str::len).next()
}

/// The text with `***` at each place. Places that overlap are one.
fn replaced(text: String, mut places: Vec<Range<usize>>) -> String {
    if places.is_empty() {
        return text;
    }
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let (mut shown, mut done) = (String::with_capacity(text.len()), 0);
    for place in places {
        if place.start >= done {
            shown.push_str(text.get(done..place.start).unwrap_or_default());
            shown.push_str(MASK);
        }
        done = done.max(place.end);
    }
    shown.push_str(text.get(done..).unwrap_or_default());
    shown
}

fn all_forms(given: &[Hidden], learned: &VecDeque<Hidden>) -> Arc<[Hidden]> {
    let mut forms: Vec<Hidden> =
        given.iter().chain(learned).flat_map(|secret| forms_of(secret.reveal())).collect();
    forms.retain(|form| form.reveal().len() >= SHORTEST);
    forms.sort_unstable();
    forms.dedup();
    forms.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secrets: &[&str]) -> SecretMask {
        SecretMask::new(secrets.iter().map(|secret| Hidden::new(*secret)).collect())
    }

    fn raw(text: &str) -> Raw {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn no_part_of_a_secret_is_left_where_a_text_was_cut() {
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
    fn a_secret_is_masked_however_it_is_written() {
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
    fn json_keeps_every_byte_but_the_secret() {
        let mask = mask(&["c4nary-1", "text", "a\"bc"]);
        for (said, text, shown) in [
            (
                Said::Result,
                r#"{ "n":1.50, "content":[{"type":"text","text":"it is c4n\u0061ry-1"}]}"#,
                Some(r#"{ "n":1.50, "content":[{"type":"text","text":"it is ***"}]}"#),
            ),
            (Said::Result, r#"{"c4nary-1":1,"text":2}"#, Some(r#"{"***":1,"text":2}"#)),
            (Said::Message, r#"{"c4nary-1":1}"#, None),
            (Said::Error, r#"{"taskId":"c4nary-1"}"#, Some(r#"{"taskId":"***"}"#)),
            (
                Said::Message,
                r#"{"level":"c4nary-1","type":"text"}"#,
                Some(r#"{"level":"***","type":"text"}"#),
            ),
            (Said::Result, r#"{"x":"a\"bc"}"#, Some(r#"{"x":"***"}"#)),
            (
                Said::Listing,
                r#"{"tools":[{"name":"c4nary-1","description":"c4nary-1"}]}"#,
                Some(r#"{"tools":[{"name":"c4nary-1","description":"***"}]}"#),
            ),
            (Said::Message, r#"{"name":"c4nary-1"}"#, Some(r#"{"name":"***"}"#)),
            (Said::Result, r#"{"blob":"eCBjNG5hcnktMSB5"}"#, Some(r#"{"blob":"eCAqKiogeQ=="}"#)),
            (Said::Result, r#"{"requestState":"c4nary-1"}"#, None),
            (Said::Result, r#"{"x":"\u00e9\\"}"#, None),
        ] {
            let masked = mask.mask_json(&raw(text), said);
            assert_eq!(masked.as_ref().map(Raw::text), shown, "{text}");
        }
    }

    #[test]
    fn a_secret_in_a_name_a_key_or_a_reference_of_a_definition_is_left_unless_it_may_be_a_word() {
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
            assert_eq!(mask.is_left_in(&raw(text)), is_left, "{text}");
        }
        let schema = raw(r#"{"type":"s3cr","items":{"type":["string","s3cr"]}}"#);
        let masked = mask.mask_json(&schema, Said::Listing).unwrap();
        assert_eq!(masked.text(), r#"{"type":"***","items":{"type":["string","***"]}}"#);
    }

    #[test]
    fn an_error_is_masked_in_its_message_and_its_data() {
        let mask = mask(&["c4nary-1"]);
        let error = RpcError::new(-32000, "no c4nary-1").with_data(raw(r#"{"k":["c4nary-1"]}"#));
        let masked = mask.mask_rpc_error(&error).unwrap();
        let expected = r#"{"code":-32000,"message":"no ***","data":{"k":["***"]}}"#;
        assert_eq!(masked.to_raw().text(), expected);
        assert!(mask.mask_rpc_error(&RpcError::new(1, "fine")).is_none());
    }

    #[test]
    fn a_learned_secret_is_masked_by_every_clone_and_their_number_is_bounded() {
        let mask = mask(&["given-secret"]);
        let other = mask.clone();
        for number in 0..2 * LEARNED {
            other.learn(&Hidden::new(format!("learned-{number:03}")));
        }
        let last = format!("learned-{:03} given-secret", 2 * LEARNED - 1);
        assert_eq!(mask.mask_text(last), "*** ***");
        assert_eq!(mask.known().learned.len(), LEARNED);
    }
}
