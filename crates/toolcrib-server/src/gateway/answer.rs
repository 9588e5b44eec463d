//! What a request is answered with.

use std::sync::Arc;

use tokio::sync::mpsc;
use toolcrib::Turn;
use toolcrib::host::{Rounds, Subscription};
use toolcrib::shape::{CallError, ErrorKind};
use toolcrib_wire::handshake::{DiscoverResult, Initialize, InitializeResult};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::{Cache, LogLevel, ServerCapabilities};
use toolcrib_wire::{Body, Era, Id, Json, ObjectWriter, Raw, Request, RpcError, code, method};

use super::caller::{Caller, Opened};
use super::changes::{self, Wants};
use super::client::Client;
use super::lists::List;
use super::parked::Parked;
use crate::version::spoken;

impl Client {
    /// The answer to a request. What belongs to it comes on `out` before.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: &Request,
        out: &mpsc::Sender<Raw>,
    ) -> Result<Raw, RpcError> {
        let caller = Caller::of(request, self.opened().as_ref())?;
        caller.check_method(&request.method)?;
        match request.method.as_str() {
            method::TOOLS_CALL => self.call(&caller, &request.params, out).await,
            // Boxed, so that calls do not carry the room for everything else.
            _ => Box::pin(self.answer_other(&caller, request, out)).await,
        }
    }

    async fn answer_other(
        self: &Arc<Self>,
        caller: &Caller,
        request: &Request,
        out: &mpsc::Sender<Raw>,
    ) -> Result<Raw, RpcError> {
        let params = &request.params;
        let called = request.method.as_str();
        if let Some(list) = List::of(called) {
            no_cursor(params)?;
            return self.list(caller, list).await;
        }
        match called {
            method::INITIALIZE => self.initialize(params),
            method::DISCOVER => Ok(self.discover()),
            method::PING => Ok(self.seal(caller, &empty(), false)),
            method::RESOURCES_READ => self.read(caller, params).await,
            method::PROMPTS_GET => self.prompt(caller, params).await,
            method::RESOURCES_SUBSCRIBE => self.follow(caller, params).await,
            method::RESOURCES_UNSUBSCRIBE => {
                if let Some(subscription) = self.unsubscribe(&uri(params)?) {
                    subscription.end().await;
                }
                Ok(empty())
            }
            method::SUBSCRIPTIONS_LISTEN => {
                self.dialog(caller).await?;
                self.hear_changes(&request.id, params, out).await;
                Ok(self.seal(caller, &empty(), false))
            }
            method::COMPLETE => self.complete(caller, params).await,
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
    pub(super) fn finish(
        &self,
        caller: &Caller,
        result: &Raw,
        is_list: bool,
    ) -> Result<Raw, RpcError> {
        let kind = result.json().get("resultType").and_then(|kind| kind.as_str());
        let state =
            result.get("requestState").filter(|_| kind.as_deref() == Some("input_required"));
        let Some(state) = state else { return Ok(self.seal(caller, result, is_list)) };
        let own = self.parking.park(Parked::State(state))?;
        let result = result.with_members([("requestState", Some(Raw::string(&own)))]);
        Ok(self.seal(caller, &result, false))
    }

    /// How the client is asked, with what it says to the questions of the round before.
    fn rounds(&self, caller: &Caller, params: &Body) -> Result<Option<Rounds>, RpcError> {
        let state = params.get("requestState").and_then(|state| state.as_str());
        let state = match state.map(|state| self.parking.take(&state)) {
            Some(Some(Parked::State(state))) => Some(state),
            Some(_) => return Err(unknown_state()),
            None => None,
        };
        Ok(caller.rounds(params, state))
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

    async fn read(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let uri = uri(params)?;
        let rounds = self.rounds(caller, params)?;
        let turn = self.dialog(caller).await?.turn().await;
        let server = self.who.server.as_deref();
        let read = turn.read_by(&uri, server, rounds.as_ref()).await;
        self.finish(caller, &read.map_err(|error| unread(caller, &uri, &error))?, true)
    }

    async fn prompt(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
        let arguments = params.get("arguments").map_or_else(empty, Raw::from);
        let rounds = self.rounds(caller, params)?;
        let turn = self.dialog(caller).await?.turn().await;
        let name = self.prompt_name(&turn, &name)?;
        let got = turn.prompt_by(&name, arguments, rounds.as_ref()).await;
        self.finish(caller, &got.map_err(|error| refusal(&error))?, false)
    }

    /// The name that the host knows a prompt by.
    fn prompt_name(&self, turn: &Turn, name: &str) -> Result<String, RpcError> {
        let Some(server) = &self.who.server else { return Ok(name.to_owned()) };
        let unknown = || RpcError::invalid_params(format!("prompt not found: {name}"));
        let prompts = turn.prompts();
        let mut own = prompts.iter().filter(|it| it.server().is_called(server));
        let prompt = own.find(|it| it.original_name() == name).ok_or_else(unknown)?;
        Ok(prompt.name().to_owned())
    }

    async fn complete(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let turn = self.dialog(caller).await?.turn().await;
        let mut asked = without_meta(params);
        let reference = asked.get("ref").unwrap_or_else(empty);
        if let (Some(_), Some(name)) = (&self.who.server, reference.get("name")) {
            let name = name.json().as_str().unwrap_or_default().into_owned();
            let own = Raw::string(&self.prompt_name(&turn, &name)?);
            let reference = reference.with_members([("name", Some(own))]);
            asked = asked.with_members([("ref", Some(reference))]);
        }
        let completed = turn.complete(asked).await.map_err(|error| refusal(&error))?;
        Ok(self.seal(caller, &completed, false))
    }

    async fn follow(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let uri = uri(params)?;
        let turn = self.dialog(caller).await?.turn().await;
        let server = self.who.server.as_deref();
        let followed = turn.subscribe(&uri, server).await.map_err(|error| refusal(&error))?;
        self.subscribe(&uri, followed);
        Ok(empty())
    }

    /// Tells of changes until the client, the gateway or whoever asked ends it.
    async fn hear_changes(self: &Arc<Self>, id: &Id, params: &Body, out: &mpsc::Sender<Raw>) {
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

/// What is said of a resource that nobody has differs by era.
fn unread(caller: &Caller, uri: &str, error: &CallError) -> RpcError {
    let refused = refusal(error);
    if refused.code != code::RESOURCE_NOT_FOUND || error.rpc().is_some() {
        return refused;
    }
    let code = match caller.era() {
        Era::Legacy => code::RESOURCE_NOT_FOUND,
        Era::Modern => code::INVALID_PARAMS,
    };
    let data = ObjectWriter::new().string("uri", uri).finish();
    RpcError::new(code, refused.message).with_data(data)
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

fn uri(params: &Body) -> Result<String, RpcError> {
    let uri = params.uri().ok_or_else(|| RpcError::invalid_params("`uri` is missing"))?;
    Ok(uri.into_owned())
}

/// What a request says, without what is between the client and us alone.
fn without_meta(params: &Body) -> Raw {
    params.raw().unwrap_or_else(empty).with_members([("_meta", None)])
}

pub(super) fn unknown_state() -> RpcError {
    RpcError::invalid_params("`requestState` is not known here: it was used before, or is too old")
}

pub(super) fn empty() -> Raw {
    ObjectWriter::new().finish()
}
