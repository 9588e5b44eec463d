//! Who may use what: four gates, all of which must let a tool through, and each of which can say why.
//!
//! The gates are, in order: what its server's filter offers, what the agent was granted, what the dialog has
//! switched off, and whether the server is there. [`decide`] stops at the first that fails; [`Gates`] asks all
//! four, for a person; [`Pass`] and [`Standing`] are the same rules made ready for long lists. To an agent, a
//! tool that is denied looks like one that does not exist.

mod asked;
mod gates;
mod grants;
mod pass;
mod principal;
mod switches;

pub use asked::{Asked, Decision, Presence, Reach, Standing, Toolset, decide};
pub use gates::{Gate, Gates, Verdict};
pub use grants::{Attached, Grants};
pub use pass::Pass;
pub use principal::{DEFAULT_AGENT, Principal};
pub use switches::Switches;

#[cfg(test)]
mod tests;
