//! One session with a server: the conversation, and what each era asks of every request in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use toolcrib_wire::header::Header;
use toolcrib_wire::meta::RequestMeta;
use toolcrib_wire::param_header::{ParamHeader, param_headers, write_params};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::{ClientCapabilities, LogLevel};
use toolcrib_wire::{Body, Channel, Era, ObjectWriter, Raw, method};

use super::catalog::Catalog;
use super::era::Agreed;
use super::peer::{CallError, CallOptions, Limit, Patience, Peer};
use super::rounds;
use super::setup::{Caller, Setup};
use toolcrib_config::model::policy;

/// A live session. Clones share it.
#[derive(Clone, Debug)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setup: Arc<Setup>,
    peer: Peer,
    agreed: Agreed,
    /// What the configuration adds to every caller's capabilities.
    capabilities: ClientCapabilities,
    /// Arguments of tools that travel in headers too.
    headers: Mutex<HashMap<String, Vec<ParamHeader>>>,
    /// Tool calls at a time, where there is a limit.
    permits: Option<Semaphore>,
    /// How many may still call on it.
    holders: AtomicU32,
    /// Told when it is nobody.
    freed: Notify,
    /// What the server was last asked for, where the era has a request for that.
    log_level: Mutex<Option<LogLevel>>,
}

/// While it lives, somebody may call on the session.
#[derive(Debug)]
pub(super) struct Hold(Session);

impl Session {
    pub(super) fn new(
        setup: Arc<Setup>,
        peer: Peer,
        agreed: Agreed,
        capabilities: ClientCapabilities,
    ) -> Self {
        let most = setup.spec.policy.session.max_in_flight;
        let permits = (most > 0).then(|| Semaphore::new(most as usize));
        peer.speak(agreed.version.clone());
        let headers = Mutex::default();
        let log_level = Mutex::default();
        Session(Arc::new(Inner {
            setup,
            peer,
            agreed,
            capabilities,
            headers,
            permits,
            holders: AtomicU32::new(0),
            freed: Notify::new(),
            log_level,
        }))
    }

    pub(super) fn hold(&self) -> Hold {
        self.0.holders.fetch_add(1, Ordering::SeqCst);
        Hold(self.clone())
    }

    /// Waits until nobody holds it, at most so long. Without a limit the deadlines of the holders' calls bound it.
    pub(super) async fn let_go(&self, limit: Option<Duration>) {
        let free = async {
            loop {
                let freed = self.0.freed.notified();
                if self.0.holders.load(Ordering::SeqCst) == 0 {
                    return;
                }
                freed.await;
            }
        };
        match limit {
            // Only the time can run out.
            Some(limit) => drop(timeout(limit, free).await),
            None => free.await,
        }
    }

    /// Makes a request and waits for its answer. Dropping the future cancels it at the server. What the server
    /// asks for meanwhile is answered by the session's caller, or by the one who is given.
    pub async fn call(
        &self,
        method: &str,
        params: Raw,
        mut options: CallOptions,
        caller: Option<&Caller>,
    ) -> Result<Body, CallError> {
        if self.0.agreed.era == Era::Legacy {
            return self.round(method, params, options, None).await;
        }
        let (_permit, patience) = self.permit(method, options.patience).await?;
        options.patience = patience;
        // Larger than a call of the other era, which would have to be as large.
        Box::pin(rounds::call(self, method, params, options, caller)).await
    }

    /// One request whose questions, if there are any, are its answer: in the modern era, which wants to know what can be
    /// asked, and which log messages are wanted.
    pub async fn round(
        &self,
        method: &str,
        mut params: Raw,
        mut options: CallOptions,
        asker: Option<(&ClientCapabilities, Option<LogLevel>)>,
    ) -> Result<Body, CallError> {
        let (_permit, patience) = self.permit(method, options.patience).await?;
        options.patience = patience;
        if let Some((capabilities, log_level)) = asker {
            let meta = RequestMeta { log_level, ..self.meta(Some(capabilities)) };
            self.dress(&meta, method, &mut params, &mut options);
        }
        self.0.peer.call(method, params, options).await
    }

    /// One request as the modern era wants it.
    pub(super) async fn ask(
        &self,
        method: &str,
        mut params: Raw,
        mut options: CallOptions,
        caller: Option<&Caller>,
    ) -> Result<Body, CallError> {
        let meta = self.meta(caller.map(|caller| &caller.capabilities));
        self.dress(&meta, method, &mut params, &mut options);
        self.0.peer.call(method, params, options).await
    }

    /// Adds to a request what the modern era wants to know of whoever asks.
    fn dress(&self, meta: &RequestMeta, method: &str, params: &mut Raw, options: &mut CallOptions) {
        let given = params.get("_meta").unwrap_or_else(|| ObjectWriter::new().finish());
        let members = meta.members();
        let members = members.into_iter().map(|(key, value)| (key, Some(value)));
        *params = params.with_members([("_meta", Some(given.with_members(members)))]);
        options.has_no_meta = false;
        options.headers.extend(self.param_headers(method, params));
    }

    /// A sign of life.
    pub(super) async fn ping(&self, patience: Duration) -> Result<Body, CallError> {
        let method = match self.0.agreed.era {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        let patience = Patience { request: Some(patience), max: None };
        let options = CallOptions { patience, ..CallOptions::default() };
        self.call(method, ObjectWriter::new().finish(), options, None).await
    }

    /// Whether changes of the lists are told only to who asks for them.
    pub(super) fn must_subscribe(&self) -> bool {
        self.wanted_changes().is_some()
    }

    /// Listens for changes of the lists, where the era has to be asked for them. `begun` is told when the server
    /// has agreed. Ends when the server ends it.
    pub(super) async fn listen(&self, begun: &mpsc::Sender<()>) -> Result<(), CallError> {
        let Some(filter) = self.wanted_changes() else {
            return std::future::pending().await;
        };
        let params = filter.listen_params(&self.meta(None));
        let options = CallOptions { acknowledged: Some(begun.clone()), ..CallOptions::default() };
        self.0.peer.call(method::SUBSCRIPTIONS_LISTEN, params, options).await?;
        Ok(())
    }

    /// Listens for changes of one resource, in the era that has to be asked for them that way. Ends when the server
    /// ends it; dropping the future ends it as well.
    pub async fn listen_to(&self, uri: &str) -> Result<(), CallError> {
        let filter = SubscriptionFilter { uris: vec![uri.to_owned()], ..Default::default() };
        let params = filter.listen_params(&self.meta(None));
        self.0.peer.call(method::SUBSCRIPTIONS_LISTEN, params, CallOptions::default()).await?;
        Ok(())
    }

    /// Whether its link has ended.
    pub(super) fn is_over(&self) -> bool {
        self.0.peer.is_over()
    }

    /// Asks for the log messages that the configuration wants.
    pub(super) async fn set_log_level(&self) {
        if let Some(level) = log_level(self.0.setup.spec.policy.client.logging) {
            self.log_from(level).await;
        }
    }

    /// Asks for log messages of this level and above, where the era has a request for that, the server has
    /// messages, and it was not asked for the same before.
    pub async fn log_from(&self, level: LogLevel) {
        if self.0.agreed.era == Era::Modern || !self.0.agreed.capabilities.logging() {
            return;
        }
        let known = &self.0.log_level;
        let before = known.lock().unwrap_or_else(PoisonError::into_inner).replace(level);
        if before == Some(level) {
            return;
        }
        let params = ObjectWriter::new().string("level", level.as_str()).finish();
        let patience = Patience { request: Some(Duration::from_secs(30)), max: None };
        let options = CallOptions { patience, ..CallOptions::default() };
        if let Err(error) = self.0.peer.call(method::SET_LOG_LEVEL, params, options).await {
            tracing::debug!(server = %self.0.setup.spec.id, %error, "the log level was not set");
        }
    }

    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    pub fn agreed(&self) -> &Agreed {
        &self.0.agreed
    }

    pub(super) fn setup(&self) -> &Arc<Setup> {
        &self.0.setup
    }

    pub(super) fn has_param_headers(&self) -> bool {
        self.0.agreed.era == Era::Modern && self.0.peer.facts().channel == Channel::Http
    }

    /// Learns which arguments of which tools travel in headers.
    pub(super) fn learn(&self, catalog: &Catalog) {
        if !self.has_param_headers() {
            return;
        }
        let known = catalog.tools.iter().filter_map(|tool| {
            let params = param_headers(tool.input_schema().json()).ok()?;
            (!params.is_empty()).then(|| (tool.name().to_owned(), params))
        });
        *self.0.headers.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
    }

    fn param_headers(&self, called: &str, params: &Raw) -> Vec<Header> {
        if called != method::TOOLS_CALL || !self.has_param_headers() {
            return Vec::new();
        }
        let [name, arguments] = params.json().pick(["name", "arguments"]);
        let name = name.and_then(|name| name.as_str());
        let headers = self.0.headers.lock().unwrap_or_else(PoisonError::into_inner);
        match (name.and_then(|name| headers.get(&*name)), arguments) {
            (Some(known), Some(arguments)) => write_params(known, arguments),
            _ => Vec::new(),
        }
    }

    fn meta(&self, capabilities: Option<&ClientCapabilities>) -> RequestMeta {
        let setup = &self.0.setup;
        let capabilities = capabilities.unwrap_or(&self.0.capabilities);
        RequestMeta {
            version: self.0.agreed.version.clone(),
            client: Some(setup.world.client.clone()),
            capabilities: capabilities.clone(),
            log_level: log_level(setup.spec.policy.client.logging),
        }
    }

    fn wanted_changes(&self) -> Option<SubscriptionFilter> {
        let policy = &self.0.setup.spec.policy;
        let declared = &self.0.agreed.capabilities;
        let filter = SubscriptionFilter {
            tools: policy.discovery.tools && declared.tools_changes(),
            prompts: policy.discovery.prompts && declared.prompts_changes(),
            resources: policy.discovery.resources && declared.resources_changes(),
            uris: Vec::new(),
        };
        let on_list_changed = self.0.setup.settings.on_list_changed;
        let heeded = on_list_changed != policy::OnListChanged::Ignore;
        let any = filter.tools || filter.prompts || filter.resources;
        (self.0.agreed.era == Era::Modern && heeded && any).then_some(filter)
    }

    /// Waits until the call may be made; the wait counts against its time, of which this is left.
    async fn permit(
        &self,
        called: &str,
        patience: Patience,
    ) -> Result<(Option<SemaphorePermit<'_>>, Patience), CallError> {
        let Some(permits) = self.0.permits.as_ref().filter(|_| called == method::TOOLS_CALL) else {
            return Ok((None, patience));
        };
        let (acquire, begun) = (permits.acquire(), Instant::now());
        // It is never closed.
        let permit = match first(patience) {
            None => acquire.await.ok(),
            Some((after, limit)) => timeout_at(begun + after, acquire)
                .await
                .map_err(|_| CallError::Timeout { after, limit })?
                .ok(),
        };
        Ok((permit, patience.less(begun.elapsed())))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let inner = &self.0.0;
        if inner.holders.fetch_sub(1, Ordering::SeqCst) == 1 {
            inner.freed.notify_waiters();
        }
    }
}

fn first(patience: Patience) -> Option<(Duration, Limit)> {
    let request = patience.request.map(|time| (time, Limit::Request));
    let max = patience.max.map(|time| (time, Limit::Max));
    request.into_iter().chain(max).min_by_key(|(time, _)| *time)
}

fn log_level(level: policy::LogLevel) -> Option<LogLevel> {
    LogLevel::read(level.as_str())
}
