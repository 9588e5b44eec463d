//! The complete list of control API endpoints.

use axum::routing::MethodFilter;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::schema::{
    AcceptDefinitions, AccessReport, AnswerReceipt, CallHistory, CallReport, DefinitionChanges,
    DialogList, DialogStatus, HostStatus, LeaseList, NewCall, NewDialog, OperationResult,
    PendingRequestList, ProblemList, PromptArguments, PromptList, ReloadReport, ReminderList,
    RequestAnswer, ResourceList, ServerList, ServerLog, ServerSwitch, ServerSwitchResult,
    ServerView, ToolList,
};
use super::{calls, dialogs, events, host, lists, openapi, servers};

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const DELETE: MethodFilter = MethodFilter::DELETE;

pub(super) fn endpoints() -> Vec<Endpoint> {
    [
        host_endpoints(),
        server_endpoints(),
        list_endpoints(),
        dialog_endpoints(),
        single_dialog_endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn host_endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/openapi.json", "This description", openapi::serve)
            .returns_json::<Value>(200),
        Endpoint::new(GET, "/status", "Statistics of the host", host::status)
            .query::<servers::ServersQuery>()
            .returns_json::<HostStatus>(200),
        Endpoint::new(GET, "/problems", "All current problems", host::problems)
            .returns_json::<ProblemList>(200),
        Endpoint::new(
            GET,
            "/definitions",
            "Tools whose definition has changed since it was first seen or accepted",
            host::changed_definitions,
        )
        .owner_only()
        .returns_json::<DefinitionChanges>(200),
        Endpoint::new(
            POST,
            "/definitions/accept",
            "Accepts changed definitions of one tool or of all tools",
            host::accept_definitions,
        )
        .owner_only()
        .body::<AcceptDefinitions>()
        .returns_json::<DefinitionChanges>(200),
        Endpoint::new(GET, "/events", "Stream of host events", events::stream).returns_events(),
        Endpoint::new(GET, "/reload", "Report of the newest reload", host::last_reload)
            .returns_json::<ReloadReport>(200),
        Endpoint::new(POST, "/reload", "Reloads the configuration", host::reload)
            .owner_only()
            .returns_json::<ReloadReport>(200),
        Endpoint::new(
            GET,
            "/calls",
            "Finished calls with caller, duration and outcome",
            host::call_history,
        )
        .owner_only()
        .query::<host::CallHistoryQuery>()
        .returns_json::<CallHistory>(200),
    ]
}

fn server_endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/servers", "All servers with their status", servers::list)
            .query::<servers::ServersQuery>()
            .returns_json::<ServerList>(200),
        Endpoint::new(POST, "/servers", "Adds a server until the host closes", servers::add)
            .owner_only()
            .body::<servers::NewServer>()
            .returns_json::<ServerView>(201),
        Endpoint::new(GET, "/servers/{server}", "One server, by its id or key", servers::get)
            .returns_json::<ServerView>(200),
        Endpoint::new(DELETE, "/servers/{server}", "Removes an added server", servers::remove)
            .owner_only(),
        Endpoint::new(
            GET,
            "/servers/{server}/log",
            "End of the server's standard error output",
            servers::log,
        )
        .owner_only()
        .returns_json::<ServerLog>(200),
        Endpoint::new(POST, "/servers/{server}/connect", "Connects a server", servers::connect)
            .owner_only()
            .returns_json::<OperationResult>(200),
        Endpoint::new(
            POST,
            "/servers/{server}/disconnect",
            "Ends all sessions of a server",
            servers::disconnect,
        )
        .owner_only()
        .returns_json::<OperationResult>(200),
        Endpoint::new(
            POST,
            "/servers/{server}/refresh",
            "Reloads the lists of a server",
            servers::refresh,
        )
        .returns_json::<OperationResult>(200),
        Endpoint::new(
            POST,
            "/servers/{server}/restart",
            "Ends all sessions of a server and reconnects",
            servers::restart,
        )
        .owner_only()
        .returns_json::<OperationResult>(200),
        Endpoint::new(POST, "/servers/{server}/enable", "Enables a server", servers::enable)
            .owner_only()
            .returns_json::<OperationResult>(200),
        Endpoint::new(POST, "/servers/{server}/disable", "Disables a server", servers::disable)
            .owner_only()
            .returns_json::<OperationResult>(200),
    ]
}

fn list_endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/tools", "Tools of an agent", lists::tools)
            .query::<lists::ToolsQuery>()
            .returns_json::<ToolList>(200),
        Endpoint::new(
            GET,
            "/why",
            "Explains which access gates a tool passes or fails",
            lists::explain,
        )
        .query::<lists::ExplainQuery>()
        .returns_json::<AccessReport>(200),
        Endpoint::new(
            GET,
            "/resources",
            "Resources and resource templates of an agent",
            lists::resources,
        )
        .query::<lists::ListQuery>()
        .returns_json::<ResourceList>(200),
        Endpoint::new(
            GET,
            "/resources/content",
            "The result of `resources/read`",
            lists::read_resource,
        )
        .query::<lists::ReadQuery>()
        .returns_json::<Value>(200),
        Endpoint::new(GET, "/prompts", "Prompts of an agent", lists::prompts)
            .query::<lists::ListQuery>()
            .returns_json::<PromptList>(200),
        Endpoint::new(POST, "/prompts/{name}", "The result of `prompts/get`", lists::get_prompt)
            .query::<lists::ListQuery>()
            .body::<PromptArguments>()
            .returns_json::<Value>(200),
    ]
}

fn dialog_endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(POST, "/dialogs", "Creates or resumes a dialog", dialogs::create)
            .body::<NewDialog>()
            .returns_json::<DialogStatus>(201),
        Endpoint::new(
            GET,
            "/dialogs",
            "Dialogs of the principal; all dialogs for the owner",
            dialogs::list,
        )
        .returns_json::<DialogList>(200),
        Endpoint::new(GET, "/dialogs/{dialog}", "A dialog and its servers", dialogs::get)
            .returns_json::<DialogStatus>(200),
        Endpoint::new(
            DELETE,
            "/dialogs/{dialog}",
            "Ends a dialog and releases everything it holds",
            dialogs::delete,
        ),
    ]
}

fn single_dialog_endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/dialogs/{dialog}/tools", "Tools of a dialog", dialogs::tools)
            .query::<dialogs::DialogToolsQuery>()
            .returns_json::<ToolList>(200),
        Endpoint::new(POST, "/dialogs/{dialog}/calls", "Calls a tool", calls::start)
            .query::<calls::StartCallQuery>()
            .body::<NewCall>()
            .returns_json_or_events::<CallReport>(),
        Endpoint::new(GET, "/dialogs/{dialog}/calls/{call}", "Report of a call", calls::get)
            .returns_json::<CallReport>(200),
        Endpoint::new(DELETE, "/dialogs/{dialog}/calls/{call}", "Cancels a call", calls::cancel),
        Endpoint::new(
            PUT,
            "/dialogs/{dialog}/servers/{server}",
            "Enables or disables a server for this dialog",
            dialogs::switch_server,
        )
        .body::<ServerSwitch>()
        .returns_json::<ServerSwitchResult>(200),
        Endpoint::new(GET, "/dialogs/{dialog}/leases", "Leases of a dialog", dialogs::leases)
            .returns_json::<LeaseList>(200),
        Endpoint::new(
            DELETE,
            "/dialogs/{dialog}/leases/{server}",
            "Releases a lease",
            dialogs::release_lease,
        ),
        Endpoint::new(
            GET,
            "/dialogs/{dialog}/reminders",
            "Reminders for the agent of a dialog",
            dialogs::reminders,
        )
        .returns_json::<ReminderList>(200),
        Endpoint::new(
            GET,
            "/dialogs/{dialog}/requests",
            "Pending server requests of a dialog",
            dialogs::requests,
        )
        .returns_json::<PendingRequestList>(200),
        Endpoint::new(
            POST,
            "/dialogs/{dialog}/requests/{request}",
            "Responds to a server request",
            dialogs::answer_request,
        )
        .body::<RequestAnswer>()
        .returns_json::<AnswerReceipt>(200),
    ]
}
