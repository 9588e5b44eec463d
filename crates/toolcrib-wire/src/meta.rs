//! The `_meta` keys that the protocol reserves, and what each request of the modern era carries in it.

use crate::handshake::Implementation;
use crate::id::ProgressToken;
use crate::json::{Json, Kind};
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::version::Version;
use crate::view::{ClientCapabilities, Flaw, LogLevel, flaw};

pub const PROGRESS_TOKEN: &str = "progressToken";
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// What a request of the modern era says about its sender, since there is no handshake to remember.
#[derive(Debug, Clone)]
pub struct RequestMeta {
    pub version: Version,
    pub client: Option<Implementation>,
    pub capabilities: ClientCapabilities,
    /// The least severe log messages wanted; without it the server must not send any.
    pub log_level: Option<LogLevel>,
}

impl RequestMeta {
    /// Reads the `_meta` of a request. What the modern era requires and is not there is a flaw that the
    /// request must be refused for, as invalid params; so is a log level that does not exist.
    pub fn read(meta: Json<'_>) -> Result<RequestMeta, Flaw> {
        let [version, client, capabilities, level] =
            meta.pick([PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL]);
        let version = flaw::required_text(version, PROTOCOL_VERSION)?;
        let capabilities = flaw::required(capabilities, CLIENT_CAPABILITIES, Kind::Object)?;
        let client = client.filter(|client| client.is_object());
        Ok(RequestMeta {
            version: Version::from(version.as_str()),
            client: client.map(|client| Implementation::from_raw(client.into())),
            capabilities: ClientCapabilities::new(capabilities.into()),
            log_level: level.map(read_level).transpose()?,
        })
    }

    /// The members, for putting them into a `_meta` that holds others too.
    pub fn members(&self) -> Vec<(&'static str, Raw)> {
        let mut members = vec![(PROTOCOL_VERSION, Raw::string(self.version.as_str()))];
        if let Some(client) = &self.client {
            members.push((CLIENT_INFO, client.raw().clone()));
        }
        members.push((CLIENT_CAPABILITIES, self.capabilities.raw().clone()));
        if let Some(level) = self.log_level {
            members.push((LOG_LEVEL, Raw::string(level.as_str())));
        }
        members
    }

    /// A `_meta` object of its own.
    pub fn to_raw(&self, progress_token: Option<&ProgressToken>) -> Raw {
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

fn read_level(level: Json<'_>) -> Result<LogLevel, Flaw> {
    let known = level.as_str().and_then(|text| LogLevel::read(&text));
    known.ok_or_else(|| Flaw::Meaningless {
        field: LOG_LEVEL,
        value: level.text().chars().take(80).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &str) -> Result<RequestMeta, String> {
        RequestMeta::read(Json::trusted(meta)).map_err(|flaw| flaw.to_string())
    }

    #[test]
    fn what_is_written_is_read() {
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
    fn a_request_without_version_or_capabilities_is_refused_by_name() {
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let abilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
        let level = r#""io.modelcontextprotocol/logLevel":"loud""#;
        for (meta, flaw) in [
            (format!("{{{abilities}}}"), "protocolVersion` is missing"),
            (format!("{{{version}}}"), "clientCapabilities` is missing"),
            (format!("{{{version},{abilities},{level}}}"), "logLevel` has no meaning: \"loud\""),
            ("null".to_owned(), "protocolVersion` is missing"),
        ] {
            let error = read(&meta).unwrap_err();
            assert!(error.contains(flaw), "{meta}: {error}");
        }
        assert!(read(&format!("{{{version},{abilities}}}")).is_ok());
    }
}
