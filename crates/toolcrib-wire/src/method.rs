//! The methods of all protocol versions, with their senders and properties.

use crate::version::Version;

/// Opens a legacy session.
pub const INITIALIZE: &str = "initialize";
/// Ends the legacy handshake.
pub const INITIALIZED: &str = "notifications/initialized";
/// Asks a modern server for versions and capabilities.
pub const DISCOVER: &str = "server/discover";
/// Checks that the peer is alive.
pub const PING: &str = "ping";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists resource templates.
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Subscribes to updates of a resource.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Ends a subscription to a resource.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Subscribes to change notifications in the modern era.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// Completes an argument.
pub const COMPLETE: &str = "completion/complete";
/// Sets the lowest wanted log level.
pub const SET_LOG_LEVEL: &str = "logging/setLevel";
/// Asks the client's model for a message.
pub const CREATE_MESSAGE: &str = "sampling/createMessage";
/// Asks the client's user for input.
pub const ELICIT: &str = "elicitation/create";
/// Lists the client's roots.
pub const ROOTS_LIST: &str = "roots/list";
/// Gets the state of a task.
const TASKS_GET: &str = "tasks/get";
/// Gets the result of a task.
const TASKS_RESULT: &str = "tasks/result";
/// Cancels a task.
const TASKS_CANCEL: &str = "tasks/cancel";
/// Lists tasks.
const TASKS_LIST: &str = "tasks/list";
/// Cancels a request.
pub const CANCELLED: &str = "notifications/cancelled";
/// Reports progress of a request.
pub const PROGRESS: &str = "notifications/progress";
/// Sends a log message.
pub const LOG_MESSAGE: &str = "notifications/message";
/// The list of tools has changed.
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// The list of prompts has changed.
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
/// The list of resources has changed.
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// A resource has changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// The list of roots has changed.
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
/// Confirms a subscription.
pub const SUBSCRIPTION_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// An elicitation by URL has finished.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// The state of a task has changed.
const TASK_STATUS: &str = "notifications/tasks/status";

/// The side that may send a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodSender {
    /// Only the client.
    Client,
    /// Only the server.
    Server,
    /// Both sides.
    Either,
    /// The server, but only inside an `input_required` result.
    ServerInResult,
}

/// The param that names the object of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodTarget {
    /// `params.name`.
    Name,
    /// `params.uri`.
    Uri,
}

/// Returns the side that may send `method` in `version`. Returns `None` for a method that the version does not have,
/// or an unknown version.
pub fn sender(method: &str, version: &Version) -> Option<MethodSender> {
    let row = TABLE.iter().find(|row| {
        row.method == method && version.is_since(&row.first) && !newer(version, &row.last)
    });
    row.map(|row| row.sender)
}

/// Returns whether `method` is a notification.
pub fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

/// Returns whether results of `method` carry `ttlMs` and `cacheScope` in the modern era.
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        DISCOVER
            | TOOLS_LIST
            | PROMPTS_LIST
            | RESOURCES_LIST
            | RESOURCE_TEMPLATES_LIST
            | RESOURCES_READ
    )
}

/// Returns whether `method` may be answered with `input_required` in the modern era.
pub fn may_require_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// Returns the param that the `Mcp-Name` header repeats, if the modern era requires the header.
pub fn target(method: &str) -> Option<MethodTarget> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some(MethodTarget::Name),
        RESOURCES_READ => Some(MethodTarget::Uri),
        _ => None,
    }
}

struct Row {
    method: &'static str,
    sender: MethodSender,
    first: Version,
    last: Version,
}

const fn row(method: &'static str, sender: MethodSender, first: Version, last: Version) -> Row {
    Row { method, sender, first, last }
}

fn newer(version: &Version, last: &Version) -> bool {
    version != last && version.is_since(last)
}

use MethodSender::{Client, Either, Server, ServerInResult};
use Version::{
    V2024_11_05 as V24_11, V2025_06_18 as V25_06, V2025_11_25 as V25_11, V2026_07_28 as V26_07,
};

/// One row per method and range of versions with equal rules. Extensions have no rows: since 2026-07-28 tasks are the
/// extension `io.modelcontextprotocol/tasks`, which defines the senders of its methods.
static TABLE: [Row; 38] = [
    row(INITIALIZE, Client, V24_11, V25_11),
    row(INITIALIZED, Client, V24_11, V25_11),
    row(PING, Either, V24_11, V25_11),
    row(DISCOVER, Client, V26_07, V26_07),
    row(TOOLS_LIST, Client, V24_11, V26_07),
    row(TOOLS_CALL, Client, V24_11, V26_07),
    row(PROMPTS_LIST, Client, V24_11, V26_07),
    row(PROMPTS_GET, Client, V24_11, V26_07),
    row(RESOURCES_LIST, Client, V24_11, V26_07),
    row(RESOURCE_TEMPLATES_LIST, Client, V24_11, V26_07),
    row(RESOURCES_READ, Client, V24_11, V26_07),
    row(RESOURCES_SUBSCRIBE, Client, V24_11, V25_11),
    row(RESOURCES_UNSUBSCRIBE, Client, V24_11, V25_11),
    row(SUBSCRIPTIONS_LISTEN, Client, V26_07, V26_07),
    row(COMPLETE, Client, V24_11, V26_07),
    row(SET_LOG_LEVEL, Client, V24_11, V25_11),
    row(CREATE_MESSAGE, Server, V24_11, V25_11),
    row(CREATE_MESSAGE, ServerInResult, V26_07, V26_07),
    row(ROOTS_LIST, Server, V24_11, V25_11),
    row(ROOTS_LIST, ServerInResult, V26_07, V26_07),
    row(ELICIT, Server, V25_06, V25_11),
    row(ELICIT, ServerInResult, V26_07, V26_07),
    row(TASKS_GET, Either, V25_11, V25_11),
    row(TASKS_RESULT, Either, V25_11, V25_11),
    row(TASKS_CANCEL, Either, V25_11, V25_11),
    row(TASKS_LIST, Either, V25_11, V25_11),
    row(TASK_STATUS, Either, V25_11, V25_11),
    row(CANCELLED, Either, V24_11, V26_07),
    row(PROGRESS, Either, V24_11, V25_11),
    row(PROGRESS, Server, V26_07, V26_07),
    row(LOG_MESSAGE, Server, V24_11, V26_07),
    row(TOOLS_CHANGED, Server, V24_11, V26_07),
    row(PROMPTS_CHANGED, Server, V24_11, V26_07),
    row(RESOURCES_CHANGED, Server, V24_11, V26_07),
    row(RESOURCE_UPDATED, Server, V24_11, V26_07),
    row(ROOTS_CHANGED, Client, V24_11, V25_11),
    row(SUBSCRIPTION_ACKNOWLEDGED, Server, V26_07, V26_07),
    row(ELICITATION_COMPLETE, Server, V25_11, V25_11),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_and_modern_era_allow_different_methods() {
        for (method, legacy, modern) in [
            (INITIALIZE, Some(Client), None),
            (DISCOVER, None, Some(Client)),
            (PING, Some(Either), None),
            (SUBSCRIPTIONS_LISTEN, None, Some(Client)),
            (RESOURCES_SUBSCRIBE, Some(Client), None),
            (SET_LOG_LEVEL, Some(Client), None),
            (ELICIT, Some(Server), Some(ServerInResult)),
            (CREATE_MESSAGE, Some(Server), Some(ServerInResult)),
            (PROGRESS, Some(Either), Some(Server)),
            (TOOLS_CALL, Some(Client), Some(Client)),
            (TASKS_GET, Some(Either), None),
            (TASKS_CANCEL, Some(Either), None),
            ("made/up", None, None),
        ] {
            assert_eq!(sender(method, &Version::V2025_11_25), legacy, "{method}");
            assert_eq!(sender(method, &Version::V2026_07_28), modern, "{method}");
        }
    }

    #[test]
    fn methods_appear_in_the_version_that_introduced_them() {
        for (method, versions) in
            [(ELICIT, [false, false, true, true]), (TASKS_GET, [false, false, false, true])]
        {
            for (version, has) in Version::KNOWN.iter().zip(versions) {
                assert_eq!(sender(method, version).is_some(), has, "{method} {version}");
            }
        }
        assert_eq!(sender(TOOLS_CALL, &Version::from("2027-01-01")), None);
    }
}
