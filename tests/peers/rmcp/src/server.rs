//! The tools, prompts and resources of the server, and its notification of changed tools.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, PromptArgument, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, Role, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use tokio::sync::watch;

use crate::tools;

pub(crate) const RESOURCE: &str = "peer://motto";
pub(crate) const PROMPT: &str = "greet";

/// One server; its sessions, clones of it, share the list of tools.
#[derive(Clone)]
pub(crate) struct Server {
    versions: &'static [ProtocolVersion],
    /// How often the list of tools has changed; a tool more is there at every odd number.
    pub(crate) changes: Arc<watch::Sender<usize>>,
    /// Calls of `slow` that were cancelled, so that a client can ask whether its wish arrived.
    pub(crate) cancelled: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn new(versions: &'static [ProtocolVersion]) -> Self {
        let changes = Arc::new(watch::Sender::new(0));
        Self { versions, changes, cancelled: Arc::default() }
    }

    pub(crate) fn has_extra(&self) -> bool {
        *self.changes.borrow() % 2 == 1
    }

    pub(crate) fn cancelled(&self) -> usize {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolcrib-rmcp-peer", env!("CARGO_PKG_VERSION")))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(self)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                // The sender is our own: this never ends.
                _ = changes.changed() => {}
            }
            // A client that listens for something else gets nothing; that is no reason to stop.
            let _ = context.sink().notify_tool_list_changed().await;
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(RESOURCE, "motto")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != RESOURCE {
            return Err(ErrorData::resource_not_found("no such resource", None));
        }
        let text = ResourceContents::text("every tool in its place", RESOURCE);
        Ok(ReadResourceResult::new(vec![text]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let name = PromptArgument::new("name").with_required(true);
        let prompt = Prompt::new(PROMPT, Some("Greets a person."), Some(vec![name]));
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.arguments.as_ref().and_then(|given| given.get("name")?.as_str());
        match (request.name.as_str(), name) {
            (PROMPT, Some(name)) => {
                let text = PromptMessage::new_text(Role::User, format!("Say hello to {name}."));
                Ok(GetPromptResult::new(vec![text]).into())
            }
            (PROMPT, None) => Err(ErrorData::invalid_params("`name` is missing", None)),
            _ => Err(ErrorData::invalid_params("no such prompt", None)),
        }
    }
}
