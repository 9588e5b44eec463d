//! One message under examination: a single walk that keeps what it saw, should it fail halfway.

use crate::envelope::{Place, Places};
use crate::id::{BadId, Id};
use crate::json::{Json, Kind};
use crate::limits::Limits;
use crate::malformed::{Fault, Shape};
use crate::member::{Level, Member};
use crate::raw::Raw;
use crate::rpc_error::RpcError;
use crate::scan::{Scanner, Span};
use crate::wrong::Wrong;

/// What the walk has seen so far.
#[derive(Default)]
pub(crate) struct Draft {
    found: [Option<Place>; Member::COUNT],
    /// Members whose key was seen, even if the walk failed inside their value.
    seen: [bool; Member::COUNT],
    /// A member that was given twice. The walk goes on, so that the rest can be made out.
    duplicate: Option<Member>,
    /// Whether the params have members that routing does not look at.
    has_more: bool,
}

/// What a sound draft is.
pub(crate) enum Sound {
    Call { id: Option<Id>, method: String },
    Answer { id: Option<Id>, error: Option<Box<RpcError>> },
}

enum Answer {
    Result,
    Error,
}

impl Draft {
    pub(crate) fn walk(&mut self, text: &str, limits: &Limits) -> Result<(), Fault> {
        let mut scanner = Scanner::new(text, limits.depth);
        if !matches!(scanner.peek(), Some(b'{') | None) {
            return Err(not_an_object(scanner));
        }
        let walked = self.object(&mut scanner, Level::Message).and_then(|_| scanner.end());
        walked.map_err(|wrong| scanner.fault(wrong))
    }

    /// Walks one object whose members matter. It calls itself for such objects inside, which the levels
    /// bound to three.
    fn object(&mut self, scanner: &mut Scanner<'_>, level: Level) -> Result<Span, Wrong> {
        let start = scanner.at();
        scanner.enter(b'{')?;
        let mut first = true;
        while let Some(member) = next_member(scanner, level, &mut first)? {
            self.see(member, level);
            let is_object = scanner.peek() == Some(b'{');
            let span = match member.and_then(Member::inside) {
                Some(level) if is_object => self.object(scanner, level)?,
                _ => scanner.value()?,
            };
            if let Some(member) = member {
                self.found[member as usize] = Place::of(span);
            }
        }
        Ok(start..scanner.at())
    }

    #[inline]
    fn see(&mut self, member: Option<Member>, level: Level) {
        let Some(member) = member else {
            self.has_more |= level == Level::Params;
            return;
        };
        let was_seen = std::mem::replace(&mut self.seen[member as usize], true);
        // Of several the id is reported: it is the one that must not be relied on.
        if was_seen && member.is_unique() && (self.duplicate.is_none() || member == Member::Id) {
            self.duplicate = Some(member);
        }
    }

    /// Decides what the message is.
    pub(crate) fn check(&self, message: &Raw) -> Result<Sound, Fault> {
        let text = message.text();
        if let Some(member) = self.duplicate {
            return Err(Fault::Duplicate { member: member.path() });
        }
        if !self.json(text, Member::JsonRpc).is_some_and(is_version_2) {
            return Err(Fault::NotJsonRpc2);
        }
        match (self.json(text, Member::Method), self.answer(text)?) {
            (Some(method), None) => self.check_call(text, method),
            (Some(_), Some(_)) => Err(Fault::MethodAndAnswer),
            (None, Some(answer)) => self.check_answer(message, answer),
            (None, None) => Err(Fault::NoContent),
        }
    }

    #[inline]
    fn check_call(&self, text: &str, method: Json<'_>) -> Result<Sound, Fault> {
        let Some(name) = method.as_str() else {
            let found = method.kind();
            return Err(Fault::MethodNotText { found });
        };
        match self.json(text, Member::Params).map(Json::kind) {
            None | Some(Kind::Object | Kind::Null) => {}
            Some(found) => return Err(Fault::ParamsNotObject { found }),
        }
        let id = self.id(text).transpose().map_err(Fault::BadId)?;
        let method = name.into_owned();
        Ok(Sound::Call { id, method })
    }

    #[inline]
    fn check_answer(&self, message: &Raw, answer: Answer) -> Result<Sound, Fault> {
        let id = match self.id(message.text()) {
            None | Some(Err(BadId::Null)) => None,
            Some(id) => Some(id.map_err(Fault::BadId)?),
        };
        let error = match answer {
            Answer::Result if id.is_none() => return Err(Fault::ResultWithoutId),
            Answer::Result => None,
            Answer::Error => {
                let error = self.json(message.text(), Member::Error);
                Some(Box::new(read_error(message, error.unwrap_or(Json::NULL))?))
            }
        };
        Ok(Sound::Answer { id, error })
    }

    /// Which answer it is. Peers that grew up with JSON-RPC 1.0 write both and make one of them null.
    fn answer(&self, text: &str) -> Result<Option<Answer>, Fault> {
        let [result, error] = [Member::Result, Member::Error].map(|member| self.json(text, member));
        match (result, error) {
            (None, None) => Ok(None),
            (Some(_), None) => Ok(Some(Answer::Result)),
            (None, Some(_)) => Ok(Some(Answer::Error)),
            (Some(_), Some(error)) if error.is_null() => Ok(Some(Answer::Result)),
            (Some(result), Some(_)) if result.is_null() => Ok(Some(Answer::Error)),
            (Some(_), Some(_)) => Err(Fault::ResultAndError),
        }
    }

    /// The id, if it is whole and the only one: where the text was cut, `1` may have been `12`.
    pub(crate) fn id(&self, text: &str) -> Option<Result<Id, BadId>> {
        let is_whole = self.span(Member::Id)?.end < text.len();
        if !is_whole || self.duplicate == Some(Member::Id) {
            return None;
        }
        self.json(text, Member::Id).map(Id::read)
    }

    pub(crate) fn shape(&self) -> Shape {
        let seen = |member: Member| self.seen[member as usize];
        let answers = seen(Member::Result) || seen(Member::Error);
        match (seen(Member::Method), answers, seen(Member::Id)) {
            (true, false, true) => Shape::Request,
            (true, false, false) => Shape::Notification,
            (false, true, _) => Shape::Response,
            _ => Shape::Unknown,
        }
    }

    /// Where everything stands in a message whose body is the given member.
    #[inline]
    pub(crate) fn places(&self, body: Member) -> Places {
        let at = |member: Member| self.found[member as usize];
        Places {
            id: at(Member::Id),
            body: at(body),
            name: at(Member::Name),
            uri: at(Member::Uri),
            arguments: at(Member::Arguments),
            request_state: at(Member::RequestState),
            result_type: at(Member::ResultType),
            content: at(Member::Content),
            structured_content: at(Member::StructuredContent),
            is_error: at(Member::IsError),
            meta: at(Member::ParamsMeta).or(at(Member::ResultMeta)),
            progress_token: at(Member::ProgressToken),
            version: at(Member::Version),
            has_more: self.has_more,
        }
    }

    #[inline]
    fn span(&self, member: Member) -> Option<Span> {
        self.found[member as usize].map(Place::span)
    }

    #[inline]
    fn json<'t>(&self, text: &'t str, member: Member) -> Option<Json<'t>> {
        Some(Json::trusted(&text[self.span(member)?]))
    }
}

/// What the next key of the object stands for, if it matters, or the object's end.
#[inline(always)]
fn next_member(
    scanner: &mut Scanner<'_>,
    level: Level,
    first: &mut bool,
) -> Result<Option<Option<Member>>, Wrong> {
    if !scanner.next_entry(b'}', first)? {
        return Ok(None);
    }
    if let Some((member, length)) = Member::leading(level, scanner.rest()) {
        scanner.advance(length);
        return Ok(Some(Some(member)));
    }
    let key = scanner.key()?;
    Ok(Some(Member::named(level, &key.read(scanner.text()))))
}

fn not_an_object(mut scanner: Scanner<'_>) -> Fault {
    let text = scanner.text();
    match scanner.value().and_then(|span| scanner.end().map(|()| span)) {
        Ok(span) => Fault::NotAnObject { found: Json::trusted(&text[span]).kind() },
        Err(wrong) => scanner.fault(wrong),
    }
}

/// As nearly all write it, or with escapes.
#[inline]
fn is_version_2(json: Json<'_>) -> bool {
    json.text() == "\"2.0\"" || json.as_str().as_deref() == Some("2.0")
}

fn read_error(message: &Raw, error: Json<'_>) -> Result<RpcError, Fault> {
    if !error.is_object() {
        return Err(Fault::BadError { why: "it is not an object" });
    }
    let [code, text, data] = error.pick(["code", "message", "data"]);
    let Some(code) = code.and_then(Json::as_i64) else {
        return Err(Fault::BadError { why: "`code` is not an integer" });
    };
    let Some(text) = text.and_then(Json::as_str) else {
        return Err(Fault::BadError { why: "`message` is not a string" });
    };
    let made = RpcError::new(code, text);
    let made = match data {
        Some(data) => made.with_data(message.part(data)),
        None => made,
    };
    Ok(made.written(message.part(error)))
}
