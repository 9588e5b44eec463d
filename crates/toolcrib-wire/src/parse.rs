//! Bytes to messages: one walk that checks everything and keeps what it saw, should it fail halfway.

use crate::envelope::{Body, Message, Notification, Packet, Places, Request, Response};
use crate::id::{BadId, Id};
use crate::json::{Json, Kind};
use crate::limits::Limits;
use crate::malformed::{Fault, Malformed, Shape};
use crate::meta;
use crate::raw::{Raw, utf8};
use crate::rpc_error::RpcError;
use crate::scan::{Scanner, Span};
use crate::text::unquote;

/// Reads one frame: a message, or a batch of them.
pub fn parse(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Packet, Malformed> {
    let raw = whole(bytes.into(), limits)?;
    if raw.as_bytes().first() == Some(&b'[') {
        return batch(&raw, limits).map(Packet::Batch);
    }
    message(raw, limits).map(Packet::One)
}

/// What can be made out of the id of a message whose end is missing, such as one cut at a size limit.
pub fn recover_id(head: &[u8]) -> Option<Id> {
    let valid = head.utf8_chunks().next()?.valid();
    let mut draft = Draft::default();
    // The walk fails where the text ends; what it saw before stays in the draft.
    let _ = draft.walk(valid, &Limits::default());
    draft.id(valid)?.ok()
}

/// The text without the white space around it.
fn whole(bytes: Vec<u8>, limits: &Limits) -> Result<Raw, Malformed> {
    let text = utf8(bytes, limits).map_err(unknown)?;
    let trimmed = text.trim_matches([' ', '\t', '\r', '\n']);
    let start = trimmed.as_ptr() as usize - text.as_ptr() as usize;
    let span = start..start + trimmed.len();
    Ok(Raw::trusted(text).slice(span))
}

fn batch(raw: &Raw, limits: &Limits) -> Result<Vec<Result<Message, Malformed>>, Malformed> {
    let spans = batch_spans(raw.text(), limits).map_err(unknown)?;
    Ok(spans
        .into_iter()
        .map(|span| message(raw.slice(span), limits))
        .collect())
}

fn batch_spans(text: &str, limits: &Limits) -> Result<Vec<Span>, Fault> {
    let mut scanner = Scanner::new(text, limits.depth.saturating_add(1));
    let mut spans = Vec::new();
    let mut first = true;
    scanner.enter(b'[')?;
    while scanner.next_item(&mut first)? {
        if spans.len() == limits.batch {
            return Err(Fault::BatchTooLong {
                limit: limits.batch,
            });
        }
        spans.push(scanner.value()?);
    }
    scanner.end()?;
    if spans.is_empty() {
        Err(Fault::EmptyBatch)
    } else {
        Ok(spans)
    }
}

fn message(raw: Raw, limits: &Limits) -> Result<Message, Malformed> {
    let mut draft = Draft::default();
    let walked = draft.walk(raw.text(), limits);
    let fault = match walked.and_then(|()| draft.check(raw.text())) {
        Ok(kind) => return Ok(finish(raw, draft, kind)),
        Err(fault) => fault,
    };
    let shape = draft.shape();
    let id = draft.id(raw.text()).and_then(Result::ok);
    let id = id.or_else(|| trailing_id(raw.text(), &fault, shape));
    Err(Malformed { fault, id, shape })
}

fn unknown(fault: Fault) -> Malformed {
    Malformed {
        fault,
        id: None,
        shape: Shape::Unknown,
    }
}

/// What a sound draft is.
enum Sound {
    Call {
        id: Option<Id>,
        method: String,
    },
    Answer {
        id: Option<Id>,
        error: Option<(i64, String, Option<Span>)>,
    },
}

fn finish(raw: Raw, draft: Draft, sound: Sound) -> Message {
    let body = Body {
        message: raw,
        places: draft.places,
    };
    match sound {
        Sound::Call {
            id: Some(id),
            method,
        } => Message::Request(Request {
            id,
            method,
            params: body,
        }),
        Sound::Call { id: None, method } => Message::Notification(Notification {
            method,
            params: body,
        }),
        Sound::Answer { id, error } => {
            let error = error.map(|(code, message, data)| RpcError {
                code,
                message,
                data: data.map(|span| body.message.slice(span)),
            });
            Message::Response(Response { id, body, error })
        }
    }
}

/// What the walk has seen so far.
#[derive(Default)]
struct Draft {
    places: Places,
    jsonrpc: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    saw_method: bool,
    saw_answer: bool,
}

impl Draft {
    fn walk(&mut self, text: &str, limits: &Limits) -> Result<(), Fault> {
        let mut scanner = Scanner::new(text, limits.depth);
        match scanner.peek() {
            Some(b'{') | None => {}
            Some(_) => return Err(not_an_object(scanner)),
        }
        scanner.enter(b'{')?;
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            self.member(&mut scanner, text, &unquote(&text[key]))?;
        }
        scanner.end()
    }

    fn member(&mut self, scanner: &mut Scanner<'_>, text: &str, key: &str) -> Result<(), Fault> {
        match key {
            "jsonrpc" => once(&mut self.jsonrpc, scanner.value()?, "jsonrpc"),
            "id" => once(&mut self.places.id, scanner.value()?, "id"),
            "method" => {
                self.saw_method = true;
                once(&mut self.method, scanner.value()?, "method")
            }
            "params" => once(
                &mut self.params,
                params(scanner, text, &mut self.places)?,
                "params",
            ),
            "result" => {
                self.saw_answer = true;
                once(
                    &mut self.result,
                    result(scanner, text, &mut self.places)?,
                    "result",
                )
            }
            "error" => {
                self.saw_answer = true;
                once(&mut self.error, scanner.value()?, "error")
            }
            _ => scanner.value().map(drop),
        }
    }

    /// Decides what the message is, and remembers which member is its body.
    fn check(&mut self, text: &str) -> Result<Sound, Fault> {
        if json(text, &self.jsonrpc).and_then(Json::as_str).as_deref() != Some("2.0") {
            return Err(Fault::NotJsonRpc2);
        }
        match (self.method.is_some(), self.answer(text)?) {
            (true, None) => self.check_call(text),
            (true, Some(_)) => Err(Fault::MethodAndAnswer),
            (false, Some(answer)) => self.check_answer(text, answer),
            (false, None) => Err(Fault::NoContent),
        }
    }

    fn check_call(&mut self, text: &str) -> Result<Sound, Fault> {
        let method = json(text, &self.method).unwrap_or(Json::NULL);
        let Some(method) = method.as_str() else {
            return Err(Fault::MethodNotText {
                found: method.kind(),
            });
        };
        match json(text, &self.params).map(Json::kind) {
            None | Some(Kind::Object | Kind::Null) => self.places.body = self.params.clone(),
            Some(found) => return Err(Fault::ParamsNotObject { found }),
        }
        let id = self.id(text).transpose().map_err(Fault::BadId)?;
        Ok(Sound::Call {
            id,
            method: method.into_owned(),
        })
    }

    fn check_answer(&mut self, text: &str, answer: Answer) -> Result<Sound, Fault> {
        let id = match self.id(text) {
            None | Some(Err(BadId::Null)) => None,
            Some(id) => Some(id.map_err(Fault::BadId)?),
        };
        match answer {
            Answer::Error => {
                self.places.body = self.error.clone();
                let error = read_error(text, json(text, &self.error).unwrap_or(Json::NULL))?;
                Ok(Sound::Answer {
                    id,
                    error: Some(error),
                })
            }
            Answer::Result if id.is_none() => Err(Fault::ResultWithoutId),
            Answer::Result => {
                self.places.body = self.result.clone();
                Ok(Sound::Answer { id, error: None })
            }
        }
    }

    /// Which answer it is. Peers that grew up with JSON-RPC 1.0 write both and make one of them null.
    fn answer(&self, text: &str) -> Result<Option<Answer>, Fault> {
        let null = |span| json(text, span).is_some_and(Json::is_null);
        match (self.result.is_some(), self.error.is_some()) {
            (false, false) => Ok(None),
            (true, false) => Ok(Some(Answer::Result)),
            (false, true) => Ok(Some(Answer::Error)),
            (true, true) if null(&self.error) => Ok(Some(Answer::Result)),
            (true, true) if null(&self.result) => Ok(Some(Answer::Error)),
            (true, true) => Err(Fault::ResultAndError),
        }
    }

    fn id(&self, text: &str) -> Option<Result<Id, BadId>> {
        json(text, &self.places.id).map(Id::read)
    }

    fn shape(&self) -> Shape {
        match (self.saw_method, self.saw_answer, &self.places.id) {
            (true, false, Some(_)) => Shape::Request,
            (true, false, None) => Shape::Notification,
            (false, true, _) => Shape::Response,
            _ => Shape::Unknown,
        }
    }
}

enum Answer {
    Result,
    Error,
}

fn params(scanner: &mut Scanner<'_>, text: &str, places: &mut Places) -> Result<Span, Fault> {
    object(scanner, text, |scanner, key| match key {
        "name" => once(&mut places.name, scanner.value()?, "params.name"),
        "uri" => once(&mut places.uri, scanner.value()?, "params.uri"),
        "_meta" => {
            let (token, version) = (&mut places.progress_token, &mut places.version);
            let meta = object(scanner, text, |scanner, key| match key {
                meta::PROGRESS_TOKEN => once(token, scanner.value()?, "params._meta.progressToken"),
                meta::PROTOCOL_VERSION => once(version, scanner.value()?, "the protocol version"),
                _ => scanner.value().map(drop),
            })?;
            once(&mut places.meta, meta, "params._meta")
        }
        _ => scanner.value().map(drop),
    })
}

fn result(scanner: &mut Scanner<'_>, text: &str, places: &mut Places) -> Result<Span, Fault> {
    object(scanner, text, |scanner, key| match key {
        "resultType" => once(
            &mut places.result_type,
            scanner.value()?,
            "result.resultType",
        ),
        "_meta" => once(&mut places.meta, scanner.value()?, "result._meta"),
        _ => scanner.value().map(drop),
    })
}

/// Shows each member of the next value to `visit`, which takes the member's value. A value that is no
/// object is just taken.
fn object<'a>(
    scanner: &mut Scanner<'a>,
    text: &str,
    mut visit: impl FnMut(&mut Scanner<'a>, &str) -> Result<(), Fault>,
) -> Result<Span, Fault> {
    if scanner.peek() != Some(b'{') {
        return scanner.value();
    }
    let start = scanner.at();
    scanner.enter(b'{')?;
    let mut first = true;
    while let Some(key) = scanner.next_key(&mut first)? {
        visit(scanner, &unquote(&text[key]))?;
    }
    Ok(start..scanner.at())
}

fn once(place: &mut Option<Span>, span: Span, member: &'static str) -> Result<(), Fault> {
    match place.replace(span) {
        None => Ok(()),
        Some(_) => Err(Fault::Duplicate { member }),
    }
}

fn json<'a>(text: &'a str, span: &Option<Span>) -> Option<Json<'a>> {
    span.clone().map(|span| Json::trusted(&text[span]))
}

fn not_an_object(mut scanner: Scanner<'_>) -> Fault {
    let text = scanner.text();
    match scanner
        .value()
        .and_then(|span| scanner.end().map(|()| span))
    {
        Ok(span) => Fault::NotAnObject {
            found: Json::trusted(&text[span]).kind(),
        },
        Err(fault) => fault,
    }
}

fn read_error(text: &str, error: Json<'_>) -> Result<(i64, String, Option<Span>), Fault> {
    if !error.is_object() {
        return Err(Fault::BadError {
            why: "it is not an object",
        });
    }
    let [code, message, data] = error.pick(["code", "message", "data"]);
    let Some(code) = code.and_then(Json::as_i64) else {
        return Err(Fault::BadError {
            why: "`code` is not an integer",
        });
    };
    let Some(message) = message.and_then(Json::as_str) else {
        return Err(Fault::BadError {
            why: "`message` is not a string",
        });
    };
    let data = data.map(|data| {
        let start = data.text().as_ptr() as usize - text.as_ptr() as usize;
        start..start + data.text().len()
    });
    Ok((code, message.into_owned(), data))
}

/// The id at the very end of an answer whose middle is not JSON: the TypeScript SDK writes it last.
fn trailing_id(text: &str, fault: &Fault, shape: Shape) -> Option<Id> {
    if shape != Shape::Response || !matches!(fault, Fault::Syntax { .. } | Fault::TooDeep { .. }) {
        return None;
    }
    let (_, tail) = text.rsplit_once("\"id\"")?;
    let value = tail
        .trim_start()
        .strip_prefix(':')?
        .trim_end()
        .strip_suffix('}')?;
    let value = Json::parse(value, &Limits::default()).ok()?;
    Id::read(value).ok()
}
