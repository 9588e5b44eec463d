//! Telling a client that what it sees has changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use toolcrib::host::{Event, Listening};
use toolcrib::{Dialog, Turn};
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::{ObjectWriter, Raw, build, method};

use super::client::Client;
use super::lists::List;

/// What tells one state of each list from the next.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Prints {
    tools: u64,
    prompts: u64,
    resources: u64,
}

/// Runs as long as the client and the host are there. What it saw before its first request is nothing.
pub(super) async fn tell(client: Arc<Client>) {
    let dialog = client.begins().await;
    let mut events = dialog.host().listen();
    let mut known = Prints::of(&dialog.turn_now());
    while changed(&client, dialog, &mut events).await {
        let now = Prints::of(&dialog.turn_now());
        announce(&client, std::mem::replace(&mut known, now), now).await;
    }
}

/// Waits until something else may be offered; false where the host has ended.
async fn changed(client: &Client, dialog: &Dialog, events: &mut Listening) -> bool {
    loop {
        match events.next().await.as_deref() {
            Some(Event::Published { .. }) => return true,
            Some(Event::Told { method, params: Some(params), .. })
                if method == method::RESOURCE_UPDATED =>
            {
                updated(client, params).await;
            }
            Some(_) => {}
            // Too slow to hear all, and then anything may have changed; or the host has ended.
            None => {
                *events = dialog.host().listen();
                return !events.is_over();
            }
        }
    }
}

async fn announce(client: &Client, before: Prints, now: Prints) {
    let changed = [
        (before.tools != now.tools, method::TOOLS_CHANGED),
        (before.prompts != now.prompts, method::PROMPTS_CHANGED),
        (before.resources != now.resources, method::RESOURCES_CHANGED),
    ];
    for (_, method) in changed.into_iter().filter(|(changed, _)| *changed) {
        if client.opened().is_some() {
            send(client, build::notification(method, None)).await;
        }
        for (id, filter) in client.listeners() {
            if wants(&filter, method) {
                let meta = subscription_meta(&id);
                let params = ObjectWriter::new().json("_meta", meta.json()).finish();
                send(client, build::notification(method, Some(params.json()))).await;
            }
        }
    }
}

fn wants(filter: &SubscriptionFilter, method: &str) -> bool {
    match method {
        method::TOOLS_CHANGED => filter.tools,
        method::PROMPTS_CHANGED => filter.prompts,
        _ => filter.resources,
    }
}

async fn updated(client: &Client, params: &Raw) {
    let uri = params.json().get("uri").and_then(|uri| uri.as_str());
    if uri.is_some_and(|uri| client.is_subscribed(&uri)) {
        send(client, build::notification(method::RESOURCE_UPDATED, Some(params.json()))).await;
    }
}

async fn send(client: &Client, message: Raw) {
    // A client that has gone ends this elsewhere.
    let _ = client.out.send(message).await;
}

impl Prints {
    fn of(turn: &Turn) -> Self {
        let print = |lists: &[List]| {
            let mut hasher = DefaultHasher::new();
            lists.iter().for_each(|list| list.result(turn).text().hash(&mut hasher));
            hasher.finish()
        };
        Prints {
            tools: print(&[List::Tools]),
            prompts: print(&[List::Prompts]),
            resources: print(&[List::Resources, List::Templates]),
        }
    }
}
