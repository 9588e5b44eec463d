//! HTTP headers of the protocol: their names, how values are written, and what must match the body.

use std::borrow::Cow;

use crate::base64;
use crate::envelope::Request;
use crate::method::{self, Target};
use crate::version::Version;

pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
pub const SESSION_ID: &str = "mcp-session-id";
pub const METHOD: &str = "mcp-method";
pub const NAME: &str = "mcp-name";
/// Followed by what a tool's schema says in `x-mcp-header`.
pub const PARAM_PREFIX: &str = "mcp-param-";
pub const LAST_EVENT_ID: &str = "last-event-id";

const ENCODED_START: &str = "=?base64?";
const ENCODED_END: &str = "?=";

/// One header to be sent. Names are lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub name: Cow<'static, str>,
    pub value: String,
}

/// How a request's headers disagree with its body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("the header `{header}` is missing")]
    Missing { header: String },
    #[error("the header `{header}` is not validly encoded")]
    Encoding { header: String },
    #[error("the header `{header}` says `{said}`, the body says `{body}`")]
    Differs { header: String, said: String, body: String },
}

/// The headers that a request of the modern era repeats its body in, all but those for single params.
pub fn standard(request: &Request, version: &Version) -> Vec<Header> {
    let mut headers = vec![
        Header { name: PROTOCOL_VERSION.into(), value: version.to_string() },
        Header { name: METHOD.into(), value: request.method.clone() },
    ];
    if let Some(name) = target(request) {
        headers.push(Header { name: NAME.into(), value: encode(&name).into_owned() });
    }
    headers
}

/// Checks the headers of a request of the modern era against its body, which [`crate::meta::RequestMeta`]
/// has been read from. `header` looks one up by its lower-case name.
pub fn check_standard<'h>(
    request: &Request,
    header: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), Mismatch> {
    let version = request.params.version();
    let version = version.as_ref().map_or("", Version::as_str);
    expect_plain(PROTOCOL_VERSION, header(PROTOCOL_VERSION), version)?;
    expect_plain(METHOD, header(METHOD), &request.method)?;
    match target(request) {
        Some(name) => expect(NAME, header(NAME), &name),
        None => Ok(()),
    }
}

/// A value as a header can carry it: as it is, or encoded where it is not plain ASCII, has white space
/// at an end, or could be taken for an encoded one.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
        && value.trim_matches([' ', '\t']).len() == value.len();
    if is_plain && encoded_part(value).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{ENCODED_START}{}{ENCODED_END}", base64::encode(value.as_bytes())))
}

/// What a header value says, or none if it is encoded and cannot be decoded.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    match encoded_part(value) {
        Some(part) => String::from_utf8(base64::decode(part)?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

/// A header whose value may be encoded.
pub(crate) fn expect(header: &str, said: Option<&str>, body: &str) -> Result<(), Mismatch> {
    match said.map(decode) {
        Some(None) => Err(Mismatch::Encoding { header: header.to_owned() }),
        said => expect_plain(header, said.flatten().as_deref(), body),
    }
}

/// A header that says exactly what the body says.
fn expect_plain(header: &str, said: Option<&str>, body: &str) -> Result<(), Mismatch> {
    let header = header.to_owned();
    match said {
        Some(said) if said == body => Ok(()),
        Some(said) => {
            Err(Mismatch::Differs { header, said: said.to_owned(), body: body.to_owned() })
        }
        None => Err(Mismatch::Missing { header }),
    }
}

fn target(request: &Request) -> Option<Cow<'_, str>> {
    match method::target(&request.method)? {
        Target::Name => request.params.name(),
        Target::Uri => request.params.uri(),
    }
}

fn encoded_part(value: &str) -> Option<&str> {
    value.strip_prefix(ENCODED_START)?.strip_suffix(ENCODED_END)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Message, Packet, parse};

    fn request(text: &str) -> Request {
        match parse(text, &Limits::default()) {
            Ok(Packet::One(Message::Request(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (plain, encoded) in [
            ("us-west1", "us-west1"),
            ("file:///a b", "file:///a b"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64?", "=?base64?"),
        ] {
            assert_eq!(encode(plain), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(plain));
        }
        assert_eq!(decode("=?base64?***?="), None);
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"grüß",
        "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;

    #[test]
    fn what_we_send_is_what_we_accept() {
        let call = request(CALL);
        let headers = standard(&call, &Version::V2026_07_28);
        let look = |name: &str| {
            headers.iter().find(|header| header.name == name).map(|header| header.value.as_str())
        };
        assert_eq!(look(NAME), Some("=?base64?Z3LDvMOf?="));
        assert_eq!(check_standard(&call, look), Ok(()));
    }

    #[test]
    fn a_missing_or_other_header_is_named() {
        let call = request(CALL);
        let with = |version: Option<&'static str>, method: &'static str, name: &'static str| {
            check_standard(&call, |header| match header {
                PROTOCOL_VERSION => version,
                METHOD => Some(method),
                _ => Some(name),
            })
            .map_err(|mismatch| mismatch.to_string())
        };
        let version = Some("2026-07-28");
        for (result, expected) in [
            (with(None, "tools/call", "x"), "the header `mcp-protocol-version` is missing"),
            (
                with(version, "tools/list", "x"),
                "the header `mcp-method` says `tools/list`, the body says `tools/call`",
            ),
            (
                with(version, "=?base64?dG9vbHMvY2FsbA==?=", "x"),
                "the header `mcp-method` says `=?base64?dG9vbHMvY2FsbA==?=`, the body says `tools/call`",
            ),
            (
                with(version, "tools/call", "x"),
                "the header `mcp-name` says `x`, the body says `grüß`",
            ),
            (
                with(version, "tools/call", "=?base64?*?="),
                "the header `mcp-name` is not validly encoded",
            ),
        ] {
            assert_eq!(result, Err(expected.to_owned()));
        }
    }
}
