//! One session with a server: calls, limits and the request metadata of each era.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use toolcrib_wire::header::Header;
use toolcrib_wire::meta::RequestMeta;
use toolcrib_wire::param_header::{ParamHeader, param_header_values, param_headers};
use toolcrib_wire::subscription::SubscriptionFilter;
use toolcrib_wire::view::{ClientCapabilities, LogLevel};
use toolcrib_wire::{Body, Channel, Era, ObjectWriter, RawJson, method};

use super::catalog::Catalog;
use super::era_probe::AgreedProtocol;
use super::input_rounds;
use super::peer::{CallOptions, CallTimeouts, Peer, PeerCallError, TimeoutKind};
use super::setup::{ConnSetup, SessionClient};
use toolcrib_config::model::policy;

/// An open session. Clones share it.
#[derive(Clone, Debug)]
pub struct Session(Arc<SessionInner>);

#[derive(Debug)]
struct SessionInner {
    setup: Arc<ConnSetup>,
    peer: Peer,
    agreed: AgreedProtocol,
    /// Declared client capabilities, including those from the configuration.
    capabilities: ClientCapabilities,
    /// Tool arguments that are also sent as headers.
    headers: Mutex<HashMap<String, Vec<ParamHeader>>>,
    /// Limit of concurrent tool calls, if there is one.
    permits: Option<Semaphore>,
    /// Number of holds.
    holders: AtomicU32,
    /// Notified when the last hold drops.
    released: Notify,
    /// Last requested log level, in the legacy era.
    log_level: Mutex<Option<LogLevel>>,
}

/// Keeps the session open for calls until dropped.
#[derive(Debug)]
pub(super) struct SessionHold(Session);

impl Session {
    pub(super) fn new(
        setup: Arc<ConnSetup>,
        peer: Peer,
        agreed: AgreedProtocol,
        capabilities: ClientCapabilities,
    ) -> Self {
        let max_in_flight = setup.spec.policy.session.max_in_flight;
        let permits = (max_in_flight > 0).then(|| Semaphore::new(max_in_flight as usize));
        peer.set_version(agreed.version.clone());
        let headers = Mutex::default();
        let log_level = Mutex::default();
        Session(Arc::new(SessionInner {
            setup,
            peer,
            agreed,
            capabilities,
            headers,
            permits,
            holders: AtomicU32::new(0),
            released: Notify::new(),
            log_level,
        }))
    }

    pub(super) fn hold(&self) -> SessionHold {
        self.0.holders.fetch_add(1, Ordering::SeqCst);
        SessionHold(self.clone())
    }

    /// Waits until all holds are dropped, at most for `limit`. Without a limit the call deadlines bound the wait.
    pub(super) async fn wait_until_released(&self, limit: Option<Duration>) {
        let all_released = async {
            loop {
                let released = self.0.released.notified();
                if self.0.holders.load(Ordering::SeqCst) == 0 {
                    return;
                }
                released.await;
            }
        };
        match limit {
            // The only error is the timeout.
            Some(limit) => drop(timeout(limit, all_released).await),
            None => all_released.await,
        }
    }

    /// Sends a request and waits for its response. Dropping the future cancels it at the server. `client` answers
    /// input requests; by default the session's own client does.
    pub async fn call(
        &self,
        method: &str,
        params: RawJson,
        mut options: CallOptions,
        client: Option<&SessionClient>,
    ) -> Result<Body, PeerCallError> {
        if self.0.agreed.era == Era::Legacy {
            return self.call_single_round(method, params, options, None).await;
        }
        let (_permit, timeouts) = self.acquire_call_permit(method, options.timeouts).await?;
        options.timeouts = timeouts;
        // Boxed, so that the legacy future stays small.
        Box::pin(input_rounds::call_with_input(self, method, params, options, client)).await
    }

    /// Sends a single request. In the modern era the result may be an input request, and `client` supplies the
    /// capabilities and the log level.
    pub async fn call_single_round(
        &self,
        method: &str,
        mut params: RawJson,
        mut options: CallOptions,
        client: Option<(&ClientCapabilities, Option<LogLevel>)>,
    ) -> Result<Body, PeerCallError> {
        let (_permit, timeouts) = self.acquire_call_permit(method, options.timeouts).await?;
        options.timeouts = timeouts;
        if let Some((capabilities, log_level)) = client {
            let meta = RequestMeta { log_level, ..self.meta(Some(capabilities)) };
            self.add_request_meta(&meta, method, &mut params, &mut options);
        }
        self.0.peer.call(method, params, options).await
    }

    /// Sends one request with modern metadata.
    pub(super) async fn send_modern_request(
        &self,
        method: &str,
        mut params: RawJson,
        mut options: CallOptions,
        client: Option<&SessionClient>,
    ) -> Result<Body, PeerCallError> {
        let meta = self.meta(client.map(|client| &client.capabilities));
        self.add_request_meta(&meta, method, &mut params, &mut options);
        self.0.peer.call(method, params, options).await
    }

    /// Adds the modern `_meta` members and headers to a request.
    fn add_request_meta(
        &self,
        meta: &RequestMeta,
        method: &str,
        params: &mut RawJson,
        options: &mut CallOptions,
    ) {
        let given = params.get("_meta").unwrap_or_else(|| ObjectWriter::new().finish());
        let members = meta.members();
        let members = members.into_iter().map(|(key, value)| (key, Some(value)));
        *params = params.with_members([("_meta", Some(given.with_members(members)))]);
        options.has_no_meta = false;
        options.headers.extend(self.param_headers(method, params));
    }

    /// Sends a ping, or `server/discover` in the modern era.
    pub(super) async fn ping(&self, timeouts: Duration) -> Result<Body, PeerCallError> {
        let method = match self.0.agreed.era {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        let timeouts = CallTimeouts { request: Some(timeouts), max: None };
        let options = CallOptions { timeouts, ..CallOptions::default() };
        self.call(method, ObjectWriter::new().finish(), options, None).await
    }

    /// Returns whether list changes need a subscription.
    pub(super) fn needs_list_subscription(&self) -> bool {
        self.wanted_changes().is_some()
    }

    /// Subscribes to list changes until the server ends the subscription. `acknowledged` is signalled when the server
    /// agrees.
    pub(super) async fn subscribe_lists(
        &self,
        acknowledged: &mpsc::Sender<()>,
    ) -> Result<(), PeerCallError> {
        let Some(filter) = self.wanted_changes() else {
            return std::future::pending().await;
        };
        let params = filter.listen_params(&self.meta(None));
        let options =
            CallOptions { acknowledged: Some(acknowledged.clone()), ..CallOptions::default() };
        self.0.peer.call(method::SUBSCRIPTIONS_LISTEN, params, options).await?;
        Ok(())
    }

    /// Subscribes to changes of one resource in the modern era, until the server ends the subscription or the future
    /// drops.
    pub async fn subscribe_resource(&self, uri: &str) -> Result<(), PeerCallError> {
        let filter = SubscriptionFilter { uris: vec![uri.to_owned()], ..Default::default() };
        let params = filter.listen_params(&self.meta(None));
        self.0.peer.call(method::SUBSCRIPTIONS_LISTEN, params, CallOptions::default()).await?;
        Ok(())
    }

    /// Returns whether the link is closed.
    pub(super) fn is_over(&self) -> bool {
        self.0.peer.is_over()
    }

    /// Requests the configured log level.
    pub(super) async fn apply_configured_log_level(&self) {
        if let Some(level) = log_level(self.0.setup.spec.policy.client.logging) {
            self.set_log_level(level).await;
        }
    }

    /// Requests log messages of this level and above, in the legacy era, if the server supports logging and the level
    /// changed.
    pub async fn set_log_level(&self, level: LogLevel) {
        if self.0.agreed.era == Era::Modern || !self.0.agreed.capabilities.logging() {
            return;
        }
        let known = &self.0.log_level;
        let before = known.lock().unwrap_or_else(PoisonError::into_inner).replace(level);
        if before == Some(level) {
            return;
        }
        let params = ObjectWriter::new().string("level", level.as_str()).finish();
        let timeouts = CallTimeouts { request: Some(Duration::from_secs(30)), max: None };
        let options = CallOptions { timeouts, ..CallOptions::default() };
        if let Err(error) = self.0.peer.call(method::SET_LOG_LEVEL, params, options).await {
            tracing::debug!(server = %self.0.setup.spec.id, %error, "cannot set the log level");
        }
    }

    /// Peer of the session.
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// Agreed protocol.
    pub fn agreed(&self) -> &AgreedProtocol {
        &self.0.agreed
    }

    pub(super) fn setup(&self) -> &Arc<ConnSetup> {
        &self.0.setup
    }

    pub(super) fn has_param_headers(&self) -> bool {
        self.0.agreed.era == Era::Modern && self.0.peer.link_info().channel == Channel::Http
    }

    /// Updates the tool arguments that are sent as headers.
    pub(super) fn set_param_headers(&self, catalog: &Catalog) {
        if !self.has_param_headers() {
            return;
        }
        let known = catalog.tools.iter().filter_map(|tool| {
            let params = param_headers(tool.input_schema().json()).ok()?;
            (!params.is_empty()).then(|| (tool.name().to_owned(), params))
        });
        *self.0.headers.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
    }

    fn param_headers(&self, method: &str, params: &RawJson) -> Vec<Header> {
        if method != method::TOOLS_CALL || !self.has_param_headers() {
            return Vec::new();
        }
        let [name, arguments] = params.json().pick(["name", "arguments"]);
        let name = name.and_then(|name| name.as_str());
        let headers = self.0.headers.lock().unwrap_or_else(PoisonError::into_inner);
        match (name.and_then(|name| headers.get(&*name)), arguments) {
            (Some(known), Some(arguments)) => param_header_values(known, arguments),
            _ => Vec::new(),
        }
    }

    fn meta(&self, capabilities: Option<&ClientCapabilities>) -> RequestMeta {
        let setup = &self.0.setup;
        let capabilities = capabilities.unwrap_or(&self.0.capabilities);
        RequestMeta {
            version: self.0.agreed.version.clone(),
            client: Some(setup.context.client_info.clone()),
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
        let is_enabled = on_list_changed != policy::OnListChanged::Ignore;
        let any = filter.tools || filter.prompts || filter.resources;
        (self.0.agreed.era == Era::Modern && is_enabled && any).then_some(filter)
    }

    /// Waits for a call permit. Returns it with the remaining time, because the wait counts against the timeouts.
    async fn acquire_call_permit(
        &self,
        method: &str,
        timeouts: CallTimeouts,
    ) -> Result<(Option<SemaphorePermit<'_>>, CallTimeouts), PeerCallError> {
        let Some(permits) = self.0.permits.as_ref().filter(|_| method == method::TOOLS_CALL) else {
            return Ok((None, timeouts));
        };
        let (acquire, started_at) = (permits.acquire(), Instant::now());
        // The semaphore is never closed.
        let permit = match nearest_timeout(timeouts) {
            None => acquire.await.ok(),
            Some((after, limit)) => timeout_at(started_at + after, acquire)
                .await
                .map_err(|_| PeerCallError::Timeout { after, limit })?
                .ok(),
        };
        Ok((permit, timeouts.minus_elapsed(started_at.elapsed())))
    }
}

impl Drop for SessionHold {
    fn drop(&mut self) {
        let inner = &self.0.0;
        if inner.holders.fetch_sub(1, Ordering::SeqCst) == 1 {
            inner.released.notify_waiters();
        }
    }
}

fn nearest_timeout(timeouts: CallTimeouts) -> Option<(Duration, TimeoutKind)> {
    let request = timeouts.request.map(|time| (time, TimeoutKind::Request));
    let max = timeouts.max.map(|time| (time, TimeoutKind::Max));
    request.into_iter().chain(max).min_by_key(|(time, _)| *time)
}

fn log_level(level: policy::ServerLogLevel) -> Option<LogLevel> {
    LogLevel::read(level.as_str())
}
