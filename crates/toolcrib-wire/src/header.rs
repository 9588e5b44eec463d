//! HTTP headers of the protocol: names, value encoding, and the check against the body.

use std::borrow::Cow;

use crate::base64;
use crate::envelope::Request;
use crate::method::{self, MethodTarget};
use crate::version::Version;

/// The protocol version of a request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The session of a legacy HTTP request.
pub const SESSION_ID: &str = "mcp-session-id";
/// The method of a modern request.
pub const METHOD: &str = "mcp-method";
/// The name or URI of a modern request.
pub const NAME: &str = "mcp-name";
/// Prefix of headers for single params; the name after it comes from `x-mcp-header` in the tool's schema.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// The event after which a stream resumes.
pub const LAST_EVENT_ID: &str = "last-event-id";

const ENCODED_START: &str = "=?base64?";
const ENCODED_END: &str = "?=";

/// One header to send. Names are lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The lower-case name.
    pub name: Cow<'static, str>,
    /// The encoded value.
    pub value: String,
}

/// Difference between a request's headers and its body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderMismatch {
    /// The header is missing.
    #[error("the header `{header}` is missing")]
    Missing { header: String },
    /// The value has an invalid encoding.
    #[error("the header `{header}` has an invalid encoding")]
    Encoding { header: String },
    /// The value differs from the body's.
    #[error("the header `{header}` is `{sent}`, but the body has `{body}`")]
    Differs { header: String, sent: String, body: String },
}

/// Checks the headers of a modern request against its body. The caller has already read [`crate::meta::RequestMeta`]
/// from the body. `header` looks up a header by its lower-case name.
pub fn check_standard_headers<'h>(
    request: &Request,
    header: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), HeaderMismatch> {
    let version = request.params.version();
    let version = version.as_ref().map_or("", Version::as_str);
    check_plain_value(PROTOCOL_VERSION, header(PROTOCOL_VERSION), version)?;
    check_plain_value(METHOD, header(METHOD), &request.method)?;
    match target_name(request) {
        Some(name) => check_value(NAME, header(NAME), &name),
        None => Ok(()),
    }
}

/// Encodes a value for a header. Values stay unchanged unless they are not plain ASCII, have white space at an end,
/// or look like an encoded value.
pub fn encode(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
        && value.trim_matches([' ', '\t']).len() == value.len();
    if is_plain && encoded_part(value).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{ENCODED_START}{}{ENCODED_END}", base64::encode(value.as_bytes())))
}

/// Decodes a header value. Returns `None` if it is marked as encoded and is invalid.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    match encoded_part(value) {
        Some(part) => String::from_utf8(base64::decode(part)?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

/// Checks a header whose value may be encoded.
pub(crate) fn check_value(
    header: &str,
    sent: Option<&str>,
    body: &str,
) -> Result<(), HeaderMismatch> {
    match sent.map(decode) {
        Some(None) => Err(HeaderMismatch::Encoding { header: header.to_owned() }),
        sent => check_plain_value(header, sent.flatten().as_deref(), body),
    }
}

/// Checks a header whose value must equal the body's.
fn check_plain_value(header: &str, sent: Option<&str>, body: &str) -> Result<(), HeaderMismatch> {
    let header = header.to_owned();
    match sent {
        Some(sent) if sent == body => Ok(()),
        Some(sent) => {
            Err(HeaderMismatch::Differs { header, sent: sent.to_owned(), body: body.to_owned() })
        }
        None => Err(HeaderMismatch::Missing { header }),
    }
}

fn target_name(request: &Request) -> Option<Cow<'_, str>> {
    match method::target(&request.method)? {
        MethodTarget::Name => request.params.name(),
        MethodTarget::Uri => request.params.uri(),
    }
}

fn encoded_part(value: &str) -> Option<&str> {
    value.strip_prefix(ENCODED_START)?.strip_suffix(ENCODED_END)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, MessageLimits, Packet, parse};

    fn request(text: &str) -> Request {
        match parse(text, &MessageLimits::default()) {
            Ok(Packet::One(Message::Request(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_encoded_like_the_specification_examples() {
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
    fn sent_headers_pass_the_check() {
        let call = request(CALL);
        let name = encode("grüß");
        assert_eq!(name, "=?base64?Z3LDvMOf?=");
        let lookup = |header: &str| match header {
            PROTOCOL_VERSION => Some("2026-07-28"),
            METHOD => Some("tools/call"),
            NAME => Some(&*name),
            _ => None,
        };
        assert_eq!(check_standard_headers(&call, lookup), Ok(()));
    }

    #[test]
    fn header_mismatch_names_the_header() {
        let call = request(CALL);
        let with = |version: Option<&'static str>, method: &'static str, name: &'static str| {
            check_standard_headers(&call, |header| match header {
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
                "the header `mcp-method` is `tools/list`, but the body has `tools/call`",
            ),
            (
                with(version, "=?base64?dG9vbHMvY2FsbA==?=", "x"),
                "the header `mcp-method` is `=?base64?dG9vbHMvY2FsbA==?=`, but the body has `tools/call`",
            ),
            (
                with(version, "tools/call", "x"),
                "the header `mcp-name` is `x`, but the body has `grüß`",
            ),
            (
                with(version, "tools/call", "=?base64?*?="),
                "the header `mcp-name` has an invalid encoding",
            ),
        ] {
            assert_eq!(result, Err(expected.to_owned()));
        }
    }
}
