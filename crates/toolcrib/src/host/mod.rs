//! The host: everything below put together, as one program uses it.
//!
//! One task, the steward, keeps servers as the configuration says and publishes what they offer; calls, lists and
//! turns read what was published and never wait for it. A [`Dialog`] is one conversation of one agent, a [`Turn`]
//! one step of it, and [`Host`] the handle to all.

mod admin;
mod answers;
mod asking;
mod background;
mod builder;
mod call;
mod catalogs;
mod core;
mod desk;
mod dialog;
mod dialogs;
mod documents;
mod ears;
mod events;
mod files;
mod folder;
mod handle;
mod matching;
mod memory;
mod meters;
mod note;
mod ops;
mod own;
mod pin_problems;
mod pinning;
mod placing;
mod problems;
mod published;
mod questions;
mod reload;
mod resource_tools;
mod restart;
mod send;
mod serving;
mod slot;
mod status;
mod steward;
mod tally;
mod trust;
mod turn;
mod turns;
mod visibility;
mod watching;

pub use answers::Answers;
pub use builder::{HostBuilder, StartError};
pub use call::{Besides, CallRequest, Execution, Rounds};
pub use dialog::{Dialog, DialogRequest, SwitchError};
pub use documents::Subscription;
pub use events::{Event, Listening};
pub use files::file;
pub use handle::{DialogError, Host};
pub use meters::{BOUNDS, Counts};
pub use ops::OpError;
pub use pinning::ChangedDefinition;
pub use questions::{Away, Question};
pub use reload::{Outcome, Reload, Step};
pub use status::{ServerStatus, Status};
pub use tally::Tallied;
pub use trust::Trust;
pub use turn::{Sight, Turn, Why};
pub use visibility::Visibility;
