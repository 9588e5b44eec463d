//! Why a call has no result, as everybody above the host sees it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use toolcrib_config::model::policy::ErrorMessage;
use toolcrib_upstream::schema::Violation;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Raw, RpcError};

use super::message;

/// What sort of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    UnknownTool,
    Denied,
    InvalidArguments,
    Config,
    Connection,
    Authentication,
    Timeout,
    Cancelled,
    Protocol,
    Tool,
    Resource,
}

/// Who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    Caller,
    Server,
    Host,
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    No,
    Now,
    After(Duration),
}

/// A call that failed. Its text never repeats its cause; [`CallError::chain`] has both.
#[derive(Debug, Clone)]
pub struct CallError(Box<Failure>);

#[derive(Debug, Clone)]
struct Failure {
    kind: ErrorKind,
    code: Cow<'static, str>,
    message: String,
    server: Option<String>,
    tool: Option<String>,
    retry: Retry,
    at: Option<SystemTime>,
    cause: Option<Cause>,
    rpc: Option<RpcError>,
}

#[derive(Debug, Clone)]
enum Cause {
    Error(Arc<dyn Error + Send + Sync>),
    /// What a tool says in its structured part.
    Data(Raw),
}

/// The server cannot be asked: nothing was sent.
const NOT_CONNECTED: &str = "connection.down";

impl CallError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        CallError(Box::new(Failure {
            kind,
            code: Cow::Borrowed(kind.as_str()),
            message: message.into(),
            server: None,
            tool: None,
            retry: kind.retry(),
            at: None,
            cause: None,
            rpc: None,
        }))
    }

    pub fn unknown_tool(name: &str) -> Self {
        CallError::new(ErrorKind::UnknownTool, format!("tool not found: {name}")).with_tool(name)
    }

    /// The server is down and nothing was sent to it.
    pub fn not_connected(server: &str) -> Self {
        CallError::new(ErrorKind::Connection, format!("server `{server}` is not connected"))
            .with_code(NOT_CONNECTED)
            .with_server(server)
    }

    pub fn invalid_arguments(tool: &str, violations: &[Violation]) -> Self {
        let message = format!("invalid arguments for `{tool}`: {}", listed(violations));
        CallError::new(ErrorKind::InvalidArguments, message).with_tool(tool)
    }

    /// A result that is against what the tool promises.
    pub fn invalid_output(tool: &str, violations: &[Violation]) -> Self {
        let message =
            format!("the result of `{tool}` does not fit its schema: {}", listed(violations));
        CallError::new(ErrorKind::Protocol, message).with_code("output.invalid").with_tool(tool)
    }

    /// The server understood the request and will not have it.
    pub fn refused(kind: ErrorKind, refusal: RpcError) -> Self {
        let error = CallError::new(kind, refusal.message.clone());
        let mut error = error.with_code(format!("rpc.{}", refusal.code));
        if let Some(data) = &refusal.data {
            error = error.with_data(data.clone());
        }
        error.0.rpc = Some(refusal);
        error
    }

    /// A result that says of itself that it is an error.
    pub fn of_tool(result: &CallToolResult, policy: ErrorMessage) -> Self {
        let error = CallError::new(ErrorKind::Tool, message::message(result, policy));
        let error = match message::retriable(result) {
            Some(true) => error.with_retry(Retry::Now),
            _ => error,
        };
        match result.structured_content() {
            Some(structured) => error.with_data(structured.clone()),
            None => error,
        }
    }

    /// Stable and dotted; the kind where nothing is said.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.0.code = code.into();
        self
    }

    #[must_use]
    pub fn with_server(mut self, server: &str) -> Self {
        self.0.server = Some(server.to_owned());
        self
    }

    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.0.tool = Some(tool.to_owned());
        self
    }

    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    #[must_use]
    pub fn at(mut self, time: SystemTime) -> Self {
        self.0.at = Some(time);
        self
    }

    #[must_use]
    pub fn with_cause(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Cause::Error(Arc::new(cause)));
        self
    }

    #[must_use]
    pub fn with_data(mut self, data: Raw) -> Self {
        self.0.cause = Some(Cause::Data(data));
        self
    }
}

impl CallError {
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn code(&self) -> &str {
        &self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn blame(&self) -> Blame {
        self.0.kind.blame()
    }

    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    pub fn tool(&self) -> Option<&str> {
        self.0.tool.as_deref()
    }

    pub fn time(&self) -> Option<SystemTime> {
        self.0.at
    }

    /// What the tool said in its structured part, whole.
    pub fn cause_data(&self) -> Option<&Raw> {
        match &self.0.cause {
            Some(Cause::Data(data)) => Some(data),
            _ => None,
        }
    }

    /// What the server said itself, where it was the server that refused.
    pub fn rpc(&self) -> Option<&RpcError> {
        self.0.rpc.as_ref()
    }

    pub fn is_not_connected(&self) -> bool {
        self.0.code == NOT_CONNECTED
    }

    /// The causes in one line, from the outermost in.
    pub fn cause_text(&self) -> Option<String> {
        if let Some(data) = self.cause_data() {
            return Some(data.text().to_owned());
        }
        let causes = std::iter::successors(self.source(), |error| <dyn Error>::source(*error));
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        Some(causes.join(": ")).filter(|causes| !causes.is_empty())
    }

    /// The message and the errors behind it. Data of the tool is left out, since its message is of it.
    pub fn chain(&self) -> String {
        match self.cause_text().filter(|_| self.cause_data().is_none()) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }

    /// `[MCP:<server>] <message>: <cause>`.
    pub fn tagged(&self) -> String {
        match self.server() {
            Some(server) => format!("[MCP:{server}] {}", self.chain()),
            None => self.chain(),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.cause {
            Some(Cause::Error(error)) => Some(&**error),
            _ => None,
        }
    }
}

impl ErrorKind {
    pub const ALL: [ErrorKind; 11] = [
        ErrorKind::UnknownTool,
        ErrorKind::Denied,
        ErrorKind::InvalidArguments,
        ErrorKind::Config,
        ErrorKind::Connection,
        ErrorKind::Authentication,
        ErrorKind::Timeout,
        ErrorKind::Cancelled,
        ErrorKind::Protocol,
        ErrorKind::Tool,
        ErrorKind::Resource,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::UnknownTool => "unknown_tool",
            ErrorKind::Denied => "denied",
            ErrorKind::InvalidArguments => "invalid_arguments",
            ErrorKind::Config => "config",
            ErrorKind::Connection => "connection",
            ErrorKind::Authentication => "authentication",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Protocol => "protocol",
            ErrorKind::Tool => "tool",
            ErrorKind::Resource => "resource",
        }
    }

    /// Credentials and configuration are the owner's, whose host this is.
    pub fn blame(self) -> Blame {
        match self {
            ErrorKind::UnknownTool
            | ErrorKind::Denied
            | ErrorKind::InvalidArguments
            | ErrorKind::Cancelled => Blame::Caller,
            ErrorKind::Config | ErrorKind::Authentication | ErrorKind::Resource => Blame::Host,
            ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Protocol | ErrorKind::Tool => {
                Blame::Server
            }
        }
    }

    /// A lost connection comes back and a full house empties; everything else would only fail again.
    fn retry(self) -> Retry {
        match self {
            ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Resource => Retry::Now,
            _ => Retry::No,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) fn listed(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
