//! Change notifications of the modern era: `subscriptions/listen` and the subscription id.

use crate::build;
use crate::id::Id;
use crate::json::Json;
use crate::meta::{RequestMeta, SUBSCRIPTION_ID};
use crate::method;
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;

/// The changes that a client requests, or that a server agrees to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionFilter {
    /// Changes of the tool list.
    pub tools: bool,
    /// Changes of the prompt list.
    pub prompts: bool,
    /// Changes of the resource list.
    pub resources: bool,
    /// Resources whose updates are requested individually.
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

    /// Writes the filter as JSON.
    pub fn to_raw(&self) -> RawJson {
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

    /// Builds the params of `subscriptions/listen`.
    pub fn listen_params(&self, meta: &RequestMeta) -> RawJson {
        let writer = ObjectWriter::new().json("_meta", meta.to_raw(None).json());
        writer.json("notifications", self.to_raw().json()).finish()
    }

    /// Builds the first message on a subscription, which lists the changes that the server will send.
    pub fn acknowledgement(&self, subscription: &Id) -> RawJson {
        let params = ObjectWriter::new()
            .json("_meta", subscription_meta(subscription).json())
            .json("notifications", self.to_raw().json());
        build::notification(method::SUBSCRIPTION_ACKNOWLEDGED, Some(params.finish().json()))
    }
}

/// Builds the `_meta` of every message that a server sends on a subscription.
pub fn subscription_meta(subscription: &Id) -> RawJson {
    ObjectWriter::new().id(SUBSCRIPTION_ID, subscription).finish()
}

/// Returns the subscription of a notification from its `_meta`.
pub fn subscription_id_from_meta(meta: Json<'_>) -> Option<Id> {
    Id::read(meta.get(SUBSCRIPTION_ID)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_round_trips_and_writes_only_true_flags() {
        let filter =
            SubscriptionFilter { tools: true, uris: vec!["a:b".to_owned()], ..Default::default() };
        let raw = filter.to_raw();
        assert_eq!(raw.text(), r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#);
        assert_eq!(SubscriptionFilter::read(raw.json()), filter);
        assert_eq!(SubscriptionFilter::read(Json::EMPTY), SubscriptionFilter::default());
        assert_eq!(SubscriptionFilter::default().to_raw().text(), "{}");
    }

    #[test]
    fn acknowledgement_carries_the_subscription_id() {
        let filter = SubscriptionFilter { prompts: true, ..Default::default() };
        let message = filter.acknowledgement(&Id::from(4));
        let expected = concat!(
            r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"#,
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"notifications":{"promptsListChanged":true}}}"#
        );
        assert_eq!(message.text(), expected);
        let meta = message.json().get("params").and_then(|params| params.get("_meta")).unwrap();
        assert_eq!(subscription_id_from_meta(meta), Some(Id::from(4)));
        assert_eq!(subscription_id_from_meta(Json::EMPTY), None);
    }
}
