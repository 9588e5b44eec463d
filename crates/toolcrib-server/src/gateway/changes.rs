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

/// Runs as long as the client is there.
pub(super) async fn tell(client: Arc<Client>, mut events: Listening) {
    let mut known: Option<Prints> = None;
    loop {
        let Some(dialog) = client.begun() else {
            // Before its first request it has seen nothing.
            match events.next().await {
                Some(_) => continue,
                None => return,
            }
        };
        let now = Prints::of(&dialog.turn_now());
        if let Some(before) = known.replace(now).filter(|before| *before != now) {
            announce(&client, before, now).await;
        }
        loop {
            match events.next().await.as_deref() {
                Some(Event::Published { .. }) => break,
                Some(Event::Told { method, params: Some(params), .. })
                    if method == method::RESOURCE_UPDATED =>
                {
                    updated(&client, params).await;
                }
                Some(_) => {}
                // Too slow to hear all, or the host ends: what there is now is looked at once more.
                None => events = dialog_events(dialog),
            }
        }
    }
}

fn dialog_events(dialog: &Dialog) -> Listening {
    dialog.host().listen()
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
