//! Tokens from a real OpenID provider for a real server: how they come, stay fresh, and end.

mod container;
mod endings;
mod logins;
mod races;

use serde_json::{Value, json};
use toolcrib_testkit::provider::{Provider, browse};
use toolcrib_upstream::auth::{Accounts, AuthError, Begun, Login, Protected};
use toolcrib_upstream::conn::{Conn, Event, Failure, Want};
use toolcrib_upstream::secrets::{Keep, Storage};

use crate::scene::{Scene, text, tool, within};

/// Nobody listens there: the browser tells the address instead of showing it.
const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// A provider, and a host that wants its tokens.
struct Stage {
    scene: Scene,
    provider: Provider,
    conn: Conn,
    server: Protected,
}

impl Stage {
    async fn new(words: &[&str]) -> Self {
        Self::with(words, json!({})).await
    }

    /// With more in the server's entry.
    async fn with(words: &[&str], more: Value) -> Self {
        let provider = within(Provider::start(words)).await.unwrap();
        let scene = Scene::new();
        let mut entry = json!({"url": provider.server});
        let more = more.as_object().cloned().unwrap_or_default();
        entry.as_object_mut().unwrap().extend(more);
        let spec = scene.server(&entry);
        let server = Protected::of(&spec, &|_| None).unwrap().unwrap();
        let conn = scene.start(spec);
        Stage { scene, provider, conn, server }
    }

    fn accounts(&self) -> &Accounts {
        &self.scene.world.accounts
    }

    fn keep(&self) -> Keep {
        Keep::open(self.scene.path().join("credentials"), Storage::File)
    }

    /// What is kept of the login.
    async fn kept(&self) -> Value {
        let kept = self.keep().read(&format!("oauth:{}", self.provider.server)).await.unwrap();
        serde_json::from_str(kept.unwrap().reveal()).unwrap()
    }

    async fn refresh_token(&self) -> String {
        let kept = self.kept().await;
        kept["accounts"][0]["tokens"]["refresh"].as_str().unwrap_or_default().to_owned()
    }

    async fn begin(&self) -> Result<Box<Login>, AuthError> {
        match within(self.accounts().begin_login(&self.server, REDIRECT)).await? {
            Begun::Ask(login) => Ok(login),
            Begun::Done(done) => panic!("nobody was asked: {done:?}"),
        }
    }

    async fn log_in(&self) {
        let login = self.begin().await.unwrap();
        let answer = browse(login.address().as_str()).await.unwrap();
        within(login.finish(&answer)).await.unwrap();
    }

    async fn call(&self, name: &str) -> Result<String, Failure> {
        self.conn.tell(Event::Connect).await;
        let ticket = within(self.conn.first_try(Want::Call)).await?;
        let result = tool(&ticket.session, name, &json!({})).await;
        result.map(|result| text(&result).to_owned()).map_err(|error| Failure::from(&error))
    }

    async fn count(&mut self, what: &str) -> u64 {
        self.provider.order("counts").await.unwrap()[what].as_u64().unwrap()
    }

    async fn close(self) {
        self.conn.tell(Event::Retire).await;
        within(self.conn.ended()).await;
        self.scene.close().await;
    }
}
