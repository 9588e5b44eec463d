//! Which of a server's items are offered, by patterns over the server's own names.

use super::policy::{FilterMode, ToolFilter};

/// What a filter says of one name, and which pattern says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    Offered,
    /// A pattern of the deny list matched.
    Denied(&'a str),
    /// There is an allow list, and nothing in it matched.
    NotAllowed,
}

impl ToolFilter {
    pub fn verdict(&self, name: &str) -> Verdict<'_> {
        verdict(self.allow.as_deref(), &self.deny, self.mode, name)
    }
}

/// Decides over one name. An empty allow list allows nothing; without one, everything is allowed.
pub fn verdict<'a>(
    allow: Option<&[String]>,
    deny: &'a [String],
    mode: FilterMode,
    name: &str,
) -> Verdict<'a> {
    let allowed = allow.is_some_and(|allow| allow.iter().any(|pattern| matches(pattern, name)));
    let denied = deny.iter().find(|pattern| matches(pattern, name));
    match (denied, mode) {
        (Some(pattern), FilterMode::DenyWins) => Verdict::Denied(pattern),
        (Some(pattern), FilterMode::Dominds) if !allowed => Verdict::Denied(pattern),
        // Beside a deny list, an allow list only excepts from it.
        (_, FilterMode::Dominds) if !deny.is_empty() => Verdict::Offered,
        _ if allow.is_none() || allowed => Verdict::Offered,
        _ => Verdict::NotAllowed,
    }
}

/// Whether a pattern matches a whole name: `*` stands for any text, also none; nothing else is special.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // Taking each middle part where it first occurs leaves the most for those behind it.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dom_27_only_the_star_is_special() {
        let cases = [
            ("browser_*", "browser_click", true),
            ("browser_*", "browser_", true),
            ("browser_*", "xbrowser_click", false),
            ("*_unsafe", "page_unsafe", true),
            ("*_unsafe", "_unsafe", true),
            ("*_unsafe", "page_unsafe_x", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a.c", "a.c", true),
            ("a.c", "abc", false),
            ("a?c", "abc", false),
            ("a?c", "a?c", true),
            ("*", "", true),
            ("open", "open", true),
            ("open", "reopen", false),
            ("", "open", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    fn offered(allow: Option<&[&str]>, deny: &[&str], name: &str) -> bool {
        let own = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let allow = allow.map(own);
        verdict(allow.as_deref(), &own(deny), FilterMode::Dominds, name) == Verdict::Offered
    }

    #[test]
    fn dom_29_an_allow_list_alone_offers_nothing_else() {
        let tools = ["open", "openAll", "shut", "zoom", "pan"];
        let left: Vec<_> = tools.iter().filter(|t| offered(Some(&["open*"]), &[], t)).collect();
        assert_eq!(left, [&"open", &"openAll"]);
    }

    #[test]
    fn dom_30_no_list_offers_everything() {
        assert!(offered(None, &[], "anything"));
    }

    #[test]
    fn an_empty_allow_list_offers_nothing() {
        assert!(!offered(Some(&[]), &[], "anything"));
        let by = |mode| verdict(Some(&[]), &[], mode, "anything");
        assert_eq!(by(FilterMode::Dominds), Verdict::NotAllowed);
        assert_eq!(by(FilterMode::DenyWins), Verdict::NotAllowed);
    }

    #[test]
    fn dom_31_and_32_beside_a_deny_list_an_allow_list_only_excepts() {
        let seed = |name| offered(Some(&["browser_*"]), &["*_unsafe"], name);
        assert!(seed("browser_unsafe")); // DOM-31
        assert!(!seed("other_unsafe")); // DOM-31
        assert!(seed("zoom")); // DOM-32
    }

    #[test]
    fn deny_wins_where_the_mode_says_so() {
        let (allow, deny) = (["a*".to_string()], ["*z".to_string()]);
        let by = |name| verdict(Some(&allow), &deny, FilterMode::DenyWins, name);
        assert_eq!(by("abz"), Verdict::Denied("*z"));
        assert_eq!(by("ab"), Verdict::Offered);
        assert_eq!(by("b"), Verdict::NotAllowed);
    }
}
