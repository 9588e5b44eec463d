//! Maps errors to HTTP responses of the control API. No other module does.

use std::error::Error;
use std::time::SystemTime;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use toolcrib::internal::{ServerRefusal, StoreError};
use toolcrib::{CallError, DialogError, ErrorKind, ServerOperationError, SwitchError};
use toolcrib_upstream::signals::{chain, format_timestamp};

use super::schema::{ErrorBody, ErrorResponse};
use crate::identity::AccessDenied;

/// Problem code of the temporary refusal that gets a `Retry-After` header.
pub(super) const BODY_BUDGET_EXCEEDED: &str = "request.no_room";

/// Error response of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) body: Box<ErrorBody>,
}

impl ApiError {
    pub(crate) fn new(kind: ApiErrorKind, code: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let body = Box::new(ErrorBody {
            kind: kind.as_str().to_owned(),
            code: code.to_owned(),
            text: Some(message.clone()),
            message,
            server: None,
            tool: None,
            cause: None,
            timestamp: Some(format_timestamp(SystemTime::now())),
        });
        ApiError { status: kind.status(), body }
    }

    /// Also returned for existing dialogs of others, so that they cannot be detected.
    pub(crate) fn no_dialog(id: &str) -> Self {
        ApiError::new(ApiErrorKind::NotFound, "dialog.unknown", format!("unknown dialog `{id}`"))
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        ApiError::new(ApiErrorKind::Call(ErrorKind::InvalidArguments), "request.invalid", message)
    }

    pub(crate) fn shutting_down() -> Self {
        ApiError::new(ApiErrorKind::ShuttingDown, "host.ending", "the host is shutting down")
    }
}

/// Kind of an API error: a call error, or one that only the API has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiErrorKind {
    Call(ErrorKind),
    /// The sender is not authenticated.
    Unauthenticated,
    NotFound,
    MethodNotAllowed,
    Conflict,
    TooLarge,
    TooSlow,
    TooManyRequests,
    /// The body is not JSON.
    MediaType,
    /// Other request bodies use up the memory budget.
    BudgetExceeded,
    ShuttingDown,
    /// The disk of the state folder is full.
    DiskFull,
    /// The configuration of the gateway is invalid.
    GatewayClosed,
    Internal,
}

impl ApiErrorKind {
    fn as_str(self) -> &'static str {
        match self {
            ApiErrorKind::Call(kind) => kind.as_str(),
            ApiErrorKind::Unauthenticated => ErrorKind::Authentication.as_str(),
            ApiErrorKind::NotFound | ApiErrorKind::MethodNotAllowed => "not_found",
            ApiErrorKind::Conflict => "conflict",
            ApiErrorKind::TooLarge | ApiErrorKind::MediaType => {
                ErrorKind::InvalidArguments.as_str()
            }
            ApiErrorKind::TooSlow => ErrorKind::Timeout.as_str(),
            ApiErrorKind::TooManyRequests
            | ApiErrorKind::DiskFull
            | ApiErrorKind::BudgetExceeded => ErrorKind::Resource.as_str(),
            ApiErrorKind::GatewayClosed => ErrorKind::Config.as_str(),
            ApiErrorKind::ShuttingDown | ApiErrorKind::Internal => "internal",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            ApiErrorKind::Call(kind) => match kind {
                ErrorKind::UnknownTool => StatusCode::NOT_FOUND,
                ErrorKind::Denied => StatusCode::FORBIDDEN,
                ErrorKind::InvalidArguments => StatusCode::BAD_REQUEST,
                ErrorKind::Cancelled => StatusCode::CONFLICT,
                ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
                ErrorKind::Resource => StatusCode::SERVICE_UNAVAILABLE,
                ErrorKind::Config
                | ErrorKind::Connection
                | ErrorKind::Authentication
                | ErrorKind::Protocol
                | ErrorKind::Tool => StatusCode::BAD_GATEWAY,
            },
            ApiErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ApiErrorKind::NotFound => StatusCode::NOT_FOUND,
            ApiErrorKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ApiErrorKind::Conflict => StatusCode::CONFLICT,
            ApiErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ApiErrorKind::TooSlow => StatusCode::REQUEST_TIMEOUT,
            ApiErrorKind::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            ApiErrorKind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ApiErrorKind::ShuttingDown
            | ApiErrorKind::GatewayClosed
            | ApiErrorKind::BudgetExceeded => StatusCode::SERVICE_UNAVAILABLE,
            ApiErrorKind::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            ApiErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<&CallError> for ApiError {
    fn from(error: &CallError) -> Self {
        let api_error =
            ApiError::new(ApiErrorKind::Call(error.kind()), error.code(), error.chain());
        let (server, tool) = (error.server(), error.tool());
        let ApiError { status, body } = api_error;
        let time = error.time().map(format_timestamp).or(body.timestamp.clone());
        let body = Box::new(ErrorBody {
            server: server.map(str::to_owned),
            tool: tool.map(str::to_owned),
            cause: error.cause_text(),
            timestamp: time,
            text: Some(error.tagged_text()),
            ..*body
        });
        ApiError { status, body }
    }
}

impl From<ServerOperationError> for ApiError {
    fn from(error: ServerOperationError) -> Self {
        let (kind, code) = match &error {
            ServerOperationError::NoServer { .. } => (ApiErrorKind::NotFound, "server.unknown"),
            ServerOperationError::NotConnected(_) => (ApiErrorKind::Conflict, "connection.down"),
            ServerOperationError::Failed { cause, .. } => {
                use toolcrib_upstream::conn::FailureKind as F;
                let kind = match cause.kind {
                    F::Config => ErrorKind::Config,
                    F::Connection => ErrorKind::Connection,
                    F::Authentication => ErrorKind::Authentication,
                    F::Protocol => ErrorKind::Protocol,
                    F::Timeout => ErrorKind::Timeout,
                    F::Resource => ErrorKind::Resource,
                };
                (ApiErrorKind::Call(kind), cause.code)
            }
            ServerOperationError::Refused { cause, .. } => {
                let code = match cause {
                    ServerRefusal::Toolset { .. } => "toolset.collision",
                    ServerRefusal::Tool { .. } => "name.collision",
                    ServerRefusal::NoTools { .. } => "server.no_tools",
                };
                (ApiErrorKind::Conflict, code)
            }
            ServerOperationError::AlreadyConnected(_) => {
                (ApiErrorKind::Conflict, "server.connected")
            }
            ServerOperationError::BadEntry { .. } => {
                (ApiErrorKind::Call(ErrorKind::InvalidArguments), "server.entry.invalid")
            }
            ServerOperationError::ConfiguredInFile(_) => (ApiErrorKind::Conflict, "server.in_file"),
            ServerOperationError::Store(cause) => return store_error(&error, cause),
            ServerOperationError::Untrusted(_) => (ApiErrorKind::Conflict, "trust.required"),
            ServerOperationError::TooManyServers { .. } => (ApiErrorKind::Conflict, "server.limit"),
            ServerOperationError::Closing => return ApiError::shutting_down(),
        };
        let api_error = ApiError::new(kind, code, chain(&error));
        let cause = Error::source(&error).map(chain);
        match error.server() {
            Some(server) => {
                let body = api_error.body.for_server(server, cause);
                let body = ErrorBody { tool: error.tool().map(str::to_owned), ..body };
                ApiError { body: Box::new(body), status: api_error.status }
            }
            None => api_error,
        }
    }
}

impl From<DialogError> for ApiError {
    fn from(error: DialogError) -> Self {
        let (kind, code) = match &error {
            DialogError::NoFolder(_) => {
                (ApiErrorKind::Call(ErrorKind::InvalidArguments), "dialog.folder.missing")
            }
            DialogError::Store(cause) => return store_error(&error, cause),
            DialogError::OwnedByAnother => (ApiErrorKind::Conflict, "dialog.taken"),
            DialogError::Closing => return ApiError::shutting_down(),
        };
        ApiError::new(kind, code, chain(&error))
    }
}

impl From<SwitchError> for ApiError {
    fn from(error: SwitchError) -> Self {
        let (kind, code) = match &error {
            SwitchError::NoServer(_) => (ApiErrorKind::NotFound, "server.unknown"),
            SwitchError::Store(cause) => return store_error(&error, cause),
        };
        ApiError::new(kind, code, chain(&error))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        store_error(&error, &error)
    }
}

/// Error for an unusable store, with the fix that the user can apply.
fn store_error(whole: &(dyn Error + 'static), cause: &StoreError) -> ApiError {
    match cause.fix() {
        Some(fix) => {
            let text = format!("{}; {fix}", chain(whole));
            ApiError::new(ApiErrorKind::DiskFull, "store.unwritable", text)
        }
        None => ApiError::new(ApiErrorKind::Internal, "store", chain(whole)),
    }
}

impl From<AccessDenied> for ApiError {
    fn from(denied: AccessDenied) -> Self {
        let (kind, code) = match denied {
            AccessDenied::GatewayClosed => (ApiErrorKind::GatewayClosed, "gateway.closed"),
            AccessDenied::MissingToken => (ApiErrorKind::Unauthenticated, "token.missing"),
            AccessDenied::UnknownToken => (ApiErrorKind::Unauthenticated, "token.unknown"),
            AccessDenied::Unverified => (ApiErrorKind::Unauthenticated, "token.unverified"),
            AccessDenied::EmptyAgentName => {
                (ApiErrorKind::Call(ErrorKind::InvalidArguments), "request.invalid")
            }
            AccessDenied::AgentNotAllowed(_) => {
                (ApiErrorKind::Call(ErrorKind::Denied), "denied.agent")
            }
            AccessDenied::RateLimited { .. } => (ApiErrorKind::TooManyRequests, "rate.limit"),
            AccessDenied::TooManyFailures(_) => (ApiErrorKind::TooManyRequests, "token.limit"),
        };
        ApiError::new(kind, code, denied.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let is_brief = self.body.code == BODY_BUDGET_EXCEEDED;
        let mut reply = (self.status, Json(ErrorResponse { error: *self.body })).into_response();
        if is_brief {
            reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use toolcrib_upstream::conn::{Failure, FailureKind};

    use super::*;

    #[test]
    fn errors_map_to_their_http_status() {
        let failed = |kind| ServerOperationError::Failed {
            server: "s".into(),
            cause: Box::new(Failure::new(kind, "m")),
        };
        let call = |kind| ApiError::from(&CallError::new(kind, "m"));
        let table: [(ApiError, u16, &str); 30] = [
            (call(ErrorKind::UnknownTool), 404, "unknown_tool"),
            (call(ErrorKind::Denied), 403, "denied"),
            (call(ErrorKind::InvalidArguments), 400, "invalid_arguments"),
            (call(ErrorKind::Config), 502, "config"),
            (call(ErrorKind::Connection), 502, "connection"),
            (call(ErrorKind::Authentication), 502, "authentication"),
            (call(ErrorKind::Timeout), 504, "timeout"),
            (call(ErrorKind::Cancelled), 409, "cancelled"),
            (call(ErrorKind::Protocol), 502, "protocol"),
            (call(ErrorKind::Tool), 502, "tool"),
            (call(ErrorKind::Resource), 503, "resource"),
            (
                ServerOperationError::NoServer { name: "s".into(), known: vec![] }.into(),
                404,
                "not_found",
            ),
            (ServerOperationError::NotConnected("s".into()).into(), 409, "conflict"),
            (failed(FailureKind::Connection).into(), 502, "connection"),
            (failed(FailureKind::Timeout).into(), 504, "timeout"),
            (ServerOperationError::AlreadyConnected("s".into()).into(), 409, "conflict"),
            (
                ServerOperationError::BadEntry { id: "s".into(), text: "t".into() }.into(),
                400,
                "invalid_arguments",
            ),
            (ServerOperationError::ConfiguredInFile("s".into()).into(), 409, "conflict"),
            (ServerOperationError::Closing.into(), 503, "internal"),
            (DialogError::NoFolder(PathBuf::from("/x")).into(), 400, "invalid_arguments"),
            (DialogError::OwnedByAnother.into(), 409, "conflict"),
            (SwitchError::NoServer("s".into()).into(), 404, "not_found"),
            (AccessDenied::EmptyAgentName.into(), 400, "invalid_arguments"),
            (AccessDenied::AgentNotAllowed("a".into()).into(), 403, "denied"),
            (AccessDenied::GatewayClosed.into(), 503, "config"),
            (AccessDenied::MissingToken.into(), 401, "authentication"),
            (AccessDenied::UnknownToken.into(), 401, "authentication"),
            (AccessDenied::Unverified.into(), 401, "authentication"),
            (AccessDenied::RateLimited { limit: 1, wait: Duration::ZERO }.into(), 429, "resource"),
            (AccessDenied::TooManyFailures(1).into(), 429, "resource"),
        ];
        for (api_error, status, kind) in table {
            assert_eq!(
                (api_error.status.as_u16(), api_error.body.kind.as_str()),
                (status, kind),
                "{api_error:?}"
            );
            assert!(!api_error.body.message.is_empty() && !api_error.body.code.is_empty());
        }
    }
}
