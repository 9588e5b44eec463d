//! Why a token could not be had, and what a person can do about it.

use std::time::Duration;

use serde_json::error::Category;
use toolcrib_config::Hidden;

use crate::secrets::KeepError;
use crate::signals::SecretMask;
use crate::transport::{NoToken, Trouble};

/// The code of what only a person's login can mend.
pub const LOGIN_REQUIRED: &str = "auth.login_required";

/// No variant holds a secret. Addresses are shown without what may be one.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the server needs a login{}", for_scopes(.scopes))]
    LoginRequired { scopes: Vec<String> },
    #[error("the server needs no login")]
    NotNeeded,
    #[error("the server refuses the new token as well")]
    StillRefused,
    #[error("the server's metadata are about `{named}`, which is not `{server}`")]
    OtherResource { named: String, server: String },
    #[error("the server accepts tokens of {}, and only `{wanted}` is allowed", all(.offered))]
    OtherIssuer { wanted: String, offered: Vec<String> },
    #[error("the metadata at `{address}` name the issuer `{found}` instead of `{expected}`")]
    WrongIssuer { address: String, expected: String, found: String },
    #[error("no metadata of the issuer `{0}` were found")]
    NoMetadata(String),
    #[error("the issuer `{issuer}` has no {what}")]
    Lacking { issuer: String, what: &'static str },
    #[error("the issuer `{0}` registers no clients")]
    NoRegistration(String),
    #[error("`{address}` is not asked: {why}")]
    Forbidden { address: String, why: &'static str },
    #[error("cannot reach `{address}`")]
    Unreachable {
        address: String,
        #[source]
        cause: reqwest::Error,
    },
    #[error("`{address}` does not answer within {} s", .limit.as_secs())]
    Late { address: String, limit: Duration },
    #[error("`{address}` answers with status {status}")]
    Status { address: String, status: u16 },
    #[error("`{address}` sends more than {limit} bytes")]
    TooLarge { address: String, limit: usize },
    #[error("what `{address}` sends cannot be read")]
    Malformed {
        address: String,
        #[source]
        cause: Misread,
    },
    /// The words are the issuer's, cut short.
    #[error("the issuer refuses: {error}{}", note(.description))]
    Refused { error: String, description: Option<String> },
    #[error("the answer to the login comes from `{found}` instead of `{expected}`")]
    ForeignAnswer { expected: String, found: String },
    #[error("the answer to the login does not say who sends it, although `{0}` always does")]
    UnsignedAnswer(String),
    #[error("the answer does not belong to this login")]
    OtherLogin,
    #[error("the answer to the login holds no code")]
    NoCode,
    #[error("the private key cannot be used: {0}")]
    BadKey(&'static str),
    #[error("the host is ending")]
    Ended,
    #[error("this host may not use the network")]
    NetworkForbidden,
    #[error("cannot prepare the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("cannot prepare encryption")]
    Tls(#[source] rustls::Error),
    #[error("cannot use what is kept of logins")]
    Keep(#[source] KeepError),
    #[error("what is kept of the login cannot be read")]
    Record(#[source] Misread),
}

/// Where a text is not what it should be. What stands there is not told: it may be a token.
#[derive(Debug, thiserror::Error)]
#[error("it is {what} at line {line}, column {column}")]
pub struct Misread {
    what: &'static str,
    line: usize,
    column: usize,
}

impl AuthError {
    /// Stable, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::LoginRequired { .. } => LOGIN_REQUIRED,
            Self::NotNeeded => "auth.not_needed",
            Self::StillRefused => "auth.denied",
            Self::OtherResource { .. } | Self::OtherIssuer { .. } => "auth.other_issuer",
            Self::WrongIssuer { .. } | Self::ForeignAnswer { .. } | Self::UnsignedAnswer(_) => {
                "auth.wrong_issuer"
            }
            Self::NoMetadata(_) | Self::Lacking { .. } => "auth.no_metadata",
            Self::NoRegistration(_) => "auth.no_registration",
            Self::Forbidden { .. } => "auth.address_forbidden",
            Self::Unreachable { .. } | Self::Late { .. } | Self::Status { .. } => {
                "auth.issuer_unreachable"
            }
            Self::TooLarge { .. } | Self::Malformed { .. } => "auth.bad_answer",
            Self::Refused { .. } | Self::OtherLogin | Self::NoCode => "auth.refused",
            Self::BadKey(_) => "auth.bad_key",
            Self::Client(_) | Self::Tls(_) | Self::Ended => "auth.client",
            Self::NetworkForbidden => "network.forbidden",
            Self::Keep(_) | Self::Record(_) => "auth.keep",
        }
    }

    /// What a person can do; `server` is as commands take it, see [`super::Protected::words`].
    pub fn fix(&self, server: &str) -> String {
        match self {
            Self::LoginRequired { .. } | Self::OtherLogin | Self::NoCode => {
                format!("run `toolcrib login {server}`")
            }
            Self::NotNeeded => "use it".to_owned(),
            Self::NoRegistration(_) => {
                "register a client there and set `auth: { kind: oauth, client_id: … }`".to_owned()
            }
            Self::OtherIssuer { .. } => "correct `auth.issuer`".to_owned(),
            Self::BadKey(_) => {
                "set `auth.private_key` to a PKCS #8 key in PEM: P-256, RSA or Ed25519".to_owned()
            }
            Self::Unreachable { .. } | Self::Late { .. } | Self::Status { .. } | Self::Ended => {
                "see whether that address is up, and can be reached from here".to_owned()
            }
            Self::Refused { .. } | Self::StillRefused => {
                format!("see what the account may do, then run `toolcrib login {server}`")
            }
            Self::Keep(_) | Self::Record(_) => {
                format!("see to the folder of credentials, or run `toolcrib logout {server}`")
            }
            Self::Client(_) | Self::Tls(_) => {
                "install the system's certificates (`ca-certificates`)".to_owned()
            }
            Self::NetworkForbidden => "allow `host.permissions.network`".to_owned(),
            Self::OtherResource { .. }
            | Self::WrongIssuer { .. }
            | Self::NoMetadata(_)
            | Self::Lacking { .. }
            | Self::Forbidden { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::ForeignAnswer { .. }
            | Self::UnsignedAnswer(_) => {
                "do not trust the server before its operator has explained this".to_owned()
            }
        }
    }

    /// The same without what the issuer was told, if it repeats it.
    pub(super) fn hiding(self, told: &[Hidden]) -> Self {
        let Self::Refused { error, description } = self else { return self };
        let mask = SecretMask::new(told.to_vec());
        let hide = |text: String| mask.mask_text(text);
        Self::Refused { error: hide(error), description: description.map(hide) }
    }

    /// Whether the issuer says that what it once gave is worth nothing any more. Anything else may pass.
    pub(super) fn is_final(&self) -> bool {
        const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
        matches!(self, Self::Refused { error, .. } if FINAL.contains(&error.as_str()))
    }

    fn trouble(&self) -> Trouble {
        match self {
            Self::Unreachable { .. } | Self::Late { .. } | Self::Status { .. } | Self::Ended => {
                Trouble::Passing
            }
            Self::Keep(_)
            | Self::Record(_)
            | Self::Client(_)
            | Self::Tls(_)
            | Self::BadKey(_)
            | Self::NetworkForbidden => Trouble::Here,
            _ => Trouble::Denied,
        }
    }

    /// The same, as a transport tells it.
    pub(super) fn told(&self, server: &str) -> NoToken {
        NoToken {
            trouble: self.trouble(),
            code: self.code(),
            message: crate::signals::chain(self),
            fix: self.fix(server),
        }
    }
}

impl From<serde_json::Error> for Misread {
    fn from(error: serde_json::Error) -> Self {
        let what = match error.classify() {
            Category::Io | Category::Syntax => "no JSON",
            Category::Eof => "at its end too early",
            Category::Data => "something else",
        };
        Misread { what, line: error.line(), column: error.column() }
    }
}

fn for_scopes(scopes: &[String]) -> String {
    if scopes.is_empty() { String::new() } else { format!(" for {}", all(scopes)) }
}

fn all(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn note(description: &Option<String>) -> String {
    description.as_ref().map_or_else(String::new, |description| format!(" ({description})"))
}
