//! The members of a message that routing looks at, and where each may stand.

use crate::meta;

/// One member, told apart by where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    JsonRpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Name,
    Uri,
    Arguments,
    RequestState,
    ParamsMeta,
    ProgressToken,
    Version,
    ResultType,
    Content,
    StructuredContent,
    IsError,
    ResultMeta,
}

/// An object whose members matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Message,
    Params,
    ParamsMeta,
    Result,
}

impl Member {
    pub(crate) const COUNT: usize = Member::ResultMeta as usize + 1;

    pub(crate) fn named(level: Level, key: &str) -> Option<Member> {
        Some(match (level, key) {
            (Level::Message, "jsonrpc") => Member::JsonRpc,
            (Level::Message, "id") => Member::Id,
            (Level::Message, "method") => Member::Method,
            (Level::Message, "params") => Member::Params,
            (Level::Message, "result") => Member::Result,
            (Level::Message, "error") => Member::Error,
            (Level::Params, "name") => Member::Name,
            (Level::Params, "uri") => Member::Uri,
            (Level::Params, "arguments") => Member::Arguments,
            (Level::Params, "requestState") => Member::RequestState,
            (Level::Params, "_meta") => Member::ParamsMeta,
            (Level::ParamsMeta, meta::PROGRESS_TOKEN) => Member::ProgressToken,
            (Level::ParamsMeta, meta::PROTOCOL_VERSION) => Member::Version,
            (Level::Result, "resultType") => Member::ResultType,
            (Level::Result, "content") => Member::Content,
            (Level::Result, "structuredContent") => Member::StructuredContent,
            (Level::Result, "isError") => Member::IsError,
            (Level::Result, "_meta") => Member::ResultMeta,
            _ => return None,
        })
    }

    /// The level that this member's own members are on.
    pub(crate) fn inside(self) -> Option<Level> {
        match self {
            Member::Params => Some(Level::Params),
            Member::ParamsMeta => Some(Level::ParamsMeta),
            Member::Result => Some(Level::Result),
            _ => None,
        }
    }

    /// Whether it must not be given twice: nobody else may read another one of them. What a tool gave is only handed on;
    /// of several the last counts, as in most parsers.
    pub(crate) fn is_unique(self) -> bool {
        !matches!(self, Member::Content | Member::StructuredContent | Member::IsError)
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Member::JsonRpc => "jsonrpc",
            Member::Id => "id",
            Member::Method => "method",
            Member::Params => "params",
            Member::Result => "result",
            Member::Error => "error",
            Member::Name => "params.name",
            Member::Uri => "params.uri",
            Member::Arguments => "params.arguments",
            Member::RequestState => "params.requestState",
            Member::ParamsMeta => "params._meta",
            Member::ProgressToken => "params._meta.progressToken",
            Member::Version => "params._meta.io.modelcontextprotocol/protocolVersion",
            Member::ResultType => "result.resultType",
            Member::Content => "result.content",
            Member::StructuredContent => "result.structuredContent",
            Member::IsError => "result.isError",
            Member::ResultMeta => "result._meta",
        }
    }
}
