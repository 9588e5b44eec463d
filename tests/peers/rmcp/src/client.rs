//! The client: what one can do with `toolcrib demo-server`, or with a gateway in front of it.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, GetPromptRequestParams, Implementation, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::Fallible;

/// Gives its name when asked, and counts how often it heard how far a call is.
#[derive(Clone, Default)]
struct Person {
    steps: Arc<AtomicUsize>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let can = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(can, Implementation::new("demo-client", "0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"})))
    }

    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) async fn run(era: &str, target: &str, args: &[String]) -> Fallible {
    let person = Person::default();
    let client = connect(person.clone(), era, target, args).await?;
    let version = client.peer_info().map(|info| info.protocol_version.clone());
    let wanted = match era {
        "legacy" => ProtocolVersion::V_2025_11_25,
        _ => ProtocolVersion::V_2026_07_28,
    };
    is("the version", &json!(version), &json!(wanted))?;
    let tools = client.list_all_tools().await?;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    let all = ["echo", "add", "counter", "slow", "fail", "image", "elicit"];
    is("the tools", &json!(names), &json!(all))?;
    let call = async |name: &'static str, arguments: Value| {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let called =
            client.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await;
        called.map(|result| json!(result))
    };
    let added = call("add", json!({"a": 2, "b": 40})).await?;
    is("the sum", &added["structuredContent"], &json!({"sum": 42}))?;
    is("a failure", &call("fail", json!({})).await?["isError"], &json!(true))?;
    let image = call("image", json!({})).await?;
    is("an image", &image["content"][0]["mimeType"], &json!("image/png"))?;
    let greeted = call("elicit", json!({})).await?;
    is("a greeting", &greeted["content"][0]["text"], &json!("Hello, Ada!"))?;
    call("slow", json!({"seconds": 0.2})).await?;
    // Each is handled in a task of its own, the last one perhaps after the result.
    is("progress", &json!(person.steps.load(Ordering::Relaxed) >= 3), &json!(true))?;
    let read = client.read_resource(ReadResourceRequestParams::new("demo://square/12")).await?;
    is("a resource", &json!(read)["contents"][0]["text"], &json!("144"))?;
    let arguments = json!({"name": "Ada"}).as_object().cloned().unwrap_or_default();
    let prompt = GetPromptRequestParams::new("introduce").with_arguments(arguments);
    let messages = client.get_prompt(prompt).await?.messages;
    is("a prompt", &json!(messages.len()), &json!(1))?;
    client.cancel().await?;
    Ok(())
}

async fn connect(
    person: Person,
    era: &str,
    target: &str,
    args: &[String],
) -> Result<RunningService<RoleClient, Person>, Box<dyn Error>> {
    let lifecycle = match era {
        "legacy" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    if target.starts_with("http:") {
        let transport = StreamableHttpClientTransport::from_uri(target);
        return Ok(person.serve_with_lifecycle(transport, lifecycle).await?);
    }
    let mut command = Command::new(target);
    command.args(args);
    Ok(person.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?)
}

fn is(what: &str, found: &Value, wanted: &Value) -> Fallible {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found} and not {wanted}").into())
}
