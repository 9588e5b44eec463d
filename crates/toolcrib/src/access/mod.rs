//! Access control: four gates decide whether an agent may use a tool, and each gate can name its rule.
//!
//! The gates are, in order: the server's filter, the agent's grants, the dialog's switches, and the server's
//! availability. A tool must pass all gates. [`decide`] stops at the first gate that fails. [`GateReport`] checks all
//! four, for a person. [`ToolsetPermissions`] and [`ToolVisibility`] are the same rules, prepared for long lists. A
//! denied tool looks to the agent like a tool that does not exist.

mod gates;
mod grants;
mod permissions;
mod principal;
mod switches;
mod tool_query;

pub use gates::{Gate, GateReport, GateVerdict};
pub use grants::{Attachments, Grants};
pub use permissions::ToolsetPermissions;
pub use principal::{DEFAULT_AGENT, Principal};
pub use switches::Switches;
pub use tool_query::{
    Decision, NativeReach, ServerAvailability, ToolQuery, ToolVisibility, ToolsetRef, decide,
};

#[cfg(test)]
mod tests;
