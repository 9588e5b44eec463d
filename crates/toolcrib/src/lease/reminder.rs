//! Reminder to a dialog that it holds a lease and should release it.

use serde_json::json;
use toolcrib_config::model::policy::{SessionPolicy, SessionScope};

use super::session_entry::Lease;

/// A note that stays in a dialog for the duration of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reminder {
    /// The server's id.
    pub server: String,
    /// The text for the agent.
    pub text: String,
}

/// Returns the reminder of a lease, if the server's policy wants one. It depends only on the lease, so reminders are
/// never duplicated or lost.
pub(crate) fn reminder_for_lease(lease: &Lease, session: &SessionPolicy) -> Option<Reminder> {
    reminder_for_server(&lease.server, session)
}

/// Returns the reminder of a lease of this server, if the server's policy wants one.
pub(crate) fn reminder_for_server(server: &str, session: &SessionPolicy) -> Option<Reminder> {
    let wanted = session.reminder && session.scope == SessionScope::PerConversation;
    wanted.then(|| Reminder {
        server: server.to_owned(),
        text: format!(
            "A session of the MCP server `{server}` is reserved for this dialog. When you no longer \
             need it, call `mcp_release` with {}; the session's state is then lost.",
            json!({ "serverId": server })
        ),
    })
}
