//! Everything that changes, as a stream of events. A listener that is too slow is dropped.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib::Event;
use toolcrib_wire::SseEvent;

use super::asked::Who;
use super::{scope, shape};
use crate::front::{Front, reply};
use crate::identity::Principal;

/// Events that wait for a listener besides those that the host keeps for it.
const QUEUE: usize = 64;

/// A listener that takes nothing for so long is dropped.
const SLOWEST: Duration = Duration::from_secs(30);

pub(crate) async fn listen(State(front): State<Arc<Front>>, Who(who): Who) -> Response {
    let mut events = front.host.listen();
    let (queue, told) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = front.closing() => return,
            };
            // The host has ended, or this listener is too slow: it can ask how things are, and listen again.
            let Some(event) = event else { return };
            let Some(event) = heard_by(&front, &who, &event) else { continue };
            if !matches!(timeout(SLOWEST, queue.send(event)).await, Ok(Ok(()))) {
                return;
            }
        }
    });
    reply::named_events(told, tasks)
}

/// What somebody is told of an event: what others do is only the owner's to know.
fn heard_by(front: &Front, who: &Principal, event: &Event) -> Option<SseEvent> {
    let is_own = |dialog: &str| {
        let dialog = front.host.dialog_of(dialog);
        who.is_owner || dialog.is_some_and(|dialog| scope::is_of(&dialog, who))
    };
    let own_leases;
    let event = match event {
        Event::Progress { dialog, .. }
        | Event::Asked { dialog, .. }
        | Event::Offered { dialog }
            if !is_own(dialog) =>
        {
            return None;
        }
        Event::Called { record, .. } if !record.dialog.as_deref().is_some_and(is_own) => {
            return None;
        }
        // What servers write of their work, they may write of anybody's.
        Event::Told { .. } if !who.is_owner => return None,
        Event::Leases { server, leases } => {
            let leases: Vec<_> = leases.iter().filter(|it| is_own(&it.dialog)).cloned().collect();
            own_leases = Event::Leases { server: Arc::clone(server), leases };
            &own_leases
        }
        event => event,
    };
    let data = shape::event(event, &|id| who.dialog_name(id)).as_bytes().to_vec();
    Some(SseEvent { event: Some(event.kind().to_owned()), data, id: None })
}
