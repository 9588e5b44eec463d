//! Index of one message's members, built in a single scan that keeps its findings if it fails halfway.

use crate::envelope::{MemberSpans, PackedSpan};
use crate::id::{Id, IdError};
use crate::json::{Json, JsonKind};
use crate::limits::MessageLimits;
use crate::member::{Level, Member};
use crate::parse_error::{MessageKind, ParseError};
use crate::raw_json::RawJson;
use crate::rpc_error::RpcError;
use crate::scan_error::ScanError;
use crate::scanner::{Scanner, Span};

/// The members that the scan has found so far.
#[derive(Default)]
pub(crate) struct MessageIndex {
    spans: [Option<PackedSpan>; Member::COUNT],
    /// Members whose key was found, even if the scan failed inside their value.
    seen: [bool; Member::COUNT],
    /// A duplicate member. The scan continues, so that the id and kind can still be found.
    duplicate: Option<Member>,
    /// True if the params have members that routing does not read.
    has_more: bool,
}

/// A message that passed all checks.
pub(crate) enum CheckedMessage {
    Call { id: Option<Id>, method: String },
    Response { id: Option<Id>, error: Option<Box<RpcError>> },
}

enum ResponseKind {
    Result,
    Error,
}

impl MessageIndex {
    pub(crate) fn scan(&mut self, text: &str, limits: &MessageLimits) -> Result<(), ParseError> {
        let mut scanner = Scanner::new(text, limits.depth);
        if !matches!(scanner.peek(), Some(b'{') | None) {
            return Err(not_an_object(scanner));
        }
        let walked =
            self.scan_object(&mut scanner, Level::Message).and_then(|_| scanner.expect_end());
        walked.map_err(|error| scanner.parse_error(error))
    }

    /// Scans one object whose members routing reads. Recurses for such objects inside it, which the levels limit to
    /// three.
    fn scan_object(&mut self, scanner: &mut Scanner<'_>, level: Level) -> Result<Span, ScanError> {
        let start = scanner.position();
        scanner.enter_container(b'{')?;
        let mut first = true;
        while let Some(member) = next_member(scanner, level, &mut first)? {
            self.record_member(member, level);
            let is_object = scanner.peek() == Some(b'{');
            let span = match member.and_then(Member::child_level) {
                Some(level) if is_object => self.scan_object(scanner, level)?,
                _ => scanner.skip_value()?,
            };
            if let Some(member) = member {
                self.spans[member as usize] = PackedSpan::new(span);
            }
        }
        Ok(start..scanner.position())
    }

    #[inline]
    fn record_member(&mut self, member: Option<Member>, level: Level) {
        let Some(member) = member else {
            self.has_more |= level == Level::Params;
            return;
        };
        let was_seen = std::mem::replace(&mut self.seen[member as usize], true);
        // A duplicate id takes precedence in the report, because it must not be used for a reply.
        if was_seen && member.is_unique() && (self.duplicate.is_none() || member == Member::Id) {
            self.duplicate = Some(member);
        }
    }

    /// Checks the message and decides its type.
    pub(crate) fn classify(&self, message: &RawJson) -> Result<CheckedMessage, ParseError> {
        let text = message.text();
        if let Some(member) = self.duplicate {
            return Err(ParseError::DuplicateMember { member: member.path() });
        }
        if !self.json(text, Member::JsonRpc).is_some_and(is_version_2) {
            return Err(ParseError::NotJsonRpc2);
        }
        match (self.json(text, Member::Method), self.response_kind(text)?) {
            (Some(method), None) => self.classify_call(text, method),
            (Some(_), Some(_)) => Err(ParseError::MethodAndResponse),
            (None, Some(answer)) => self.classify_response(message, answer),
            (None, None) => Err(ParseError::NoContent),
        }
    }

    #[inline]
    fn classify_call(&self, text: &str, method: Json<'_>) -> Result<CheckedMessage, ParseError> {
        let Some(name) = method.as_str() else {
            let found = method.kind();
            return Err(ParseError::MethodNotString { found });
        };
        match self.json(text, Member::Params).map(Json::kind) {
            None | Some(JsonKind::Object | JsonKind::Null) => {}
            Some(found) => return Err(ParseError::ParamsNotObject { found }),
        }
        let id = self.id(text).transpose().map_err(ParseError::InvalidId)?;
        let method = name.into_owned();
        Ok(CheckedMessage::Call { id, method })
    }

    #[inline]
    fn classify_response(
        &self,
        message: &RawJson,
        answer: ResponseKind,
    ) -> Result<CheckedMessage, ParseError> {
        let id = match self.id(message.text()) {
            None | Some(Err(IdError::Null)) => None,
            Some(id) => Some(id.map_err(ParseError::InvalidId)?),
        };
        let error = match answer {
            ResponseKind::Result if id.is_none() => return Err(ParseError::ResultWithoutId),
            ResponseKind::Result => None,
            ResponseKind::Error => {
                let error = self.json(message.text(), Member::Error);
                Some(Box::new(read_error(message, error.unwrap_or(Json::NULL))?))
            }
        };
        Ok(CheckedMessage::Response { id, error })
    }

    /// Returns whether the response is a result or an error. Peers with a JSON-RPC 1.0 history write both members and
    /// set one to null.
    fn response_kind(&self, text: &str) -> Result<Option<ResponseKind>, ParseError> {
        let [result, error] = [Member::Result, Member::Error].map(|member| self.json(text, member));
        match (result, error) {
            (None, None) => Ok(None),
            (Some(_), None) => Ok(Some(ResponseKind::Result)),
            (None, Some(_)) => Ok(Some(ResponseKind::Error)),
            (Some(_), Some(error)) if error.is_null() => Ok(Some(ResponseKind::Result)),
            (Some(result), Some(_)) if result.is_null() => Ok(Some(ResponseKind::Error)),
            (Some(_), Some(_)) => Err(ParseError::ResultAndError),
        }
    }

    /// Returns the id if it is complete and unique. In a truncated text `1` may have been `12`.
    pub(crate) fn id(&self, text: &str) -> Option<Result<Id, IdError>> {
        let is_whole = self.span(Member::Id)?.end < text.len();
        if !is_whole || self.duplicate == Some(Member::Id) {
            return None;
        }
        self.json(text, Member::Id).map(Id::read)
    }

    pub(crate) fn kind(&self) -> MessageKind {
        let seen = |member: Member| self.seen[member as usize];
        let answers = seen(Member::Result) || seen(Member::Error);
        match (seen(Member::Method), answers, seen(Member::Id)) {
            (true, false, true) => MessageKind::Request,
            (true, false, false) => MessageKind::Notification,
            (false, true, _) => MessageKind::Response,
            _ => MessageKind::Unknown,
        }
    }

    /// Positions of the members, for a message with its body in the given member.
    #[inline]
    pub(crate) fn member_spans(&self, body: Member) -> MemberSpans {
        let at = |member: Member| self.spans[member as usize];
        MemberSpans {
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
        self.spans[member as usize].map(PackedSpan::span)
    }

    #[inline]
    fn json<'t>(&self, text: &'t str, member: Member) -> Option<Json<'t>> {
        Some(Json::from_trusted(&text[self.span(member)?]))
    }
}

/// Returns the member of the object's next key, if routing reads it, or the object's end.
#[inline(always)]
fn next_member(
    scanner: &mut Scanner<'_>,
    level: Level,
    first: &mut bool,
) -> Result<Option<Option<Member>>, ScanError> {
    if !scanner.next_entry(b'}', first)? {
        return Ok(None);
    }
    if let Some((member, length)) = Member::match_prefix(level, scanner.rest()) {
        scanner.advance(length);
        return Ok(Some(Some(member)));
    }
    let key = scanner.read_key()?;
    Ok(Some(Member::from_key(level, &key.read(scanner.text()))))
}

fn not_an_object(mut scanner: Scanner<'_>) -> ParseError {
    let text = scanner.text();
    match scanner.skip_value().and_then(|span| scanner.expect_end().map(|()| span)) {
        Ok(span) => ParseError::NotAnObject { found: Json::from_trusted(&text[span]).kind() },
        Err(error) => scanner.parse_error(error),
    }
}

/// Compares with the usual spelling first, then decodes escapes.
#[inline]
fn is_version_2(json: Json<'_>) -> bool {
    json.text() == "\"2.0\"" || json.as_str().as_deref() == Some("2.0")
}

fn read_error(message: &RawJson, error: Json<'_>) -> Result<RpcError, ParseError> {
    if !error.is_object() {
        return Err(ParseError::InvalidError { reason: "it is not an object" });
    }
    let [code, text, data] = error.pick(["code", "message", "data"]);
    let Some(code) = code.and_then(Json::as_i64) else {
        return Err(ParseError::InvalidError { reason: "`code` is not an integer" });
    };
    let Some(text) = text.and_then(Json::as_str) else {
        return Err(ParseError::InvalidError { reason: "`message` is not a string" });
    };
    let made = RpcError::new(code, text);
    let made = match data {
        Some(data) => made.with_data(message.part(data)),
        None => made,
    };
    Ok(made.with_raw(message.part(error)))
}
