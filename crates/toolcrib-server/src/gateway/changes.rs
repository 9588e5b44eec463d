//! Notifies clients of list changes, resource updates and log messages.

use std::sync::Arc;

use toolcrib::{Dialog, EventListener, HostEvent};
use toolcrib_wire::notification::LogMessage;
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::{Id, ObjectWriter, RawJson, build, method};

use super::client::Client;
use super::list_cache::{ListFingerprints, ListKind};
use super::response_channel::ResponseSender;

/// Changes that a client wants to be notified of.
#[derive(Clone, Debug)]
pub(super) enum ChangeFilter {
    /// Legacy era, without subscription: all lists, log messages, and subscribed resources.
    All,
    /// Modern era: the filter of a `subscriptions/listen` request and its id.
    Subscribed(Id, SubscriptionFilter),
}

/// Forwards changes to one client.
struct ChangeListener<'a> {
    client: &'a Client,
    dialog: &'a Dialog,
    filter: ChangeFilter,
    out: ResponseSender,
}

/// Forwards changes until the client or the host ends. Changes before the client's first request are not sent.
pub(super) async fn forward_changes(
    client: Arc<Client>,
    filter: ChangeFilter,
    out: ResponseSender,
) {
    let dialog = client.wait_for_dialog().await;
    let mut events = dialog.host().subscribe();
    let listener = ChangeListener { client: &client, dialog, filter, out };
    let mut listed = client.listed_fingerprints();
    loop {
        listener.announce_lists(&mut listed).await;
        if !listener.wait_change(&mut events).await {
            return;
        }
    }
}

impl ChangeListener<'_> {
    /// Waits until the lists may have changed. Returns `false` when the host has closed.
    async fn wait_change(&self, events: &mut EventListener) -> bool {
        loop {
            match events.next().await.as_deref() {
                Some(HostEvent::SnapshotPublished { .. }) => return true,
                Some(HostEvent::DialogListsChanged { dialog }) if **dialog == *self.dialog.id() => {
                    return true;
                }
                Some(HostEvent::ServerNotification {
                    dialog,
                    method,
                    params,
                    in_call: false,
                    ..
                }) => {
                    self.forward_notification(dialog.as_deref(), method, params.as_ref()).await;
                }
                Some(_) => {}
                // The listener has missed events, so anything may have changed, or the host has closed.
                None => {
                    *events = self.dialog.host().subscribe();
                    return !events.is_closed();
                }
            }
        }
    }

    /// Notifies the client of lists that differ from their last known state, and records the new state.
    async fn announce_lists(&self, listed: &mut ListFingerprints) {
        let turn = self.dialog.turn_now();
        let (lists, server) = (&self.client.gateway.lists, self.client.identity.server.as_ref());
        let mut announced = None;
        for list in ListKind::ALL {
            let now = lists.get(&turn, server, list).fingerprint;
            let is_new = listed.get(list).is_some_and(|before| before != now);
            listed.set(list, now);
            let notification = list.notification();
            // Resources and templates share one notification.
            if is_new
                && self.wants_change(list)
                && announced.replace(notification) != Some(notification)
            {
                self.send(notification, None).await;
            }
        }
    }

    /// Forwards a notification of a server, if this client wants it. `dialog` is the dialog of the session.
    async fn forward_notification(
        &self,
        dialog: Option<&str>,
        called: &str,
        params: Option<&RawJson>,
    ) {
        let is_own = dialog == Some(self.dialog.id());
        // A notification of a shared session concerns all clients that see the server.
        let is_for_all = dialog.is_none() || is_own;
        let is_wanted = match called {
            method::TOOLS_CHANGED => is_for_all && self.wants_change(ListKind::Tools),
            method::PROMPTS_CHANGED => is_for_all && self.wants_change(ListKind::Prompts),
            method::RESOURCES_CHANGED => is_for_all && self.wants_change(ListKind::Resources),
            method::RESOURCE_UPDATED => self.wants_resource(params),
            method::LOG_MESSAGE => is_own && self.wants_log(params),
            method::ELICITATION_COMPLETE => is_own,
            _ => false,
        };
        if is_wanted {
            self.send(called, params).await;
        }
    }

    fn wants_change(&self, list: ListKind) -> bool {
        match (&self.filter, list) {
            (ChangeFilter::All, _) => true,
            (ChangeFilter::Subscribed(_, filter), ListKind::Tools) => filter.tools,
            (ChangeFilter::Subscribed(_, filter), ListKind::Prompts) => filter.prompts,
            (ChangeFilter::Subscribed(_, filter), ListKind::Resources | ListKind::Templates) => {
                filter.resources
            }
        }
    }

    fn wants_resource(&self, params: Option<&RawJson>) -> bool {
        let Some(uri) = params.and_then(|params| params.json().get("uri")?.as_str()) else {
            return false;
        };
        match &self.filter {
            ChangeFilter::All => self.client.is_subscribed(&uri),
            ChangeFilter::Subscribed(_, filter) => filter.uris.iter().any(|wanted| *wanted == uri),
        }
    }

    fn wants_log(&self, params: Option<&RawJson>) -> bool {
        let level = params.and_then(|params| LogMessage::read(params.json()).level);
        matches!(self.filter, ChangeFilter::All)
            && self.client.log_level().is_none_or(|minimum| level >= Some(minimum))
    }

    async fn send(&self, method: &str, params: Option<&RawJson>) {
        let params = match &self.filter {
            ChangeFilter::All => params.cloned(),
            ChangeFilter::Subscribed(id, _) => {
                let params = params.cloned().unwrap_or_else(|| ObjectWriter::new().finish());
                let meta = params.get("_meta").unwrap_or_else(|| ObjectWriter::new().finish());
                let own = subscription_meta(id);
                let own = own.json().members().map(|(key, value)| (key, RawJson::from(value)));
                let own: Vec<_> = own.collect();
                let own = own.iter().map(|(key, value)| (&**key, Some(value.clone())));
                Some(params.with_members([("_meta", Some(meta.with_members(own)))]))
            }
        };
        // A failure means that the client has disconnected, which ends this task elsewhere.
        let _ =
            self.out.send(build::notification(method, params.as_ref().map(RawJson::json))).await;
    }
}
