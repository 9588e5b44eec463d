//! The error of a call that has no result.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use toolcrib_config::model::policy::ErrorMessage;
use toolcrib_upstream::schema::Violation;
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{RawJson, RpcError};

use super::error_message;

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The tool does not exist for the agent.
    UnknownTool,
    /// The agent may not do this.
    Denied,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// The configuration prevents the call.
    Config,
    /// The server is not reachable or was lost.
    Connection,
    /// Credentials are missing or were rejected.
    Authentication,
    /// The call took too long.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// The server violated the protocol.
    Protocol,
    /// The tool failed.
    Tool,
    /// A limit of the host was reached.
    Resource,
}

/// The party that can fix the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The caller.
    Caller,
    /// The server.
    Server,
    /// The owner of the host.
    Host,
}

/// Advice on retrying a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryAdvice {
    /// A retry would fail again.
    No,
    /// A retry may succeed now.
    Now,
    /// A retry may succeed after this time.
    After(Duration),
}

/// A failed call. The message never repeats its cause; [`CallError::chain`] has both.
#[derive(Debug, Clone)]
pub struct CallError(Box<CallErrorInner>);

#[derive(Debug, Clone)]
struct CallErrorInner {
    kind: ErrorKind,
    code: Cow<'static, str>,
    message: String,
    server: Option<String>,
    tool: Option<String>,
    retry: RetryAdvice,
    at: Option<SystemTime>,
    cause: Option<CallErrorCause>,
    rpc: Option<RpcError>,
}

#[derive(Debug, Clone)]
enum CallErrorCause {
    Error(Arc<dyn Error + Send + Sync>),
    /// The tool's structured content.
    Data(RawJson),
}

/// The server is not connected, so nothing was sent.
const NOT_CONNECTED: &str = "connection.down";

impl CallError {
    /// Creates an error. Code and retry advice follow from the kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        CallError(Box::new(CallErrorInner {
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

    /// Creates the error for an unknown tool.
    pub fn unknown_tool(name: &str) -> Self {
        CallError::new(ErrorKind::UnknownTool, format!("tool not found: {name}")).with_tool(name)
    }

    /// Creates the error for a server that is down. Nothing was sent to it.
    pub fn not_connected(server: &str) -> Self {
        CallError::new(ErrorKind::Connection, format!("server `{server}` is not connected"))
            .with_code(NOT_CONNECTED)
            .with_server(server)
    }

    /// Creates the error for invalid arguments.
    pub fn invalid_arguments(tool: &str, violations: &[Violation]) -> Self {
        let message = format!("invalid arguments for `{tool}`: {}", join_violations(violations));
        CallError::new(ErrorKind::InvalidArguments, message).with_tool(tool)
    }

    /// Creates the error for a result that violates the tool's output schema.
    pub fn invalid_output(tool: &str, violations: &[Violation]) -> Self {
        let message = format!(
            "the result of `{tool}` does not fit its schema: {}",
            join_violations(violations)
        );
        CallError::new(ErrorKind::Protocol, message).with_code("output.invalid").with_tool(tool)
    }

    /// Creates the error for a request that the server rejected.
    pub fn from_rpc_error(kind: ErrorKind, refusal: RpcError) -> Self {
        let error = CallError::new(kind, refusal.message.clone());
        let mut error = error.with_code(format!("rpc.{}", refusal.code));
        if let Some(data) = &refusal.data {
            error = error.with_data(data.clone());
        }
        error.0.rpc = Some(refusal);
        error
    }

    /// Creates the error for a result with `isError`.
    pub fn from_tool_result(result: &CallToolResult, policy: ErrorMessage) -> Self {
        let error = CallError::new(ErrorKind::Tool, error_message::error_message(result, policy));
        let error = match error_message::retriable(result) {
            Some(true) => error.with_retry(RetryAdvice::Now),
            _ => error,
        };
        match result.structured_content() {
            Some(structured) => error.with_data(structured.clone()),
            None => error,
        }
    }

    /// Sets the code, which is stable and dotted. The default is the kind.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.0.code = code.into();
        self
    }

    /// Sets the server.
    #[must_use]
    pub fn with_server(mut self, server: &str) -> Self {
        self.0.server = Some(server.to_owned());
        self
    }

    /// Sets the tool.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.0.tool = Some(tool.to_owned());
        self
    }

    /// Sets the retry advice.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryAdvice) -> Self {
        self.0.retry = retry;
        self
    }

    /// Sets the time of the failure.
    #[must_use]
    pub fn with_time(mut self, time: SystemTime) -> Self {
        self.0.at = Some(time);
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.0.cause = Some(CallErrorCause::Error(Arc::new(cause)));
        self
    }

    /// Sets the tool's structured content as the cause.
    #[must_use]
    pub fn with_data(mut self, data: RawJson) -> Self {
        self.0.cause = Some(CallErrorCause::Data(data));
        self
    }
}

impl CallError {
    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable code.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the responsible party.
    pub fn blame(&self) -> Blame {
        self.0.kind.blame()
    }

    /// Returns the retry advice.
    pub fn retry(&self) -> RetryAdvice {
        self.0.retry
    }

    /// Returns the server.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Returns the tool.
    pub fn tool(&self) -> Option<&str> {
        self.0.tool.as_deref()
    }

    /// Returns the time of the failure.
    pub fn time(&self) -> Option<SystemTime> {
        self.0.at
    }

    /// Returns the tool's structured content.
    pub fn cause_data(&self) -> Option<&RawJson> {
        match &self.0.cause {
            Some(CallErrorCause::Data(data)) => Some(data),
            _ => None,
        }
    }

    /// Returns the server's own error, if the server rejected the request.
    pub fn rpc(&self) -> Option<&RpcError> {
        self.0.rpc.as_ref()
    }

    /// Returns whether the server was not connected, so nothing was sent.
    pub fn is_not_connected(&self) -> bool {
        self.0.code == NOT_CONNECTED
    }

    /// Returns the causes in one line, outermost first.
    pub fn cause_text(&self) -> Option<String> {
        if let Some(data) = self.cause_data() {
            return Some(data.text().to_owned());
        }
        let causes = std::iter::successors(self.source(), |error| <dyn Error>::source(*error));
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        Some(causes.join(": ")).filter(|causes| !causes.is_empty())
    }

    /// Returns the message and its causes. The tool's data is omitted, because the message is made from it.
    pub fn chain(&self) -> String {
        match self.cause_text().filter(|_| self.cause_data().is_none()) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }

    /// Returns `[MCP:<server>] <message>: <cause>`.
    pub fn tagged_text(&self) -> String {
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
            Some(CallErrorCause::Error(error)) => Some(&**error),
            _ => None,
        }
    }
}

impl ErrorKind {
    /// All kinds.
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

    /// Returns the name of the kind.
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

    /// Returns the responsible party. Credentials and configuration are the responsibility of the host's owner.
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

    /// Returns the default advice. Lost connections and exhausted resources recover; other failures would repeat.
    fn retry(self) -> RetryAdvice {
        match self {
            ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Resource => RetryAdvice::Now,
            _ => RetryAdvice::No,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) fn join_violations(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
