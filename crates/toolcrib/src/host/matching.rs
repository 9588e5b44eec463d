//! Whether an address may have been made of a template (RFC 6570). It is found out backwards: what stands between
//! the expressions must be there, in order, and what an expression may give in between.

/// Templates with more expressions than this are nobody's.
const MOST_PARTS: usize = 64;

pub(super) fn is_of(template: &str, uri: &str) -> bool {
    let Some(parts) = parts(template) else { return false };
    fits(&parts, uri)
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// Whether it may span path segments.
    Expression {
        reserved: bool,
    },
}

fn parts(template: &str) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let close = open + rest.get(open..)?.find('}')?;
        if open > 0 {
            parts.push(Part::Text(rest.get(..open)?));
        }
        let operator = rest.get(open + 1..close)?.chars().next()?;
        // Those that begin with `/` or `.` or `?` bring that along, and may hold several values.
        parts.push(Part::Expression { reserved: "+#/.?&;".contains(operator) });
        rest = rest.get(close + 1..)?;
        if parts.len() > MOST_PARTS {
            return None;
        }
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    Some(parts)
}

/// Which places of the address can be reached part by part. Each part is one walk over it, so that the time is the
/// product of both lengths, whatever is in them.
fn fits(parts: &[Part<'_>], uri: &str) -> bool {
    let mut reachable = vec![false; uri.len() + 1];
    if let Some(first) = reachable.first_mut() {
        *first = true;
    }
    for part in parts {
        reachable = match part {
            Part::Text(text) => after_text(&reachable, uri, text),
            Part::Expression { reserved } => after_expression(&reachable, uri, *reserved),
        };
    }
    reachable.last().copied().unwrap_or_default()
}

fn after_text(reachable: &[bool], uri: &str, text: &str) -> Vec<bool> {
    let mut next = vec![false; reachable.len()];
    let places = reachable.iter().enumerate().filter(|(_, is_reachable)| **is_reachable);
    for (from, _) in places {
        let is_there = uri.get(from..).is_some_and(|rest| rest.starts_with(text));
        if let Some(place) = next.get_mut(from + text.len()).filter(|_| is_there) {
            *place = true;
        }
    }
    next
}

fn after_expression(reachable: &[bool], uri: &str, reserved: bool) -> Vec<bool> {
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
    fn an_address_is_of_a_template_or_not() {
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
            assert_eq!(is_of(template, uri), fit, "{template} {uri}");
        }
    }

    #[test]
    fn a_hostile_template_ends_soon() {
        let template = "{+a}".repeat(60);
        assert!(is_of(&template, &"a".repeat(2000)));
        assert!(!is_of(&"{a}".repeat(100), "a"));
    }
}
