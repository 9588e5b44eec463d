//! Who sends a request: a client of which era, what it can do, and how a result is written for it.

use toolcrib::host::{Answers, Rounds};
use toolcrib_wire::handshake::{Implementation, Initialize};
use toolcrib_wire::meta::{PROTOCOL_VERSION, RequestMeta, SERVER_INFO};
use toolcrib_wire::method;
use toolcrib_wire::view::{Cache, LogLevel};
use toolcrib_wire::{Body, Era, Json, ObjectWriter, Raw, Request, RpcError, Version};

use crate::version::{check_method, spoken};

/// Who asks, as far as the answer depends on it.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Each of its requests says what is needed to know.
    Modern(RequestMeta),
    /// It has opened a session.
    Legacy(Opened),
    /// It has not said yet which era it is of.
    Stranger,
}

/// What a client of the legacy era said when it opened its session.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) version: Version,
    answers: Answers,
}

impl Opened {
    pub(super) fn new(opening: &Initialize) -> Self {
        let version = opening.version().negotiate_legacy();
        Self { version, answers: Answers::of(&opening.capabilities()) }
    }
}

impl Caller {
    /// The sender of a request on a channel that has no headers.
    pub(super) fn of(request: &Request, opened: Option<Opened>) -> Result<Self, RpcError> {
        let meta = request.params.meta().unwrap_or(Json::EMPTY);
        let is_modern = meta.get(PROTOCOL_VERSION).is_some() || request.method == method::DISCOVER;
        if !is_modern {
            return Ok(opened.map_or(Self::Stranger, Self::Legacy));
        }
        let meta = RequestMeta::read(meta)
            .map_err(|flaw| RpcError::invalid_params(format!("`_meta`: {flaw}")))?;
        match meta.version == Version::V2026_07_28 {
            true => Ok(Self::Modern(meta)),
            false => Err(RpcError::unsupported_version(&meta.version, &spoken())),
        }
    }

    /// Refuses what this caller's version of the protocol does not have.
    pub(super) fn check_method(&self, method: &str) -> Result<(), RpcError> {
        let version = match self {
            Self::Modern(_) => Some(&Version::V2026_07_28),
            Self::Legacy(opened) => Some(&opened.version),
            Self::Stranger => None,
        };
        check_method(version, method)
    }

    pub(super) fn era(&self) -> Era {
        match self {
            Self::Modern(_) => Era::Modern,
            Self::Legacy(_) | Self::Stranger => Era::Legacy,
        }
    }

    /// What servers may ask of it.
    pub(super) fn answers(&self) -> Answers {
        match self {
            Self::Modern(meta) => Answers::of(&meta.capabilities),
            Self::Legacy(opened) => opened.answers,
            Self::Stranger => Answers::default(),
        }
    }

    /// How it is asked where servers speak its era: with what it says to their questions of the round before.
    pub(super) fn rounds(&self, params: &Body, state: Option<Raw>) -> Option<Rounds> {
        let Self::Modern(meta) = self else { return None };
        Some(Rounds {
            capabilities: meta.capabilities.clone(),
            log_level: meta.log_level,
            responses: params.get("inputResponses").map(Raw::from),
            state,
        })
    }

    /// The least severe log messages that this request asks for.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        match self {
            Self::Modern(meta) => meta.log_level,
            Self::Legacy(_) | Self::Stranger => None,
        }
    }

    /// Whether it may be told log messages at all: the modern era has to ask for them.
    pub(super) fn wants_log(&self) -> bool {
        !matches!(self, Self::Modern(meta) if meta.log_level.is_none())
    }

    /// A complete result with all that this caller's era wants in it; a list may be kept as long as it says.
    pub(super) fn seal(&self, result: &Raw, server: &Implementation, is_list: bool) -> Raw {
        if self.era() == Era::Legacy {
            return result.clone();
        }
        let hints = Cache::default().write(ObjectWriter::new()).finish();
        let hint = |name: &str| hints.get(name).filter(|_| is_list && result.get(name).is_none());
        let meta = result.get("_meta").unwrap_or_else(|| ObjectWriter::new().finish());
        let meta = meta.with_members([(SERVER_INFO, Some(server.raw().clone()))]);
        let mut members = vec![("_meta", Some(meta))];
        if result.get("resultType").is_none() {
            members.push(("resultType", Some(Raw::string("complete"))));
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
