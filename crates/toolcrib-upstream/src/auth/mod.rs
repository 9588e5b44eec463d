//! OAuth tokens for servers: discovery of the issuer, login, client credentials, renewal and storage.
//!
//! Pure functions decide: `challenge` parses refusals, `metadata` locates and verifies metadata,
//! `oauth_client` chooses the client identity, `scopes` chooses scopes, `token_endpoint` and `login`
//! interpret responses. Only `issuer_client` accesses the network, and only `accounts` accesses stored
//! logins.

mod accounts;
mod challenge;
mod client_assertion;
mod discovery;
mod error;
mod issuer_client;
mod login;
mod login_record;
mod metadata;
mod oauth_client;
mod pkce;
mod scopes;
mod token_endpoint;
mod token_source;

pub use accounts::login_args;
pub use accounts::{Accounts, ProtectedServer};
pub use error::{AuthError, LOGIN_REQUIRED, MalformedJson};
pub use login::{Login, LoginOutcome, LoginStart, LogoutOutcome};
pub use oauth_client::ClientSettings;
