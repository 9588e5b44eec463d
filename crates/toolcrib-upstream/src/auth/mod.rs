//! OAuth tokens for servers: discovery of the issuer, login, client credentials, renewal and storage.
//!
//! Pure functions decide: `challenge` parses refusals, `metadata` locates and verifies metadata,
//! `oauth_client` chooses the client identity, `scopes` chooses scopes, `token_endpoint` and `login`
//! interpret responses. Only `issuer_client` accesses the network, and only `accounts` accesses stored
//! logins.

mod login_record;
mod accounts;
mod challenge;
mod oauth_client;
mod discovery;
mod error;
mod token_endpoint;
mod client_assertion;
mod login;
mod metadata;
mod pkce;
mod scopes;
mod token_source;
mod issuer_client;

pub use accounts::login_args;
pub use accounts::{Accounts, ProtectedServer};
pub use oauth_client::ClientSettings;
pub use error::{AuthError, LOGIN_REQUIRED, MalformedJson};
pub use login::{LoginStart, LoginOutcome, LogoutOutcome, Login};
