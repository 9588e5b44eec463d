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

/// An expression takes as little as it can at first; the time is bounded because places are tried once each.
fn fits(parts: &[Part<'_>], uri: &str) -> bool {
    let mut reachable = vec![0_usize];
    for part in parts {
        let mut next: Vec<usize> = Vec::new();
        for from in reachable {
            let Some(rest) = uri.get(from..) else { continue };
            match part {
                Part::Text(text) if rest.starts_with(text) => next.push(from + text.len()),
                Part::Text(_) => {}
                Part::Expression { reserved } => {
                    let end = if *reserved {
                        rest.len()
                    } else {
                        rest.find(['/', '?', '#']).unwrap_or(rest.len())
                    };
                    next.extend(
                        (0..=end).filter(|at| rest.is_char_boundary(*at)).map(|at| from + at),
                    );
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        reachable = next;
    }
    reachable.contains(&uri.len())
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
