//! OAuth errors, with suggested fixes.

use std::time::Duration;

use serde_json::error::Category;
use toolcrib_config::SecretString;

use crate::secrets::CredentialStoreError;
use crate::signals::SecretMask;
use crate::transport::{TokenError, TokenErrorKind};

/// Problem code for a missing or invalid login.
pub const LOGIN_REQUIRED: &str = "auth.login_required";

/// OAuth error. No variant holds a secret. Addresses are shown without credentials and query.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the server needs a login{}", scope_suffix(.scopes))]
    LoginRequired { scopes: Vec<String> },
    #[error("the server requires no login")]
    LoginNotNeeded,
    #[error("the server refuses the new token as well")]
    StillRefused,
    #[error("the server's metadata name the resource `{named}`, which does not contain `{server}`")]
    ResourceMismatch { named: String, server: String },
    #[error("the server accepts tokens of {}, and only `{wanted}` is allowed", quoted_list(.offered))]
    IssuerNotAllowed { wanted: String, offered: Vec<String> },
    #[error("the metadata at `{address}` name the issuer `{found}` instead of `{expected}`")]
    IssuerMismatch { address: String, expected: String, found: String },
    #[error("no metadata of the issuer `{0}` were found")]
    MetadataNotFound(String),
    #[error("the issuer `{issuer}` has no {feature}")]
    MissingFeature { issuer: String, feature: &'static str },
    #[error("the issuer `{0}` registers no clients")]
    NoRegistration(String),
    #[error("refusing to contact `{address}`: {reason}")]
    AddressForbidden { address: String, reason: &'static str },
    #[error("cannot reach `{address}`")]
    Unreachable {
        address: String,
        #[source]
        cause: reqwest::Error,
    },
    #[error("`{address}` does not answer within {} s", .limit.as_secs())]
    Timeout { address: String, limit: Duration },
    #[error("`{address}` answers with status {status}")]
    Status { address: String, status: u16 },
    #[error("`{address}` sends more than {limit} bytes")]
    TooLarge { address: String, limit: usize },
    #[error("cannot parse the response of `{address}`")]
    Malformed {
        address: String,
        #[source]
        cause: MalformedJson,
    },
    /// The texts come from the issuer and are truncated.
    #[error("the issuer refuses: {error}{}", description_suffix(.description))]
    Refused { error: String, description: Option<String> },
    #[error("the login response comes from `{found}` instead of `{expected}`")]
    ResponseFromOtherIssuer { expected: String, found: String },
    #[error("the login response lacks the `iss` parameter, which `{0}` always sends")]
    ResponseWithoutIssuer(String),
    #[error("the response does not belong to this login")]
    StateMismatch,
    #[error("the login response contains no code")]
    MissingCode,
    #[error("the private key cannot be used: {0}")]
    BadKey(&'static str),
    #[error("the host is closing")]
    HostClosing,
    #[error("this host may not use the network")]
    NetworkForbidden,
    #[error("cannot prepare the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("cannot access the stored logins")]
    CredentialStore(#[source] CredentialStoreError),
    #[error("cannot parse the stored login")]
    CorruptRecord(#[source] MalformedJson),
}

/// Position of a JSON error. The text itself is not quoted, because it may be a token.
#[derive(Debug, thiserror::Error)]
#[error("{problem} at line {line}, column {column}")]
pub struct MalformedJson {
    problem: &'static str,
    line: usize,
    column: usize,
}

impl AuthError {
    /// Stable problem code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::LoginRequired { .. } => LOGIN_REQUIRED,
            Self::LoginNotNeeded => "auth.not_needed",
            Self::StillRefused => "auth.denied",
            Self::ResourceMismatch { .. } | Self::IssuerNotAllowed { .. } => "auth.other_issuer",
            Self::IssuerMismatch { .. }
            | Self::ResponseFromOtherIssuer { .. }
            | Self::ResponseWithoutIssuer(_) => "auth.wrong_issuer",
            Self::MetadataNotFound(_) | Self::MissingFeature { .. } => "auth.no_metadata",
            Self::NoRegistration(_) => "auth.no_registration",
            Self::AddressForbidden { .. } => "auth.address_forbidden",
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Status { .. } => {
                "auth.issuer_unreachable"
            }
            Self::TooLarge { .. } | Self::Malformed { .. } => "auth.bad_answer",
            Self::Refused { .. } | Self::StateMismatch | Self::MissingCode => "auth.refused",
            Self::BadKey(_) => "auth.bad_key",
            Self::Client(_) | Self::Tls(_) | Self::HostClosing => "auth.client",
            Self::NetworkForbidden => "network.forbidden",
            Self::CredentialStore(_) | Self::CorruptRecord(_) => "auth.keep",
        }
    }

    /// Suggested fix for the user. `server` holds the command line arguments of the account, see
    /// [`super::ProtectedServer::login_args`].
    pub fn fix(&self, server: &str) -> String {
        match self {
            Self::LoginRequired { .. } | Self::StateMismatch | Self::MissingCode => {
                format!("run `toolcrib login {server}`")
            }
            Self::LoginNotNeeded => "use the server without a login".to_owned(),
            Self::NoRegistration(_) => {
                "register a client there and set `auth: { kind: oauth, client_id: … }`".to_owned()
            }
            Self::IssuerNotAllowed { .. } => "correct `auth.issuer`".to_owned(),
            Self::BadKey(_) => {
                "set `auth.private_key` to a PKCS #8 key in PEM: P-256, RSA or Ed25519".to_owned()
            }
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Status { .. }
            | Self::HostClosing => {
                "check that the address is up and reachable from here".to_owned()
            }
            Self::Refused { .. } | Self::StillRefused => {
                format!("check the account's permissions, then run `toolcrib login {server}`")
            }
            Self::CredentialStore(_) | Self::CorruptRecord(_) => {
                format!("check the folder of credentials, or run `toolcrib logout {server}`")
            }
            Self::Client(_) | Self::Tls(_) => {
                "install the system's certificates (`ca-certificates`)".to_owned()
            }
            Self::NetworkForbidden => "allow `host.permissions.network`".to_owned(),
            Self::ResourceMismatch { .. }
            | Self::IssuerMismatch { .. }
            | Self::MetadataNotFound(_)
            | Self::MissingFeature { .. }
            | Self::AddressForbidden { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::ResponseFromOtherIssuer { .. }
            | Self::ResponseWithoutIssuer(_) => {
                "do not trust the server until its operator has explained this".to_owned()
            }
        }
    }

    /// Masks secrets that the issuer repeats in its error.
    pub(super) fn mask_secrets(self, secrets: &[SecretString]) -> Self {
        let Self::Refused { error, description } = self else { return self };
        let mask = SecretMask::new(secrets.to_vec());
        let hide = |text: String| mask.mask_text(text);
        Self::Refused { error: hide(error), description: description.map(hide) }
    }

    /// Returns whether the issuer declares the grant invalid for good. Any other error may be temporary.
    pub(super) fn is_final(&self) -> bool {
        const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
        matches!(self, Self::Refused { error, .. } if FINAL.contains(&error.as_str()))
    }

    fn failure_kind(&self) -> TokenErrorKind {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Status { .. }
            | Self::HostClosing => TokenErrorKind::Transient,
            Self::CredentialStore(_)
            | Self::CorruptRecord(_)
            | Self::Client(_)
            | Self::Tls(_)
            | Self::BadKey(_)
            | Self::NetworkForbidden => TokenErrorKind::Local,
            _ => TokenErrorKind::Denied,
        }
    }

    /// Converts the error for the transport.
    pub(super) fn to_token_error(&self, server: &str) -> TokenError {
        TokenError {
            kind: self.failure_kind(),
            code: self.code(),
            message: crate::signals::chain(self),
            fix: self.fix(server),
        }
    }
}

impl From<serde_json::Error> for MalformedJson {
    fn from(error: serde_json::Error) -> Self {
        let problem = match error.classify() {
            Category::Io | Category::Syntax => "invalid JSON",
            Category::Eof => "unexpected end",
            Category::Data => "unexpected data",
        };
        MalformedJson { problem, line: error.line(), column: error.column() }
    }
}

fn scope_suffix(scopes: &[String]) -> String {
    if scopes.is_empty() { String::new() } else { format!(" for {}", quoted_list(scopes)) }
}

fn quoted_list(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn description_suffix(description: &Option<String>) -> String {
    description.as_ref().map_or_else(String::new, |description| format!(" ({description})"))
}
