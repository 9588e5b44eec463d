//! Interoperability tests with third-party servers, as far as each server supports a feature.

mod everything;
mod npm;
mod python;
mod rmcp;

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use serde_json::{Value, json};
use toolcrib_upstream::conn::peer::{
    CallOptions, HandlerFuture, ProgressMode, RequestHandler, ServerRequest, mailbox,
};
use toolcrib_upstream::conn::{Catalog, Conn, ConnEvent, Demand, Session, SessionPermit};
use toolcrib_wire::{Era, RawJson, RpcError};

use crate::test_host::{
    TestHost, options, session_client, tool_names, wait_until, with_time_limit,
};

/// A running third-party server with a connection to it.
struct ThirdPartyServer {
    host: TestHost,
    conn: Conn,
    permit: SessionPermit,
    requests: Arc<Mutex<Vec<String>>>,
}

/// Numbers of tools, prompts, resources and templates.
type OfferedCounts = [usize; 4];

/// Request handler with one root and fixed input. It records the requested methods.
struct ScriptedUser {
    root: String,
    content: Value,
    requests: Arc<Mutex<Vec<String>>>,
}

/// Test host with the real `PATH`.
fn host() -> TestHost {
    #[expect(clippy::disallowed_methods, reason = "node is where the machine has it")]
    let path = std::env::var("PATH").unwrap();
    TestHost::with(Default::default(), &[("PATH", &path)])
}

impl ThirdPartyServer {
    /// Connects to the server. Elicitations are answered with `content`.
    async fn connect(host: TestHost, entry: &Value, content: Value) -> Self {
        let requests = Arc::default();
        let root = format!("file://{}", host.path().display());
        let user = ScriptedUser { root, content, requests: Arc::clone(&requests) };
        let mut setup = host.setup(host.server(entry));
        setup.client = session_client(json!({"roots": {}, "elicitation": {}}), user);
        let conn = host.start_with(setup);
        let permit = with_time_limit(conn.acquire_session(Demand::Call))
            .await
            .unwrap_or_else(|why| panic!("{why:?}"));
        ThirdPartyServer { host, conn, permit, requests }
    }

    fn session(&self) -> &Session {
        &self.permit.session
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.conn.view().catalog.unwrap()
    }

    /// Agreed version and the numbers of listed items.
    fn offered_counts(&self) -> (&str, OfferedCounts) {
        let catalog = self.catalog();
        let offers = [
            catalog.tools.len(),
            catalog.prompts.len(),
            catalog.resources.len(),
            catalog.templates.len(),
        ];
        assert_eq!(catalog.defects, []);
        (self.session().agreed().version.as_str(), offers)
    }

    fn is_modern(&self) -> bool {
        self.session().agreed().era == Era::Modern
    }

    async fn request(&self, method: &str, params: &Value) -> Value {
        let call =
            self.session().call(method, RawJson::from_value(params).unwrap(), options(), None);
        let body =
            with_time_limit(call).await.unwrap_or_else(|why| panic!("{method} {params}: {why:?}"));
        serde_json::from_str(body.json().text()).unwrap()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool and returns its text.
    async fn call_text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool} gave no text: {result}")).to_owned()
    }

    /// Calls a tool until its text matches.
    async fn call_until_text(&self, tool: &str, wanted: impl Fn(&str) -> bool) {
        let says = async { while !wanted(&self.call_text(tool, json!({})).await) {} };
        with_time_limit(says).await;
    }

    /// Calls a tool and collects its progress.
    async fn progress(&self, tool: &str, arguments: &Value) -> (Vec<f64>, Value) {
        let (sender, mut updates) = mailbox(64);
        let options =
            CallOptions { progress: ProgressMode::Deliver(Arc::new(sender)), ..options() };
        let params = RawJson::from_value(&json!({"name": tool, "arguments": arguments})).unwrap();
        let body = with_time_limit(self.session().call("tools/call", params, options, None))
            .await
            .unwrap();
        let mut steps = Vec::new();
        while let Some(params) = with_time_limit(updates.next()).await {
            let params: Value = serde_json::from_str(params.params().text()).unwrap();
            steps.push(params["progress"].as_f64().unwrap());
        }
        (steps, serde_json::from_str(body.json().text()).unwrap())
    }

    /// Calls a slow tool and drops the call after its first progress.
    async fn drop_running_call(&self, tool: &str, arguments: &Value) {
        let (sender, mut updates) = mailbox(64);
        let options =
            CallOptions { progress: ProgressMode::Deliver(Arc::new(sender)), ..options() };
        let params = RawJson::from_value(&json!({"name": tool, "arguments": arguments})).unwrap();
        tokio::select! {
            answer = self.session().call("tools/call", params, options, None) => {
                panic!("{tool} ended too soon: {answer:?}")
            }
            step = with_time_limit(updates.next()) => assert!(step.is_some()),
        }
    }

    /// Calls a fast tool and drops the call right after sending.
    async fn drop_sent_call(&self, tool: &str, arguments: &Value) {
        let params = RawJson::from_value(&json!({"name": tool, "arguments": arguments})).unwrap();
        let mut call = Box::pin(self.session().call("tools/call", params, options(), None));
        // Polled once: a zero timer may fire after a fast response.
        let is_pending = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        assert!(is_pending, "{tool} ended too soon");
    }

    async fn expect_request(&self, method: &str) {
        wait_until(method, || {
            self.requests.lock().unwrap().iter().any(|requests| requests == method)
        })
        .await;
    }

    /// Calls a tool that changes the tool list, and waits for the new list.
    async fn trigger_tool_change(&self, tool: &str, appears: &str) {
        if self.is_modern() {
            let updates = &self.host.updates;
            updates.wait_for(1, "notification notifications/subscriptions/acknowledged").await;
        }
        assert!(!tool_names(&self.catalog()).contains(&appears));
        self.call(tool, json!({})).await;
        wait_until(appears, || tool_names(&self.catalog()).contains(&appears)).await;
    }

    async fn close(self) {
        drop(self.permit);
        with_time_limit(self.conn.send_event(ConnEvent::Retire)).await;
        with_time_limit(self.conn.wait_until_ended()).await;
        drop(self.conn);
        self.host.close().await;
    }
}

impl RequestHandler for ScriptedUser {
    fn handle(&self, requests: ServerRequest) -> Option<HandlerFuture> {
        self.requests.lock().unwrap().push(requests.method.clone());
        let answer = match requests.method.as_str() {
            "roots/list" => json!({"roots": [{"uri": self.root, "name": "here"}]}),
            "elicitation/create" => json!({"action": "accept", "content": self.content}),
            _ => return None,
        };
        let answer = RawJson::from_value(&answer).map_err(|_| RpcError::internal("no answer"));
        Some(Box::pin(async move { answer }))
    }
}
