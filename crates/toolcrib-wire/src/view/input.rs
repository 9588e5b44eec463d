//! What servers ask of clients: by a request in the legacy era, inside an `input_required` result in the modern.

use std::borrow::Cow;

use crate::json::{Json, Kind};
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::view::flaw::{self, Flaw};
use crate::view::prompt::{PromptMessage, messages};

/// A result that is not one yet: the call is to be made again with the answers and the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequired {
    raw: Raw,
    requests: Option<Raw>,
    state: Option<Raw>,
}

/// One thing that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// The server's name for it, under which the answer goes back.
    pub key: String,
    pub method: String,
    pub params: Option<Raw>,
}

/// The params of `elicitation/create`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elicit(Raw);

/// How a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElicitMode {
    Form,
    Url,
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElicitAction {
    Accept,
    Decline,
    Cancel,
}

/// The params of `sampling/createMessage`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateMessage(Raw);

impl InputRequired {
    /// Reads a result of that type. One that asks nothing and carries no state leads nowhere.
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        let [requests, state] = raw
            .json()
            .pick(["inputRequests", "requestState"])
            .map(|member| member.filter(|json| !json.is_null()));
        if let Some(requests) = requests {
            flaw::required(Some(requests), "inputRequests", Kind::Object)?;
        }
        if let Some(state) = state {
            flaw::required(Some(state), "requestState", Kind::String)?;
        }
        if requests.is_none() && state.is_none() {
            return Err(Flaw::Missing { field: "inputRequests" });
        }
        let [requests, state] = [requests, state].map(|member| member.map(|json| raw.part(json)));
        Ok(InputRequired { raw, requests, state })
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    /// What is asked for, one by one, bad ones with their key and the reason.
    pub fn requests(&self) -> Vec<Result<InputRequest, (String, Flaw)>> {
        let Some(requests) = &self.requests else {
            return Vec::new();
        };
        let read = |(key, json): (Cow<'_, str>, Json<'_>)| {
            InputRequest::read(&key, requests.part(json)).map_err(|flaw| (key.into_owned(), flaw))
        };
        requests.json().members().map(read).collect()
    }

    /// The state to be sent back exactly as it came, a JSON string.
    pub fn state(&self) -> Option<&Raw> {
        self.state.as_ref()
    }

    /// A result of that type, as a server sends it. `requests` maps keys to requests.
    pub fn build(requests: Option<Json<'_>>, state: Option<&str>) -> Raw {
        ObjectWriter::new()
            .string("resultType", "input_required")
            .json_if("inputRequests", requests)
            .string_if("requestState", state)
            .finish()
    }
}

impl InputRequest {
    fn read(key: &str, raw: Raw) -> Result<Self, Flaw> {
        flaw::object(raw.json())?;
        let [method, params] = raw.json().pick(["method", "params"]);
        let method = flaw::required_text(method, "method")?;
        let params = params.map(|params| raw.part(params));
        Ok(InputRequest { key: key.to_owned(), method, params })
    }
}

impl Elicit {
    pub fn new(params: Raw) -> Self {
        Elicit(params)
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn mode(&self) -> ElicitMode {
        match self.0.json().get("mode").and_then(Json::as_str).as_deref() {
            None | Some("form") => ElicitMode::Form,
            Some("url") => ElicitMode::Url,
            Some(other) => ElicitMode::Other(other.to_owned()),
        }
    }

    pub fn message(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("message")?.as_str()
    }

    pub fn requested_schema(&self) -> Option<Raw> {
        self.0.get("requestedSchema")
    }

    pub fn url(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("url")?.as_str()
    }

    /// 2025-11-25 only.
    pub fn elicitation_id(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("elicitationId")?.as_str()
    }
}

/// The answer to an elicitation.
pub fn elicit_result(action: ElicitAction, content: Option<Json<'_>>) -> Raw {
    let action = match action {
        ElicitAction::Accept => "accept",
        ElicitAction::Decline => "decline",
        ElicitAction::Cancel => "cancel",
    };
    ObjectWriter::new().string("action", action).json_if("content", content).finish()
}

impl CreateMessage {
    pub fn new(params: Raw) -> Self {
        CreateMessage(params)
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn messages(&self) -> Vec<PromptMessage> {
        messages(&self.0)
    }

    pub fn system_prompt(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("systemPrompt")?.as_str()
    }

    pub fn max_tokens(&self) -> Option<i64> {
        self.0.json().get("maxTokens")?.as_i64()
    }

    /// The tools that the model may use, where the client can do that.
    pub fn tools(&self) -> Option<Raw> {
        self.0.get("tools")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    #[test]
    fn what_is_asked_for_comes_one_by_one_and_the_state_stays_as_it_is() {
        let result = raw(
            r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"?"}},
            "odd":{"params":{}}},"requestState":"a\u002fb"}"#,
        );
        let required = InputRequired::read(result).unwrap();
        assert_eq!(required.state().unwrap().text(), r#""a\u002fb""#);
        let requests = required.requests();
        let who = requests[0].as_ref().unwrap();
        assert_eq!((who.key.as_str(), who.method.as_str()), ("who", "elicitation/create"));
        assert_eq!(requests[1], Err(("odd".to_owned(), Flaw::Missing { field: "method" })));
    }

    #[test]
    fn a_result_that_asks_nothing_and_carries_nothing_is_refused() {
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
    fn elicitations_are_forms_unless_they_say_otherwise() {
        for (text, mode) in [
            (r#"{"message":"m"}"#, ElicitMode::Form),
            (r#"{"mode":"url","url":"https://x"}"#, ElicitMode::Url),
            (r#"{"mode":"dance"}"#, ElicitMode::Other("dance".to_owned())),
        ] {
            assert_eq!(Elicit::new(raw(text)).mode(), mode);
        }
        assert_eq!(
            elicit_result(ElicitAction::Accept, Some(Json::EMPTY)).text(),
            r#"{"action":"accept","content":{}}"#
        );
        assert_eq!(elicit_result(ElicitAction::Decline, None).text(), r#"{"action":"decline"}"#);
    }

    #[test]
    fn a_sampling_request_shows_what_a_policy_looks_at() {
        let ask = CreateMessage::new(raw(
            r#"{"messages":[{"role":"user","content":{}}],"maxTokens":9,"systemPrompt":"s"}"#,
        ));
        assert_eq!(
            (ask.messages().len(), ask.max_tokens(), ask.system_prompt().as_deref()),
            (1, Some(9), Some("s"))
        );
        assert_eq!(ask.tools(), None);
    }
}
