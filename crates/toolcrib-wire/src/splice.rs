//! Changes members of an object inside a text and keeps all other bytes.

use crate::json::{ContainerIter, Json};
use crate::quoting::quote;
use crate::raw_json::RawJson;
use crate::scanner::Span;

/// Change of one member: a new value, or its removal.
#[derive(Debug, Clone)]
struct MemberChange {
    key: String,
    value: Option<RawJson>,
}

impl RawJson {
    /// Sets members of the object, or removes those without a value. New members go to the front. A value that is not
    /// an object is returned unchanged.
    pub fn with_members<'k>(
        &self,
        changes: impl IntoIterator<Item = (&'k str, Option<RawJson>)>,
    ) -> RawJson {
        let changes =
            changes.into_iter().map(|(key, value)| MemberChange { key: key.to_owned(), value });
        let mut splice = Splice::new(self.text());
        splice.change_members(changes.collect());
        RawJson::from_trusted(splice.finish())
    }

    /// Adds a member at the front without a scan. The object must not have the member. A value that is not an object
    /// is returned unchanged.
    pub fn with_new_member(&self, key: &str, value: Json<'_>) -> RawJson {
        let mut out = String::with_capacity(self.text().len() + key.len() + value.text().len() + 8);
        push_with_member(self.json(), key, &mut out, |out| out.push_str(value.text()));
        RawJson::from_trusted(out)
    }
}

/// Writes an object with a new member at its front. `value` writes the member's value. A value that is not an object
/// is written unchanged.
pub(crate) fn push_with_member(
    object: Json<'_>,
    key: &str,
    out: &mut String,
    value: impl FnOnce(&mut String),
) {
    let Some(members) = object.text().strip_prefix('{') else { return out.push_str(object.text()) };
    out.push('{');
    quote(key, out);
    out.push(':');
    value(out);
    if !members.trim_start().starts_with('}') {
        out.push(',');
    }
    out.push_str(members);
}

/// Replacements in one text. They must not overlap.
#[derive(Debug)]
pub(crate) struct Splice<'a> {
    text: &'a str,
    replacements: Vec<(Span, String)>,
}

impl<'a> Splice<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Splice { text, replacements: Vec::new() }
    }

    pub(crate) fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.replacements.push((span, text.into()));
    }

    /// Changes members of the object. A text that is not an object stays.
    fn change_members(&mut self, mut changes: Vec<MemberChange>) {
        if changes.is_empty() || !self.text.starts_with('{') {
            return;
        }
        let members = member_spans(self.text);
        let is_empty = self.remove_members(&members, &changes);
        changes.retain(|change| !self.replace_values(&members, change));
        self.insert_front(&changes, is_empty);
    }

    pub(crate) fn finish(mut self) -> String {
        // An insertion comes before a removal at the same position.
        self.replacements.sort_by_key(|(span, _)| (span.start, span.end));
        let grown: usize = self.replacements.iter().map(|(_, text)| text.len()).sum();
        let mut out = String::with_capacity(self.text.len() + grown);
        let mut done = 0;
        for (span, text) in &self.replacements {
            out.push_str(&self.text[done..span.start]);
            out.push_str(text);
            done = span.end;
        }
        out.push_str(&self.text[done..]);
        out
    }

    /// Replaces every value of the key. Returns false if the key is absent.
    fn replace_values(&mut self, members: &[MemberSpan], change: &MemberChange) -> bool {
        let mut found = false;
        for member in members.iter().filter(|member| member.key == change.key) {
            if let Some(value) = &change.value {
                self.replace(member.value.clone(), value.text());
            }
            found = true;
        }
        found
    }

    /// Removes members with their commas. Returns whether none is left. Each removal extends to the next member;
    /// trailing members are removed together with the text before them.
    fn remove_members(&mut self, members: &[MemberSpan], changes: &[MemberChange]) -> bool {
        let is_removed = |member: &MemberSpan| {
            changes.iter().any(|change| change.value.is_none() && change.key == member.key)
        };
        let kept_count =
            members.iter().rposition(|member| !is_removed(member)).map_or(0, |last| last + 1);
        for pair in members[..kept_count].windows(2).filter(|pair| is_removed(&pair[0])) {
            self.replace(pair[0].start..pair[1].start, "");
        }
        if let (Some(first), Some(last)) = (members.get(kept_count), members.last()) {
            let start =
                if kept_count == 0 { first.start } else { members[kept_count - 1].value.end };
            self.replace(start..last.value.end, "");
        }
        kept_count == 0
    }

    fn insert_front(&mut self, front: &[MemberChange], is_empty: bool) {
        let mut text = String::new();
        for (key, value) in
            front.iter().filter_map(|change| Some((&change.key, change.value.as_ref()?)))
        {
            if !text.is_empty() {
                text.push(',');
            }
            quote(key, &mut text);
            text.push(':');
            text.push_str(value.text());
        }
        if !text.is_empty() {
            text.push_str(if is_empty { "" } else { "," });
            self.replace(1..1, text);
        }
    }
}

/// Position of one member of an object.
struct MemberSpan {
    key: String,
    start: usize,
    value: Span,
}

fn member_spans(text: &str) -> Vec<MemberSpan> {
    let mut walk = ContainerIter::new(text, b'{');
    let mut members = Vec::new();
    while let Some((key, value)) = walk.next_member() {
        members.push(MemberSpan { key: key.read(text).into_owned(), start: key.span.start, value });
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    fn changed(text: &str, changes: &[(&str, Option<&str>)]) -> String {
        let changes = changes.iter().map(|(key, value)| (*key, value.map(raw)));
        raw(text).with_members(changes).text().to_owned()
    }

    #[test]
    fn new_member_goes_to_the_front() {
        let with = |text: &str| raw(text).with_new_member("k", Json::NULL).text().to_owned();
        assert_eq!(with("{}"), r#"{"k":null}"#);
        assert_eq!(with("{ }"), r#"{"k":null }"#);
        assert_eq!(with(r#"{ "a" : 1.0 }"#), r#"{"k":null, "a" : 1.0 }"#);
        assert_eq!(with("[1]"), "[1]");
    }

    #[test]
    fn members_are_set_added_and_removed_without_touching_the_rest() {
        for (text, changes, expected) in [
            (r#"{ "a" : 1.0 , "b":2 }"#, &[("a", Some("9"))][..], r#"{ "a" : 9 , "b":2 }"#),
            (r#"{ "a" : 1.0 }"#, &[("n", Some("[]"))], r#"{"n":[], "a" : 1.0 }"#),
            (r#"{ }"#, &[("n", Some("1")), ("m", Some("2"))], r#"{"n":1,"m":2 }"#),
            (r#"{"a":1, "b":2, "c":3}"#, &[("a", None)], r#"{"b":2, "c":3}"#),
            (r#"{"a":1, "b":2, "c":3}"#, &[("b", None)], r#"{"a":1, "c":3}"#),
            (r#"{"a":1, "b":2, "c":3}"#, &[("c", None)], r#"{"a":1, "b":2}"#),
            (r#"{"a":1, "b":2, "c":3}"#, &[("b", None), ("c", None)], r#"{"a":1}"#),
            (r#"{"a":1, "b":2, "c":3}"#, &[("a", None), ("c", None)], r#"{"b":2}"#),
            (r#"{"a":1 }"#, &[("a", None)], r#"{ }"#),
            (r#"{"a":1}"#, &[("a", None), ("b", Some("2"))], r#"{"b":2}"#),
            (
                r#"{"a":1,"c":3}"#,
                &[("a", None), ("c", Some("4")), ("b", Some("2"))],
                r#"{"b":2,"c":4}"#,
            ),
            (r#"{"a":1,"\u0061":2}"#, &[("a", Some("3"))], r#"{"a":3,"\u0061":3}"#),
            (r#"{"a":1}"#, &[("x", None)], r#"{"a":1}"#),
            (r#"[1]"#, &[("x", Some("1"))], r#"[1]"#),
        ] {
            assert_eq!(changed(text, changes), expected, "{text} {changes:?}");
        }
    }
}
