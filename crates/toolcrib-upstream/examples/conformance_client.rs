//! The client that the official conformance suite judges: it makes the calls of one scenario, over this library.
//!
//! The suite passes the address of its server as the last argument, and the scenario, the version and what else
//! there is to know in the environment. An error ends the program with 1, which fails the scenario.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_config::model::units::Period;
use toolcrib_config::{File, Lookup, Named, ServerSpec, Workspace, compile};
use toolcrib_upstream::auth::{Accounts, Begun, Protected};
use toolcrib_upstream::conn::peer::{Answering, Asked, CallOptions, Handler};
use toolcrib_upstream::conn::{
    Caller, Conn, Event, Failure, Listener, Memory, News, ServerLimit, Session, Settings, Setup,
    Want, World,
};
use toolcrib_upstream::process::{Graces, Instance};
use toolcrib_upstream::secrets::{Keep, Means, Sources, Storage};
use toolcrib_upstream::transport::{Permissions, Tls};
use toolcrib_wire::handshake::Implementation;
use toolcrib_wire::view::{ClientCapabilities, Elicit, ElicitAction, elicit_result};
use toolcrib_wire::{Era, ObjectWriter, Raw, Version};

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible {
    let url = std::env::args().next_back().ok_or("the server's address is missing")?;
    let version = Version::from(told("PROTOCOL_VERSION")?.as_str());
    let state = tempfile::tempdir()?;
    let instance = Instance::open(state.path())?;
    let scenario = told("SCENARIO")?;
    let keep = Keep::open(state.path().join("credentials"), Storage::File);
    let accounts = Accounts::new(keep, Tls::default());
    let spec = server(&url, &version, auth(&scenario)?)?;
    let protected = Protected::of(&spec, &|_| None)?.ok_or("no server that wants tokens")?;
    let setup = setup(spec, instance.clone(), accounts.clone())?;
    let conn = Conn::start(setup, Arc::new(Nobody));
    if scenario.starts_with("auth/") {
        come_in(&scenario, &conn, &accounts, &protected).await?;
    } else {
        let ticket = conn.ready(Want::Call).await.map_err(|failure| failure.message)?;
        perform(&scenario, &Client { conn: &conn, session: &ticket.session }).await?;
    }
    conn.tell(Event::Retire).await;
    conn.ended().await;
    instance.close().await;
    Ok(())
}

/// Connecting has listed everything already.
async fn perform(scenario: &str, client: &Client<'_>) -> Fallible {
    match scenario {
        "initialize" | "json-schema-ref-no-deref" => Ok(()),
        "tools_call" | "request-metadata" => {
            client.call("add_numbers", json!({"a": 5, "b": 3})).await
        }
        "sse-retry" => client.call("test_reconnection", json!({})).await,
        "elicitation-sep1034-client-defaults" => {
            client.call("test_client_elicitation_defaults", json!({})).await
        }
        "http-standard-headers" => client.use_everything().await,
        "http-custom-headers" => client.replay(&told("CONTEXT")?).await,
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

/// Scenarios in which whoever asks for tokens is not to be trusted, and what is found out about him.
const TRAPS: [(&str, &str); 6] = [
    ("auth/iss-supported-missing", "auth.wrong_issuer"),
    ("auth/iss-wrong-issuer", "auth.wrong_issuer"),
    ("auth/iss-unexpected", "auth.wrong_issuer"),
    ("auth/iss-normalized", "auth.wrong_issuer"),
    ("auth/metadata-issuer-mismatch", "auth.wrong_issuer"),
    ("auth/resource-mismatch", "auth.other_issuer"),
];

/// The scenario whose server is never content.
const INSATIABLE: &str = "auth/scope-retry-limit";

/// A person logs in this often before he gives up: at first, and when more is asked for.
const LOGINS: usize = 2;

/// Lists and calls a tool, and logs in where that is what is missing.
async fn come_in(scenario: &str, conn: &Conn, accounts: &Accounts, server: &Protected) -> Fallible {
    let trap = TRAPS.iter().find(|(name, _)| *name == scenario);
    for _ in 0..LOGINS {
        let Err(failure) = call_first(conn).await else { return Ok(()) };
        if failure.code != "auth.login_required" {
            return Err(failure.message.into());
        }
        match (log_in(accounts, server).await, trap) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => return Err("the trap was not seen".into()),
            (Err(error), Some((_, code))) if error.to_string().starts_with(code) => return Ok(()),
            (Err(error), _) => return Err(error),
        }
    }
    match call_first(conn).await {
        Ok(()) => Ok(()),
        Err(failure) if scenario == INSATIABLE && failure.code == "auth.login_required" => Ok(()),
        Err(failure) => Err(failure.message.into()),
    }
}

async fn call_first(conn: &Conn) -> Result<(), Failure> {
    // It may be up already, and want more for a call.
    conn.tell(Event::Connect).await;
    let ticket = conn.first_try(Want::Call).await?;
    let catalog = conn.view().catalog.unwrap_or_default();
    let name = catalog.tools.first().map(|tool| tool.name().to_owned()).unwrap_or_default();
    let params = ObjectWriter::new().string("name", &name).finish();
    let called = ticket.session.call("tools/call", params, CallOptions::default(), None).await;
    called.map(drop).map_err(|error| Failure::from(&error))
}

/// The suite's issuer asks nobody anything: it sends the browser straight back.
async fn log_in(accounts: &Accounts, server: &Protected) -> Fallible {
    let told = |error: toolcrib_upstream::auth::AuthError| format!("{}: {error}", error.code());
    let login = match accounts.begin_login(server, "http://127.0.0.1:9/callback").await {
        Ok(Begun::Ask(login)) => login,
        Ok(Begun::Done(_)) => return Ok(()),
        Err(error) => return Err(told(error).into()),
    };
    let address = login.address().clone();
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
        .map_err(told)?;
    Ok(())
}

/// Who the client is, as far as the scenario tells.
fn auth(scenario: &str) -> Fallible<Option<Value>> {
    if !scenario.starts_with("auth/") {
        return Ok(None);
    }
    let context: Value = serde_json::from_str(&told("CONTEXT").unwrap_or_else(|_| "{}".into()))?;
    let mut auth = json!({"kind": "oauth"});
    auth["client_metadata_url"] = json!("https://conformance-test.local/client-metadata.json");
    let known = [
        ("client_id", "client_id"),
        ("client_secret", "client_secret"),
        ("private_key_pem", "private_key"),
    ];
    for (told, key) in known {
        if let Some(value) = context.get(told) {
            auth[key] = value.clone();
        }
    }
    if scenario.starts_with("auth/client-credentials") {
        auth["grant"] = json!("client_credentials");
    }
    Ok(Some(auth))
}

/// One connection, and the calls that scenarios want.
struct Client<'a> {
    conn: &'a Conn,
    session: &'a Session,
}

impl Client<'_> {
    async fn call(&self, tool: &str, arguments: Value) -> Fallible {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    async fn request(&self, method: &str, params: Value) -> Fallible {
        let answer = self.session.call(method, Raw::of(&params)?, CallOptions::default(), None);
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

    async fn use_everything(&self) -> Fallible {
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

/// Answers forms with what their schema gives, as SEP-1034 has it, and has no roots.
struct Defaults;

impl Handler for Defaults {
    fn take(&self, asked: Asked) -> Option<Answering> {
        let answer = match asked.method.as_str() {
            "elicitation/create" => accept(&Elicit::new(asked.params.raw()?)),
            "roots/list" => Raw::of(&json!({"roots": []})).ok(),
            _ => None,
        }?;
        Some(Box::pin(async move { Ok(answer) }))
    }
}

fn accept(form: &Elicit) -> Option<Raw> {
    let schema: Value = serde_json::from_str(form.requested_schema()?.text()).ok()?;
    let fields = schema["properties"].as_object()?;
    let given = fields.iter().filter_map(|(name, field)| {
        field.get("default").map(|value| (name.clone(), value.clone()))
    });
    let content = Raw::of(&given.collect::<Map<_, _>>()).ok()?;
    Some(elicit_result(ElicitAction::Accept, Some(content.json())))
}

fn server(url: &str, version: &Version, auth: Option<Value>) -> Fallible<ServerSpec> {
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
    let named = Named { path: "/suite/toolcrib.yaml".into(), dialect: None };
    let workspace = Workspace { root: "/suite".into(), home: None, named: Some(named) };
    let mut config = compile(&workspace, &Text(text));
    match config.servers.pop() {
        Some(server) => Ok(server),
        None => Err(format!("{:?}", config.problems).into()),
    }
}

/// The suite's configuration refers to nothing.
fn sources(instance: &Instance) -> Sources {
    let (env, cwd, tls) = (Vec::new(), "/".into(), Tls::default());
    let keep = Keep::open("/nowhere".into(), Storage::File);
    Sources::new(keep, Means { instance: instance.clone(), env, cwd, tls })
}

fn setup(spec: ServerSpec, instance: Instance, accounts: Accounts) -> Fallible<Setup> {
    let capabilities = Raw::of(&json!({"elicitation": {}, "roots": {}}))?;
    Ok(Setup {
        settings: Settings::of(&spec.policy, Some(Period::secs(5))),
        cwd: "/".into(),
        protocol: spec.policy.protocol.clone(),
        spec: Arc::new(spec),
        world: Arc::new(World {
            sources: sources(&instance),
            instance,
            env: Vec::new(),
            tls: Tls::default(),
            accounts,
            permissions: Permissions { spawn: false, network: true, docker: false }.into(),
            graces: Graces::default(),
            memory: Memory::default(),
            connections: ServerLimit::default(),
            client: Implementation::new("toolcrib", env!("CARGO_PKG_VERSION")),
        }),
        caller: Caller {
            capabilities: ClientCapabilities::new(capabilities),
            handler: Arc::new(Defaults),
        },
        clock: Arc::default(),
        catalog: None,
    })
}

#[expect(clippy::disallowed_methods, reason = "this is a binary, and this is how the suite talks")]
fn told(what: &str) -> Fallible<String> {
    let name = format!("MCP_CONFORMANCE_{what}");
    std::env::var(&name).map_err(|_| format!("{name} is not set").into())
}

/// One configuration file and nothing else.
struct Text(String);

impl Lookup for Text {
    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> File {
        File::Content(self.0.clone().into_bytes())
    }

    fn is_dir(&self, _: &Path) -> bool {
        false
    }
}

/// Listens to nothing.
struct Nobody;

impl Listener for Nobody {
    fn hear(&self, _: News) {}
}
