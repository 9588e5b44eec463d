//! Access control: four gates decide whether an agent may use a tool, and each gate can name its rule.
//!
//! The gates are, in order: the server's filter, the agent's grants, the dialog's switches, and the server's
//! availability. A tool must pass all gates. [`decide`] stops at the first gate that fails. [`GateReport`] checks all
//! four, for a person. [`ToolsetPermissions`] and [`ToolVisibility`] are the same rules, prepared for long lists. A
//! denied tool looks to the agent like a tool that does not exist.

mod tool_query;
mod gates;
mod grants;
mod permissions;
mod principal;
mod switches;

pub use tool_query::{ToolQuery, Decision, ServerAvailability, NativeReach, ToolVisibility, ToolsetRef, decide};
pub use gates::{Gate, GateReport, GateVerdict};
pub use grants::{Attachments, Grants};
pub use permissions::ToolsetPermissions;
pub use principal::{DEFAULT_AGENT, Principal};
pub use switches::Switches;

#[cfg(test)]
mod tests;
