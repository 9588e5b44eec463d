//! One message under examination: a single walk that keeps what it saw, should it fail halfway.

use crate::envelope::Places;
use crate::id::{BadId, Id};
use crate::json::{Json, Kind};
use crate::limits::Limits;
use crate::malformed::{Fault, Shape};
use crate::meta;
use crate::scan::{Scanner, Span};
use crate::text::unquote;

/// What the walk has seen so far.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) places: Places,
    jsonrpc: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    result: Option<Span>,
    error: Option<Span>,
    /// A member that was given twice. The walk goes on, so that the rest can be made out.
    duplicate: Option<&'static str>,
    saw_method: bool,
    saw_answer: bool,
}

/// What a sound draft is.
pub(crate) enum Sound {
    Call {
        id: Option<Id>,
        method: String,
    },
    Answer {
        id: Option<Id>,
        error: Option<(i64, String, Option<Span>)>,
    },
}

impl Draft {
    pub(crate) fn walk(&mut self, text: &str, limits: &Limits) -> Result<(), Fault> {
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
        self.saw_method |= key == "method";
        self.saw_answer |= matches!(key, "result" | "error");
        let (places, twice) = (&mut self.places, &mut self.duplicate);
        match key {
            "jsonrpc" => once(&mut self.jsonrpc, scanner.value()?, "jsonrpc", twice),
            "id" => once(&mut places.id, scanner.value()?, "id", twice),
            "method" => once(&mut self.method, scanner.value()?, "method", twice),
            "params" => once(
                &mut self.params,
                params(scanner, text, places, twice)?,
                "params",
                twice,
            ),
            "result" => once(
                &mut self.result,
                result(scanner, text, places, twice)?,
                "result",
                twice,
            ),
            "error" => once(&mut self.error, scanner.value()?, "error", twice),
            _ => scanner.skip()?,
        }
        Ok(())
    }

    /// Decides what the message is, and remembers which member is its body.
    pub(crate) fn check(&mut self, text: &str) -> Result<Sound, Fault> {
        if let Some(member) = self.duplicate {
            return Err(Fault::Duplicate { member });
        }
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

    /// The id, if it is whole and the only one: where the text was cut, `1` may have been `12`.
    pub(crate) fn id(&self, text: &str) -> Option<Result<Id, BadId>> {
        let id = self
            .places
            .id
            .clone()
            .filter(|id| id.end < text.len() && self.duplicate != Some("id"));
        json(text, &id).map(Id::read)
    }

    pub(crate) fn shape(&self) -> Shape {
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

fn params(
    scanner: &mut Scanner<'_>,
    text: &str,
    places: &mut Places,
    twice: &mut Option<&'static str>,
) -> Result<Span, Fault> {
    object(scanner, text, |scanner, key| {
        match key {
            "name" => once(&mut places.name, scanner.value()?, "params.name", twice),
            "uri" => once(&mut places.uri, scanner.value()?, "params.uri", twice),
            "_meta" => {
                let span = params_meta(scanner, text, places, twice)?;
                once(&mut places.meta, span, "params._meta", twice);
            }
            _ => scanner.skip()?,
        }
        Ok(())
    })
}

fn params_meta(
    scanner: &mut Scanner<'_>,
    text: &str,
    places: &mut Places,
    twice: &mut Option<&'static str>,
) -> Result<Span, Fault> {
    object(scanner, text, |scanner, key| {
        match key {
            meta::PROGRESS_TOKEN => once(
                &mut places.progress_token,
                scanner.value()?,
                "progressToken",
                twice,
            ),
            meta::PROTOCOL_VERSION => once(
                &mut places.version,
                scanner.value()?,
                meta::PROTOCOL_VERSION,
                twice,
            ),
            _ => scanner.skip()?,
        }
        Ok(())
    })
}

fn result(
    scanner: &mut Scanner<'_>,
    text: &str,
    places: &mut Places,
    twice: &mut Option<&'static str>,
) -> Result<Span, Fault> {
    object(scanner, text, |scanner, key| {
        match key {
            "resultType" => once(
                &mut places.result_type,
                scanner.value()?,
                "result.resultType",
                twice,
            ),
            "_meta" => once(&mut places.meta, scanner.value()?, "result._meta", twice),
            _ => scanner.skip()?,
        }
        Ok(())
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

fn once(
    place: &mut Option<Span>,
    span: Span,
    member: &'static str,
    twice: &mut Option<&'static str>,
) {
    // Of several the id is reported: it is the one that must not be relied on.
    if place.replace(span).is_some() && (twice.is_none() || member == "id") {
        *twice = Some(member);
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
