//! Filters over a server's items, by patterns on the server's own names.

use super::policy::{FilterMode, ToolFilter};

/// The decision of a filter about one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterVerdict<'a> {
    Offered,
    /// This pattern of the deny list matched.
    Denied(&'a str),
    /// No pattern of the allow list matched.
    NotAllowed,
}

impl ToolFilter {
    /// Decides about a tool by its own name.
    pub fn verdict(&self, name: &str) -> FilterVerdict<'_> {
        verdict(self.allow.as_deref(), &self.deny, self.mode, name)
    }
}

/// Decides about a name. An empty allow list allows nothing; without an allow list everything is allowed.
pub fn verdict<'a>(
    allow: Option<&[String]>,
    deny: &'a [String],
    mode: FilterMode,
    name: &str,
) -> FilterVerdict<'a> {
    let allowed =
        allow.is_some_and(|allow| allow.iter().any(|pattern| matches_pattern(pattern, name)));
    let denied = deny.iter().find(|pattern| matches_pattern(pattern, name));
    match (denied, mode) {
        (Some(pattern), FilterMode::DenyWins) => FilterVerdict::Denied(pattern),
        (Some(pattern), FilterMode::Dominds) if !allowed => FilterVerdict::Denied(pattern),
        // With a deny list, the allow list only makes exceptions from it.
        (_, FilterMode::Dominds) if !deny.is_empty() => FilterVerdict::Offered,
        _ if allow.is_none() || allowed => FilterVerdict::Offered,
        _ => FilterVerdict::NotAllowed,
    }
}

/// Returns whether a pattern matches the whole name. `*` matches any text, including none; no other character is
/// special.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // The first occurrence of each middle part leaves the most text for the following parts.
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
    fn dom_27_only_star_is_a_wildcard() {
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
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} on {name}");
        }
    }

    fn offered(allow: Option<&[&str]>, deny: &[&str], name: &str) -> bool {
        let own = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let allow = allow.map(own);
        verdict(allow.as_deref(), &own(deny), FilterMode::Dominds, name) == FilterVerdict::Offered
    }

    #[test]
    fn dom_29_allow_list_alone_excludes_all_other_tools() {
        let tools = ["open", "openAll", "shut", "zoom", "pan"];
        let left: Vec<_> = tools.iter().filter(|t| offered(Some(&["open*"]), &[], t)).collect();
        assert_eq!(left, [&"open", &"openAll"]);
    }

    #[test]
    fn dom_30_tools_are_offered_without_lists() {
        assert!(offered(None, &[], "anything"));
    }

    #[test]
    fn empty_allow_list_excludes_all_tools() {
        assert!(!offered(Some(&[]), &[], "anything"));
        let by = |mode| verdict(Some(&[]), &[], mode, "anything");
        assert_eq!(by(FilterMode::Dominds), FilterVerdict::NotAllowed);
        assert_eq!(by(FilterMode::DenyWins), FilterVerdict::NotAllowed);
    }

    #[test]
    fn dom_31_and_32_allow_list_is_an_exception_to_the_deny_list() {
        let seed = |name| offered(Some(&["browser_*"]), &["*_unsafe"], name);
        assert!(seed("browser_unsafe")); // DOM-31
        assert!(!seed("other_unsafe")); // DOM-31
        assert!(seed("zoom")); // DOM-32
    }

    #[test]
    fn deny_wins_mode_overrides_the_allow_list() {
        let (allow, deny) = (["a*".to_string()], ["*z".to_string()]);
        let by = |name| verdict(Some(&allow), &deny, FilterMode::DenyWins, name);
        assert_eq!(by("abz"), FilterVerdict::Denied("*z"));
        assert_eq!(by("ab"), FilterVerdict::Offered);
        assert_eq!(by("b"), FilterVerdict::NotAllowed);
    }
}
