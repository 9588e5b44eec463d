//! Session state of one client: what the next host must be told, and what the client still waits for.

use std::collections::{BTreeMap, BTreeSet};

use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::view::LogLevel;
use toolcrib_wire::{
    Id, Json, Message, Notification, ObjectWriter, RawJson, Request, Response, RpcError, build,
    handshake, method,
};

use super::forwarding::Forwarding;
use super::host_requests::HostRequests;

/// Maximum number of pending requests. A host accepts fewer, so only a host that does not read reaches this limit.
const MAX_PENDING_REQUESTS: usize = 1024;

/// Maximum number and size of subscriptions that are replayed. Beyond it the client gets an error when its host ends.
const MAX_LISTENS: usize = 64;
const MAX_LISTEN_BYTES: usize = 64 << 10;

/// Maximum number and length of followed resource URIs. Further subscriptions are not replayed.
const MAX_SUBSCRIPTIONS: usize = 1024;
const MAX_URI_BYTES: usize = 8 << 10;

/// Id of the `initialize` request to a later host.
const INITIALIZE_ID: &str = "toolcrib:initialize";

const HOST_ENDED: &str = "the host of this workspace has ended";

/// The state of one client's session, as far as the next host needs it.
#[derive(Debug, Default)]
pub(crate) struct RelayState {
    /// Unanswered requests of the client.
    pending: BTreeMap<Id, ClientRequest>,
    /// The `initialize` request for a later host, once the client has opened a session.
    initialize: Option<RawJson>,
    is_initialized: bool,
    log_level: Option<LogLevel>,
    /// The resources that the client has subscribed to.
    subscriptions: BTreeSet<String>,
    host_requests: HostRequests,
    /// Ids of the relay's own requests. Their responses are dropped.
    own_ids: BTreeSet<Id>,
    /// True if the client ends with the current host.
    is_last: bool,
}

/// A pending request, with the state change that its success causes.
#[derive(Debug)]
enum ClientRequest {
    Initialize(Box<Request>),
    Listen(RawJson),
    SetLogLevel(LogLevel),
    Subscribe(String),
    Unsubscribe(String),
    Other,
}

/// The messages that a new host gets first.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Replay {
    /// The request that must be answered before the others are sent.
    pub(crate) opening: Option<RawJson>,
    pub(crate) requests: Vec<RawJson>,
}

impl RelayState {
    /// Marks the next host as the last one.
    pub(crate) fn set_last_host(&mut self) {
        self.is_last = true;
    }

    /// Decides about a message of the client.
    pub(crate) fn on_client_message(&mut self, message: &Message) -> Forwarding {
        match message {
            Message::Request(request) => self.on_client_request(request),
            Message::Notification(notification) => self.on_client_notification(notification),
            Message::Response(answer) => self.host_requests.on_response(answer),
        }
    }

    /// Decides about a message of the host.
    pub(crate) fn on_host_message(&mut self, message: &Message) -> Forwarding {
        match message {
            Message::Request(question) => self.host_requests.on_request(question),
            Message::Notification(told) => self.host_requests.on_notification(told),
            Message::Response(answer) => self.on_host_response(answer),
        }
    }

    /// Returns the messages for the client when its host has ended. Calls fail and are never repeated, because they may
    /// have had an effect. Subscriptions and `initialize` have no effect and stay pending.
    pub(crate) fn on_host_end(&mut self) -> Vec<RawJson> {
        self.own_ids.clear();
        let pending = std::mem::take(&mut self.pending).into_iter();
        let (waiting, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
            pending.partition(|(_, request_kind)| request_kind.survives_host());
        self.pending = waiting;
        let error = RpcError::internal(format!("{HOST_ENDED} before it answered: ask again"));
        let lost = lost.keys().map(|id| build::error(Some(id), &error));
        lost.chain(self.host_requests.on_host_end(HOST_ENDED)).collect()
    }

    /// Returns the messages for the next host.
    pub(crate) fn replay(&mut self) -> Replay {
        let unanswered = self.pending.values().find_map(ClientRequest::opening);
        let opening = unanswered.or_else(|| self.replay_initialize());
        let mut requests = self.replay_requests();
        requests.extend(self.listens().map(|(_, listen)| listen.clone()));
        Replay { opening, requests }
    }

    /// Returns whether the host has not answered `initialize` yet.
    pub(crate) fn is_opening(&self) -> bool {
        self.own_ids.contains(&Id::from(INITIALIZE_ID))
            || self
                .pending
                .values()
                .any(|request_kind| matches!(request_kind, ClientRequest::Initialize(_)))
    }

    /// Returns list-changed notifications for a client that has a new host, because every list may differ.
    pub(crate) fn change_notifications(&self) -> Vec<RawJson> {
        let gets_unsolicited = self.initialize.is_some() && self.is_initialized;
        let unsolicited = LIST_CHANGED.into_iter().filter(|_| gets_unsolicited);
        let unsolicited = unsolicited.map(|changed| build::notification(changed, None));
        unsolicited
            .chain(self.listens().flat_map(|(id, listen)| listen_notifications(id, listen)))
            .collect()
    }

    fn listens(&self) -> impl Iterator<Item = (&Id, &RawJson)> {
        self.pending.iter().filter_map(|(id, request_kind)| match request_kind {
            ClientRequest::Listen(listen) => Some((id, listen)),
            _ => None,
        })
    }

    fn replay_initialize(&mut self) -> Option<RawJson> {
        let opened = self.initialize.clone()?;
        self.own_ids.insert(Id::from(INITIALIZE_ID));
        Some(opened)
    }

    /// Returns the requests that restore a legacy session.
    fn replay_requests(&mut self) -> Vec<RawJson> {
        let initialized = self.is_initialized.then(handshake::initialized_notification);
        let log_level =
            self.log_level.map(|log_level| (method::SET_LOG_LEVEL, "level", log_level.as_str()));
        let followed =
            self.subscriptions.iter().map(|uri| (method::RESOURCES_SUBSCRIBE, "uri", &**uri));
        let requests = log_level.into_iter().chain(followed).zip(1..);
        let own_ids = &mut self.own_ids;
        let requests = requests.map(|((called, key, value), number)| {
            let id = Id::from(format!("toolcrib:{number}").as_str());
            let params = ObjectWriter::new().string(key, value).finish();
            own_ids.insert(id.clone());
            build::request(&id, called, Some(params.json()))
        });
        initialized.into_iter().chain(requests).collect()
    }

    fn on_client_request(&mut self, request: &Request) -> Forwarding {
        if self.pending.len() >= MAX_PENDING_REQUESTS {
            let error = RpcError::internal("too many requests at once");
            return Forwarding::Reply(build::error(Some(&request.id), &error));
        }
        let request_kind = self.classify(request);
        if matches!(request_kind, ClientRequest::Initialize(_)) {
            self.is_initialized = false;
        }
        self.pending.insert(request.id.clone(), request_kind);
        Forwarding::Unchanged
    }

    fn classify(&self, request: &Request) -> ClientRequest {
        let params = &request.params;
        let uri = || params.uri().map(|uri| uri.into_owned());
        let log_level = || LogLevel::read(&params.get("level")?.as_str()?);
        let meant = match request.method.as_str() {
            method::INITIALIZE => Some(ClientRequest::Initialize(Box::new(request.clone()))),
            method::SUBSCRIPTIONS_LISTEN => self.classify_listen(params.message()),
            method::SET_LOG_LEVEL => log_level().map(ClientRequest::SetLogLevel),
            method::RESOURCES_SUBSCRIBE => uri().map(ClientRequest::Subscribe),
            method::RESOURCES_UNSUBSCRIBE => uri().map(ClientRequest::Unsubscribe),
            _ => None,
        };
        meant.unwrap_or(ClientRequest::Other)
    }

    fn classify_listen(&self, listen: &RawJson) -> Option<ClientRequest> {
        let has_room =
            listen.text().len() <= MAX_LISTEN_BYTES && self.listens().count() < MAX_LISTENS;
        has_room.then(|| ClientRequest::Listen(listen.detach()))
    }

    fn on_client_notification(&mut self, told: &Notification) -> Forwarding {
        match told.method.as_str() {
            method::INITIALIZED => self.is_initialized = true,
            method::CANCELLED => {
                if let Ok(cancelled) = Cancelled::read(told.params.json()) {
                    // A host does not answer a cancelled request.
                    self.pending.remove(&cancelled.request);
                }
            }
            _ => {}
        }
        Forwarding::Unchanged
    }

    fn on_host_response(&mut self, answer: &Response) -> Forwarding {
        let Some(id) = &answer.id else { return Forwarding::Unchanged };
        if self.own_ids.remove(id) {
            return Forwarding::Drop;
        }
        let is_good = answer.result().is_ok();
        match self.pending.remove(id) {
            // A host ends a subscription with a response when it closes. The next host continues it under the same id.
            Some(request_kind @ ClientRequest::Listen(_)) if is_good && !self.is_last => {
                self.pending.insert(id.clone(), request_kind);
                return Forwarding::Drop;
            }
            Some(request_kind) if is_good => self.apply_success(request_kind),
            _ => {}
        }
        Forwarding::Unchanged
    }

    fn apply_success(&mut self, request_kind: ClientRequest) {
        match request_kind {
            ClientRequest::Initialize(request) => {
                self.initialize = Some(request.with_id(&Id::from(INITIALIZE_ID)));
            }
            ClientRequest::SetLogLevel(log_level) => self.log_level = Some(log_level),
            ClientRequest::Subscribe(uri)
                if uri.len() <= MAX_URI_BYTES && self.subscriptions.len() < MAX_SUBSCRIPTIONS =>
            {
                self.subscriptions.insert(uri);
            }
            ClientRequest::Unsubscribe(uri) => {
                self.subscriptions.remove(&uri);
            }
            ClientRequest::Subscribe(_) | ClientRequest::Listen(_) | ClientRequest::Other => {}
        }
    }
}

const LIST_CHANGED: [&str; 3] =
    [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED];

/// Returns the list-changed notifications of one modern subscription.
fn listen_notifications(id: &Id, listen: &RawJson) -> impl Iterator<Item = RawJson> {
    let wanted = listen.json().get("params").and_then(|params| params.get("notifications"));
    let wanted = SubscriptionFilter::read(wanted.unwrap_or(Json::EMPTY));
    let params = ObjectWriter::new().json("_meta", subscription_meta(id).json()).finish();
    let wants = [wanted.tools, wanted.prompts, wanted.resources];
    let changes = LIST_CHANGED.into_iter().zip(wants).filter(|(_, is_wanted)| *is_wanted);
    changes.map(move |(changed, _)| build::notification(changed, Some(params.json())))
}

impl ClientRequest {
    /// Returns whether the request is repeated at the next host.
    fn survives_host(&self) -> bool {
        matches!(self, ClientRequest::Initialize(_) | ClientRequest::Listen(_))
    }

    fn opening(&self) -> Option<RawJson> {
        match self {
            ClientRequest::Initialize(request) => Some(request.params.message().clone()),
            _ => None,
        }
    }
}
