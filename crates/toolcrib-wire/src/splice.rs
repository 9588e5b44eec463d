//! Changing members of an object inside a text while every other byte stays.

use crate::json::{Json, Walk};
use crate::raw::Raw;
use crate::scan::Span;
use crate::text::quote;

/// What becomes of one member: a new value, or nothing.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) value: Option<Raw>,
}

impl Raw {
    /// The object with members set, or removed where the value is none. A new member goes to the front;
    /// what is not an object is returned as it is.
    pub fn with_members<'k>(
        &self,
        changes: impl IntoIterator<Item = (&'k str, Option<Raw>)>,
    ) -> Raw {
        let changes = changes.into_iter().map(|(key, value)| Change { key: key.to_owned(), value });
        let mut splice = Splice::new(self.text());
        splice.change_members(0..self.text().len(), changes.collect(), Vec::new());
        Raw::trusted(splice.finish())
    }

    /// The object with a member that it is known not to have, at the front; nothing is walked. What is not an object is
    /// returned as it is.
    pub fn with_new(&self, key: &str, value: Json<'_>) -> Raw {
        let mut out = String::with_capacity(self.text().len() + key.len() + value.text().len() + 8);
        push_with(self.json(), key, &mut out, |out| out.push_str(value.text()));
        Raw::trusted(out)
    }
}

/// Writes an object with a new member at its front, whose value is written by whoever knows it; what is no object is
/// written as it is.
pub(crate) fn push_with(
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

/// Replacements to be made in one text. They must not overlap.
#[derive(Debug)]
pub(crate) struct Splice<'a> {
    text: &'a str,
    cuts: Vec<(Span, String)>,
}

impl<'a> Splice<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Splice { text, cuts: Vec::new() }
    }

    pub(crate) fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.cuts.push((span, text.into()));
    }

    /// Changes members of the object at `object`. `front` are members that are known to be absent: where
    /// there is nothing else to do, the object need not be walked.
    pub(crate) fn change_members(
        &mut self,
        object: Span,
        changes: Vec<Change>,
        mut front: Vec<Change>,
    ) {
        if !self.text[object.clone()].starts_with('{') {
            return;
        }
        let mut is_empty = self.text[object.start + 1..].trim_start().starts_with('}');
        if !changes.is_empty() {
            let members = members(self.text, object.clone());
            is_empty = self.remove(&members, &changes);
            front.extend(
                changes.into_iter().filter(|change| !self.replace_values(&members, change)),
            );
        }
        self.insert(object.start + 1, &front, is_empty);
    }

    pub(crate) fn finish(mut self) -> String {
        // An insertion stands before a removal at the same place.
        self.cuts.sort_by_key(|(span, _)| (span.start, span.end));
        let grown: usize = self.cuts.iter().map(|(_, text)| text.len()).sum();
        let mut out = String::with_capacity(self.text.len() + grown);
        let mut done = 0;
        for (span, text) in &self.cuts {
            out.push_str(&self.text[done..span.start]);
            out.push_str(text);
            done = span.end;
        }
        out.push_str(&self.text[done..]);
        out
    }

    /// Puts a new value wherever the key stands; false if it stands nowhere.
    fn replace_values(&mut self, members: &[Member], change: &Change) -> bool {
        let mut found = false;
        for member in members.iter().filter(|member| member.key == change.key) {
            if let Some(value) = &change.value {
                self.replace(member.value.clone(), value.text());
            }
            found = true;
        }
        found
    }

    /// Takes members out with the comma that belongs to them; true if none is left. A member goes
    /// together with what leads to the next one; the last ones go together with what leads to them.
    fn remove(&mut self, members: &[Member], changes: &[Change]) -> bool {
        let goes = |member: &Member| {
            changes.iter().any(|change| change.value.is_none() && change.key == member.key)
        };
        let kept = members.iter().rposition(|member| !goes(member)).map_or(0, |last| last + 1);
        for pair in members[..kept].windows(2).filter(|pair| goes(&pair[0])) {
            self.replace(pair[0].start..pair[1].start, "");
        }
        if let (Some(first), Some(last)) = (members.get(kept), members.last()) {
            let start = if kept == 0 { first.start } else { members[kept - 1].value.end };
            self.replace(start..last.value.end, "");
        }
        kept == 0
    }

    fn insert(&mut self, at: usize, front: &[Change], is_empty: bool) {
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
            self.replace(at..at, text);
        }
    }
}

/// One member of an object and where it stands.
struct Member {
    key: String,
    start: usize,
    value: Span,
}

fn members(text: &str, object: Span) -> Vec<Member> {
    let base = object.start;
    let inner = &text[object];
    let mut walk = Walk::new(inner, b'{');
    let mut members = Vec::new();
    while let Some((key, value)) = walk.next_member() {
        members.push(Member {
            key: key.read(inner).into_owned(),
            start: base + key.span.start,
            value: base + value.start..base + value.end,
        });
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    fn changed(text: &str, changes: &[(&str, Option<&str>)]) -> String {
        let changes = changes.iter().map(|(key, value)| (*key, value.map(raw)));
        raw(text).with_members(changes).text().to_owned()
    }

    #[test]
    fn a_member_that_is_not_there_goes_to_the_front() {
        let with = |text: &str| raw(text).with_new("k", Json::NULL).text().to_owned();
        assert_eq!(with("{}"), r#"{"k":null}"#);
        assert_eq!(with("{ }"), r#"{"k":null }"#);
        assert_eq!(with(r#"{ "a" : 1.0 }"#), r#"{"k":null, "a" : 1.0 }"#);
        assert_eq!(with("[1]"), "[1]");
    }

    #[test]
    fn members_are_set_added_and_removed_and_the_rest_keeps_its_bytes() {
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
