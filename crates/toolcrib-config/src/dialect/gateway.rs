//! Checks the values of `gateway` that decide who may come in. A value that lets in nobody, or that cannot mean what it
//! says, makes the section invalid.

use crate::cx::Cx;
use crate::doc::{At, Kind, NodeId};
use crate::model::host::{GatewayKeys, GatewayOAuthKeys, Token};
use crate::text;

/// The hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// Reports mistakes in `gateway`, and returns their nodes.
pub(super) fn mistakes(cx: &mut Cx<'_>, gateway: &At<GatewayKeys>) -> Vec<NodeId> {
    let Some(keys) = &gateway.value else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(At { node, value: Some(tokens) }) = &keys.tokens {
        for (item, token) in items(cx, *node).into_iter().zip(tokens) {
            found.extend(token_mistakes(cx, item, token));
        }
    }
    for (list, check) in [(&keys.origins, Name::Origin), (&keys.hosts, Name::Host)] {
        if let Some(At { node, value: Some(names) }) = list {
            for (item, name) in items(cx, *node).into_iter().zip(names) {
                found.extend(name_mistake(cx, item, name, check));
            }
        }
    }
    if let Some(At { node, value: Some(oauth) }) = &keys.oauth {
        found.extend(oauth_mistake(cx, *node, oauth));
    }
    found
}

fn items(cx: &Cx<'_>, list: NodeId) -> Vec<NodeId> {
    match cx.doc.kind(list) {
        Kind::Seq(items) => items.clone(),
        _ => Vec::new(),
    }
}

fn token_mistakes(cx: &mut Cx<'_>, item: NodeId, token: &Token) -> Vec<NodeId> {
    let at = |cx: &Cx<'_>, key: &str| cx.doc.get(item, key).unwrap_or(item);
    let mut found = Vec::new();
    let is_hex = token.sha256.chars().all(|digit| digit.is_ascii_hexdigit());
    if token.sha256.len() != DIGITS || !is_hex {
        let node = at(cx, "sha256");
        let text = match is_hex {
            true => format!(
                "the SHA-256 of a token has {DIGITS} hexadecimal digits, found {}",
                token.sha256.len()
            ),
            false => format!("the SHA-256 of a token is {DIGITS} hexadecimal digits"),
        };
        let fix = "make one with `printf %s TOKEN | sha256sum`, or use `toolcrib token new`";
        cx.error(node, "token.hash", text, fix);
        found.push(node);
    }
    if token.agent.trim().is_empty() {
        let node = at(cx, "agent");
        cx.error(node, "token.agent", "the token names no agent", "write `agent: NAME`");
        found.push(node);
    }
    found
}

#[derive(Clone, Copy)]
enum Name {
    Origin,
    Host,
}

fn name_mistake(cx: &mut Cx<'_>, node: NodeId, name: &str, kind: Name) -> Option<NodeId> {
    let shown = text::clip(name);
    let (is_good, text, fix) = match kind {
        Name::Origin => (
            is_origin(name),
            format!("`{shown}` is no origin; patterns and `null` are not supported"),
            "list each origin as a browser sends it: `https://app.example` or `http://localhost:3000`",
        ),
        Name::Host => (
            is_authority(name),
            format!("`{shown}` is no host name; patterns are not supported"),
            "list each name without scheme, port and path: `toolcrib.example`",
        ),
    };
    if is_good {
        return None;
    }
    let code = match kind {
        Name::Origin => "gateway.origin",
        Name::Host => "gateway.host",
    };
    cx.error(node, code, text, fix);
    Some(node)
}

/// `scheme://host[:port]`, as in the header `Origin`; a `/` at the end is passed over.
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

/// `gateway.oauth` protects nothing without an issuer, and without an audience tokens for other services would do.
fn oauth_mistake(cx: &mut Cx<'_>, node: NodeId, oauth: &GatewayOAuthKeys) -> Option<NodeId> {
    let is_given = |key: &Option<At<String>>| {
        key.as_ref().and_then(|at| at.value.as_deref()).is_some_and(|text| !text.trim().is_empty())
    };
    // A value of the wrong type has been reported already.
    let is_wrong = |key: &Option<At<String>>| key.as_ref().is_some_and(|at| at.value.is_none());
    if is_wrong(&oauth.issuer) || is_wrong(&oauth.audience) {
        return None;
    }
    // The claim alone asks for no tokens.
    if oauth.issuer.is_none() && oauth.audience.is_none() {
        return None;
    }
    let (code, text, fix) = match (is_given(&oauth.issuer), is_given(&oauth.audience)) {
        (true, true) => return None,
        (false, _) => (
            "oauth.no_issuer",
            "`gateway.oauth` names no issuer",
            "add `issuer`, or remove `oauth`",
        ),
        (true, false) => (
            "oauth.no_audience",
            "`gateway.oauth` names no audience, so no token is for this host",
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
    fn origins_are_written_as_browsers_send_them() {
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
