//! Error answers: the codes of both eras, and what each carries.

use crate::json::Json;
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::version::Version;

/// Error codes of JSON-RPC and of the protocol.
pub mod code {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Legacy era only; the modern era says [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// 2025-11-25 only.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern era: an HTTP header and the body disagree, or a required header is missing.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern era: the request needs a capability that the client did not declare.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern era: the server does not speak the version of the request.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// The error of an answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("error {code}: {message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Raw>,
    /// The whole of it as a peer wrote it, for whoever it is passed on to; none where it is made here.
    raw: Option<Raw>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None, raw: None }
    }

    pub fn with_data(self, data: Raw) -> Self {
        RpcError { data: Some(data), raw: None, ..self }
    }

    /// The same, and how a peer wrote it.
    pub(crate) fn written(self, raw: Raw) -> Self {
        RpcError { raw: Some(raw), ..self }
    }

    pub fn method_not_found(method: &str) -> Self {
        RpcError::new(code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        RpcError::new(code::INVALID_PARAMS, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        RpcError::new(code::INTERNAL_ERROR, message)
    }

    pub fn header_mismatch(message: impl Into<String>) -> Self {
        RpcError::new(code::HEADER_MISMATCH, message)
    }

    pub fn unsupported_version(requested: &Version, supported: &[Version]) -> Self {
        let data = ObjectWriter::new()
            .strings("supported", supported.iter().map(Version::as_str))
            .string("requested", requested.as_str())
            .finish();
        RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version").with_data(data)
    }

    /// `required` has the form of client capabilities.
    pub fn missing_client_capability(required: Json<'_>) -> Self {
        let data = ObjectWriter::new().json("requiredCapabilities", required).finish();
        RpcError::new(code::MISSING_CLIENT_CAPABILITY, "missing required client capability")
            .with_data(data)
    }

    /// Whether only a server of the modern era answers so. Any other error to a probe says nothing but
    /// that the server may be of the legacy era.
    pub fn proves_modern(&self) -> bool {
        use code::{HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION};
        matches!(self.code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION)
    }

    /// The versions that a server offers instead of the one it refused.
    pub fn supported_versions(&self) -> Vec<Version> {
        let supported = self.data.as_ref().and_then(|data| data.json().get("supported"));
        let versions =
            supported.map(|list| list.items().filter_map(Json::as_str).collect::<Vec<_>>());
        versions.unwrap_or_default().iter().map(|text| Version::from(&**text)).collect()
    }

    /// What a peer said is written as the peer wrote it.
    pub fn to_raw(&self) -> Raw {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        ObjectWriter::new()
            .integer("code", self.code)
            .string("message", &self.message)
            .json_if("data", self.data.as_ref().map(Raw::json))
            .finish()
    }
}

/// How a peer wrote it makes no difference.
impl PartialEq for RpcError {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message, &self.data) == (other.code, &other.message, &other.data)
    }
}

impl Eq for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    #[test]
    fn a_refused_version_names_what_is_spoken_instead() {
        let error =
            RpcError::unsupported_version(&Version::from("1900-01-01"), &[Version::V2026_07_28]);
        let expected = concat!(
            r#"{"code":-32022,"message":"unsupported protocol version","#,
            r#""data":{"supported":["2026-07-28"],"requested":"1900-01-01"}}"#
        );
        assert_eq!(error.to_raw().text(), expected);
        assert_eq!(error.supported_versions(), [Version::V2026_07_28]);
    }

    #[test]
    fn only_the_codes_of_the_modern_era_prove_it() {
        for (code, modern) in [
            (-32020, true),
            (-32021, true),
            (-32022, true),
            (-32601, false),
            (-32602, false),
            (-32001, false),
        ] {
            assert_eq!(RpcError::new(code, "x").proves_modern(), modern, "{code}");
        }
    }

    #[test]
    fn the_error_of_a_peer_keeps_its_bytes_until_it_is_changed() {
        let text = r#"{ "code":-1,"message":"\ud800x", "data":{"d":1.0},"extra":{"k":"geheim"}}"#;
        let error = answered(text);
        assert_eq!(error.to_raw().text(), text);
        assert_eq!(error, RpcError::new(-1, "\u{fffd}x").with_data(raw(r#"{"d":1.0}"#)));
        assert!(!format!("{error:?}").contains("geheim"));
        let changed = error.with_data(raw("[]")).to_raw();
        assert_eq!(changed.text(), "{\"code\":-1,\"message\":\"\u{fffd}x\",\"data\":[]}");
    }

    fn answered(error: &str) -> RpcError {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        match crate::parse(message, &crate::Limits::default()).unwrap() {
            crate::Packet::One(crate::Message::Response(it)) => it.into_answer().unwrap_err(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_message_is_shown_and_no_source_is_repeated() {
        assert_eq!(
            RpcError::method_not_found("x/y").to_string(),
            "error -32601: method not found: x/y"
        );
    }
}
