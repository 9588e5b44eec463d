//! Client for the official MCP conformance suite: makes the calls of one scenario with this library.
//!
//! The suite passes its server's URL as the last argument, and scenario, version and context in the
//! environment. On an error the program exits with 1, which fails the scenario.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_config::model::units::Period;
use toolcrib_config::{ConfigFile, FileLookup, Lookup, ServerSpec, Workspace, compile};
use toolcrib_upstream::auth::{Accounts, LoginStart, ProtectedServer};
use toolcrib_upstream::conn::peer::{CallOptions, HandlerFuture, RequestHandler, ServerRequest};
use toolcrib_upstream::conn::{
    Conn, ConnContext, ConnEvent, ConnListener, ConnSettings, ConnSetup, ConnUpdate, Demand,
    Failure, ServerLimit, Session, SessionClient, SharedHttpMode, TraitCache,
};
use toolcrib_upstream::process::{GracePeriods, Instance};
use toolcrib_upstream::secrets::{CredentialStore, SecretSources, StorageMode, StoreContext};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::{ClientCapabilities, ElicitAction, ElicitParams, elicit_result};
use toolcrib_wire::{Era, ObjectWriter, RawJson, Version};

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible {
    let url = std::env::args().next_back().ok_or("the server's URL is missing")?;
    let version = Version::from(conformance_variable("PROTOCOL_VERSION")?.as_str());
    let state = tempfile::tempdir()?;
    let instance = Instance::open(state.path())?;
    let scenario = conformance_variable("SCENARIO")?;
    let store = CredentialStore::open(state.path().join("credentials"), StorageMode::File);
    let accounts = Accounts::new(store, Tls::default());
    let spec = server_spec(&url, &version, auth_config(&scenario)?)?;
    let protected =
        ProtectedServer::from_spec(&spec, &|_| None)?.ok_or("not a server that requires tokens")?;
    let setup = setup(spec, instance.clone(), accounts.clone())?;
    let conn = Conn::start(setup, Arc::new(IgnoreUpdates));
    if scenario.starts_with("auth/") {
        authenticate(&scenario, &conn, &accounts, &protected).await?;
    } else {
        let permit = conn.acquire_session(Demand::Call).await.map_err(|failure| failure.message)?;
        run_scenario(&scenario, &Client { conn: &conn, session: &permit.session }).await?;
    }
    conn.send_event(ConnEvent::Retire).await;
    conn.wait_until_ended().await;
    instance.close().await;
    Ok(())
}

/// Runs the calls of a scenario. Connecting has already listed everything.
async fn run_scenario(scenario: &str, client: &Client<'_>) -> Fallible {
    match scenario {
        "initialize" | "json-schema-ref-no-deref" => Ok(()),
        "tools_call" | "request-metadata" => {
            client.call("add_numbers", json!({"a": 5, "b": 3})).await
        }
        "sse-retry" => client.call("test_reconnection", json!({})).await,
        "elicitation-sep1034-client-defaults" => {
            client.call("test_client_elicitation_defaults", json!({})).await
        }
        "http-standard-headers" => client.call_everything().await,
        "http-custom-headers" => client.replay(&conformance_variable("CONTEXT")?).await,
        "http-invalid-tool-headers" => client.call_every_tool().await,
        "sep-2322-client-request-state" => {
            for name in ["echo_state", "unrelated", "no_state", "no_result_type"] {
                client.call(&format!("test_mrtr_{name}"), json!({})).await?;
            }
            Ok(())
        }
        "json-schema-2020-12-preservation" => client.send_schema_back().await,
        other => Err(format!("the scenario `{other}` is not known here").into()),
    }
}

/// Scenarios with an untrustworthy issuer, and the problem codes that the client must report.
const UNTRUSTED_ISSUER_SCENARIOS: [(&str, &str); 6] = [
    ("auth/iss-supported-missing", "auth.wrong_issuer"),
    ("auth/iss-wrong-issuer", "auth.wrong_issuer"),
    ("auth/iss-unexpected", "auth.wrong_issuer"),
    ("auth/iss-normalized", "auth.wrong_issuer"),
    ("auth/metadata-issuer-mismatch", "auth.wrong_issuer"),
    ("auth/resource-mismatch", "auth.other_issuer"),
];

/// The scenario whose server always requests more scopes.
const ENDLESS_SCOPE_SCENARIO: &str = "auth/scope-retry-limit";

/// Number of logins before giving up: the first one, and one for more scopes.
const LOGINS: usize = 2;

/// Lists and calls a tool. Logs in if the server requires it.
async fn authenticate(
    scenario: &str,
    conn: &Conn,
    accounts: &Accounts,
    server: &ProtectedServer,
) -> Fallible {
    let expected_error = UNTRUSTED_ISSUER_SCENARIOS.iter().find(|(name, _)| *name == scenario);
    for _ in 0..LOGINS {
        let Err(failure) = call_first_tool(conn).await else { return Ok(()) };
        if failure.code != "auth.login_required" {
            return Err(failure.message.into());
        }
        match (log_in(accounts, server).await, expected_error) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => return Err("the client accepted an untrustworthy issuer".into()),
            (Err(error), Some((_, code))) if error.to_string().starts_with(code) => return Ok(()),
            (Err(error), _) => return Err(error),
        }
    }
    match call_first_tool(conn).await {
        Ok(()) => Ok(()),
        Err(failure)
            if scenario == ENDLESS_SCOPE_SCENARIO && failure.code == "auth.login_required" =>
        {
            Ok(())
        }
        Err(failure) => Err(failure.message.into()),
    }
}

async fn call_first_tool(conn: &Conn) -> Result<(), Failure> {
    // The connection may be up already and require more scopes for a call.
    conn.send_event(ConnEvent::Connect).await;
    let permit = conn.acquire_without_retry(Demand::Call).await?;
    let catalog = conn.view().catalog.unwrap_or_default();
    let name = catalog.tools.first().map(|tool| tool.name().to_owned()).unwrap_or_default();
    let params = ObjectWriter::new().string("name", &name).finish();
    let called = permit.session.call("tools/call", params, CallOptions::default(), None).await;
    called.map(drop).map_err(|error| Failure::from(&error))
}

/// Logs in. The suite's issuer redirects the browser without interaction.
async fn log_in(accounts: &Accounts, server: &ProtectedServer) -> Fallible {
    let describe = |error: toolcrib_upstream::auth::AuthError| format!("{}: {error}", error.code());
    let login = match accounts.start_login(server, "http://127.0.0.1:9/callback").await {
        Ok(LoginStart::Browser(login)) => login,
        Ok(LoginStart::Done(_)) => return Ok(()),
        Err(error) => return Err(describe(error).into()),
    };
    let address = login.authorization_url().clone();
    let host = address.host_str().ok_or("no host")?;
    let mut socket = TcpStream::connect((host, address.port().ok_or("no port")?)).await?;
    let query = address.query().unwrap_or_default();
    let head = format!("GET {}?{query} HTTP/1.1\r\nhost: {host}\r\n", address.path());
    socket.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await?;
    let mut page = String::new();
    socket.read_to_string(&mut page).await?;
    let location = page.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    login
        .finish(&location.ok_or("the issuer does not send the browser back")?)
        .await
        .map_err(describe)?;
    Ok(())
}

/// Builds the `auth` entry from the scenario's context.
fn auth_config(scenario: &str) -> Fallible<Option<Value>> {
    if !scenario.starts_with("auth/") {
        return Ok(None);
    }
    let context: Value =
        serde_json::from_str(&conformance_variable("CONTEXT").unwrap_or_else(|_| "{}".into()))?;
    let mut auth = json!({"kind": "oauth"});
    auth["client_metadata_url"] = json!("https://conformance-test.local/client-metadata.json");
    let known = [
        ("client_id", "client_id"),
        ("client_secret", "client_secret"),
        ("private_key_pem", "private_key"),
    ];
    for (context_key, key) in known {
        if let Some(value) = context.get(context_key) {
            auth[key] = value.clone();
        }
    }
    if scenario.starts_with("auth/client-credentials") {
        auth["grant"] = json!("client_credentials");
    }
    Ok(Some(auth))
}

/// A connection and the calls of the scenarios.
struct Client<'a> {
    conn: &'a Conn,
    session: &'a Session,
}

impl Client<'_> {
    async fn call(&self, tool: &str, arguments: Value) -> Fallible {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    async fn request(&self, method: &str, params: Value) -> Fallible {
        let answer =
            self.session.call(method, RawJson::from_value(&params)?, CallOptions::default(), None);
        answer.await?;
        Ok(())
    }

    async fn call_every_tool(&self) -> Fallible {
        let catalog = self.conn.view().catalog.ok_or("no catalogue")?;
        for tool in &catalog.tools {
            self.call(tool.name(), json!({"region": "us-west1"})).await?;
        }
        Ok(())
    }

    async fn call_everything(&self) -> Fallible {
        self.call_every_tool().await?;
        let catalog = self.conn.view().catalog.ok_or("no catalogue")?;
        for resource in &catalog.resources {
            self.request("resources/read", json!({"uri": resource.uri()})).await?;
        }
        for prompt in &catalog.prompts {
            self.request("prompts/get", json!({"name": prompt.name()})).await?;
        }
        Ok(())
    }

    async fn replay(&self, context: &str) -> Fallible {
        let context: Value = serde_json::from_str(context)?;
        for call in context["toolCalls"].as_array().ok_or("no calls to replay")? {
            let name = call["name"].as_str().ok_or("a call without a name")?;
            self.call(name, call["arguments"].clone()).await?;
        }
        Ok(())
    }

    async fn send_schema_back(&self) -> Fallible {
        let catalog = self.conn.view().catalog.ok_or("no catalogue")?;
        let tool = catalog.tools.iter().find(|tool| tool.name() == "json_schema_2020_12_tool");
        let schema = tool.ok_or("the tool is not listed")?.input_schema().text();
        let schema: Value = serde_json::from_str(schema)?;
        self.call("json_schema_echo", json!({"schema": schema})).await
    }
}

/// Answers forms with the defaults of their schema (SEP-1034), and has no roots.
struct DefaultFormHandler;

impl RequestHandler for DefaultFormHandler {
    fn handle(&self, request: ServerRequest) -> Option<HandlerFuture> {
        let answer = match request.method.as_str() {
            "elicitation/create" => accept_form(&ElicitParams::new(request.params.raw()?)),
            "roots/list" => RawJson::from_value(&json!({"roots": []})).ok(),
            _ => None,
        }?;
        Some(Box::pin(async move { Ok(answer) }))
    }
}

fn accept_form(form: &ElicitParams) -> Option<RawJson> {
    let schema: Value = serde_json::from_str(form.requested_schema()?.text()).ok()?;
    let fields = schema["properties"].as_object()?;
    let given = fields.iter().filter_map(|(name, field)| {
        field.get("default").map(|value| (name.clone(), value.clone()))
    });
    let content = RawJson::from_value(&given.collect::<Map<_, _>>()).ok()?;
    Some(elicit_result(ElicitAction::Accept, Some(content.json())))
}

fn server_spec(url: &str, version: &Version, auth: Option<Value>) -> Fallible<ServerSpec> {
    let protocol = match version.era() {
        Some(Era::Legacy) => "legacy",
        Some(Era::Modern) => "modern",
        None => return Err("a version of no known era".into()),
    };
    let mut entry = json!({"url": url, "protocol": protocol});
    if let Some(auth) = auth {
        entry["auth"] = auth;
    }
    let text = json!({"version": 1, "servers": {"suite": entry}}).to_string();
    let config_file = ConfigFile { path: "/suite/toolcrib.yaml".into(), dialect: None };
    let workspace = Workspace { root: "/suite".into(), home: None, config_file: Some(config_file) };
    let mut config = compile(&workspace, &SingleFile(text));
    match config.servers.pop() {
        Some(server) => Ok(server),
        None => Err(format!("{:?}", config.problems).into()),
    }
}

/// The suite's configuration contains no references.
fn secret_sources(instance: &Instance) -> SecretSources {
    let (env, cwd, tls) = (Vec::new(), "/".into(), Tls::default());
    let store = CredentialStore::open("/nowhere".into(), StorageMode::File);
    SecretSources::new(store, StoreContext { instance: instance.clone(), env, cwd, tls })
}

fn setup(spec: ServerSpec, instance: Instance, accounts: Accounts) -> Fallible<ConnSetup> {
    let capabilities = RawJson::from_value(&json!({"elicitation": {}, "roots": {}}))?;
    Ok(ConnSetup {
        settings: ConnSettings::from_policy(&spec.policy, Some(Period::secs(5))),
        cwd: "/".into(),
        protocol: spec.policy.protocol.clone(),
        spec: Arc::new(spec),
        context: Arc::new(ConnContext {
            sources: secret_sources(&instance),
            instance,
            env: Vec::new(),
            tls: Tls::default(),
            accounts,
            permissions: Permissions { spawn: false, network: true, docker: false }.into(),
            http_mode: SharedHttpMode::default(),
            graces: GracePeriods::default(),
            traits: TraitCache::default(),
            server_limit: ServerLimit::default(),
            client_info: Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")),
        }),
        client: SessionClient {
            capabilities: ClientCapabilities::new(capabilities),
            handler: Arc::new(DefaultFormHandler),
        },
        clock: Arc::default(),
        catalog: None,
    })
}

#[expect(clippy::disallowed_methods, reason = "this is a binary, and this is how the suite talks")]
fn conformance_variable(what: &str) -> Fallible<String> {
    let name = format!("MCP_CONFORMANCE_{what}");
    std::env::var(&name).map_err(|_| format!("{name} is not set").into())
}

/// A file system with a single configuration file.
struct SingleFile(String);

impl Lookup for SingleFile {
    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> FileLookup {
        FileLookup::Content(self.0.clone().into_bytes())
    }

    fn is_dir(&self, _: &Path) -> bool {
        false
    }
}

/// Ignores all updates.
struct IgnoreUpdates;

impl ConnListener for IgnoreUpdates {
    fn on_update(&self, _: ConnUpdate) {}
}
