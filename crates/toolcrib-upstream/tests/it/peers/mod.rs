//! Servers of other makers, each in the era that it speaks: what they offer, calls, progress, cancelling, changes
//! and questions. What a server cannot do is not asked of it.

mod everything;
mod npm;
mod python;
mod rmcp;

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use serde_json::{Value, json};
use toolcrib_upstream::conn::peer::{
    Answering, Asked, CallOptions, Handler, ProgressWish, mailbox,
};
use toolcrib_upstream::conn::{Catalog, Conn, Event, Session, Ticket, Want};
use toolcrib_wire::{Era, Raw, RpcError};

use crate::scene::{Scene, can, names, options, until, within};

/// A real server, and our connection with it.
struct Guest {
    scene: Scene,
    conn: Conn,
    ticket: Ticket,
    asked: Arc<Mutex<Vec<String>>>,
}

/// What a guest offers: how many tools, prompts, resources and templates.
type Offers = [usize; 4];

/// Whoever is asked: it has one root, gives its name, and remembers what it was asked.
struct Person {
    root: String,
    content: Value,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A scene in which programs find what they need.
fn scene() -> Scene {
    #[expect(clippy::disallowed_methods, reason = "node is where the machine has it")]
    let path = std::env::var("PATH").unwrap();
    Scene::with(Default::default(), &[("PATH", &path)])
}

impl Guest {
    /// Connects. A person who is asked answers with the content.
    async fn meet(scene: Scene, entry: &Value, content: Value) -> Self {
        let asked = Arc::default();
        let root = format!("file://{}", scene.path().display());
        let person = Person { root, content, asked: Arc::clone(&asked) };
        let mut setup = scene.setup(scene.server(entry));
        setup.caller = can(json!({"roots": {}, "elicitation": {}}), person);
        let conn = scene.start_with(setup);
        let ticket = within(conn.ready(Want::Call)).await.unwrap_or_else(|why| panic!("{why:?}"));
        Guest { scene, conn, ticket, asked }
    }

    fn session(&self) -> &Session {
        &self.ticket.session
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.conn.view().catalog.unwrap()
    }

    /// The era, the version, and how much of everything is offered.
    fn offers(&self) -> (&str, Offers) {
        let catalog = self.catalog();
        let offers = [
            catalog.tools.len(),
            catalog.prompts.len(),
            catalog.resources.len(),
            catalog.templates.len(),
        ];
        assert_eq!(catalog.oddities, []);
        (self.session().agreed().version.as_str(), offers)
    }

    fn is_modern(&self) -> bool {
        self.session().agreed().era == Era::Modern
    }

    async fn request(&self, method: &str, params: &Value) -> Value {
        let call = self.session().call(method, Raw::of(params).unwrap(), options(), None);
        let body = within(call).await.unwrap_or_else(|why| panic!("{method} {params}: {why:?}"));
        serde_json::from_str(body.json().text()).unwrap()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments})).await
    }

    /// The text that a tool gives.
    async fn say(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool} gave no text: {result}")).to_owned()
    }

    /// Calls a tool again and again until its text is as wanted.
    async fn until_it_says(&self, tool: &str, wanted: impl Fn(&str) -> bool) {
        let says = async { while !wanted(&self.say(tool, json!({})).await) {} };
        within(says).await;
    }

    /// Calls a tool and hears how far it is.
    async fn progress(&self, tool: &str, arguments: &Value) -> (Vec<f64>, Value) {
        let (sender, mut heard) = mailbox(64);
        let options =
            CallOptions { progress: ProgressWish::Deliver(Arc::new(sender)), ..options() };
        let params = Raw::of(&json!({"name": tool, "arguments": arguments})).unwrap();
        let body = within(self.session().call("tools/call", params, options, None)).await.unwrap();
        let mut steps = Vec::new();
        while let Some(params) = within(heard.next()).await {
            let params: Value = serde_json::from_str(params.params().text()).unwrap();
            steps.push(params["progress"].as_f64().unwrap());
        }
        (steps, serde_json::from_str(body.json().text()).unwrap())
    }

    /// Calls a slow tool, and drops the call when it has begun its work.
    async fn drop_underway(&self, tool: &str, arguments: &Value) {
        let (sender, mut heard) = mailbox(64);
        let options =
            CallOptions { progress: ProgressWish::Deliver(Arc::new(sender)), ..options() };
        let params = Raw::of(&json!({"name": tool, "arguments": arguments})).unwrap();
        tokio::select! {
            answer = self.session().call("tools/call", params, options, None) => {
                panic!("{tool} ended too soon: {answer:?}")
            }
            step = within(heard.next()) => assert!(step.is_some()),
        }
    }

    /// Calls a tool that is not slow, and drops the call as soon as it was sent.
    async fn drop_at_once(&self, tool: &str, arguments: &Value) {
        let params = Raw::of(&json!({"name": tool, "arguments": arguments})).unwrap();
        let mut call = Box::pin(self.session().call("tools/call", params, options(), None));
        // Polled once: a timer of zero may fire later than a quick server answers.
        let is_pending = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "{tool} ended too soon");
    }

    async fn was_asked(&self, method: &str) {
        until(method, || self.asked.lock().unwrap().iter().any(|asked| asked == method)).await;
    }

    /// Makes the server change its tools, and waits until the list has followed.
    async fn changes(&self, tool: &str, appears: &str) {
        if self.is_modern() {
            let heard = &self.scene.heard;
            heard.times(1, "told notifications/subscriptions/acknowledged").await;
        }
        assert!(!names(&self.catalog()).contains(&appears));
        self.call(tool, json!({})).await;
        until(appears, || names(&self.catalog()).contains(&appears)).await;
    }

    async fn part(self) {
        drop(self.ticket);
        within(self.conn.tell(Event::Retire)).await;
        within(self.conn.ended()).await;
        drop(self.conn);
        self.scene.close().await;
    }
}

impl Handler for Person {
    fn take(&self, asked: Asked) -> Option<Answering> {
        self.asked.lock().unwrap().push(asked.method.clone());
        let answer = match asked.method.as_str() {
            "roots/list" => json!({"roots": [{"uri": self.root, "name": "here"}]}),
            "elicitation/create" => json!({"action": "accept", "content": self.content}),
            _ => return None,
        };
        let answer = Raw::of(&answer).map_err(|_| RpcError::internal("no answer"));
        Some(Box::pin(async move { answer }))
    }
}
