//! Access control: four gates decide whether an agent may use a tool, and each gate can name its rule.
//!
//! The gates are, in order: the server's filter, the agent's grants, the dialog's switches, and the server's
//! availability. A tool must pass all gates. [`decide`] stops at the first gate that fails. [`GateReport`] checks all
//! four, for a person. [`ToolsetPermissions`] and [`ToolVisibility`] are the same rules, prepared for long lists. A
//! denied tool looks to the agent like a tool that does not exist.

mod gates;
mod grants;
mod permissions;
mod switches;
mod tool_query;

pub use gates::GateVerdict;
pub(crate) use gates::{Gate, GateReport};
pub use grants::{Attachments, DEFAULT_AGENT, Grants};
pub use permissions::ToolsetPermissions;
pub use switches::Switches;
pub(crate) use tool_query::{Decision, NativeReach, ToolQuery, decide};
pub use tool_query::{ServerAvailability, ToolVisibility, ToolsetRef};

#[cfg(test)]
mod tests;
