//! Matches URIs against URI templates (RFC 6570), in reverse: the literal parts must occur in
//! order, and each expression matches the characters that it may expand to.

/// Maximum number of parts. Longer templates match nothing.
const MAX_PARTS: usize = 64;

pub(super) fn matches_template(template: &str, uri: &str) -> bool {
    let Some(parts) = parse_template(template) else { return false };
    matches_parts(&parts, uri)
}

#[derive(Debug, PartialEq, Eq)]
enum TemplatePart<'a> {
    Text(&'a str),
    /// Whether the expression may span path segments.
    Expression {
        reserved: bool,
    },
}

fn parse_template(template: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let close = open + rest.get(open..)?.find('}')?;
        if open > 0 {
            parts.push(TemplatePart::Text(rest.get(..open)?));
        }
        let operator = rest.get(open + 1..close)?.chars().next()?;
        // These operators emit `/`, `.`, `?` and the like, and may expand to several values.
        parts.push(TemplatePart::Expression { reserved: "+#/.?&;".contains(operator) });
        rest = rest.get(close + 1..)?;
        if parts.len() > MAX_PARTS {
            return None;
        }
    }
    if !rest.is_empty() {
        parts.push(TemplatePart::Text(rest));
    }
    Some(parts)
}

/// Computes the reachable positions in the URI part by part. Each part is one pass over the URI, so
/// the time is bounded by the product of both lengths.
fn matches_parts(parts: &[TemplatePart<'_>], uri: &str) -> bool {
    let mut reachable = vec![false; uri.len() + 1];
    if let Some(first) = reachable.first_mut() {
        *first = true;
    }
    for part in parts {
        reachable = match part {
            TemplatePart::Text(text) => advance_text(&reachable, uri, text),
            TemplatePart::Expression { reserved } => advance_expression(&reachable, uri, *reserved),
        };
    }
    reachable.last().copied().unwrap_or_default()
}

fn advance_text(reachable: &[bool], uri: &str, text: &str) -> Vec<bool> {
    let mut next = vec![false; reachable.len()];
    let places = reachable.iter().enumerate().filter(|(_, is_reachable)| **is_reachable);
    for (from, _) in places {
        let is_there = uri.get(from..).is_some_and(|rest| rest.starts_with(text));
        if let Some(index) = next.get_mut(from + text.len()).filter(|_| is_there) {
            *index = true;
        }
    }
    next
}

fn advance_expression(reachable: &[bool], uri: &str, reserved: bool) -> Vec<bool> {
    let ends = |at: usize| uri.as_bytes().get(at).is_some_and(|byte| b"/?#".contains(byte));
    let mut is_inside = false;
    let walk = reachable.iter().enumerate().map(|(at, is_reachable)| {
        is_inside |= is_reachable;
        let here = is_inside && uri.is_char_boundary(at);
        is_inside &= reserved || !ends(at);
        here
    });
    walk.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_match_templates() {
        for (template, uri, fit) in [
            ("file:///{path}", "file:///a", true),
            ("file:///{path}", "file:///a/b", false),
            ("file:///{+path}", "file:///a/b", true),
            ("a://{x}/b/{y}", "a://1/b/2", true),
            ("a://{x}/b/{y}", "a://1/c/2", false),
            ("a://x", "a://x", true),
            ("a://x", "a://xy", false),
            ("a://{x}{?q,r}", "a://1?q=2&r=3", true),
            ("a://{x", "a://1", false),
            ("a://{}", "a://1", false),
            ("ä://{x}", "ä://ö", true),
        ] {
            assert_eq!(matches_template(template, uri), fit, "{template} {uri}");
        }
    }

    #[test]
    fn hostile_template_is_matched_in_bounded_time() {
        let template = "{+a}".repeat(60);
        assert!(matches_template(&template, &"a".repeat(2000)));
        assert!(!matches_template(&"{a}".repeat(100), "a"));
    }
}
