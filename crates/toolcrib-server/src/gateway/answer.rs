//! What a request is answered with.

use std::sync::Arc;

use toolcrib::host::Subscription;
use toolcrib::shape::{CallError, ErrorKind};
use toolcrib_wire::handshake::{DiscoverResult, Initialize, InitializeResult};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::{Cache, LogLevel, ServerCapabilities};
use toolcrib_wire::{Body, Id, Json, ObjectWriter, Raw, Request, RpcError, code, method};

use super::call::Said;
use super::caller::{Caller, Opened};
use super::changes::{self, Wants};
use super::client::Client;
use super::lists::List;
use super::outlet::{Course, Outlet};
use super::parked::Parked;
use crate::version::spoken;

impl Client {
    /// The answer to a request. What belongs to it comes before, on its course.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: &Request,
        course: &Course,
    ) -> Result<Raw, RpcError> {
        let caller = Caller::of(request, self.opened())?;
        caller.check_method(&request.method)?;
        match request.method.as_str() {
            method::TOOLS_CALL => self.call(&caller, &request.params, course).await,
            // Boxed, so that calls do not carry the room for everything else.
            _ => Box::pin(self.answer_other(&caller, request, course)).await,
        }
    }

    async fn answer_other(
        self: &Arc<Self>,
        caller: &Caller,
        request: &Request,
        course: &Course,
    ) -> Result<Raw, RpcError> {
        let params = &request.params;
        let called = request.method.as_str();
        if let Some(list) = List::of(called) {
            no_cursor(params)?;
            return self.list(caller, list).await;
        }
        if is_of_document(called) {
            // Whoever had another host before knows what is offered, and asks for it without a list of this one.
            self.settle().await;
        }
        match called {
            method::INITIALIZE => self.initialize(params),
            method::DISCOVER => Ok(self.discover()),
            method::PING => Ok(self.seal(caller, &empty(), false)),
            method::RESOURCES_READ => self.read(caller, params, course).await,
            method::PROMPTS_GET => self.prompt(caller, params, course).await,
            method::RESOURCES_SUBSCRIBE => self.follow(caller, params).await,
            method::RESOURCES_UNSUBSCRIBE => {
                if let Some(subscription) = self.unsubscribe(&uri(params)?) {
                    subscription.end().await;
                }
                Ok(empty())
            }
            method::SUBSCRIPTIONS_LISTEN => {
                self.dialog(caller).await?;
                self.hear_changes(&request.id, params, &course.out).await;
                Ok(self.seal(caller, &empty(), false))
            }
            method::COMPLETE => self.complete(caller, params, course).await,
            method::SET_LOG_LEVEL => {
                let level = params.get("level").and_then(|level| LogLevel::read(&level.as_str()?));
                let level = level.ok_or_else(|| RpcError::invalid_params("`level` is none"))?;
                self.dialog(caller).await?.set_log_level(level);
                self.set_log_level(level);
                Ok(empty())
            }
            other => Err(RpcError::method_not_found(other)),
        }
    }

    pub(super) fn seal(&self, caller: &Caller, result: &Raw, is_list: bool) -> Raw {
        caller.seal(result, &self.gateway.server, is_list)
    }

    /// A result as it is, or a question of the modern era with a state that only this client can use.
    pub(super) fn finish(&self, caller: &Caller, said: &Said) -> Result<Raw, RpcError> {
        let result = match said {
            Said::Result(result) => return Ok(self.seal(caller, result, false)),
            Said::Keepable(result) => return Ok(self.seal(caller, result, true)),
            Said::Question(result) => result,
        };
        let Some(state) = result.get("requestState") else {
            return Ok(self.seal(caller, result, false));
        };
        let own = self.park(Parked::State(state))?;
        let result = result.with_members([("requestState", Some(Raw::string(&own)))]);
        Ok(self.seal(caller, &result, false))
    }

    async fn list(&self, caller: &Caller, list: List) -> Result<Raw, RpcError> {
        let dialog = self.dialog(caller).await?;
        self.settle().await;
        let turn = dialog.turn().await;
        let listed = self.gateway.lists.get(&turn, self.who.server.as_ref(), list);
        self.saw(list, &listed);
        Ok(self.seal(caller, &listed.result, true))
    }

    fn initialize(&self, params: &Body) -> Result<Raw, RpcError> {
        let params = params.raw().unwrap_or_else(empty);
        let opening =
            Initialize::read(params).map_err(|flaw| RpcError::invalid_params(flaw.to_string()))?;
        let opened = Opened::new(&opening);
        let version = opened.version.clone();
        self.open(opened);
        Ok(InitializeResult::build(&version, &capabilities(), &self.gateway.server, None))
    }

    fn discover(&self) -> Raw {
        let (versions, cache) = (spoken(), Cache::default());
        DiscoverResult::build(&versions, &capabilities(), &self.gateway.server, None, cache)
    }

    /// Tells of changes until the client, the gateway or whoever asked ends it.
    async fn hear_changes(self: &Arc<Self>, id: &Id, params: &Body, out: &Outlet) {
        let wanted = SubscriptionFilter::read(params.get("notifications").unwrap_or(Json::EMPTY));
        let (agreed, _followed) = self.follow_all(wanted).await;
        // A client that has gone ends this elsewhere.
        let _ = out.send(agreed.acknowledged(id)).await;
        let wants = Wants::Of(id.clone(), agreed);
        tokio::select! {
            () = changes::tell(Arc::clone(self), wants, out.clone()) => {}
            () = self.gone() => {}
            () = self.gateway.closing() => {}
        }
    }

    /// What can be listened to, and the listening to resources for as long as it is held.
    async fn follow_all(
        &self,
        wanted: SubscriptionFilter,
    ) -> (SubscriptionFilter, Vec<Subscription>) {
        let Some(dialog) = self.begun().filter(|_| !wanted.uris.is_empty()) else {
            return (SubscriptionFilter { uris: Vec::new(), ..wanted }, Vec::new());
        };
        self.settle().await;
        let turn = dialog.turn().await;
        let (mut uris, mut followed) = (Vec::new(), Vec::new());
        for uri in wanted.uris {
            if let Ok(subscription) = turn.subscribe(&uri, self.who.server.as_deref()).await {
                uris.push(uri);
                followed.push(subscription);
            }
        }
        (SubscriptionFilter { uris, ..wanted }, followed)
    }
}

/// A failure as the protocol has it: what the server said itself goes through unchanged.
pub(super) fn refusal(error: &CallError) -> RpcError {
    if let Some(own) = error.rpc() {
        return own.clone();
    }
    let number = match error.kind() {
        ErrorKind::UnknownTool if error.code() == "unknown_resource" => code::RESOURCE_NOT_FOUND,
        ErrorKind::UnknownTool | ErrorKind::Denied | ErrorKind::InvalidArguments => {
            code::INVALID_PARAMS
        }
        _ => code::INTERNAL_ERROR,
    };
    RpcError::new(number, error.chain())
}

/// Whether it names a resource or a prompt that some list has.
fn is_of_document(called: &str) -> bool {
    use method::{COMPLETE, PROMPTS_GET, RESOURCES_READ, RESOURCES_SUBSCRIBE};
    matches!(called, COMPLETE | PROMPTS_GET | RESOURCES_READ | RESOURCES_SUBSCRIBE)
}

fn capabilities() -> ServerCapabilities {
    let changes = ObjectWriter::new().bool("listChanged", true).finish();
    let resources = ObjectWriter::new().bool("listChanged", true).bool("subscribe", true).finish();
    ServerCapabilities::new(
        ObjectWriter::new()
            .json("tools", changes.json())
            .json("prompts", changes.json())
            .json("resources", resources.json())
            .json("completions", Json::EMPTY)
            .json("logging", Json::EMPTY)
            .finish(),
    )
}

/// All lists are on one page, so no cursor was ever given out.
fn no_cursor(params: &Body) -> Result<(), RpcError> {
    match params.get("cursor").filter(|cursor| !cursor.is_null()) {
        Some(_) => Err(RpcError::invalid_params("there is no such page")),
        None => Ok(()),
    }
}

pub(super) fn uri(params: &Body) -> Result<String, RpcError> {
    let uri = params.uri().ok_or_else(|| RpcError::invalid_params("`uri` is missing"))?;
    Ok(uri.into_owned())
}

pub(super) fn unknown_state() -> RpcError {
    RpcError::invalid_params("`requestState` is not known here: it was used before, or is too old")
}

pub(super) fn empty() -> Raw {
    ObjectWriter::new().finish()
}
