//! Input requests of servers: a request in the legacy era, part of an `input_required` result in the modern era.

use std::borrow::Cow;

use crate::json::{Json, JsonKind};
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;
use crate::view::field_error::{self, FieldError};

/// A result that asks for input. The client repeats the call with the responses and the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequired {
    raw: RawJson,
    requests: Option<RawJson>,
    state: Option<RawJson>,
}

/// One input request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// The server's key for the request; the response uses the same key.
    pub key: String,
    /// The method of the request.
    pub method: String,
    /// The params of the request.
    pub params: Option<RawJson>,
}

/// The params of `elicitation/create`, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElicitParams(RawJson);

/// Mode of an elicitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElicitMode {
    /// By a form.
    Form,
    /// By a URL.
    Url,
    /// An unknown mode.
    Other(String),
}

/// The person's reaction to an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElicitAction {
    /// The person has answered.
    Accept,
    /// The person has declined.
    Decline,
    /// The person has dismissed the elicitation.
    Cancel,
}

impl InputRequired {
    /// Reads an `input_required` result. A result without requests and state is an error, because the call could not
    /// continue.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        let [requests, state] = raw
            .json()
            .pick(["inputRequests", "requestState"])
            .map(|member| member.filter(|json| !json.is_null()));
        if let Some(requests) = requests {
            field_error::require_member(Some(requests), "inputRequests", JsonKind::Object)?;
        }
        if let Some(state) = state {
            field_error::require_member(Some(state), "requestState", JsonKind::String)?;
        }
        if requests.is_none() && state.is_none() {
            return Err(FieldError::Missing { field: "inputRequests" });
        }
        let [requests, state] = [requests, state].map(|member| member.map(|json| raw.part(json)));
        Ok(InputRequired { raw, requests, state })
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the requests one by one. A bad request has its key and the error.
    pub fn requests(&self) -> Vec<Result<InputRequest, (String, FieldError)>> {
        let Some(requests) = &self.requests else {
            return Vec::new();
        };
        let read = |(key, json): (Cow<'_, str>, Json<'_>)| {
            InputRequest::read(&key, requests.part(json)).map_err(|error| (key.into_owned(), error))
        };
        requests.json().members().map(read).collect()
    }

    /// The state to send back unchanged, a JSON string.
    pub fn state(&self) -> Option<&RawJson> {
        self.state.as_ref()
    }

    /// Builds an `input_required` result. `requests` maps keys to requests.
    pub fn build(requests: Option<Json<'_>>, state: Option<&str>) -> RawJson {
        ObjectWriter::new()
            .string("resultType", "input_required")
            .json_if("inputRequests", requests)
            .string_if("requestState", state)
            .finish()
    }
}

impl InputRequest {
    fn read(key: &str, raw: RawJson) -> Result<Self, FieldError> {
        field_error::require_object(raw.json())?;
        let [method, params] = raw.json().pick(["method", "params"]);
        let method = field_error::require_text(method, "method")?;
        let params = params.map(|params| raw.part(params));
        Ok(InputRequest { key: key.to_owned(), method, params })
    }
}

impl ElicitParams {
    /// Wraps the raw params.
    pub fn new(params: RawJson) -> Self {
        ElicitParams(params)
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Returns the mode.
    pub fn mode(&self) -> ElicitMode {
        match self.0.json().get("mode").and_then(Json::as_str).as_deref() {
            None | Some("form") => ElicitMode::Form,
            Some("url") => ElicitMode::Url,
            Some(other) => ElicitMode::Other(other.to_owned()),
        }
    }

    /// Returns the message for the person.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("message")?.as_str()
    }

    /// Returns the schema of the form.
    pub fn requested_schema(&self) -> Option<RawJson> {
        self.0.get("requestedSchema")
    }

    /// Returns the URL to open.
    pub fn url(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("url")?.as_str()
    }
}

/// Builds the response to an elicitation.
pub fn elicit_result(action: ElicitAction, content: Option<Json<'_>>) -> RawJson {
    let action = match action {
        ElicitAction::Accept => "accept",
        ElicitAction::Decline => "decline",
        ElicitAction::Cancel => "cancel",
    };
    ObjectWriter::new().string("action", action).json_if("content", content).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn input_requests_are_read_one_by_one_and_state_keeps_its_bytes() {
        let result = raw(
            r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"message":"?"}},
            "odd":{"params":{}}},"requestState":"a\u002fb"}"#,
        );
        let required = InputRequired::read(result).unwrap();
        assert_eq!(required.state().unwrap().text(), r#""a\u002fb""#);
        let requests = required.requests();
        let name = requests[0].as_ref().unwrap();
        assert_eq!((name.key.as_str(), name.method.as_str()), ("name", "elicitation/create"));
        assert_eq!(requests[1], Err(("odd".to_owned(), FieldError::Missing { field: "method" })));
    }

    #[test]
    fn input_required_without_requests_and_state_is_rejected() {
        for text in [
            r#"{"resultType":"input_required"}"#,
            r#"{"inputRequests":[]}"#,
            r#"{"requestState":7}"#,
            "[]",
        ] {
            assert!(InputRequired::read(raw(text)).is_err(), "{text}");
        }
        let built = InputRequired::build(None, Some("s"));
        assert_eq!(InputRequired::read(built).unwrap().state().unwrap().text(), "\"s\"");
    }

    #[test]
    fn elicitation_mode_defaults_to_form() {
        for (text, mode) in [
            (r#"{"message":"m"}"#, ElicitMode::Form),
            (r#"{"mode":"url","url":"https://x"}"#, ElicitMode::Url),
            (r#"{"mode":"dance"}"#, ElicitMode::Other("dance".to_owned())),
        ] {
            assert_eq!(ElicitParams::new(raw(text)).mode(), mode);
        }
        assert_eq!(
            elicit_result(ElicitAction::Accept, Some(Json::EMPTY)).text(),
            r#"{"action":"accept","content":{}}"#
        );
        assert_eq!(elicit_result(ElicitAction::Decline, None).text(), r#"{"action":"decline"}"#);
    }
}
