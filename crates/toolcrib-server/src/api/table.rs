//! Every endpoint of the control API. There is no other list of them.

use axum::routing::MethodFilter;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::shape::{
    Accept, Answer, Answered, Calls, Definitions, DialogStatus, Dialogs, Gates, HostStatus, Leases,
    Log, NewCall, NewDialog, Operated, Problems, PromptArguments, Prompts, Reloaded, Reminders,
    Reported, Requests, Resources, ServerShape, Servers, Switch, Switched, Tools,
};
use super::{calls, dialogs, events, host, lists, openapi, servers};

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const DELETE: MethodFilter = MethodFilter::DELETE;

pub(super) fn endpoints() -> Vec<Endpoint> {
    [of_host(), of_servers(), of_lists(), of_dialogs(), of_one_dialog()]
        .into_iter()
        .flatten()
        .collect()
}

fn of_host() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/openapi.json", "This description", openapi::serve)
            .answers::<Value>(200),
        Endpoint::new(GET, "/status", "The host in figures", host::status)
            .query::<servers::ServersAsked>()
            .answers::<HostStatus>(200),
        Endpoint::new(GET, "/problems", "Everything that is wrong now", host::problems)
            .answers::<Problems>(200),
        Endpoint::new(
            GET,
            "/definitions",
            "Tools that are not what they were when they were first seen",
            host::definitions,
        )
        .owner()
        .answers::<Definitions>(200),
        Endpoint::new(
            POST,
            "/definitions/accept",
            "Accepts the changed definition of a tool, or of all",
            host::accept,
        )
        .owner()
        .body::<Accept>()
        .answers::<Definitions>(200),
        Endpoint::new(GET, "/events", "Everything that changes, as events", events::listen).tells(),
        Endpoint::new(GET, "/reload", "What the newest reload did", host::last_reload)
            .answers::<Reloaded>(200),
        Endpoint::new(POST, "/reload", "Reads the configuration anew", host::reload)
            .owner()
            .answers::<Reloaded>(200),
        Endpoint::new(
            GET,
            "/calls",
            "Who called what, how long it took and how it ended",
            host::calls,
        )
        .owner()
        .query::<host::CallsAsked>()
        .answers::<Calls>(200),
    ]
}

fn of_servers() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/servers", "Every server and how it is", servers::list)
            .query::<servers::ServersAsked>()
            .answers::<Servers>(200),
        Endpoint::new(POST, "/servers", "Adds a server until the host ends", servers::add)
            .owner()
            .body::<servers::NewServer>()
            .answers::<ServerShape>(201),
        Endpoint::new(GET, "/servers/{server}", "One server, by its id or key", servers::one)
            .answers::<ServerShape>(200),
        Endpoint::new(
            DELETE,
            "/servers/{server}",
            "Removes a server that was added",
            servers::remove,
        )
        .owner(),
        Endpoint::new(GET, "/servers/{server}/log", "The end of its standard error", servers::log)
            .owner()
            .answers::<Log>(200),
        Endpoint::new(POST, "/servers/{server}/connect", "Connects a server", servers::connect)
            .owner()
            .answers::<Operated>(200),
        Endpoint::new(
            POST,
            "/servers/{server}/disconnect",
            "Ends all its sessions",
            servers::disconnect,
        )
        .owner()
        .answers::<Operated>(200),
        Endpoint::new(POST, "/servers/{server}/refresh", "Reads its lists anew", servers::refresh)
            .answers::<Operated>(200),
        Endpoint::new(
            POST,
            "/servers/{server}/restart",
            "Ends all its sessions and begins anew",
            servers::restart,
        )
        .owner()
        .answers::<Operated>(200),
        Endpoint::new(
            POST,
            "/servers/{server}/enable",
            "Lets a server work again",
            servers::enable,
        )
        .owner()
        .answers::<Operated>(200),
        Endpoint::new(POST, "/servers/{server}/disable", "Switches a server off", servers::disable)
            .owner()
            .answers::<Operated>(200),
    ]
}

fn of_lists() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/tools", "What an agent sees", lists::tools)
            .query::<lists::ToolsAsked>()
            .answers::<Tools>(200),
        Endpoint::new(GET, "/why", "Each gate that a tool passes or fails", lists::why)
            .query::<lists::WhyAsked>()
            .answers::<Gates>(200),
        Endpoint::new(GET, "/resources", "What can be read", lists::resources)
            .query::<lists::ListAsked>()
            .answers::<Resources>(200),
        Endpoint::new(GET, "/resources/content", "The result of `resources/read`", lists::content)
            .query::<lists::ReadAsked>()
            .answers::<Value>(200),
        Endpoint::new(GET, "/prompts", "The prompts that an agent sees", lists::prompts)
            .query::<lists::ListAsked>()
            .answers::<Prompts>(200),
        Endpoint::new(POST, "/prompts/{name}", "The result of `prompts/get`", lists::prompt)
            .query::<lists::ListAsked>()
            .body::<PromptArguments>()
            .answers::<Value>(200),
    ]
}

fn of_dialogs() -> Vec<Endpoint> {
    vec![
        Endpoint::new(POST, "/dialogs", "Begins a dialog, or takes it up again", dialogs::create)
            .body::<NewDialog>()
            .answers::<DialogStatus>(201),
        Endpoint::new(GET, "/dialogs", "One's own dialogs; the owner's are all", dialogs::list)
            .answers::<Dialogs>(200),
        Endpoint::new(GET, "/dialogs/{dialog}", "A dialog and its servers", dialogs::one)
            .answers::<DialogStatus>(200),
        Endpoint::new(
            DELETE,
            "/dialogs/{dialog}",
            "Ends a dialog with all that it holds",
            dialogs::end,
        ),
    ]
}

fn of_one_dialog() -> Vec<Endpoint> {
    vec![
        Endpoint::new(GET, "/dialogs/{dialog}/tools", "What a dialog sees", dialogs::tools)
            .query::<dialogs::DialogTools>()
            .answers::<Tools>(200),
        Endpoint::new(POST, "/dialogs/{dialog}/calls", "Calls a tool", calls::make)
            .query::<calls::CallAsked>()
            .body::<NewCall>()
            .answers_or_tells::<Reported>(),
        Endpoint::new(GET, "/dialogs/{dialog}/calls/{call}", "How a call ended", calls::look)
            .answers::<Reported>(200),
        Endpoint::new(DELETE, "/dialogs/{dialog}/calls/{call}", "Cancels a call", calls::cancel),
        Endpoint::new(
            PUT,
            "/dialogs/{dialog}/servers/{server}",
            "Switches a server for this dialog",
            dialogs::switch,
        )
        .body::<Switch>()
        .answers::<Switched>(200),
        Endpoint::new(GET, "/dialogs/{dialog}/leases", "The leases that it holds", dialogs::leases)
            .answers::<Leases>(200),
        Endpoint::new(
            DELETE,
            "/dialogs/{dialog}/leases/{server}",
            "Gives a lease back",
            dialogs::release,
        ),
        Endpoint::new(
            GET,
            "/dialogs/{dialog}/reminders",
            "What its agent is to be reminded of",
            dialogs::reminders,
        )
        .answers::<Reminders>(200),
        Endpoint::new(
            GET,
            "/dialogs/{dialog}/requests",
            "What servers want to know",
            dialogs::requests,
        )
        .answers::<Requests>(200),
        Endpoint::new(
            POST,
            "/dialogs/{dialog}/requests/{request}",
            "Answers a server",
            dialogs::answer,
        )
        .body::<Answer>()
        .answers::<Answered>(200),
    ]
}
