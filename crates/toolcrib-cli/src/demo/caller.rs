//! The protocol era and the capabilities of a client.

use toolcrib_server::version::{check_method, supported_versions};
use toolcrib_wire::handshake::InitializeParams;
use toolcrib_wire::meta::{PROTOCOL_VERSION, RequestMeta, SERVER_INFO};
use toolcrib_wire::method;
use toolcrib_wire::view::{CacheHints, ClientCapabilities};
use toolcrib_wire::{Json, ObjectWriter, RawJson, Request, RpcError, Version};

use super::catalog;
use super::state::Session;

/// The client of a request, as far as the response depends on it.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A modern client. Each of its requests carries its capabilities.
    Modern(ClientCapabilities),
    /// A legacy client with an open session.
    Legacy(LegacyClient),
    /// A client that has not opened a session yet.
    Unknown,
}

/// The initialize parameters of a legacy client.
#[derive(Clone, Debug)]
pub(crate) struct LegacyClient {
    pub(crate) version: Version,
    capabilities: ClientCapabilities,
}

impl LegacyClient {
    pub(crate) fn new(opening: &InitializeParams) -> Self {
        Self { version: opening.version().negotiate_legacy(), capabilities: opening.capabilities() }
    }
}

impl Caller {
    /// Identifies the client of a request on a transport without headers.
    pub(crate) fn from_request(request: &Request, session: &Session) -> Result<Self, RpcError> {
        if is_modern(request) {
            return Self::modern(read_meta(request)?);
        }
        Ok(session.client().map_or(Self::Unknown, |client| Self::Legacy(client.clone())))
    }

    pub(crate) fn modern(meta: RequestMeta) -> Result<Self, RpcError> {
        if meta.version != Version::V2026_07_28 {
            return Err(RpcError::unsupported_version(&meta.version, &supported_versions()));
        }
        Ok(Self::Modern(meta.capabilities))
    }

    /// Rejects methods that this client's protocol version does not have.
    pub(crate) fn check_method(&self, method: &str) -> Result<(), RpcError> {
        let version = match self {
            Self::Modern(_) => Some(&Version::V2026_07_28),
            Self::Legacy(client) => Some(&client.version),
            Self::Unknown => None,
        };
        check_method(version, method)
    }

    pub(crate) fn is_modern(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    /// Returns whether the client supports form elicitation.
    pub(crate) fn can_elicit(&self) -> bool {
        match self {
            Self::Modern(capabilities) => capabilities.elicitation_form(),
            Self::Legacy(client) => {
                client.version.is_since(&Version::V2025_06_18)
                    && client.capabilities.elicitation_form()
            }
            Self::Unknown => false,
        }
    }

    /// Adds the members that the client's era requires to a complete result.
    pub(crate) fn complete_result(&self, result: &RawJson, cache: Option<CacheHints>) -> RawJson {
        if !self.is_modern() {
            return result.clone();
        }
        let hints = cache.unwrap_or_default().write(ObjectWriter::new()).finish();
        let hint = |name: &str| cache.and_then(|_| hints.get(name));
        result.with_members([
            ("resultType", Some(RawJson::string("complete"))),
            ("ttlMs", hint("ttlMs")),
            ("cacheScope", hint("cacheScope")),
            ("_meta", Some(server_meta())),
        ])
    }
}

/// Returns whether a request is of the modern era. `server/discover` always is.
pub(crate) fn is_modern(request: &Request) -> bool {
    let version = request.params.meta().and_then(|meta| meta.get(PROTOCOL_VERSION));
    version.is_some() || request.method == method::DISCOVER
}

pub(crate) fn read_meta(request: &Request) -> Result<RequestMeta, RpcError> {
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    RequestMeta::read(meta).map_err(|error| RpcError::invalid_params(format!("`_meta`: {error}")))
}

/// The `_meta` member that names the server in modern results.
pub(crate) fn server_meta() -> RawJson {
    ObjectWriter::new().json(SERVER_INFO, catalog::server().raw().json()).finish()
}
