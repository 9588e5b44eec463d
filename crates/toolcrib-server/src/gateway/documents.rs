//! Forwards resource, prompt and completion requests of a client.

use toolcrib::{CallContext, CallError, Turn};
use toolcrib_wire::{Body, Era, ObjectWriter, RawJson, RpcError, code, method};

use super::call::{CallFuture, CallOutcome, OWN_PARAMS, forwarded_meta, forwarded_params};
use super::client::Client;
use super::dispatch::{call_error, empty_result, uri_param};
use super::request_context::RequestContext;
use super::response_channel::ResponseHandle;

impl Client {
    pub(super) async fn read_resource(
        &self,
        context: &RequestContext,
        params: &Body,
        handle: &ResponseHandle,
    ) -> Result<RawJson, RpcError> {
        let (uri, server, era) = (uri_param(params)?, self.identity.server.clone(), context.era());
        let client_call = self.prepare_call(context, params, handle).await?;
        let dialog = client_call.dialog.clone();
        let begin = |call_context: CallContext| -> CallFuture {
            Box::pin(async move {
                let read = dialog
                    .turn()
                    .await
                    .read_resource_with(&uri, server.as_deref(), &call_context)
                    .await;
                read.map(|read| CallOutcome::from_result(read, true))
                    .map_err(|error| read_error(era, &uri, &error))
            })
        };
        client_call.execute(method::RESOURCES_READ, begin).await
    }

    pub(super) async fn get_prompt(
        &self,
        context: &RequestContext,
        params: &Body,
        handle: &ResponseHandle,
    ) -> Result<RawJson, RpcError> {
        let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
        let (name, server) = (name.into_owned(), self.identity.server.clone());
        let arguments =
            params.arguments().map_or_else(empty_result, |it| params.message().part(it));
        let client_call = self.prepare_call(context, params, handle).await?;
        let dialog = client_call.dialog.clone();
        let begin = |call_context: CallContext| -> CallFuture {
            Box::pin(async move {
                let turn = dialog.turn().await;
                let name = prompt_name(&turn, server.as_deref(), &name)?;
                let got = turn.get_prompt_with(&name, arguments, &call_context).await;
                got.map(|got| CallOutcome::from_result(got, false))
                    .map_err(|error| call_error(&error))
            })
        };
        client_call.execute(method::PROMPTS_GET, begin).await
    }

    pub(super) async fn complete_argument(
        &self,
        context: &RequestContext,
        params: &Body,
        handle: &ResponseHandle,
    ) -> Result<RawJson, RpcError> {
        let (completion, server) =
            (params.raw().unwrap_or_else(empty_result), self.identity.server.clone());
        let client_call = self.prepare_call(context, params, handle).await?;
        let dialog = client_call.dialog.clone();
        let begin = |call_context: CallContext| -> CallFuture {
            Box::pin(async move {
                let turn = dialog.turn().await;
                let completion = completion_params(&turn, server.as_deref(), &completion)?;
                let completed = turn.complete_with(completion, &call_context).await;
                completed.map(CallOutcome::Result).map_err(|error| call_error(&error))
            })
        };
        client_call.execute(method::COMPLETE, begin).await
    }

    pub(super) async fn subscribe_resource(
        &self,
        context: &RequestContext,
        params: &Body,
    ) -> Result<RawJson, RpcError> {
        let uri = uri_param(params)?;
        let turn = self.dialog(context).await?.turn().await;
        let extra_params = forwarded_params(method::RESOURCES_SUBSCRIBE, params);
        let call_context =
            CallContext { meta: forwarded_meta(params), extra_params, ..CallContext::default() };
        let followed =
            turn.subscribe_with(&uri, self.identity.server.as_deref(), &call_context).await;
        self.subscribe(&uri, followed.map_err(|error| call_error(&error))?);
        Ok(empty_result())
    }
}

/// Completion params with the host's names, without members between the client and the gateway.
fn completion_params(
    turn: &Turn,
    server: Option<&str>,
    params: &RawJson,
) -> Result<RawJson, RpcError> {
    let completion = params.with_members(OWN_PARAMS.map(|name| (name, None)));
    let reference = completion.get("ref").unwrap_or_else(empty_result);
    let Some(name) = reference.get("name") else { return Ok(completion) };
    let name = name.json().as_str().unwrap_or_default().into_owned();
    let own = RawJson::string(&prompt_name(turn, server, &name)?);
    let reference = reference.with_members([("name", Some(own))]);
    Ok(completion.with_members([("ref", Some(reference))]))
}

/// The host's name of a prompt.
fn prompt_name(turn: &Turn, server: Option<&str>, name: &str) -> Result<String, RpcError> {
    let Some(server) = server else { return Ok(name.to_owned()) };
    let unknown = || RpcError::invalid_params(format!("prompt not found: {name}"));
    let prompts = turn.prompts();
    let mut own = prompts.iter().filter(|it| it.server().matches_name(server));
    let prompt = own.find(|it| it.original_name() == name).ok_or_else(unknown)?;
    Ok(prompt.name().to_owned())
}

/// Error for an unknown resource, whose code differs by era.
fn read_error(era: Era, uri: &str, error: &CallError) -> RpcError {
    let refused = call_error(error);
    if refused.code != code::RESOURCE_NOT_FOUND || error.rpc().is_some() {
        return refused;
    }
    let code = match era {
        Era::Legacy => code::RESOURCE_NOT_FOUND,
        Era::Modern => code::INVALID_PARAMS,
    };
    let data = ObjectWriter::new().string("uri", uri).finish();
    RpcError::new(code, refused.message).with_data(data)
}
