//! Telling a client what has changed, on a stream that it has open for that.

use std::sync::Arc;

use toolcrib::Dialog;
use toolcrib::host::{Event, Listening};
use toolcrib_wire::notice::LogMessage;
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::{Id, ObjectWriter, Raw, build, method};

use super::client::Client;
use super::lists::{List, Prints};
use super::outlet::Outlet;

/// What somebody wants to be told.
#[derive(Clone, Debug)]
pub(super) enum Wants {
    /// What the legacy era tells unasked: all lists, log messages, and the resources that are subscribed to.
    All,
    /// What a request of the modern era asks for, under its id.
    Of(Id, SubscriptionFilter),
}

/// One who listens.
struct Ear<'a> {
    client: &'a Client,
    dialog: &'a Dialog,
    wants: Wants,
    out: Outlet,
}

/// Tells until the client or the host has ended. What it saw before its first request is nothing.
pub(super) async fn tell(client: Arc<Client>, wants: Wants, out: Outlet) {
    let dialog = client.begins().await;
    let mut events = dialog.host().listen();
    let ear = Ear { client: &client, dialog, wants, out };
    let mut known = client.seen();
    loop {
        ear.announce(&mut known).await;
        if !ear.changed(&mut events).await {
            return;
        }
    }
}

impl Ear<'_> {
    /// Waits until something else may be offered; false where the host has ended.
    async fn changed(&self, events: &mut Listening) -> bool {
        loop {
            match events.next().await.as_deref() {
                Some(Event::Published { .. }) => return true,
                Some(Event::Offered { dialog }) if **dialog == *self.dialog.id() => return true,
                Some(Event::Told { dialog, method, params, in_call: false, .. }) => {
                    self.heed(dialog.as_deref(), method, params.as_ref()).await;
                }
                Some(_) => {}
                // Too slow to hear all, and then anything may have changed; or the host has ended.
                None => {
                    *events = self.dialog.host().listen();
                    return !events.is_over();
                }
            }
        }
    }

    /// What differs from what the client knows is told, and it knows that then.
    async fn announce(&self, known: &mut Prints) {
        let turn = self.dialog.turn_now();
        let (lists, server) = (&self.client.gateway.lists, self.client.who.server.as_ref());
        let mut told = None;
        for list in List::ALL {
            let now = lists.get(&turn, server, list).print;
            let is_new = known.get(list).is_some_and(|before| before != now);
            known.set(list, now);
            let notification = list.notification();
            // Resources and their templates are one to the client.
            if is_new && self.wants_change(list) && told.replace(notification) != Some(notification)
            {
                self.send(notification, None).await;
            }
        }
    }

    /// What a server told besides: in whose session, and what.
    async fn heed(&self, dialog: Option<&str>, called: &str, params: Option<&Raw>) {
        let is_own = dialog == Some(self.dialog.id());
        // Nobody's session is everybody's who sees the server.
        let is_for_all = dialog.is_none() || is_own;
        let is_wanted = match called {
            method::TOOLS_CHANGED => is_for_all && self.wants_change(List::Tools),
            method::PROMPTS_CHANGED => is_for_all && self.wants_change(List::Prompts),
            method::RESOURCES_CHANGED => is_for_all && self.wants_change(List::Resources),
            method::RESOURCE_UPDATED => self.wants_resource(params),
            method::LOG_MESSAGE => is_own && self.wants_log(params),
            method::ELICITATION_COMPLETE => is_own,
            _ => false,
        };
        if is_wanted {
            self.send(called, params).await;
        }
    }

    fn wants_change(&self, list: List) -> bool {
        match (&self.wants, list) {
            (Wants::All, _) => true,
            (Wants::Of(_, filter), List::Tools) => filter.tools,
            (Wants::Of(_, filter), List::Prompts) => filter.prompts,
            (Wants::Of(_, filter), List::Resources | List::Templates) => filter.resources,
        }
    }

    fn wants_resource(&self, params: Option<&Raw>) -> bool {
        let Some(uri) = params.and_then(|params| params.json().get("uri")?.as_str()) else {
            return false;
        };
        match &self.wants {
            Wants::All => self.client.is_subscribed(&uri),
            Wants::Of(_, filter) => filter.uris.iter().any(|wanted| *wanted == uri),
        }
    }

    fn wants_log(&self, params: Option<&Raw>) -> bool {
        let level = params.and_then(|params| LogMessage::read(params.json()).level);
        matches!(self.wants, Wants::All)
            && self.client.log_level().is_none_or(|least| level >= Some(least))
    }

    async fn send(&self, method: &str, params: Option<&Raw>) {
        let params = match &self.wants {
            Wants::All => params.cloned(),
            Wants::Of(id, _) => {
                let params = params.cloned().unwrap_or_else(|| ObjectWriter::new().finish());
                let meta = params.get("_meta").unwrap_or_else(|| ObjectWriter::new().finish());
                let own = subscription_meta(id);
                let own = own.json().members().map(|(key, value)| (key, Raw::from(value)));
                let own: Vec<_> = own.collect();
                let own = own.iter().map(|(key, value)| (&**key, Some(value.clone())));
                Some(params.with_members([("_meta", Some(meta.with_members(own)))]))
            }
        };
        // A client that has gone ends this elsewhere.
        let _ = self.out.send(build::notification(method, params.as_ref().map(Raw::json))).await;
    }
}
