//! Performs actions: the shared state, and the way from a request to its response.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use toolcrib_server::message_stream::malformed_error;
use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::{
    Id, MalformedMessage, Message, ObjectWriter, RawJson, Request, RpcError, build, method,
};

use super::caller::Caller;
use super::client_session::ClientSession;
use super::request_action::{RequestAction, TimedCall};
use super::respond::respond;
use super::state::{CallCounts, State};
use super::tools;

/// The demo server, shared by all clients.
#[derive(Debug)]
pub(crate) struct DemoServer {
    state: Mutex<State>,
    events: watch::Sender<ServerEvents>,
}

/// Events that subscribers wait for.
#[derive(Clone, Copy, Debug, Default)]
struct ServerEvents {
    call_counts: CallCounts,
    closing: bool,
}

/// Counts a running tool call until it is dropped.
struct RunningCallGuard<'a>(&'a DemoServer);

/// Result of handling a message.
#[derive(Debug)]
pub(crate) enum MessageOutcome {
    None,
    Reply(RawJson),
    Run(Id, RequestAction),
}

impl DemoServer {
    pub(crate) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), events: watch::Sender::default() }
    }

    /// Handles a message on a transport without headers.
    pub(crate) fn handle_message(
        &self,
        session: &ClientSession,
        message: Result<Message, MalformedMessage>,
    ) -> MessageOutcome {
        match message {
            Ok(Message::Request(request)) => {
                let caller = session.caller(&request);
                let action = match caller {
                    Ok(caller) => self.handle_request(&request, &caller, session),
                    Err(error) => RequestAction::Done(Err(error)),
                };
                match action {
                    RequestAction::Done(response) => {
                        MessageOutcome::Reply(response_message(&request.id, response))
                    }
                    action => MessageOutcome::Run(request.id, action),
                }
            }
            Ok(Message::Notification(notification)) => {
                if let (method::CANCELLED, Ok(cancelled)) =
                    (notification.method.as_str(), Cancelled::read(notification.params.json()))
                {
                    session.cancel(&cancelled.request);
                }
                MessageOutcome::None
            }
            Ok(Message::Response(response)) => {
                session.deliver_response(response);
                MessageOutcome::None
            }
            Err(malformed) => {
                malformed_error(&malformed).map_or(MessageOutcome::None, MessageOutcome::Reply)
            }
        }
    }

    pub(crate) fn handle_request(
        &self,
        request: &Request,
        caller: &Caller,
        session: &ClientSession,
    ) -> RequestAction {
        let action = self.update_state(|state| {
            session.update_session(|session| respond(request, caller, session, state))
        });
        match action {
            RequestAction::Wait(_) | RequestAction::Elicit(_) | RequestAction::Listen(_)
                if !session.has_room() =>
            {
                RequestAction::Done(Err(RpcError::internal("too many requests at once")))
            }
            action => action,
        }
    }

    /// Performs an action and sends the response. Send errors are ignored, because the client may be gone.
    pub(crate) async fn run_action(
        self: Arc<Self>,
        session: Arc<ClientSession>,
        id: Id,
        action: RequestAction,
        out: mpsc::Sender<RawJson>,
    ) {
        let action_result = async {
            match action {
                RequestAction::Done(response) => response,
                RequestAction::Wait(slow) => {
                    let _running = RunningCallGuard::new(&self);
                    run_timed_call(&slow, &out).await
                }
                RequestAction::Elicit(question) => {
                    let _running = RunningCallGuard::new(&self);
                    tools::greeting(session.send_elicitation(&question, &out).await)
                }
                RequestAction::Listen(filter) => self.send_updates(&id, &filter, &out).await,
            }
        };
        let response = tokio::select! {
            // A subscription has a better response to the shutdown than an error, so it is polled first.
            biased;
            response = action_result => response,
            () = self.closed() => Err(RpcError::internal("the server is shutting down")),
        };
        let _ = out.send(response_message(&id, response)).await;
    }

    /// Ends all running requests, each with a response.
    pub(crate) fn close(&self) {
        self.events.send_modify(|events| events.closing = true);
    }

    pub(crate) async fn closed(&self) {
        // `self` owns the sender, so the channel is open.
        let _ = self.events.subscribe().wait_for(|events| events.closing).await;
    }

    /// Changes the state and notifies subscribers of a visible change.
    fn update_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut state);
        self.events.send_if_modified(|events| {
            let changed = events.call_counts != state.call_counts;
            events.call_counts = state.call_counts;
            changed
        });
        outcome
    }

    /// Sends changes until the server closes, then returns the result.
    async fn send_updates(
        &self,
        id: &Id,
        filter: &SubscriptionFilter,
        out: &mpsc::Sender<RawJson>,
    ) -> Result<RawJson, RpcError> {
        let mut events = self.events.subscribe();
        let _ = out.send(filter.acknowledgement(id)).await;
        let meta = subscription_meta(id);
        let mut closing = events.borrow().closing;
        while !closing {
            if events.changed().await.is_err() {
                break;
            }
            closing = events.borrow_and_update().closing;
            for uri in filter.uris.iter().filter(|_| !closing) {
                let params = ObjectWriter::new().json("_meta", meta.json()).string("uri", uri);
                let params = params.finish();
                let update = build::notification(method::RESOURCE_UPDATED, Some(params.json()));
                let _ = out.send(update).await;
            }
        }
        let result =
            ObjectWriter::new().string("resultType", "complete").json("_meta", meta.json());
        Ok(result.finish())
    }
}

impl<'a> RunningCallGuard<'a> {
    fn new(server: &'a DemoServer) -> Self {
        server.update_state(|state| state.call_counts.running += 1);
        Self(server)
    }
}

impl Drop for RunningCallGuard<'_> {
    fn drop(&mut self) {
        self.0.update_state(|state| state.call_counts.running -= 1);
    }
}

async fn run_timed_call(
    slow: &TimedCall,
    out: &mpsc::Sender<RawJson>,
) -> Result<RawJson, RpcError> {
    for step in 1..=slow.steps {
        sleep(slow.pause()).await;
        if let Some(progress) = slow.progress(step) {
            let _ = out.send(progress).await;
        }
    }
    slow.result()
}

pub(crate) fn response_message(id: &Id, response: Result<RawJson, RpcError>) -> RawJson {
    match response {
        Ok(result) => build::response(id, result),
        Err(error) => build::error(Some(id), &error),
    }
}
