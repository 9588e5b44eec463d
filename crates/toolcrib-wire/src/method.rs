//! Every method of every version's core: what it is called, who may send it when, and what it obliges to.

use crate::version::Version;

pub const INITIALIZE: &str = "initialize";
pub const INITIALIZED: &str = "notifications/initialized";
pub const DISCOVER: &str = "server/discover";
pub const PING: &str = "ping";
pub const TOOLS_LIST: &str = "tools/list";
pub const TOOLS_CALL: &str = "tools/call";
pub const PROMPTS_LIST: &str = "prompts/list";
pub const PROMPTS_GET: &str = "prompts/get";
pub const RESOURCES_LIST: &str = "resources/list";
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
pub const RESOURCES_READ: &str = "resources/read";
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
pub const COMPLETE: &str = "completion/complete";
pub const SET_LOG_LEVEL: &str = "logging/setLevel";
pub const CREATE_MESSAGE: &str = "sampling/createMessage";
pub const ELICIT: &str = "elicitation/create";
pub const ROOTS_LIST: &str = "roots/list";
pub const TASKS_GET: &str = "tasks/get";
pub const TASKS_RESULT: &str = "tasks/result";
pub const TASKS_CANCEL: &str = "tasks/cancel";
pub const TASKS_LIST: &str = "tasks/list";
pub const CANCELLED: &str = "notifications/cancelled";
pub const PROGRESS: &str = "notifications/progress";
pub const LOG_MESSAGE: &str = "notifications/message";
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
pub const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
pub const SUBSCRIPTION_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
pub const TASK_STATUS: &str = "notifications/tasks/status";

/// Who may send a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
    Either,
    /// The server, but only inside an `input_required` result.
    ServerInResult,
}

/// Which param a request names its object by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Name,
    Uri,
}

/// Who may send `method` in `version`; none if that version does not have it or is not known.
pub fn sender(method: &str, version: &Version) -> Option<Sender> {
    let row = TABLE.iter().find(|row| {
        row.method == method && version.is_since(&row.first) && !newer(version, &row.last)
    });
    row.map(|row| row.sender)
}

pub fn is_notification(method: &str) -> bool {
    method.starts_with("notifications/")
}

/// Whether results of `method` carry `ttlMs` and `cacheScope` in the modern era.
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

/// Whether `method` may be answered with `input_required` in the modern era.
pub fn may_require_input(method: &str) -> bool {
    matches!(method, TOOLS_CALL | PROMPTS_GET | RESOURCES_READ)
}

/// What the `Mcp-Name` header repeats, where the modern era asks for one.
pub fn target(method: &str) -> Option<Target> {
    match method {
        TOOLS_CALL | PROMPTS_GET => Some(Target::Name),
        RESOURCES_READ => Some(Target::Uri),
        _ => None,
    }
}

struct Row {
    method: &'static str,
    sender: Sender,
    first: Version,
    last: Version,
}

const fn row(method: &'static str, sender: Sender, first: Version, last: Version) -> Row {
    Row { method, sender, first, last }
}

fn newer(version: &Version, last: &Version) -> bool {
    version != last && version.is_since(last)
}

use Sender::{Client, Either, Server, ServerInResult};
use Version::{
    V2024_11_05 as V24_11, V2025_06_18 as V25_06, V2025_11_25 as V25_11, V2026_07_28 as V26_07,
};

/// One row for each method and span of versions in which its rules did not change. Extensions have none: since
/// 2026-07-28 tasks are one (`io.modelcontextprotocol/tasks`), and who may send its methods is said there.
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
    fn each_era_has_its_own_way_to_open_to_look_alive_and_to_ask() {
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
    fn methods_appear_in_the_version_that_brought_them() {
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
