//! The message members that routing reads, and their positions in the message tree.

/// One member. Equal keys at different levels are different members.
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

/// An object whose members routing reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Message,
    Params,
    ParamsMeta,
    Result,
}

/// Maps the keys of each level to members.
macro_rules! members {
    ($($level:ident: $($key:literal => $member:ident),*;)*) => {
        impl Member {
            pub(crate) fn from_key(level: Level, key: &str) -> Option<Member> {
                match level {
                    $(Level::$level => match key {
                        $($key => Some(Member::$member),)*
                        _ => None,
                    },)*
                }
            }

            /// Matches a key and its colon in the usual spelling at the start of `bytes`, and returns its length. One
            /// comparison replaces a scan of each byte.
            #[inline]
            pub(crate) fn match_prefix(level: Level, bytes: &[u8]) -> Option<(Member, usize)> {
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

    /// The level of this member's own members.
    pub(crate) fn child_level(self) -> Option<Level> {
        match self {
            Member::Params => Some(Level::Params),
            Member::ParamsMeta => Some(Level::ParamsMeta),
            Member::Result => Some(Level::Result),
            _ => None,
        }
    }

    /// Returns whether a duplicate of this member is an error, because another reader could use the other one. Tool
    /// output is only passed on; of its duplicates the last counts, as in most parsers.
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
    fn match_prefix_agrees_with_from_key() {
        for (level, key) in [
            (Level::Message, "jsonrpc"),
            (Level::Message, "id"),
            (Level::Params, "name"),
            (Level::ParamsMeta, meta::PROGRESS_TOKEN),
            (Level::ParamsMeta, meta::PROTOCOL_VERSION),
            (Level::Result, "_meta"),
        ] {
            let named = Member::from_key(level, key);
            assert!(named.is_some(), "{key}");
            let written = format!("\"{key}\":");
            let leading = Member::match_prefix(level, format!("{written}1").as_bytes());
            assert_eq!(leading, named.map(|member| (member, written.len())), "{key}");
            for odd in [&written[1..], &written[..written.len() - 1], &format!("\"{key}\" :")] {
                assert_eq!(Member::match_prefix(level, odd.as_bytes()), None, "{odd}");
            }
        }
        assert_eq!(Member::match_prefix(Level::Params, b"\"id\":"), None);
    }
}
