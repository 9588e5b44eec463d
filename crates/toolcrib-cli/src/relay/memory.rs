//! What a client's next host has to be told, what the client still waits for, and what follows from each message.

use std::collections::{BTreeMap, BTreeSet};

use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::subscription::{SubscriptionFilter, subscription_meta};
use toolcrib_wire::view::LogLevel;
use toolcrib_wire::{
    Id, Json, Message, Notification, ObjectWriter, Raw, Request, Response, RpcError, build,
    handshake, method,
};

use super::passing::Fate;
use super::questions::Questions;

/// Requests that are under way at once. A host takes fewer and refuses the others, so that only one that does not read
/// is met with so many.
const ASKED: usize = 1024;

/// What is listened to for one client, and how long such a request may be. What is more is not asked for again: the
/// client is told that the host has ended.
const LISTENS: usize = 64;
const LONGEST_LISTEN: usize = 64 << 10;

/// Resources that a client follows, and how long their addresses may be. What is more is not followed any longer.
const FOLLOWED: usize = 1024;
const LONGEST_URI: usize = 8 << 10;

/// The id of the request that opens the conversation with a further host.
const OPENING: &str = "toolcrib:initialize";

const WHY: &str = "the host of this workspace has ended";

/// What one client has said and been told, as far as it matters when its host ends.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Requests of the client that are not answered yet.
    asked: BTreeMap<Id, Asked>,
    /// How a further host is asked to open the conversation, where the client has opened one.
    opened: Option<Raw>,
    is_initialized: bool,
    level: Option<LogLevel>,
    /// The resources that it has subscribed to.
    followed: BTreeSet<String>,
    questions: Questions,
    /// Requests of our own, whose answers are for nobody.
    own: BTreeSet<Id>,
    /// Whether the client ends with this host.
    is_last: bool,
}

/// A request of the client, with what is to be known once it is answered.
#[derive(Debug)]
enum Asked {
    Open(Box<Request>),
    Listen(Raw),
    Level(LogLevel),
    Follow(String),
    Unfollow(String),
    Other,
}

/// What a further host is told before anything else.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Replay {
    /// What has to be answered before the rest may be sent.
    pub(crate) first: Option<Raw>,
    pub(crate) then: Vec<Raw>,
}

impl Memory {
    /// The client is served to the end by the host that comes now.
    pub(crate) fn settle(&mut self) {
        self.is_last = true;
    }

    /// What becomes of a message of the client.
    pub(crate) fn of_client(&mut self, message: &Message) -> Fate {
        match message {
            Message::Request(request) => self.ask(request),
            Message::Notification(told) => self.heed(told),
            Message::Response(answer) => self.questions.answer(answer),
        }
    }

    /// What becomes of a message of the host.
    pub(crate) fn of_host(&mut self, message: &Message) -> Fate {
        match message {
            Message::Request(question) => self.questions.ask(question),
            Message::Notification(told) => self.questions.heed(told),
            Message::Response(answer) => self.answered(answer),
        }
    }

    /// The host has ended: what the client is told of that. A call is never sent again, since it may have had an
    /// effect. What only listens, or was to open the conversation, had none.
    pub(crate) fn host_ended(&mut self) -> Vec<Raw> {
        self.own.clear();
        let asked = std::mem::take(&mut self.asked).into_iter();
        let (waiting, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
            asked.partition(|(_, asked)| asked.can_wait());
        self.asked = waiting;
        let error = RpcError::internal(format!("{WHY} before it answered: ask again"));
        let lost = lost.keys().map(|id| build::error(Some(id), &error));
        lost.chain(self.questions.host_ended(WHY)).collect()
    }

    /// What the next host has to be told.
    pub(crate) fn replay(&mut self) -> Replay {
        let unanswered = self.asked.values().find_map(Asked::opening);
        let first = unanswered.or_else(|| self.own_opening());
        let mut then = self.own_requests();
        then.extend(self.listens().map(|(_, listen)| listen.clone()));
        Replay { first, then }
    }

    /// Whether the host has not answered yet what opens the conversation.
    pub(crate) fn is_opening(&self) -> bool {
        self.own.contains(&Id::from(OPENING))
            || self.asked.values().any(|asked| matches!(asked, Asked::Open(_)))
    }

    /// What the client is told when it has another host: anything may be different there.
    pub(crate) fn news(&self) -> Vec<Raw> {
        let is_told = self.opened.is_some() && self.is_initialized;
        let unasked = CHANGES.into_iter().filter(|_| is_told);
        let unasked = unasked.map(|changed| build::notification(changed, None));
        unasked.chain(self.listens().flat_map(|(id, listen)| news_of(id, listen))).collect()
    }

    fn listens(&self) -> impl Iterator<Item = (&Id, &Raw)> {
        self.asked.iter().filter_map(|(id, asked)| match asked {
            Asked::Listen(listen) => Some((id, listen)),
            _ => None,
        })
    }

    fn own_opening(&mut self) -> Option<Raw> {
        let opened = self.opened.clone()?;
        self.own.insert(Id::from(OPENING));
        Some(opened)
    }

    /// What a client of the legacy era has said since it opened its conversation.
    fn own_requests(&mut self) -> Vec<Raw> {
        let initialized = self.is_initialized.then(handshake::initialized);
        let level = self.level.map(|level| (method::SET_LOG_LEVEL, "level", level.as_str()));
        let followed = self.followed.iter().map(|uri| (method::RESOURCES_SUBSCRIBE, "uri", &**uri));
        let requests = level.into_iter().chain(followed).zip(1..);
        let own = &mut self.own;
        let requests = requests.map(|((called, key, value), number)| {
            let id = Id::from(format!("toolcrib:{number}").as_str());
            let params = ObjectWriter::new().string(key, value).finish();
            own.insert(id.clone());
            build::request(&id, called, Some(params.json()))
        });
        initialized.into_iter().chain(requests).collect()
    }

    fn ask(&mut self, request: &Request) -> Fate {
        if self.asked.len() >= ASKED {
            let error = RpcError::internal("too many requests at once");
            return Fate::Back(build::error(Some(&request.id), &error));
        }
        let asked = self.meaning(request);
        if matches!(asked, Asked::Open(_)) {
            self.is_initialized = false;
        }
        self.asked.insert(request.id.clone(), asked);
        Fate::On
    }

    fn meaning(&self, request: &Request) -> Asked {
        let params = &request.params;
        let uri = || params.uri().map(|uri| uri.into_owned());
        let level = || LogLevel::read(&params.get("level")?.as_str()?);
        let meant = match request.method.as_str() {
            method::INITIALIZE => Some(Asked::Open(Box::new(request.clone()))),
            method::SUBSCRIPTIONS_LISTEN => self.listening(params.message()),
            method::SET_LOG_LEVEL => level().map(Asked::Level),
            method::RESOURCES_SUBSCRIBE => uri().map(Asked::Follow),
            method::RESOURCES_UNSUBSCRIBE => uri().map(Asked::Unfollow),
            _ => None,
        };
        meant.unwrap_or(Asked::Other)
    }

    fn listening(&self, listen: &Raw) -> Option<Asked> {
        let has_room = listen.text().len() <= LONGEST_LISTEN && self.listens().count() < LISTENS;
        has_room.then(|| Asked::Listen(listen.detach()))
    }

    fn heed(&mut self, told: &Notification) -> Fate {
        match told.method.as_str() {
            method::INITIALIZED => self.is_initialized = true,
            method::CANCELLED => {
                if let Ok(cancelled) = Cancelled::read(told.params.json()) {
                    // A host does not answer what was called off.
                    self.asked.remove(&cancelled.request);
                }
            }
            _ => {}
        }
        Fate::On
    }

    fn answered(&mut self, answer: &Response) -> Fate {
        let Some(id) = &answer.id else { return Fate::On };
        if self.own.remove(id) {
            return Fate::Nowhere;
        }
        let is_good = answer.answer().is_ok();
        match self.asked.remove(id) {
            // So a host says that it ends. The next one goes on with it, under the same id.
            Some(asked @ Asked::Listen(_)) if is_good && !self.is_last => {
                self.asked.insert(id.clone(), asked);
                return Fate::Nowhere;
            }
            Some(asked) if is_good => self.learn(asked),
            _ => {}
        }
        Fate::On
    }

    fn learn(&mut self, asked: Asked) {
        match asked {
            Asked::Open(request) => {
                self.opened = Some(request.rewrite().id(&Id::from(OPENING)).finish());
            }
            Asked::Level(level) => self.level = Some(level),
            Asked::Follow(uri) if uri.len() <= LONGEST_URI && self.followed.len() < FOLLOWED => {
                self.followed.insert(uri);
            }
            Asked::Unfollow(uri) => {
                self.followed.remove(&uri);
            }
            Asked::Follow(_) | Asked::Listen(_) | Asked::Other => {}
        }
    }
}

const CHANGES: [&str; 3] =
    [method::TOOLS_CHANGED, method::PROMPTS_CHANGED, method::RESOURCES_CHANGED];

/// The same for one who listens in the modern era: what it asked for, under its id.
fn news_of(id: &Id, listen: &Raw) -> impl Iterator<Item = Raw> {
    let wanted = listen.json().get("params").and_then(|params| params.get("notifications"));
    let wanted = SubscriptionFilter::read(wanted.unwrap_or(Json::EMPTY));
    let params = ObjectWriter::new().json("_meta", subscription_meta(id).json()).finish();
    let wants = [wanted.tools, wanted.prompts, wanted.resources];
    let changes = CHANGES.into_iter().zip(wants).filter(|(_, is_wanted)| *is_wanted);
    changes.map(move |(changed, _)| build::notification(changed, Some(params.json())))
}

impl Asked {
    /// Whether the next host is asked the same.
    fn can_wait(&self) -> bool {
        matches!(self, Asked::Open(_) | Asked::Listen(_))
    }

    fn opening(&self) -> Option<Raw> {
        match self {
            Asked::Open(request) => Some(request.params.message().clone()),
            _ => None,
        }
    }
}
