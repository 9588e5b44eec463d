//! Resources, prompts and completions for a client, on the same way as calls.

use toolcrib::Turn;
use toolcrib::host::Besides;
use toolcrib::shape::CallError;
use toolcrib_wire::{Body, Era, ObjectWriter, Raw, RpcError, code, method};

use super::answer::{empty, refusal, uri};
use super::call::{OURS, Running, Said, further, handed_on};
use super::caller::Caller;
use super::client::Client;
use super::outlet::Course;

impl Client {
    pub(super) async fn read(
        &self,
        caller: &Caller,
        params: &Body,
        course: &Course,
    ) -> Result<Raw, RpcError> {
        let (uri, server, era) = (uri(params)?, self.who.server.clone(), caller.era());
        let conduct = self.conduct(caller, params, course).await?;
        let dialog = conduct.dialog.clone();
        let begin = |besides: Besides| -> Running {
            Box::pin(async move {
                let read = dialog.turn().await.read_by(&uri, server.as_deref(), &besides).await;
                read.map(|read| Said::of(read, true)).map_err(|error| unread(era, &uri, &error))
            })
        };
        conduct.see_through(method::RESOURCES_READ, begin).await
    }

    pub(super) async fn prompt(
        &self,
        caller: &Caller,
        params: &Body,
        course: &Course,
    ) -> Result<Raw, RpcError> {
        let name = params.name().ok_or_else(|| RpcError::invalid_params("`name` is missing"))?;
        let (name, server) = (name.into_owned(), self.who.server.clone());
        let arguments = params.arguments().map_or_else(empty, |it| params.message().part(it));
        let conduct = self.conduct(caller, params, course).await?;
        let dialog = conduct.dialog.clone();
        let begin = |besides: Besides| -> Running {
            Box::pin(async move {
                let turn = dialog.turn().await;
                let name = prompt_name(&turn, server.as_deref(), &name)?;
                let got = turn.prompt_by(&name, arguments, &besides).await;
                got.map(|got| Said::of(got, false)).map_err(|error| refusal(&error))
            })
        };
        conduct.see_through(method::PROMPTS_GET, begin).await
    }

    pub(super) async fn complete(
        &self,
        caller: &Caller,
        params: &Body,
        course: &Course,
    ) -> Result<Raw, RpcError> {
        let (asked, server) = (params.raw().unwrap_or_else(empty), self.who.server.clone());
        let conduct = self.conduct(caller, params, course).await?;
        let dialog = conduct.dialog.clone();
        let begin = |besides: Besides| -> Running {
            Box::pin(async move {
                let turn = dialog.turn().await;
                let asked = to_complete(&turn, server.as_deref(), &asked)?;
                let completed = turn.complete_by(asked, &besides).await;
                completed.map(Said::Result).map_err(|error| refusal(&error))
            })
        };
        conduct.see_through(method::COMPLETE, begin).await
    }

    pub(super) async fn follow(&self, caller: &Caller, params: &Body) -> Result<Raw, RpcError> {
        let uri = uri(params)?;
        let turn = self.dialog(caller).await?.turn().await;
        let more = further(method::RESOURCES_SUBSCRIBE, params);
        let besides = Besides { meta: handed_on(params), more, ..Besides::default() };
        let followed = turn.subscribe_by(&uri, self.who.server.as_deref(), &besides).await;
        self.subscribe(&uri, followed.map_err(|error| refusal(&error))?);
        Ok(empty())
    }
}

/// What is to be completed, in the names of the host and without what is between the client and us alone.
fn to_complete(turn: &Turn, server: Option<&str>, params: &Raw) -> Result<Raw, RpcError> {
    let asked = params.with_members(OURS.map(|name| (name, None)));
    let reference = asked.get("ref").unwrap_or_else(empty);
    let Some(name) = reference.get("name") else { return Ok(asked) };
    let name = name.json().as_str().unwrap_or_default().into_owned();
    let own = Raw::string(&prompt_name(turn, server, &name)?);
    let reference = reference.with_members([("name", Some(own))]);
    Ok(asked.with_members([("ref", Some(reference))]))
}

/// The name that the host knows a prompt by.
fn prompt_name(turn: &Turn, server: Option<&str>, name: &str) -> Result<String, RpcError> {
    let Some(server) = server else { return Ok(name.to_owned()) };
    let unknown = || RpcError::invalid_params(format!("prompt not found: {name}"));
    let prompts = turn.prompts();
    let mut own = prompts.iter().filter(|it| it.server().is_called(server));
    let prompt = own.find(|it| it.original_name() == name).ok_or_else(unknown)?;
    Ok(prompt.name().to_owned())
}

/// What is said of a resource that nobody has differs by era.
fn unread(era: Era, uri: &str, error: &CallError) -> RpcError {
    let refused = refusal(error);
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
