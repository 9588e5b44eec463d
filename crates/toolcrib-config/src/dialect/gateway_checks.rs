//! Checks the values of `gateway` that control access.
//!
//! A value that admits no caller or that cannot work as written makes the section invalid.

use crate::compile_context::CompileContext;
use crate::doc::{At, NodeId, NodeKind};
use crate::model::host::{GatewayKeys, GatewayOAuthKeys, GatewayToken};
use crate::text;

/// Hexadecimal digits of a SHA-256.
const SHA256_HEX_DIGITS: usize = 64;

/// Reports the mistakes in `gateway` and returns their nodes.
pub(super) fn check_gateway(cx: &mut CompileContext<'_>, gateway: &At<GatewayKeys>) -> Vec<NodeId> {
    let Some(keys) = &gateway.value else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(At { node, value: Some(tokens) }) = &keys.tokens {
        for (item, token) in list_items(cx, *node).into_iter().zip(tokens) {
            found.extend(check_token(cx, item, token));
        }
    }
    for (list, check) in [(&keys.origins, NameKind::Origin), (&keys.hosts, NameKind::Host)] {
        if let Some(At { node, value: Some(names) }) = list {
            for (item, name) in list_items(cx, *node).into_iter().zip(names) {
                found.extend(check_name(cx, item, name, check));
            }
        }
    }
    if let Some(At { node, value: Some(oauth) }) = &keys.oauth {
        found.extend(check_oauth(cx, *node, oauth));
    }
    found
}

fn list_items(cx: &CompileContext<'_>, list: NodeId) -> Vec<NodeId> {
    match cx.doc.kind(list) {
        NodeKind::Seq(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn check_token(cx: &mut CompileContext<'_>, item: NodeId, token: &GatewayToken) -> Vec<NodeId> {
    let at = |cx: &CompileContext<'_>, key: &str| cx.doc.get(item, key).unwrap_or(item);
    let mut found = Vec::new();
    let is_hex = token.sha256.chars().all(|digit| digit.is_ascii_hexdigit());
    if token.sha256.len() != SHA256_HEX_DIGITS || !is_hex {
        let node = at(cx, "sha256");
        let text = match is_hex {
            true => format!(
                "the SHA-256 of a token has {SHA256_HEX_DIGITS} hexadecimal digits, found {}",
                token.sha256.len()
            ),
            false => format!("the SHA-256 of a token is {SHA256_HEX_DIGITS} hexadecimal digits"),
        };
        let fix = "make one with `printf %s TOKEN | sha256sum`, or use `toolcrib token new`";
        cx.error(node, "token.hash", text, fix);
        found.push(node);
    }
    if token.agent.trim().is_empty() {
        let node = at(cx, "agent");
        cx.error(node, "token.agent", "the token has no agent", "write `agent: NAME`");
        found.push(node);
    }
    found
}

#[derive(Clone, Copy)]
enum NameKind {
    Origin,
    Host,
}

fn check_name(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    name: &str,
    kind: NameKind,
) -> Option<NodeId> {
    let shown = text::clip(name);
    let (is_good, text, fix) = match kind {
        NameKind::Origin => (
            is_origin(name),
            format!("`{shown}` is not an origin; patterns and `null` are not supported"),
            "list each origin as a browser sends it: `https://app.example` or `http://localhost:3000`",
        ),
        NameKind::Host => (
            is_authority(name),
            format!("`{shown}` is not a host name; patterns are not supported"),
            "list each name without scheme, port and path: `toolcrib.example`",
        ),
    };
    if is_good {
        return None;
    }
    let code = match kind {
        NameKind::Origin => "gateway.origin",
        NameKind::Host => "gateway.host",
    };
    cx.error(node, code, text, fix);
    Some(node)
}

/// Returns true for `scheme://host[:port]`, the syntax of the `Origin` header. A trailing `/` is accepted.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.trim_end_matches('/').split_once("://") else {
        return false;
    };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    !scheme.is_empty() && scheme.chars().all(is_scheme) && is_authority(authority)
}

fn is_authority(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_.:[]".contains(c);
    !text.is_empty() && text.chars().all(is_part)
}

/// Checks `gateway.oauth`. Without an issuer it protects nothing; without an audience it would accept tokens
/// for other services.
fn check_oauth(
    cx: &mut CompileContext<'_>,
    node: NodeId,
    oauth: &GatewayOAuthKeys,
) -> Option<NodeId> {
    let is_given = |key: &Option<At<String>>| {
        key.as_ref().and_then(|at| at.value.as_deref()).is_some_and(|text| !text.trim().is_empty())
    };
    // A value of the wrong type has already been reported.
    let is_wrong = |key: &Option<At<String>>| key.as_ref().is_some_and(|at| at.value.is_none());
    if is_wrong(&oauth.issuer) || is_wrong(&oauth.audience) {
        return None;
    }
    // `agent_claim` alone does not enable OAuth.
    if oauth.issuer.is_none() && oauth.audience.is_none() {
        return None;
    }
    let (code, text, fix) = match (is_given(&oauth.issuer), is_given(&oauth.audience)) {
        (true, true) => return None,
        (false, _) => {
            ("oauth.no_issuer", "`gateway.oauth` has no issuer", "add `issuer`, or remove `oauth`")
        }
        (true, false) => (
            "oauth.no_audience",
            "`gateway.oauth` has no audience, so no token can be accepted",
            "add `audience`: the name that the issuer writes into tokens for this host",
        ),
    };
    cx.error(node, code, text, fix);
    Some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_match_the_origin_header_syntax() {
        for good in [
            "http://localhost:3000",
            "https://app.example/",
            "http://[::1]:8080",
            "vscode-webview://abc",
        ] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["*", "", "null", "app.example", "https://", "https://*.example", "https://a/b"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
