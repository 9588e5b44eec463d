//! JSON-RPC errors of both eras.

use crate::json::Json;
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;
use crate::version::Version;

/// Error codes of JSON-RPC and of the protocol.
pub mod code {
    /// The message is not valid JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed internally.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Legacy era only. The modern era uses [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Modern era: an HTTP header differs from the body, or a required header is missing.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern era: the request needs a capability that the client did not declare.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern era: the server does not support the version of the request.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

/// The error of a response.
#[derive(Debug, Clone, thiserror::Error)]
#[error("error {code}: {message}")]
pub struct RpcError {
    /// The error code; see [`code`].
    pub code: i64,
    /// The message for people.
    pub message: String,
    /// Additional data.
    pub data: Option<RawJson>,
    /// The error as the peer wrote it, for forwarding. `None` for errors of this program.
    raw: Option<RawJson>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: None, raw: None }
    }

    /// Adds data to the error.
    pub fn with_data(self, data: RawJson) -> Self {
        RpcError { data: Some(data), raw: None, ..self }
    }

    /// Adds the raw text of the peer.
    pub(crate) fn with_raw(self, raw: RawJson) -> Self {
        RpcError { raw: Some(raw), ..self }
    }

    /// Creates the error for an unknown method.
    pub fn method_not_found(method: &str) -> Self {
        RpcError::new(code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// Creates the error for invalid params.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        RpcError::new(code::INVALID_PARAMS, message)
    }

    /// Creates the error for an internal failure.
    pub fn internal(message: impl Into<String>) -> Self {
        RpcError::new(code::INTERNAL_ERROR, message)
    }

    /// Creates the error for headers that differ from the body.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        RpcError::new(code::HEADER_MISMATCH, message)
    }

    /// Creates the error for an unsupported protocol version.
    pub fn unsupported_version(requested: &Version, supported: &[Version]) -> Self {
        let data = ObjectWriter::new()
            .strings("supported", supported.iter().map(Version::as_str))
            .string("requested", requested.as_str())
            .finish();
        RpcError::new(code::UNSUPPORTED_VERSION, "unsupported protocol version").with_data(data)
    }

    /// Returns whether only a server of the modern era sends this code. Any other error to a probe means that the
    /// server may be of the legacy era.
    pub fn proves_modern(&self) -> bool {
        use code::{HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION};
        matches!(self.code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_VERSION)
    }

    /// Returns the versions that a server offers instead of the rejected one.
    pub fn supported_versions(&self) -> Vec<Version> {
        let supported = self.data.as_ref().and_then(|data| data.json().get("supported"));
        let versions =
            supported.map(|list| list.items().filter_map(Json::as_str).collect::<Vec<_>>());
        versions.unwrap_or_default().iter().map(|text| Version::from(&**text)).collect()
    }

    /// Returns the error as JSON. An error of a peer keeps the peer's bytes.
    pub fn to_raw(&self) -> RawJson {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        ObjectWriter::new()
            .integer("code", self.code)
            .string("message", &self.message)
            .json_if("data", self.data.as_ref().map(RawJson::json))
            .finish()
    }
}

/// Compares the content and ignores the peer's spelling.
impl PartialEq for RpcError {
    fn eq(&self, other: &Self) -> bool {
        (self.code, &self.message, &self.data) == (other.code, &other.message, &other.data)
    }
}

impl Eq for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn unsupported_version_error_lists_supported_versions() {
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
    fn only_modern_error_codes_prove_the_modern_era() {
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
    fn peer_error_keeps_its_bytes_until_changed() {
        let text = r#"{ "code":-1,"message":"\ud800x", "data":{"d":1.0},"extra":{"k":"geheim"}}"#;
        let error = parse_error_response(text);
        assert_eq!(error.to_raw().text(), text);
        assert_eq!(error, RpcError::new(-1, "\u{fffd}x").with_data(raw(r#"{"d":1.0}"#)));
        assert!(!format!("{error:?}").contains("geheim"));
        let changed = error.with_data(raw("[]")).to_raw();
        assert_eq!(changed.text(), "{\"code\":-1,\"message\":\"\u{fffd}x\",\"data\":[]}");
    }

    fn parse_error_response(error: &str) -> RpcError {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        match crate::parse(message, &crate::MessageLimits::default()).unwrap() {
            crate::Packet::One(crate::Message::Response(it)) => it.into_result().unwrap_err(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn display_shows_code_and_message() {
        assert_eq!(
            RpcError::method_not_found("x/y").to_string(),
            "error -32601: method not found: x/y"
        );
    }
}
