//! What a dialog is reminded of while it holds a lease: to give it back.

use serde_json::json;
use toolcrib_config::model::policy::{Session, SessionScope};

use super::instance::Lease;

/// A note that stays in a dialog for as long as its lease does, and goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reminder {
    pub server: String,
    /// For the agent.
    pub text: String,
}

/// The one reminder that belongs to a lease, where the server's policy wants one. It follows from the lease
/// alone, so there is neither a second one nor one that was forgotten.
pub fn reminder(lease: &Lease, session: &Session) -> Option<Reminder> {
    reminder_of(&lease.server, session)
}

/// The reminder of a lease of this server, where its policy wants one.
pub fn reminder_of(server: &str, session: &Session) -> Option<Reminder> {
    let wanted = session.reminder && session.scope == SessionScope::PerConversation;
    wanted.then(|| Reminder {
        server: server.to_owned(),
        text: format!(
            "A session of the MCP server `{server}` is reserved for this dialog. When you do not need it any \
             more, call `mcp_release` with {}; what the session remembers is lost then.",
            json!({ "serverId": server })
        ),
    })
}
