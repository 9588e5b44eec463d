//! The only place where an error becomes a status.

use std::error::Error;
use std::time::SystemTime;

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use toolcrib::host::{DialogError, OpError, SwitchError};
use toolcrib::registry::Refusal;
use toolcrib::shape::{CallError, ErrorKind};
use toolcrib::store::StoreError;
use toolcrib_upstream::signals::{chain, timestamp};

use super::shape::{Fault, Faulted};
use crate::identity::Refused;

/// The code of the refusal that passes within a moment.
pub(super) const NO_ROOM: &str = "request.no_room";

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) status: StatusCode,
    pub(crate) fault: Box<Fault>,
}

impl Fail {
    pub(crate) fn new(kind: Kind, code: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let fault = Box::new(Fault {
            kind: kind.as_str().to_owned(),
            code: code.to_owned(),
            text: Some(message.clone()),
            message,
            server: None,
            tool: None,
            cause: None,
            timestamp: Some(timestamp(SystemTime::now())),
        });
        Fail { status: kind.status(), fault }
    }

    /// To whoever may not know that there is one, there is none.
    pub(crate) fn no_dialog(id: &str) -> Self {
        Fail::new(Kind::NotFound, "dialog.unknown", format!("there is no dialog `{id}`"))
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Fail::new(Kind::Call(ErrorKind::InvalidArguments), "request.invalid", message)
    }

    pub(crate) fn ending() -> Self {
        Fail::new(Kind::Ending, "host.ending", "the host is ending")
    }
}

/// What an error is about: those of calls, and what only the API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call(ErrorKind),
    /// It is not known who asks.
    Unknown,
    NotFound,
    NotAllowed,
    Conflict,
    TooLarge,
    TooSlow,
    TooMany,
    /// The body is not JSON.
    MediaType,
    /// Bodies of other requests take all the memory for bodies.
    NoRoom,
    Ending,
    /// The disk of the state folder takes nothing more.
    DiskFull,
    /// The configuration of the gateway is invalid.
    Closed,
    Internal,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Call(kind) => kind.as_str(),
            Kind::Unknown => ErrorKind::Authentication.as_str(),
            Kind::NotFound | Kind::NotAllowed => "not_found",
            Kind::Conflict => "conflict",
            Kind::TooLarge | Kind::MediaType => ErrorKind::InvalidArguments.as_str(),
            Kind::TooSlow => ErrorKind::Timeout.as_str(),
            Kind::TooMany | Kind::DiskFull | Kind::NoRoom => ErrorKind::Resource.as_str(),
            Kind::Closed => ErrorKind::Config.as_str(),
            Kind::Ending | Kind::Internal => "internal",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::Call(kind) => match kind {
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
            Kind::Unknown => StatusCode::UNAUTHORIZED,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::NotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Kind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Kind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::Ending | Kind::Closed | Kind::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Kind::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<&CallError> for Fail {
    fn from(error: &CallError) -> Self {
        let fail = Fail::new(Kind::Call(error.kind()), error.code(), error.chain());
        let (server, tool) = (error.server(), error.tool());
        let Fail { status, fault } = fail;
        let time = error.time().map(timestamp).or(fault.timestamp.clone());
        let fault = Box::new(Fault {
            server: server.map(str::to_owned),
            tool: tool.map(str::to_owned),
            cause: error.cause_text(),
            timestamp: time,
            text: Some(error.tagged()),
            ..*fault
        });
        Fail { status, fault }
    }
}

impl From<OpError> for Fail {
    fn from(error: OpError) -> Self {
        let (kind, code) = match &error {
            OpError::NoServer { .. } => (Kind::NotFound, "server.unknown"),
            OpError::NotConnected(_) => (Kind::Conflict, "connection.down"),
            OpError::Failed { cause, .. } => {
                use toolcrib_upstream::conn::FailureKind as F;
                let kind = match cause.kind {
                    F::Config => ErrorKind::Config,
                    F::Connection => ErrorKind::Connection,
                    F::Authentication => ErrorKind::Authentication,
                    F::Protocol => ErrorKind::Protocol,
                    F::Timeout => ErrorKind::Timeout,
                    F::Resource => ErrorKind::Resource,
                };
                (Kind::Call(kind), cause.code)
            }
            OpError::Refused { cause, .. } => {
                let code = match cause {
                    Refusal::Toolset { .. } => "toolset.collision",
                    Refusal::Tool { .. } => "name.collision",
                    Refusal::NoTools { .. } => "server.no_tools",
                };
                (Kind::Conflict, code)
            }
            OpError::AlreadyConnected(_) => (Kind::Conflict, "server.connected"),
            OpError::BadEntry { .. } => {
                (Kind::Call(ErrorKind::InvalidArguments), "server.entry.invalid")
            }
            OpError::InFile(_) => (Kind::Conflict, "server.in_file"),
            OpError::Store(cause) => return of_store(&error, cause),
            OpError::Untrusted(_) => (Kind::Conflict, "trust.required"),
            OpError::TooMany { .. } => (Kind::Conflict, "server.limit"),
            OpError::Ending => return Fail::ending(),
        };
        let fail = Fail::new(kind, code, chain(&error));
        let cause = Error::source(&error).map(chain);
        match error.server() {
            Some(server) => {
                let fault = fail.fault.of_server(server, cause);
                let fault = Fault { tool: error.tool().map(str::to_owned), ..fault };
                Fail { fault: Box::new(fault), status: fail.status }
            }
            None => fail,
        }
    }
}

impl From<DialogError> for Fail {
    fn from(error: DialogError) -> Self {
        let (kind, code) = match &error {
            DialogError::NoFolder(_) => {
                (Kind::Call(ErrorKind::InvalidArguments), "dialog.folder.missing")
            }
            DialogError::Store(cause) => return of_store(&error, cause),
            DialogError::Taken => (Kind::Conflict, "dialog.taken"),
            DialogError::Ending => return Fail::ending(),
        };
        Fail::new(kind, code, chain(&error))
    }
}

impl From<SwitchError> for Fail {
    fn from(error: SwitchError) -> Self {
        let (kind, code) = match &error {
            SwitchError::NoServer(_) => (Kind::NotFound, "server.unknown"),
            SwitchError::Store(cause) => return of_store(&error, cause),
        };
        Fail::new(kind, code, chain(&error))
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        of_store(&error, &error)
    }
}

/// A store that cannot be used, with what a person can do about it.
fn of_store(whole: &(dyn Error + 'static), cause: &StoreError) -> Fail {
    match cause.fix() {
        Some(fix) => {
            let text = format!("{}; {fix}", chain(whole));
            Fail::new(Kind::DiskFull, "store.unwritable", text)
        }
        None => Fail::new(Kind::Internal, "store", chain(whole)),
    }
}

impl From<Refused> for Fail {
    fn from(refused: Refused) -> Self {
        let (kind, code) = match refused {
            Refused::Closed => (Kind::Closed, "gateway.closed"),
            Refused::NoToken => (Kind::Unknown, "token.missing"),
            Refused::BadToken => (Kind::Unknown, "token.unknown"),
            Refused::Unverified => (Kind::Unknown, "token.unverified"),
            Refused::NoAgent => (Kind::Call(ErrorKind::InvalidArguments), "request.invalid"),
            Refused::NotThatAgent(_) => (Kind::Call(ErrorKind::Denied), "denied.agent"),
            Refused::TooFast { .. } => (Kind::TooMany, "rate.limit"),
            Refused::TooManyWrong(_) => (Kind::TooMany, "token.limit"),
        };
        Fail::new(kind, code, refused.to_string())
    }
}

impl IntoResponse for Fail {
    fn into_response(self) -> Response {
        let is_brief = self.fault.code == NO_ROOM;
        let mut reply = (self.status, Json(Faulted { error: *self.fault })).into_response();
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
    fn each_error_has_its_status() {
        let failed =
            |kind| OpError::Failed { server: "s".into(), cause: Box::new(Failure::new(kind, "m")) };
        let call = |kind| Fail::from(&CallError::new(kind, "m"));
        let table: [(Fail, u16, &str); 30] = [
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
            (OpError::NoServer { name: "s".into(), known: vec![] }.into(), 404, "not_found"),
            (OpError::NotConnected("s".into()).into(), 409, "conflict"),
            (failed(FailureKind::Connection).into(), 502, "connection"),
            (failed(FailureKind::Timeout).into(), 504, "timeout"),
            (OpError::AlreadyConnected("s".into()).into(), 409, "conflict"),
            (
                OpError::BadEntry { id: "s".into(), text: "t".into() }.into(),
                400,
                "invalid_arguments",
            ),
            (OpError::InFile("s".into()).into(), 409, "conflict"),
            (OpError::Ending.into(), 503, "internal"),
            (DialogError::NoFolder(PathBuf::from("/x")).into(), 400, "invalid_arguments"),
            (DialogError::Taken.into(), 409, "conflict"),
            (SwitchError::NoServer("s".into()).into(), 404, "not_found"),
            (Refused::NoAgent.into(), 400, "invalid_arguments"),
            (Refused::NotThatAgent("a".into()).into(), 403, "denied"),
            (Refused::Closed.into(), 503, "config"),
            (Refused::NoToken.into(), 401, "authentication"),
            (Refused::BadToken.into(), 401, "authentication"),
            (Refused::Unverified.into(), 401, "authentication"),
            (Refused::TooFast { most: 1, wait: Duration::ZERO }.into(), 429, "resource"),
            (Refused::TooManyWrong(1).into(), 429, "resource"),
        ];
        for (fail, status, kind) in table {
            assert_eq!(
                (fail.status.as_u16(), fail.fault.kind.as_str()),
                (status, kind),
                "{fail:?}"
            );
            assert!(!fail.fault.message.is_empty() && !fail.fault.code.is_empty());
        }
    }
}
