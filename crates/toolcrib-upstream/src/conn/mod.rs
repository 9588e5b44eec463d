//! Connection to one server: state machine, sessions, handshake and calls.

mod backoff;
mod catalog;
mod catalog_diff;
mod connect;
mod era_probe;
mod failure;
mod handle;
mod input_rounds;
mod list_reader;
mod list_subscription;
mod masked_tokens;
mod pausable_clock;
pub mod peer;
mod server_limit;
mod session;
mod settings;
mod setup;
mod state;
mod step;
mod stored_credentials;
mod task;
mod tool_schemas;
mod usage;

pub use backoff::Backoff;
pub use catalog::{
    Catalog, CatalogBuilder, CatalogError, ItemDefect, ItemDefectKind, ListKind, ListRequest,
    is_relevant_change, list_requests,
};
pub use catalog_diff::{CatalogChange, ChangeKind, diff_catalogs};
pub use era_probe::{
    AgreedProtocol, DISCOVER_SILENCE_TIMEOUT, EraProbe, EraProbeError, ProbeAction, ProbeEvent,
};
pub use failure::{Failure, FailureKind};
pub use handle::{Conn, ConnListener, ConnUpdate, ConnView, SessionPermit};
pub use pausable_clock::{PausableClock, PausableDeadline};
pub use server_limit::MAX_SERVERS;
pub use server_limit::ServerLimit;
pub use session::Session;
pub use settings::{ConnSettings, RetrySchedule};
pub use setup::{
    ConnContext, ConnSetup, ServerTraits, SessionClient, SharedHttpMode, SharedPermissions,
    TraitCache, TraitStore,
};
pub use state::{
    CacheState, ConnAvailability, ConnLifecycle, MonotonicTime, ServerState, SessionNumber,
    StateVocabulary,
};
pub use step::{ConnEvent, Demand, Effect, LIST_CHANGE_DEBOUNCE, MAX_RETRY_AFTER, step};
pub use tool_schemas::find_invalid_schemas;
