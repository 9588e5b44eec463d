//! What a request is answered with.

use std::sync::Arc;

use tokio::sync::mpsc;
use toolcrib::shape::{CallError, ErrorKind};
use toolcrib_wire::handshake::{DiscoverResult, Initialize, InitializeResult};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::{Cache, ServerCapabilities};
use toolcrib_wire::{Body, Id, Json, ObjectWriter, Raw, Request, RpcError, code, method};

use super::caller::{Caller, Opened};
use super::client::Client;
use super::lists::List;
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
        let params = &request.params;
        let called = request.method.as_str();
        if let Some(list) = List::of(called) {
            no_cursor(params)?;
            let dialog = self.dialog(&caller).await?;
            self.settle().await;
            return Ok(self.seal(&caller, &list.result(&dialog.turn().await), true));
        }
        match called {
            method::INITIALIZE => self.initialize(params),
            method::DISCOVER => Ok(self.discover()),
            method::PING => Ok(self.seal(&caller, &empty(), false)),
            method::TOOLS_CALL => self.call(&caller, params, out).await,
            method::RESOURCES_READ => self.read(&caller, params).await,
            method::PROMPTS_GET => self.prompt(&caller, params).await,
            method::RESOURCES_SUBSCRIBE => self.follow(&caller, params).await,
            method::RESOURCES_UNSUBSCRIBE => {
                if let Some(subscription) = self.unsubscribe(&uri(params)?) {
                    subscription.end().await;
                }
                Ok(empty())
            }
            method::SUBSCRIPTIONS_LISTEN => {
                self.dialog(&caller).await?;
                Ok(self.hear_changes(&request.id, params, out).await)
            }
            other => Err(RpcError::method_not_found(other)),
        }
    }

    pub(super) fn seal(&self, caller: &Caller, result: &Raw, is_list: bool) -> Raw {
        caller.seal(result, &self.gateway.server, is_list)
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
        let turn = self.dialog(caller).await?.turn().await;
        let read = turn.read(&uri, None).await.map_err(|error| refusal(&error))?;
        Ok(self.seal(caller, &read, true))
    }

    async fn prompt(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
        let arguments = params.get("arguments").map_or_else(empty, Raw::from);
        let turn = self.dialog(caller).await?.turn().await;
        let got = turn.prompt(&name, arguments).await.map_err(|error| refusal(&error))?;
        Ok(self.seal(caller, &got, false))
    }

    async fn follow(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let uri = uri(params)?;
        let turn = self.dialog(caller).await?.turn().await;
        let followed = turn.subscribe(&uri, None).await.map_err(|error| refusal(&error))?;
        self.subscribe(&uri, followed);
        Ok(empty())
    }

    /// Tells of changes until somebody ends it.
    async fn hear_changes(&self, id: &Id, params: &Body, out: &mpsc::Sender<Raw>) -> Raw {
        let wanted = SubscriptionFilter::read(params.get("notifications").unwrap_or(Json::EMPTY));
        let agreed = SubscriptionFilter { uris: Vec::new(), ..wanted };
        // A client that has gone ends this elsewhere.
        let _ = out.send(agreed.acknowledged(id)).await;
        self.listen(id.clone(), agreed);
        let _listening = Listening { client: self, id };
        std::future::pending().await
    }
}

/// While it lives, changes are told for a request.
struct Listening<'a> {
    client: &'a Client,
    id: &'a Id,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.client.unlisten(self.id);
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

fn capabilities() -> ServerCapabilities {
    let changes = ObjectWriter::new().bool("listChanged", true).finish();
    let resources = ObjectWriter::new().bool("listChanged", true).bool("subscribe", true).finish();
    ServerCapabilities::new(
        ObjectWriter::new()
            .json("tools", changes.json())
            .json("prompts", changes.json())
            .json("resources", resources.json())
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

pub(super) fn empty() -> Raw {
    ObjectWriter::new().finish()
}
