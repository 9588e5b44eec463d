//! Resources and prompts, through the same gates as tools.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use toolcrib_config::model::policy::SessionScope;
use toolcrib_upstream::conn::Session;
use toolcrib_upstream::conn::peer::{CallOptions, Patience};
use toolcrib_wire::view::ReadResourceResult;
use toolcrib_wire::{Body, Era, Json, ObjectWriter, Raw, method};

use super::call::{Besides, params, patience};
use super::desk::Call;
use super::matching;
use super::send::{Errand, refused, unsent, whole};
use super::serving::Held;
use super::turn::Turn;
use crate::registry::{Prompt, Resource, Server, Template};
use crate::shape::{CallError, ErrorKind};

/// How long a server is given to take in that nobody listens any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// Listens for changes of one resource, and holds the session that tells of them.
#[derive(Debug)]
pub struct Subscription {
    _listening: JoinSet<()>,
    _held: Option<Held>,
    /// What a server of the legacy era is told in the end.
    farewell: Option<(Session, Raw)>,
}

impl Turn {
    /// The resources that the agent sees: each URI once.
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        self.view().resources().filter(|it| self.may_use(it.server())).cloned().collect()
    }

    /// The templates of resources that the agent sees.
    pub fn templates(&self) -> Vec<Arc<Template>> {
        self.view().templates().filter(|it| self.may_use(it.server())).cloned().collect()
    }

    pub fn prompts(&self) -> Vec<Arc<Prompt>> {
        self.view().prompts().filter(|it| self.may_use(it.server())).cloned().collect()
    }

    /// Reads a resource: the result of `resources/read`, whole. The server is named where several have the URI.
    /// Whole results of which a caller got a part are read here, too.
    pub async fn read(&self, uri: &str, server: Option<&str>) -> Result<Raw, CallError> {
        self.read_by(uri, server, &Besides::default()).await
    }

    /// The same with what comes with it.
    pub async fn read_by(
        &self,
        uri: &str,
        server: Option<&str>,
        besides: &Besides,
    ) -> Result<Raw, CallError> {
        if let Some(whole) = self.core().whole.get(&self.inner().id, uri) {
            return Ok(whole_result(uri, &whole));
        }
        let of = self.owner(uri, server)?;
        let params = of_uri(uri, besides);
        let answer = self.ask(&of, method::RESOURCES_READ, params, besides).await?;
        let is_question = answer.result_type().as_deref() == Some("input_required");
        let raw = whole(&answer)?;
        if is_question { Ok(raw) } else { within_limits(&of, uri, raw) }
    }

    /// A prompt with its arguments filled in: the result of `prompts/get`, whole.
    pub async fn prompt(&self, name: &str, arguments: Raw) -> Result<Raw, CallError> {
        self.prompt_by(name, arguments, &Besides::default()).await
    }

    /// The same with what comes with it.
    pub async fn prompt_by(
        &self,
        name: &str,
        arguments: Raw,
        besides: &Besides,
    ) -> Result<Raw, CallError> {
        let prompt = self.granted(name)?;
        let params = params(prompt.original_name(), &arguments, besides);
        let answer = self.ask(prompt.server(), method::PROMPTS_GET, params, besides).await?;
        whole(&answer)
    }

    /// What an argument of a prompt or of a template of resources may be: the result of `completion/complete`, whole.
    /// The params are those of that request, with the names that are listed here.
    pub async fn complete(&self, params: Raw) -> Result<Raw, CallError> {
        self.complete_by(params, &Besides::default()).await
    }

    /// The same with what comes with it.
    pub async fn complete_by(&self, params: Raw, besides: &Besides) -> Result<Raw, CallError> {
        let reference = params.json().get("ref").unwrap_or(Json::EMPTY);
        let [kind, name, uri] = reference.pick(["type", "name", "uri"]);
        let [kind, name, uri] = [kind, name, uri].map(|it| it.and_then(Json::as_str));
        let (server, params) = match (kind.as_deref(), name, uri) {
            (Some("ref/prompt"), Some(name), _) => {
                let prompt = self.granted(&name)?;
                let own = Raw::string(prompt.original_name());
                let reference = Raw::from(reference).with_members([("name", Some(own))]);
                (Arc::clone(prompt.server()), params.with_members([("ref", Some(reference))]))
            }
            (Some("ref/resource"), _, Some(uri)) => (self.owner(&uri, None)?, params.clone()),
            _ => {
                let text = "`ref` names neither a prompt nor a resource";
                return Err(CallError::new(ErrorKind::InvalidArguments, text));
            }
        };
        let meta = besides.meta().map(|meta| ("_meta", Some(Raw::from(meta))));
        let params = params.with_members(meta);
        let answer = self.ask(&server, method::COMPLETE, params, besides).await?;
        whole(&answer)
    }

    /// Asks to be told when a resource changes; each change is an event of its server,
    /// `notifications/resources/updated`.
    pub async fn subscribe(
        &self,
        uri: &str,
        server: Option<&str>,
    ) -> Result<Subscription, CallError> {
        self.subscribe_by(uri, server, &Besides::default()).await
    }

    /// The same with what comes with it. A server of the modern era is not told that: it is listened to in a
    /// request of the host's own.
    pub async fn subscribe_by(
        &self,
        uri: &str,
        server: Option<&str>,
        besides: &Besides,
    ) -> Result<Subscription, CallError> {
        let of = self.owner(uri, server)?;
        let serving = self.serving(&of).ok_or_else(|| CallError::not_connected(of.id()))?;
        let serving = Arc::clone(serving);
        let (patience, begun) = (patience(None, &of.spec.policy.timeouts), Instant::now());
        let number = self.core().next_call();
        let call = Call { dialog: self.inner(), number, answers: besides.answers };
        let place = serving.place(call, patience).await;
        let (place, patience) = place.map_err(|why| unsent(of.id(), why, begun.elapsed()))?;
        let session = place.ticket.session.clone();
        let per_call = of.spec.policy.session.scope == SessionScope::PerCall;
        if session.agreed().era == Era::Modern {
            let (uri, held) = (uri.to_owned(), place.hold(per_call));
            let mut listening = JoinSet::new();
            listening.spawn(async move {
                // What ends it ends the listening; whoever listens holds the session.
                let _ = session.listen_to(&uri).await;
                drop(held);
            });
            return Ok(Subscription { _listening: listening, _held: None, farewell: None });
        }
        let params = of_uri(uri, besides);
        let options = CallOptions { patience, ..CallOptions::default() };
        let asked = session.call(method::RESOURCES_SUBSCRIBE, params, options, None).await;
        asked.map_err(|error| refused(of.id(), &error, begun.elapsed()))?;
        let held = Some(place.hold(per_call));
        let farewell = Some((session, of_uri(uri, &Besides::default())));
        Ok(Subscription { _listening: JoinSet::new(), _held: held, farewell })
    }

    /// A prompt that the agent may use.
    fn granted(&self, prompt: &str) -> Result<&Arc<Prompt>, CallError> {
        let may_ask = |of: &Arc<Server>| self.may_use(of) || self.may_start(of);
        let found = self.view().prompt(prompt).filter(|it| may_ask(it.server()));
        let unknown = || format!("prompt not found: {prompt}");
        found.ok_or_else(|| CallError::new(ErrorKind::UnknownTool, unknown()))
    }

    /// Who has a resource: by its URI, or by a template that it may be of.
    pub(super) fn owner(&self, uri: &str, server: Option<&str>) -> Result<Arc<Server>, CallError> {
        let view = self.view();
        let mut listed = view.resources_at(uri).map(|resource| resource.server());
        let mut by_template = view
            .all_templates()
            .filter(|template| matching::is_of(template.uri(), uri))
            .map(|template| template.server());
        let may_ask = |of: &Arc<Server>| self.may_use(of) || self.may_start(of);
        let is_meant =
            |of: &&Arc<Server>| server.is_none_or(|name| of.is_called(name)) && may_ask(of);
        let found = listed.find(is_meant).or_else(|| by_template.find(is_meant));
        found.cloned().ok_or_else(|| {
            let text = format!("resource not found: {uri}");
            CallError::new(ErrorKind::UnknownTool, text).with_code("unknown_resource")
        })
    }

    async fn ask(
        &self,
        server: &Server,
        method: &'static str,
        params: Raw,
        besides: &Besides,
    ) -> Result<Body, CallError> {
        let serving = self.serving(server).ok_or_else(|| CallError::not_connected(server.id()))?;
        let errand = Errand {
            method,
            params,
            has_no_meta: false,
            patience: patience(None, &server.spec.policy.timeouts),
            remarks: besides.remarks.as_ref(),
            rounds: besides.rounds.as_ref(),
            call_off: besides.call_off.as_ref(),
            answers: besides.answers,
            call: besides.call.unwrap_or_else(|| self.core().next_call()),
            begun: Instant::now(),
            reminds: false,
        };
        let answered = self.run_errand(serving, &errand).await;
        answered.map(|answered| answered.body).map_err(|missed| missed.error)
    }
}

impl Subscription {
    /// Ends it in good order: the server hears that nobody listens any more.
    pub async fn end(self) {
        let Some((session, params)) = self.farewell else { return };
        let patience = Patience { request: Some(FAREWELL), max: None };
        let options = CallOptions { patience, ..CallOptions::default() };
        // Whether it understands is of no consequence.
        let _ = session.call(method::RESOURCES_UNSUBSCRIBE, params, options, None).await;
    }
}

fn of_uri(uri: &str, besides: &Besides) -> Raw {
    besides.told(ObjectWriter::new().string("uri", uri))
}

/// What is too large or of a kind that is not wanted is refused with the rule's name.
fn within_limits(server: &Server, uri: &str, raw: Raw) -> Result<Raw, CallError> {
    let rules = &server.spec.policy.expose.resources;
    let result = ReadResourceResult::read(raw.clone()).map_err(|flaw| {
        CallError::new(ErrorKind::Protocol, "the result cannot be used").with_cause(flaw)
    })?;
    for content in result.contents().into_iter().flatten() {
        let kind = content.mime_type().map(|kind| kind.to_string()).unwrap_or_default();
        if !rules.mime.is_empty() && !rules.mime.contains(&kind) {
            let text = format!("`{uri}` is `{kind}`, which `expose.resources.mime` does not have");
            return Err(CallError::new(ErrorKind::Denied, text).with_server(server.id()));
        }
        let size = content.text().map_or(0, |text| text.len())
            + content.blob().map_or(0, |blob| blob.len() / 4 * 3);
        if rules.max_bytes.0 > 0 && size as u64 > rules.max_bytes.0 {
            let most = rules.max_bytes.0;
            let text = format!(
                "`{uri}` of server `{}` has {size} bytes, over the limit of {most} \
                 (`expose.resources.max_bytes`)",
                server.id()
            );
            return Err(CallError::new(ErrorKind::Resource, text).with_server(server.id()));
        }
    }
    Ok(raw)
}

/// A kept result as a resource.
fn whole_result(uri: &str, whole: &Raw) -> Raw {
    let content = ObjectWriter::new()
        .string("uri", uri)
        .string("mimeType", "application/json")
        .string("text", whole.text())
        .finish();
    ObjectWriter::new().array("contents", [content]).finish()
}
