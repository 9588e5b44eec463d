//! Tests of OAuth with a real OpenID provider and a real server.

mod concurrent_renewal;
mod container;
mod logins;
mod token_lifecycle;

use serde_json::{Value, json};
use toolcrib_testkit::openid_provider::{OpenIdProvider, open_in_browser};
use toolcrib_upstream::auth::{Accounts, AuthError, Login, LoginStart, ProtectedServer};
use toolcrib_upstream::conn::{Conn, ConnEvent, Demand, Failure};
use toolcrib_upstream::secrets::{CredentialStore, StorageMode};

use crate::test_host::{TestHost, call_tool, result_text, with_time_limit};

/// No process listens there. The test browser returns the URL instead of opening it.
const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// A provider, and a host that uses its tokens.
struct LoginFixture {
    host: TestHost,
    provider: OpenIdProvider,
    conn: Conn,
    server: ProtectedServer,
}

impl LoginFixture {
    async fn new(args: &[&str]) -> Self {
        Self::with(args, json!({})).await
    }

    /// Adds members to the server's entry.
    async fn with(args: &[&str], more: Value) -> Self {
        let provider = with_time_limit(OpenIdProvider::start(args)).await.unwrap();
        let host = TestHost::new();
        let mut entry = json!({"url": provider.server});
        let more = more.as_object().cloned().unwrap_or_default();
        entry.as_object_mut().unwrap().extend(more);
        let spec = host.server(&entry);
        let server = ProtectedServer::from_spec(&spec, &|_| None).unwrap().unwrap();
        let conn = host.start(spec);
        LoginFixture { host, provider, conn, server }
    }

    fn accounts(&self) -> &Accounts {
        &self.host.context.accounts
    }

    fn credential_store(&self) -> CredentialStore {
        CredentialStore::open(self.host.path().join("credentials"), StorageMode::File)
    }

    /// The stored login.
    async fn stored_login(&self) -> Value {
        let stored =
            self.credential_store().read(&format!("oauth:{}", self.provider.server)).await.unwrap();
        serde_json::from_str(stored.unwrap().reveal()).unwrap()
    }

    async fn refresh_token(&self) -> String {
        let stored = self.stored_login().await;
        stored["accounts"][0]["tokens"]["refresh"].as_str().unwrap_or_default().to_owned()
    }

    async fn start_login(&self) -> Result<Box<Login>, AuthError> {
        match with_time_limit(self.accounts().start_login(&self.server, REDIRECT)).await? {
            LoginStart::Browser(login) => Ok(login),
            LoginStart::Done(done) => panic!("the login needs the user: {done:?}"),
        }
    }

    async fn log_in(&self) {
        let login = self.start_login().await.unwrap();
        let answer = open_in_browser(login.authorization_url().as_str()).await.unwrap();
        with_time_limit(login.finish(&answer)).await.unwrap();
    }

    async fn call(&self, name: &str) -> Result<String, Failure> {
        self.conn.send_event(ConnEvent::Connect).await;
        let permit = with_time_limit(self.conn.acquire_without_retry(Demand::Call)).await?;
        let result = call_tool(&permit.session, name, &json!({})).await;
        result.map(|result| result_text(&result).to_owned()).map_err(|error| Failure::from(&error))
    }

    async fn count(&mut self, what: &str) -> u64 {
        self.provider.send_command("counts").await.unwrap()[what].as_u64().unwrap()
    }

    async fn close(self) {
        self.conn.send_event(ConnEvent::Retire).await;
        with_time_limit(self.conn.wait_until_ended()).await;
        self.host.close().await;
    }
}
