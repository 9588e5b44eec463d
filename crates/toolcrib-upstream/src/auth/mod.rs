//! Tokens for servers that want them: who gives them, how a person or the host itself gets them, how they stay fresh.
//!
//! Pure functions decide: what a refusal asks for (`challenge`), where metadata are and whether they count
//! (`metadata`), who the host is to an issuer (`client`), which scopes (`scope`), what an answer means (`grant`,
//! `login`). `web` is the only way out, `accounts` the only way to what is kept.

mod account;
mod accounts;
mod challenge;
mod client;
mod discover;
mod error;
mod grant;
mod jwt;
mod login;
mod metadata;
mod pkce;
mod scope;
mod source;
mod web;

pub use accounts::words;
pub use accounts::{Accounts, Protected};
pub use client::ClientSettings;
pub use error::{AuthError, LOGIN_REQUIRED, Misread};
pub use login::{Begun, LoggedIn, LoggedOut, Login};
