//! A message on its way through: another id, name or `_meta`, and every other byte as it was.

use crate::envelope::Body;
use crate::id::{Id, ProgressToken};
use crate::json::Json;
use crate::meta::PROGRESS_TOKEN;
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::scan::Span;
use crate::splice::{Change, Splice};

/// Changes to one message, made all at once by [`Rewrite::finish`]. Members of the body that routing
/// knows (`name`, `uri`, `_meta`, `resultType`) are changed without walking the body again.
#[derive(Debug)]
pub struct Rewrite<'a> {
    body: &'a Body,
    member: &'static str,
    id: Option<Raw>,
    changes: Vec<Change>,
    meta: Vec<Change>,
}

impl<'a> Rewrite<'a> {
    pub(crate) fn new(body: &'a Body, member: &'static str) -> Self {
        Rewrite {
            body,
            member,
            id: None,
            changes: Vec::new(),
            meta: Vec::new(),
        }
    }

    pub fn id(mut self, id: &Id) -> Self {
        let mut text = String::new();
        id.write(&mut text);
        self.id = Some(Raw::trusted(text));
        self
    }

    pub fn name(self, name: &str) -> Self {
        self.set("name", Raw::string(name))
    }

    pub fn uri(self, uri: &str) -> Self {
        self.set("uri", Raw::string(uri))
    }

    /// Sets a member of the body: of the params, or of a result that is an object.
    pub fn set(mut self, key: &str, value: Raw) -> Self {
        change(&mut self.changes, key, Some(value));
        self
    }

    pub fn remove(mut self, key: &str) -> Self {
        change(&mut self.changes, key, None);
        self
    }

    /// Replaces `_meta` as a whole. Single keys given too are then set in the new one.
    pub fn meta(self, meta: Raw) -> Self {
        self.set("_meta", meta)
    }

    /// Sets one key of `_meta`, which is made if it is absent.
    pub fn set_meta(mut self, key: &str, value: Raw) -> Self {
        change(&mut self.meta, key, Some(value));
        self
    }

    pub fn remove_meta(mut self, key: &str) -> Self {
        change(&mut self.meta, key, None);
        self
    }

    pub fn progress_token(self, token: &ProgressToken) -> Self {
        let mut text = String::new();
        token.write(&mut text);
        self.set_meta(PROGRESS_TOKEN, Raw::trusted(text))
    }

    pub fn finish(mut self) -> Raw {
        self.fold_meta();
        let mut splice = Splice::new(self.body.message().text());
        let mut front = Vec::new();
        self.splice_id(&mut splice, &mut front);
        self.splice_body(&mut splice, &mut front);
        splice.change_members(0..self.body.message().text().len(), Vec::new(), front);
        Raw::trusted(splice.finish())
    }

    /// Turns changes of single keys into one of `_meta` itself, which is small.
    fn fold_meta(&mut self) {
        if self.meta.is_empty() {
            return;
        }
        let given = self
            .changes
            .iter()
            .find(|change| change.key == "_meta")
            .map(|change| change.value.clone());
        let old = match given {
            Some(given) => given,
            None => self.body.meta().map(Raw::from),
        };
        let sets_any = self.meta.iter().any(|change| change.value.is_some());
        let old = old.filter(|old| old.json().is_object());
        if old.is_some() || sets_any {
            let changes = self
                .meta
                .iter()
                .map(|change| (change.key.as_str(), change.value.clone()));
            let new = old
                .unwrap_or_else(|| Json::EMPTY.into())
                .with_members(changes);
            change(&mut self.changes, "_meta", Some(new));
        }
    }

    fn splice_id(&self, splice: &mut Splice<'_>, front: &mut Vec<Change>) {
        match (&self.id, &self.body.places.id) {
            (Some(id), Some(place)) => splice.replace(place.clone(), id.text()),
            (Some(id), None) => front.push(Change {
                key: "id".to_owned(),
                value: Some(id.clone()),
            }),
            (None, _) => {}
        }
    }

    fn splice_body(&mut self, splice: &mut Splice<'_>, front: &mut Vec<Change>) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        let text = self.body.message().text();
        match self.body.places.body.clone() {
            Some(body) if text[body.clone()].starts_with('{') => {
                self.splice_members(splice, body, changes)
            }
            Some(body) if &text[body.clone()] == "null" => {
                splice.replace(body, object(&changes).text())
            }
            Some(_) => {}
            None => front.push(Change {
                key: self.member.to_owned(),
                value: Some(object(&changes)),
            }),
        }
    }

    /// A member whose place is known is changed there, one known to be absent is put in front, and only
    /// for the others the body is walked.
    fn splice_members(&self, splice: &mut Splice<'_>, body: Span, changes: Vec<Change>) {
        let (mut others, mut front) = (Vec::new(), Vec::new());
        for change in changes {
            match (self.place(&change.key), &change.value) {
                (Some(Some(place)), Some(value)) => splice.replace(place, value.text()),
                (Some(None), _) => front.push(change),
                _ => others.push(change),
            }
        }
        splice.change_members(body, others, front);
    }

    /// Where a member stands: not known, known to be absent, or here.
    fn place(&self, key: &str) -> Option<Option<Span>> {
        let places = &self.body.places;
        match (self.member, key) {
            ("params", "name") => Some(places.name.clone()),
            ("params", "uri") => Some(places.uri.clone()),
            ("result", "resultType") => Some(places.result_type.clone()),
            ("params" | "result", "_meta") => Some(places.meta.clone()),
            _ => None,
        }
    }
}

/// The last change of a key counts.
fn change(changes: &mut Vec<Change>, key: &str, value: Option<Raw>) {
    changes.retain(|change| change.key != key);
    changes.push(Change {
        key: key.to_owned(),
        value,
    });
}

fn object(changes: &[Change]) -> Raw {
    let set = changes
        .iter()
        .filter_map(|change| Some((&change.key, change.value.as_ref()?)));
    set.fold(ObjectWriter::new(), |writer, (key, value)| {
        writer.json(key, value.json())
    })
    .finish()
}
