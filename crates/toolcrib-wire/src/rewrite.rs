//! Rewrites a message in transit: id, name, `_meta` or other members change, all other bytes stay.

use crate::envelope::{Body, PackedSpan};
use crate::id::{Id, ProgressToken};
use crate::json::Json;
use crate::meta::PROGRESS_TOKEN;
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;
use crate::scanner::Span;
use crate::splice::{MemberChange, Splice};

/// Changes to one message, applied together by [`Rewrite::finish`]. Members with known positions (`name`, `uri`,
/// `_meta`, `resultType`) are changed without another scan of the body.
#[derive(Debug)]
pub struct Rewrite<'a> {
    body: &'a Body,
    member: &'static str,
    id: Option<RawJson>,
    changes: Vec<MemberChange>,
    meta: Vec<MemberChange>,
}

impl<'a> Rewrite<'a> {
    pub(crate) fn new(body: &'a Body, member: &'static str) -> Self {
        Rewrite { body, member, id: None, changes: Vec::new(), meta: Vec::new() }
    }

    /// Sets the id of the message.
    pub fn id(mut self, id: &Id) -> Self {
        let mut text = String::new();
        id.write(&mut text);
        self.id = Some(RawJson::from_trusted(text));
        self
    }

    /// Sets `params.name`.
    pub fn name(self, name: &str) -> Self {
        self.set("name", RawJson::string(name))
    }

    /// Sets `params.uri`.
    pub fn uri(self, uri: &str) -> Self {
        self.set("uri", RawJson::string(uri))
    }

    /// Sets a member of the body: of the params, or of a result object.
    pub fn set(mut self, key: &str, value: RawJson) -> Self {
        set_change(&mut self.changes, key, Some(value));
        self
    }

    /// Removes a member of the body.
    pub fn remove(mut self, key: &str) -> Self {
        set_change(&mut self.changes, key, None);
        self
    }

    /// Replaces the complete `_meta`. Changes of single keys apply to the new one.
    pub fn meta(self, meta: RawJson) -> Self {
        self.set("_meta", meta)
    }

    /// Sets one key of `_meta`. Creates `_meta` if it is absent.
    pub fn set_meta(mut self, key: &str, value: RawJson) -> Self {
        set_change(&mut self.meta, key, Some(value));
        self
    }

    /// Removes one key of `_meta`.
    pub fn remove_meta(mut self, key: &str) -> Self {
        set_change(&mut self.meta, key, None);
        self
    }

    /// Sets the progress token in `_meta`.
    pub fn progress_token(self, token: &ProgressToken) -> Self {
        let mut text = String::new();
        token.write(&mut text);
        self.set_meta(PROGRESS_TOKEN, RawJson::from_trusted(text))
    }

    /// Applies all changes and returns the message.
    pub fn finish(mut self) -> RawJson {
        self.fold_meta();
        let mut splice = Splice::new(self.body.message().text());
        let mut front = Vec::new();
        self.splice_id(&mut splice, &mut front);
        self.splice_body(&mut splice, &mut front);
        splice.change_members(0..self.body.message().text().len(), Vec::new(), front);
        RawJson::from_trusted(splice.finish())
    }

    /// Merges changes of single keys into one change of `_meta`, which is small.
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
            None => self.body.meta().map(RawJson::from),
        };
        let sets_any = self.meta.iter().any(|change| change.value.is_some());
        let old = old.filter(|old| old.json().is_object());
        if old.is_some() || sets_any {
            let changes =
                self.meta.iter().map(|change| (change.key.as_str(), change.value.clone()));
            let new = old.unwrap_or_else(|| Json::EMPTY.into()).with_members(changes);
            set_change(&mut self.changes, "_meta", Some(new));
        }
    }

    fn splice_id(&self, splice: &mut Splice<'_>, front: &mut Vec<MemberChange>) {
        match (&self.id, self.body.spans.id) {
            (Some(id), Some(span)) => splice.replace(span.span(), id.text()),
            (Some(id), None) => {
                front.push(MemberChange { key: "id".to_owned(), value: Some(id.clone()) })
            }
            (None, _) => {}
        }
    }

    fn splice_body(&mut self, splice: &mut Splice<'_>, front: &mut Vec<MemberChange>) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        let text = self.body.message().text();
        match self.body.spans.body.map(PackedSpan::span) {
            Some(body) if text[body.clone()].starts_with('{') => {
                self.splice_members(splice, body, changes)
            }
            Some(body) if &text[body.clone()] == "null" => {
                splice.replace(body, object_from_changes(&changes).text())
            }
            Some(_) => {}
            None => front.push(MemberChange {
                key: self.member.to_owned(),
                value: Some(object_from_changes(&changes)),
            }),
        }
    }

    /// Replaces members with a known position in place, and inserts members that are known to be absent at the front.
    /// Only other members need a scan of the body.
    fn splice_members(&self, splice: &mut Splice<'_>, body: Span, changes: Vec<MemberChange>) {
        let (mut others, mut front) = (Vec::new(), Vec::new());
        for change in changes {
            match (self.known_span(&change.key), &change.value) {
                (Some(Some(span)), Some(value)) => splice.replace(span.span(), value.text()),
                (Some(None), _) => front.push(change),
                _ => others.push(change),
            }
        }
        splice.change_members(body, others, front);
    }

    /// Position of a member: unknown (`None`), known to be absent (`Some(None)`), or known.
    fn known_span(&self, key: &str) -> Option<Option<PackedSpan>> {
        let spans = &self.body.spans;
        match (self.member, key) {
            ("params", "name") => Some(spans.name),
            ("params", "uri") => Some(spans.uri),
            ("result", "resultType") => Some(spans.result_type),
            ("params" | "result", "_meta") => Some(spans.meta),
            _ => None,
        }
    }
}

/// Adds a change. The last change of a key wins.
fn set_change(changes: &mut Vec<MemberChange>, key: &str, value: Option<RawJson>) {
    changes.retain(|change| change.key != key);
    changes.push(MemberChange { key: key.to_owned(), value });
}

fn object_from_changes(changes: &[MemberChange]) -> RawJson {
    let set = changes.iter().filter_map(|change| Some((&change.key, change.value.as_ref()?)));
    set.fold(ObjectWriter::new(), |writer, (key, value)| writer.json(key, value.json())).finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::raw;
    use crate::{Message, MessageLimits, Packet, Request, Response, parse};

    fn message(text: &str) -> Message {
        match parse(text, &MessageLimits::default()) {
            Ok(Packet::One(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    fn request(text: &str) -> Request {
        match message(text) {
            Message::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn response(text: &str) -> Response {
        match message(text) {
            Message::Response(response) => response,
            other => panic!("{other:?}"),
        }
    }

    const CALL: &str = r#"{ "jsonrpc":"2.0", "id" : 1 , "method":"m", "params":{ "name" : "a\u0062" ,"x":1.0, "_meta":{ "k":[ ] } } }"#;

    #[test]
    fn rewrite_changes_only_the_requested_members() {
        let call = request(CALL);
        for (rewrite, from, to) in [
            (call.rewrite(), "", ""),
            (call.rewrite().id(&Id::from("9")), ": 1 ,", r#": "9" ,"#),
            (call.rewrite().name("b\"c"), r#""a\u0062""#, r#""b\"c""#),
            (call.rewrite().uri("u:v"), r#"{ "name""#, r#"{"uri":"u:v", "name""#),
            (call.rewrite().meta(raw("{}")), r#"{ "k":[ ] }"#, "{}"),
            (call.rewrite().set_meta("k", raw("7")), "[ ]", "7"),
            (call.rewrite().progress_token(&Id::from(3)), r#"{ "k""#, r#"{"progressToken":3, "k""#),
            (call.rewrite().remove_meta("k"), r#"{ "k":[ ] }"#, "{  }"),
            (call.rewrite().remove_meta("absent"), "", ""),
            (call.rewrite().remove("x"), r#""x":1.0, "#, ""),
            (call.rewrite().remove("_meta"), r#", "_meta":{ "k":[ ] }"#, ""),
            (call.rewrite().set("x", raw("2")), "1.0", "2"),
            (call.rewrite().set("new", raw("2")), r#"{ "name""#, r#"{"new":2, "name""#),
        ] {
            assert_eq!(rewrite.finish().text(), CALL.replacen(from, to, 1));
        }
    }

    #[test]
    fn several_changes_are_applied_at_once() {
        let rewritten = request(CALL)
            .rewrite()
            .id(&Id::from(2))
            .name("z")
            .set("arguments", raw("{}"))
            .remove("x")
            .set_meta("a", raw("1"))
            .remove_meta("k")
            .finish();
        let expected = concat!(
            r#"{ "jsonrpc":"2.0", "id" : 2 , "method":"m", "#,
            r#""params":{"arguments":{}, "name" : "z" ,"_meta":{"a":1  } } }"#
        );
        assert_eq!(rewritten.text(), expected);
    }

    #[test]
    fn missing_params_and_meta_are_created() {
        for (params, expected) in [
            ("", r#"{"params":{"_meta":{"progressToken":1}},"jsonrpc":"2.0","id":1,"method":"m"}"#),
            (
                r#","params":null"#,
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}"#,
            ),
            (
                r#","params":{}"#,
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}"#,
            ),
            (
                r#","params":{"_meta":7}"#,
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}"#,
            ),
        ] {
            let call = request(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#));
            assert_eq!(call.rewrite().progress_token(&Id::from(1)).finish().text(), expected);
        }
    }

    #[test]
    fn responses_can_get_another_id_and_a_result_type() {
        let result = response(r#"{"result":{"content":[]},"jsonrpc":"2.0","id":1}"#);
        let modern = result
            .rewrite()
            .id(&Id::from("c"))
            .set("resultType", RawJson::string("complete"))
            .finish();
        assert_eq!(
            modern.text(),
            r#"{"result":{"resultType":"complete","content":[]},"jsonrpc":"2.0","id":"c"}"#
        );

        let error = response(
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"id":1}}}"#,
        );
        let onward = error.rewrite().id(&Id::from(2)).finish();
        assert_eq!(
            onward.text(),
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"m","data":{"id":1}}}"#
        );

        let list = response(r#"{"jsonrpc":"2.0","id":1,"result":[1]}"#);
        let onward =
            list.rewrite().id(&Id::from(2)).set("resultType", RawJson::string("complete")).finish();
        assert_eq!(onward.text(), r#"{"jsonrpc":"2.0","id":2,"result":[1]}"#);
    }

    /// Generates JSON text with odd spacing.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("null".to_owned()),
            Just(" 1.50e+2".to_owned()),
            Just("\"a\\u00e9 \\\" } ,\"".to_owned()),
            Just("[ 1,[ ] , {\"id\":3,\"name\":\"n\"}]".to_owned()),
            Just("{ \"_meta\" : {\"progressToken\":0} }".to_owned()),
        ]
    }

    /// Generates requests with shuffled members.
    fn calls() -> impl Strategy<Value = String> {
        let params = prop::collection::btree_map("[a-c]|name|uri|\\PC{0,3}", value(), 0..5);
        let meta =
            prop::option::of(prop::collection::btree_map("[a-c]|progressToken", value(), 0..3));
        let object = |members: Vec<String>| format!("{{{}}}", members.join(" ,"));
        let member =
            |(key, value): (String, String)| format!("{} :{value}", RawJson::string(&key).text());
        (params, meta, any::<u64>()).prop_map(move |(params, meta, order)| {
            let mut params: Vec<String> = params.into_iter().map(member).collect();
            if let Some(meta) = meta {
                let meta = object(meta.into_iter().map(member).collect());
                params.insert(order as usize % (params.len() + 1), format!("\"_meta\": {meta}"));
            }
            let mut all: Vec<String> =
                [r#""jsonrpc":"2.0""#, r#""id": 1"#, r#""method":"m""#].map(str::to_owned).into();
            all.insert(order as usize % 4, format!("\"params\":{}", object(params)));
            object(all)
        })
    }

    /// Returns all members of `json` except the changed ones.
    fn others<'a>(json: Json<'a>, changed: &[&str]) -> Vec<(String, &'a str)> {
        let members = json.members().map(|(key, value)| (key.into_owned(), value.text()));
        members.filter(|(key, _)| !changed.contains(&key.as_str())).collect()
    }

    proptest! {
        #[test]
        fn rewrite_keeps_every_other_member_byte_for_byte(text in calls()) {
            let old = request(&text);
            let onward = old.rewrite().id(&Id::from("new")).name("n2").progress_token(&Id::from(77)).finish();
            let new = request(onward.text());
            prop_assert_eq!(&new.id, &Id::from("new"));
            prop_assert_eq!(new.params.name(), Some("n2".into()));
            prop_assert_eq!(new.params.progress_token(), Some(Id::from(77)));
            let root = ["id", "params"];
            prop_assert_eq!(others(new.params.message().json(), &root), others(old.params.message().json(), &root));
            let body = ["name", "_meta"];
            prop_assert_eq!(others(new.params.json(), &body), others(old.params.json(), &body));
            let meta = |request: &Request| request.params.meta().map(RawJson::from);
            let (new, old) = (meta(&new).unwrap(), meta(&old).unwrap_or(Json::EMPTY.into()));
            prop_assert_eq!(others(new.json(), &[PROGRESS_TOKEN]), others(old.json(), &[PROGRESS_TOKEN]));
        }

        #[test]
        fn setting_and_removing_a_member_restores_the_others(text in calls()) {
            let old = request(&text);
            let with = old.rewrite().set("zz", raw("1")).set_meta("yy", raw("2")).finish();
            let without = request(with.text()).rewrite().remove("zz").remove_meta("yy").finish();
            let without = request(without.text());
            prop_assert_eq!(others(without.params.json(), &["_meta"]), others(old.params.json(), &["_meta"]));
            let old_meta = old.params.meta().unwrap_or(Json::EMPTY);
            prop_assert_eq!(others(without.params.meta().unwrap(), &[]), others(old_meta, &[]));
        }

        #[test]
        fn empty_rewrite_changes_nothing(text in calls()) {
            let call = request(&text);
            prop_assert_eq!(call.rewrite().finish(), call.params.message().clone());
        }
    }
}
