//! Who asks: a client of which era, what it can do, and how a result is written for it.

use toolcrib_server::version::{check_method, spoken};
use toolcrib_wire::handshake::Initialize;
use toolcrib_wire::meta::{PROTOCOL_VERSION, RequestMeta, SERVER_INFO};
use toolcrib_wire::method;
use toolcrib_wire::view::{Cache, ClientCapabilities};
use toolcrib_wire::{Json, ObjectWriter, Raw, Request, RpcError, Version};

use super::offer;
use super::state::Session;

/// Who asks, as far as the answer depends on it.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Each of its requests says what is needed to know.
    Modern(ClientCapabilities),
    /// It has opened a session.
    Legacy(Client),
    /// It has not said yet which era it is of.
    Stranger,
}

/// What a client of the legacy era said when it opened its session.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) version: Version,
    capabilities: ClientCapabilities,
}

impl Client {
    pub(crate) fn new(opening: &Initialize) -> Self {
        Self { version: opening.version().negotiate_legacy(), capabilities: opening.capabilities() }
    }
}

impl Caller {
    /// The sender of a request on a channel that has no headers.
    pub(crate) fn of(request: &Request, session: &Session) -> Result<Self, RpcError> {
        if is_modern(request) {
            return Self::modern(read_meta(request)?);
        }
        Ok(session.client().map_or(Self::Stranger, |client| Self::Legacy(client.clone())))
    }

    pub(crate) fn modern(meta: RequestMeta) -> Result<Self, RpcError> {
        if meta.version != Version::V2026_07_28 {
            return Err(RpcError::unsupported_version(&meta.version, &spoken()));
        }
        Ok(Self::Modern(meta.capabilities))
    }

    /// Refuses what this caller's version of the protocol does not have.
    pub(crate) fn check_method(&self, method: &str) -> Result<(), RpcError> {
        let version = match self {
            Self::Modern(_) => Some(&Version::V2026_07_28),
            Self::Legacy(client) => Some(&client.version),
            Self::Stranger => None,
        };
        check_method(version, method)
    }

    pub(crate) fn is_modern(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    /// Whether a person can be asked to fill in a form.
    pub(crate) fn can_elicit(&self) -> bool {
        match self {
            Self::Modern(capabilities) => capabilities.elicitation_form(),
            Self::Legacy(client) => {
                client.version.is_since(&Version::V2025_06_18)
                    && client.capabilities.elicitation_form()
            }
            Self::Stranger => false,
        }
    }

    /// A complete result with all that this caller's era wants in it.
    pub(crate) fn seal(&self, result: &Raw, cache: Option<Cache>) -> Raw {
        if !self.is_modern() {
            return result.clone();
        }
        let hints = cache.unwrap_or_default().write(ObjectWriter::new()).finish();
        let hint = |name: &str| cache.and_then(|_| hints.get(name));
        result.with_members([
            ("resultType", Some(Raw::string("complete"))),
            ("ttlMs", hint("ttlMs")),
            ("cacheScope", hint("cacheScope")),
            ("_meta", Some(server_meta())),
        ])
    }
}

/// Whether a request is of the modern era; the one that asks for versions always is.
pub(crate) fn is_modern(request: &Request) -> bool {
    let said = request.params.meta().and_then(|meta| meta.get(PROTOCOL_VERSION));
    said.is_some() || request.method == method::DISCOVER
}

pub(crate) fn read_meta(request: &Request) -> Result<RequestMeta, RpcError> {
    let meta = request.params.meta().unwrap_or(Json::EMPTY);
    RequestMeta::read(meta).map_err(|flaw| RpcError::invalid_params(format!("`_meta`: {flaw}")))
}

/// How results of the modern era say whose they are.
pub(crate) fn server_meta() -> Raw {
    ObjectWriter::new().json(SERVER_INFO, offer::server().raw().json()).finish()
}
