//! Change notifications of the modern era: asked for by `subscriptions/listen`, marked with its id.

use crate::build;
use crate::id::Id;
use crate::json::Json;
use crate::meta::{RequestMeta, SUBSCRIPTION_ID};
use crate::method;
use crate::object::ObjectWriter;
use crate::raw::Raw;

/// Which changes a client wants to hear of, or a server agreed to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionFilter {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    /// Resources whose updates are wanted one by one.
    pub uris: Vec<String>,
}

impl SubscriptionFilter {
    /// Reads the `notifications` of a request or of its acknowledgement.
    pub fn read(filter: Json<'_>) -> Self {
        let [tools, prompts, resources, uris] = filter.pick([
            "toolsListChanged",
            "promptsListChanged",
            "resourcesListChanged",
            "resourceSubscriptions",
        ]);
        let [tools, prompts, resources] =
            [tools, prompts, resources].map(|flag| flag.and_then(Json::as_bool).unwrap_or(false));
        let uris = uris
            .unwrap_or(Json::NULL)
            .items()
            .filter_map(Json::as_str)
            .map(|uri| uri.into_owned())
            .collect();
        SubscriptionFilter { tools, prompts, resources, uris }
    }

    pub fn to_raw(&self) -> Raw {
        let flags = [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ];
        let wanted = flags.into_iter().filter(|(_, wanted)| *wanted);
        let writer = wanted.fold(ObjectWriter::new(), |writer, (key, _)| writer.bool(key, true));
        if self.uris.is_empty() {
            return writer.finish();
        }
        writer.strings("resourceSubscriptions", self.uris.iter().map(String::as_str)).finish()
    }

    /// The params of `subscriptions/listen`.
    pub fn listen_params(&self, meta: &RequestMeta) -> Raw {
        let writer = ObjectWriter::new().json("_meta", meta.to_raw(None).json());
        writer.json("notifications", self.to_raw().json()).finish()
    }

    /// The first message on a subscription: what the server will tell.
    pub fn acknowledged(&self, subscription: &Id) -> Raw {
        let params = ObjectWriter::new()
            .json("_meta", subscription_meta(subscription).json())
            .json("notifications", self.to_raw().json());
        build::notification(method::SUBSCRIPTION_ACKNOWLEDGED, Some(params.finish().json()))
    }
}

/// The `_meta` of everything that a server sends on a subscription.
pub fn subscription_meta(subscription: &Id) -> Raw {
    ObjectWriter::new().id(SUBSCRIPTION_ID, subscription).finish()
}

/// Which subscription a notification belongs to, by its `_meta`.
pub fn subscription_of(meta: Json<'_>) -> Option<Id> {
    Id::read(meta.get(SUBSCRIPTION_ID)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_back_and_says_only_what_is_wanted() {
        let filter =
            SubscriptionFilter { tools: true, uris: vec!["a:b".to_owned()], ..Default::default() };
        let raw = filter.to_raw();
        assert_eq!(raw.text(), r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#);
        assert_eq!(SubscriptionFilter::read(raw.json()), filter);
        assert_eq!(SubscriptionFilter::read(Json::EMPTY), SubscriptionFilter::default());
        assert_eq!(SubscriptionFilter::default().to_raw().text(), "{}");
    }

    #[test]
    fn what_comes_on_a_subscription_carries_its_id() {
        let filter = SubscriptionFilter { prompts: true, ..Default::default() };
        let message = filter.acknowledged(&Id::from(4));
        let expected = concat!(
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"#,
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"notifications":{"promptsListChanged":true}}}"#
        );
        assert_eq!(message.text(), expected);
        let meta = message.json().get("params").and_then(|params| params.get("_meta")).unwrap();
        assert_eq!(subscription_of(meta), Some(Id::from(4)));
        assert_eq!(subscription_of(Json::EMPTY), None);
    }
}
