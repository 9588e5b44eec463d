//! The members of a message that routing looks at, and where each may stand.

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

/// Says once what the members of each level are called.
macro_rules! members {
    ($($level:ident: $($key:literal => $member:ident),*;)*) => {
        impl Member {
            pub(crate) fn named(level: Level, key: &str) -> Option<Member> {
                match level {
                    $(Level::$level => match key {
                        $($key => Some(Member::$member),)*
                        _ => None,
                    },)*
                }
            }

            /// The member that the bytes begin with, if its key and the colon are written as nearly all write them,
            /// and how long those are: one comparison then does for a look at each byte.
            #[inline]
            pub(crate) fn leading(level: Level, bytes: &[u8]) -> Option<(Member, usize)> {
                match level {
                    $(Level::$level => {
                        $(if bytes.starts_with(concat!('"', $key, "\":").as_bytes()) {
                            return Some((Member::$member, $key.len() + 3));
                        })*
                    })*
                }
                None
            }
        }
    };
}

members! {
    Message: "jsonrpc" => JsonRpc, "id" => Id, "method" => Method, "params" => Params, "result" => Result,
        "error" => Error;
    Params: "name" => Name, "arguments" => Arguments, "_meta" => ParamsMeta, "uri" => Uri,
        "requestState" => RequestState;
    ParamsMeta: "progressToken" => ProgressToken, "io.modelcontextprotocol/protocolVersion" => Version;
    Result: "content" => Content, "isError" => IsError, "structuredContent" => StructuredContent,
        "_meta" => ResultMeta, "resultType" => ResultType;
}

impl Member {
    pub(crate) const COUNT: usize = Member::ResultMeta as usize + 1;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta;

    #[test]
    fn a_key_is_known_at_the_front_only_as_it_is_known_by_name() {
        for (level, key) in [
            (Level::Message, "jsonrpc"),
            (Level::Message, "id"),
            (Level::Params, "name"),
            (Level::ParamsMeta, meta::PROGRESS_TOKEN),
            (Level::ParamsMeta, meta::PROTOCOL_VERSION),
            (Level::Result, "_meta"),
        ] {
            let named = Member::named(level, key);
            assert!(named.is_some(), "{key}");
            let written = format!("\"{key}\":");
            let leading = Member::leading(level, format!("{written}1").as_bytes());
            assert_eq!(leading, named.map(|member| (member, written.len())), "{key}");
            for odd in [&written[1..], &written[..written.len() - 1], &format!("\"{key}\" :")] {
                assert_eq!(Member::leading(level, odd.as_bytes()), None, "{odd}");
            }
        }
        assert_eq!(Member::leading(Level::Params, b"\"id\":"), None);
    }
}
