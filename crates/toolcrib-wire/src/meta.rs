//! The reserved `_meta` keys, and the `_meta` of each modern request.

use crate::handshake::Implementation;
use crate::id::ProgressToken;
use crate::json::{Json, JsonKind};
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;
use crate::version::Version;
use crate::view::{ClientCapabilities, FieldError, LogLevel, field_error};

/// The token for progress notifications of the request.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The protocol version of a modern request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's description.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The server's description.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The lowest wanted log level.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The subscription of a notification.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Version, client and capabilities in each request of the modern era, which has no handshake.
#[derive(Debug, Clone)]
pub struct RequestMeta {
    /// The protocol version.
    pub version: Version,
    /// The client's description.
    pub client: Option<Implementation>,
    /// The client's capabilities.
    pub capabilities: ClientCapabilities,
    /// The lowest severity of log messages that the client wants. Without it the server must not send any.
    pub log_level: Option<LogLevel>,
}

impl RequestMeta {
    /// Reads the `_meta` of a request. A missing required member or an unknown log level is an error; the request
    /// must then be rejected with invalid params.
    pub fn read(meta: Json<'_>) -> Result<RequestMeta, FieldError> {
        let [version, client, capabilities, level] =
            meta.pick([PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL]);
        let version = field_error::require_text(version, PROTOCOL_VERSION)?;
        let capabilities =
            field_error::require_member(capabilities, CLIENT_CAPABILITIES, JsonKind::Object)?;
        let client = client.filter(|client| client.is_object());
        Ok(RequestMeta {
            version: Version::from(version.as_str()),
            client: client.map(|client| Implementation::from_raw(client.into())),
            capabilities: ClientCapabilities::new(capabilities.into()),
            log_level: level.map(read_level).transpose()?,
        })
    }

    /// Returns the members, for a `_meta` that holds other members too.
    pub fn members(&self) -> Vec<(&'static str, RawJson)> {
        let mut members = vec![(PROTOCOL_VERSION, RawJson::string(self.version.as_str()))];
        if let Some(client) = &self.client {
            members.push((CLIENT_INFO, client.raw().clone()));
        }
        members.push((CLIENT_CAPABILITIES, self.capabilities.raw().clone()));
        if let Some(level) = self.log_level {
            members.push((LOG_LEVEL, RawJson::string(level.as_str())));
        }
        members
    }

    /// Builds a `_meta` object with only these members.
    pub fn to_raw(&self, progress_token: Option<&ProgressToken>) -> RawJson {
        let mut writer = ObjectWriter::new();
        if let Some(token) = progress_token {
            writer = writer.id(PROGRESS_TOKEN, token);
        }
        self.members()
            .iter()
            .fold(writer, |writer, (key, value)| writer.json(key, value.json()))
            .finish()
    }
}

fn read_level(level: Json<'_>) -> Result<LogLevel, FieldError> {
    let known = level.as_str().and_then(|text| LogLevel::read(&text));
    known.ok_or_else(|| FieldError::Invalid {
        field: LOG_LEVEL,
        value: level.text().chars().take(80).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &str) -> Result<RequestMeta, String> {
        RequestMeta::read(Json::from_trusted(meta)).map_err(|error| error.to_string())
    }

    #[test]
    fn request_meta_round_trips() {
        let meta = RequestMeta {
            version: Version::V2026_07_28,
            client: Some(Implementation::new("c", "1")),
            capabilities: ClientCapabilities::default(),
            log_level: Some(LogLevel::Notice),
        };
        let written = meta.to_raw(Some(&ProgressToken::from(7)));
        let again = read(written.text()).unwrap();
        assert_eq!(again.members(), meta.members());
        assert_eq!(written.json().get(PROGRESS_TOKEN).map(Json::text), Some("7"));
    }

    #[test]
    fn request_meta_requires_version_and_capabilities() {
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let abilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
        let level = r#""io.modelcontextprotocol/logLevel":"loud""#;
        for (meta, expected) in [
            (format!("{{{abilities}}}"), "protocolVersion` is missing"),
            (format!("{{{version}}}"), "clientCapabilities` is missing"),
            (
                format!("{{{version},{abilities},{level}}}"),
                "logLevel` has an invalid value: \"loud\"",
            ),
            ("null".to_owned(), "protocolVersion` is missing"),
        ] {
            let error = read(&meta).unwrap_err();
            assert!(error.contains(expected), "{meta}: {error}");
        }
        assert!(read(&format!("{{{version},{abilities}}}")).is_ok());
    }
}
