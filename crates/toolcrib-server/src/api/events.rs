//! Streams host events to a client of the control API.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib::HostEvent;
use toolcrib_wire::SseEvent;

use super::extract::Authenticated;
use super::{schema, scope};
use crate::front::{Front, response};
use crate::identity::Principal;

/// Capacity of a client's event queue, in addition to the host's queue.
const QUEUE_CAPACITY: usize = 64;

/// A client that accepts no event for this long is disconnected.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn stream(
    State(front): State<Arc<Front>>,
    Authenticated(principal): Authenticated,
) -> Response {
    let mut events = front.host.subscribe();
    let (queue, queued) = mpsc::channel(QUEUE_CAPACITY);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut known = KnownProblems::visible_to(&front, &principal);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = front.wait_closing() => return,
            };
            // Either the host has closed or this client is too slow. The client can read the state and listen again.
            let Some(event) = event else { return };
            let Some(event) = event_for(&front, &principal, &mut known, &event) else { continue };
            if !matches!(timeout(SEND_TIMEOUT, queue.send(event)).await, Ok(Ok(()))) {
                return;
            }
        }
    });
    response::named_events(queued, tasks)
}

/// Ids of the problems that a client may know, so that it learns when they are solved.
struct KnownProblems(HashSet<String>);

impl KnownProblems {
    fn visible_to(front: &Front, principal: &Principal) -> Self {
        let problems = scope::visible_problems(front, &front.visibility_for(principal));
        KnownProblems(problems.into_iter().map(|problem| problem.id).collect())
    }
}

/// The event as this principal may see it: events of its own dialogs and of visible servers. Only the owner sees all
/// other events.
fn event_for(
    front: &Front,
    principal: &Principal,
    known: &mut KnownProblems,
    event: &HostEvent,
) -> Option<SseEvent> {
    let is_own = |dialog: &str| {
        let dialog = front.host.find_dialog(dialog);
        principal.is_owner || dialog.is_some_and(|dialog| scope::may_use_dialog(&dialog, principal))
    };
    let visible = front.visibility_for(principal);
    let part = match event {
        HostEvent::CallProgress { dialog, .. }
        | HostEvent::ClientRequest { dialog, .. }
        | HostEvent::DialogListsChanged { dialog }
            if !is_own(dialog) =>
        {
            return None;
        }
        HostEvent::CallEnded { record, .. } if !record.dialog.as_deref().is_some_and(is_own) => {
            return None;
        }
        // Notifications of servers may contain data of any principal.
        HostEvent::ServerNotification { .. } if !principal.is_owner => return None,
        HostEvent::StateChanged { server, .. }
        | HostEvent::Restarted { server, .. }
        | HostEvent::ListsChanged { server, .. }
        | HostEvent::ToolsPinned { server, .. }
        | HostEvent::LeasesChanged { server, .. }
            if !visible.includes(server) =>
        {
            return None;
        }
        HostEvent::LeasesChanged { server, leases } => {
            let leases = leases.iter().filter(|it| is_own(&it.dialog)).cloned().collect();
            Some(HostEvent::LeasesChanged { server: Arc::clone(server), leases })
        }
        HostEvent::ListsChanged { server, changes } => {
            let changes = visible_part(changes, |change| visible.includes_change(server, change))?;
            Some(HostEvent::ListsChanged { server: Arc::clone(server), changes })
        }
        HostEvent::ToolsPinned { server, tools } => {
            let tools = visible_part(tools, |tool| visible.includes_tool(server, tool))?;
            Some(HostEvent::ToolsPinned { server: Arc::clone(server), tools })
        }
        HostEvent::Reloaded(reload) => {
            Some(HostEvent::Reloaded(Arc::new(visible.filter_reload(reload))))
        }
        HostEvent::Problem(problem) => {
            visible.includes_problem(problem).then(|| known.0.insert(problem.id.clone()))?;
            None
        }
        HostEvent::ProblemSolved(id) => {
            (known.0.remove(id) || visible.is_unrestricted()).then_some(())?;
            None
        }
        HostEvent::CallProgress { .. }
        | HostEvent::ClientRequest { .. }
        | HostEvent::DialogListsChanged { .. }
        | HostEvent::CallEnded { .. }
        | HostEvent::ServerNotification { .. }
        | HostEvent::StateChanged { .. }
        | HostEvent::Restarted { .. }
        | HostEvent::SnapshotPublished { .. } => None,
    };
    let event = part.as_ref().unwrap_or(event);
    let data = schema::event_json(event, &|id| principal.dialog_name(id)).as_bytes().to_vec();
    Some(SseEvent { event: Some(event.kind().to_owned()), data, id: None })
}

/// The visible part of a list; `None` if no item is visible.
fn visible_part<T: Clone>(all: &[T], is_visible: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    let visible: Vec<T> = all.iter().filter(|one| is_visible(one)).cloned().collect();
    (all.is_empty() || !visible.is_empty()).then_some(visible)
}
