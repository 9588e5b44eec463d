//! The `_meta` keys that the protocol reserves, and what each request of the modern era carries in it.

use crate::handshake::Implementation;
use crate::id::ProgressToken;
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::version::Version;
use crate::view::{ClientCapabilities, LogLevel};

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
            .fold(writer, |writer, (key, value)| {
                writer.json(key, value.json())
            })
            .finish()
    }
}
