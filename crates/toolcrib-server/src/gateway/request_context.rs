//! Era and capabilities of a request's sender, and the form of results for it.

use toolcrib::DialogCapabilities;
use toolcrib::internal::InputRounds;
use toolcrib_wire::handshake::{Implementation, InitializeParams};
use toolcrib_wire::meta::{PROTOCOL_VERSION, RequestMeta, SERVER_INFO};
use toolcrib_wire::method;
use toolcrib_wire::view::{CacheHints, LogLevel};
use toolcrib_wire::{Body, Era, Json, ObjectWriter, RawJson, Request, RpcError, Version};

use crate::version::{check_method, supported_versions};

/// The parts of the sender's state that affect the response.
#[derive(Clone, Debug)]
pub(super) enum RequestContext {
    /// Each request carries its own metadata.
    Modern(RequestMeta),
    /// The client has opened a session.
    Legacy(LegacySession),
    /// The client's era is unknown yet.
    Unknown,
}

/// Agreement of a legacy session, from `initialize`.
#[derive(Clone, Debug)]
pub(super) struct LegacySession {
    pub(super) version: Version,
    capabilities: DialogCapabilities,
}

impl LegacySession {
    pub(super) fn new(opening: &InitializeParams) -> Self {
        let version = opening.version().negotiate_legacy();
        Self { version, capabilities: DialogCapabilities::from_client(&opening.capabilities()) }
    }
}

impl RequestContext {
    /// The sender of a request on a channel without headers.
    pub(super) fn from_request(
        request: &Request,
        opened: Option<LegacySession>,
    ) -> Result<Self, RpcError> {
        let meta = request.params.meta().unwrap_or(Json::EMPTY);
        let is_modern = meta.get(PROTOCOL_VERSION).is_some() || request.method == method::DISCOVER;
        if !is_modern {
            return Ok(opened.map_or(Self::Unknown, Self::Legacy));
        }
        let meta = RequestMeta::read(meta)
            .map_err(|flaw| RpcError::invalid_params(format!("`_meta`: {flaw}")))?;
        match meta.version == Version::V2026_07_28 {
            true => Ok(Self::Modern(meta)),
            false => Err(RpcError::unsupported_version(&meta.version, &supported_versions())),
        }
    }

    /// Rejects methods that the client's protocol version does not have.
    pub(super) fn check_method(&self, method: &str) -> Result<(), RpcError> {
        let version = match self {
            Self::Modern(_) => Some(&Version::V2026_07_28),
            Self::Legacy(opened) => Some(&opened.version),
            Self::Unknown => None,
        };
        check_method(version, method)
    }

    pub(super) fn era(&self) -> Era {
        match self {
            Self::Modern(_) => Era::Modern,
            Self::Legacy(_) | Self::Unknown => Era::Legacy,
        }
    }

    /// Requests that servers may send to the client.
    pub(super) fn capabilities(&self) -> DialogCapabilities {
        match self {
            Self::Modern(meta) => DialogCapabilities::from_client(&meta.capabilities),
            Self::Legacy(opened) => opened.capabilities,
            Self::Unknown => DialogCapabilities::default(),
        }
    }

    /// Input for modern servers, with the client's responses of the previous round.
    pub(super) fn input_rounds(
        &self,
        params: &Body,
        state: Option<RawJson>,
    ) -> Option<InputRounds> {
        let Self::Modern(meta) = self else { return None };
        Some(InputRounds {
            capabilities: meta.capabilities.clone(),
            log_level: meta.log_level,
            responses: params.get("inputResponses").map(RawJson::from),
            state,
        })
    }

    /// The minimum log level of this request.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        match self {
            Self::Modern(meta) => meta.log_level,
            Self::Legacy(_) | Self::Unknown => None,
        }
    }

    /// Returns whether the client may get log messages. Modern requests must ask for them.
    pub(super) fn wants_log(&self) -> bool {
        !matches!(self, Self::Modern(meta) if meta.log_level.is_none())
    }

    /// Adds the members that the client's era expects. Lists get cache hints.
    pub(super) fn complete_result(
        &self,
        result: &RawJson,
        server: &Implementation,
        is_list: bool,
    ) -> RawJson {
        if self.era() == Era::Legacy {
            return result.clone();
        }
        let hints = CacheHints::default().write(ObjectWriter::new()).finish();
        let hint = |name: &str| hints.get(name).filter(|_| is_list && result.get(name).is_none());
        let meta = result.get("_meta").unwrap_or_else(|| ObjectWriter::new().finish());
        let meta = meta.with_members([(SERVER_INFO, Some(server.raw().clone()))]);
        let mut members = vec![("_meta", Some(meta))];
        if result.get("resultType").is_none() {
            members.push(("resultType", Some(RawJson::string("complete"))));
        }
        members.extend(
            ["ttlMs", "cacheScope"]
                .map(|name| (name, hint(name)))
                .into_iter()
                .filter(|(_, it)| it.is_some()),
        );
        result.with_members(members)
    }
}
