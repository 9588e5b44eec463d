//! Everything that changes, as a stream of events. A listener that is too slow is dropped.

use std::collections::HashSet;
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
        let mut known = KnownProblems::of(&front, &who);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = front.closing() => return,
            };
            // The host has ended, or this listener is too slow: it can ask how things are, and listen again.
            let Some(event) = event else { return };
            let Some(event) = heard_by(&front, &who, &mut known, &event) else { continue };
            if !matches!(timeout(SLOWEST, queue.send(event)).await, Ok(Ok(()))) {
                return;
            }
        }
    });
    reply::named_events(told, tasks)
}

/// Ids of the problems that a listener may have been told of, so that it hears when they are solved.
struct KnownProblems(HashSet<String>);

impl KnownProblems {
    fn of(front: &Front, who: &Principal) -> Self {
        let problems = scope::problems(front, &front.visible_to(who));
        KnownProblems(problems.into_iter().map(|problem| problem.id).collect())
    }
}

/// The event as a principal may know it: of its own dialogs, and of servers that it may know of. Everything else is
/// only told to the owner.
fn heard_by(
    front: &Front,
    who: &Principal,
    known: &mut KnownProblems,
    event: &Event,
) -> Option<SseEvent> {
    let is_own = |dialog: &str| {
        let dialog = front.host.dialog_of(dialog);
        who.is_owner || dialog.is_some_and(|dialog| scope::is_of(&dialog, who))
    };
    let visible = front.visible_to(who);
    let part = match event {
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
        // Servers may write of anybody's work.
        Event::Told { .. } if !who.is_owner => return None,
        Event::State { server, .. }
        | Event::Restarted { server, .. }
        | Event::Listed { server, .. }
        | Event::Pinned { server, .. }
        | Event::Leases { server, .. }
            if !visible.includes(server) =>
        {
            return None;
        }
        Event::Leases { server, leases } => {
            let leases = leases.iter().filter(|it| is_own(&it.dialog)).cloned().collect();
            Some(Event::Leases { server: Arc::clone(server), leases })
        }
        Event::Listed { server, changes } => {
            let changes = seen(changes, |change| visible.includes_change(server, change))?;
            Some(Event::Listed { server: Arc::clone(server), changes })
        }
        Event::Pinned { server, tools } => {
            let tools = seen(tools, |tool| visible.includes_tool(server, tool))?;
            Some(Event::Pinned { server: Arc::clone(server), tools })
        }
        Event::Reloaded(reload) => Some(Event::Reloaded(Arc::new(visible.reload(reload)))),
        Event::Problem(problem) => {
            visible.includes_problem(problem).then(|| known.0.insert(problem.id.clone()))?;
            None
        }
        Event::Solved(id) => {
            (known.0.remove(id) || visible.is_unrestricted()).then_some(())?;
            None
        }
        Event::Progress { .. }
        | Event::Asked { .. }
        | Event::Offered { .. }
        | Event::Called { .. }
        | Event::Told { .. }
        | Event::State { .. }
        | Event::Restarted { .. }
        | Event::Published { .. } => None,
    };
    let event = part.as_ref().unwrap_or(event);
    let data = shape::event(event, &|id| who.dialog_name(id)).as_bytes().to_vec();
    Some(SseEvent { event: Some(event.kind().to_owned()), data, id: None })
}

/// The visible part of a list; `None` where nothing of it is visible.
fn seen<T: Clone>(all: &[T], is_visible: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    let seen: Vec<T> = all.iter().filter(|one| is_visible(one)).cloned().collect();
    (all.is_empty() || !seen.is_empty()).then_some(seen)
}
