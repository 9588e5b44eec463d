//! Notifications of both eras: progress, cancellation, log messages.

use std::borrow::Cow;

use crate::build;
use crate::id::{Id, ProgressToken};
use crate::json::{Json, JsonKind};
use crate::method;
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;
use crate::view::{FieldError, LogLevel};

/// Progress of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The token of the request.
    pub token: ProgressToken,
    /// The current progress.
    pub progress: f64,
    /// The total, if it is known.
    pub total: Option<f64>,
    /// A text for people.
    pub message: Option<Cow<'a, str>>,
}

/// Cancellation of a request by its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled<'a> {
    /// The id of the cancelled request.
    pub request: Id,
    /// The reason for people.
    pub reason: Option<Cow<'a, str>>,
}

/// A log message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMessage<'a> {
    /// `None` if the protocol does not have the level.
    pub level: Option<LogLevel>,
    /// The name of the logger.
    pub logger: Option<Cow<'a, str>>,
    /// The content of the message.
    pub data: Json<'a>,
}

impl<'a> Progress<'a> {
    /// Reads the params of `notifications/progress`. Only the token is required: it identifies the call that is
    /// alive, which is all that most readers need.
    pub fn read(params: Json<'a>) -> Result<Self, FieldError> {
        let [token, progress, total, message] =
            params.pick(["progressToken", "progress", "total", "message"]);
        Ok(Progress {
            token: read_id(token, "progressToken")?,
            progress: progress.and_then(Json::as_f64).unwrap_or_default(),
            total: total.and_then(Json::as_f64),
            message: message.and_then(Json::as_str),
        })
    }

    /// Builds the complete notification.
    pub fn build(&self) -> RawJson {
        let writer =
            ObjectWriter::new().id("progressToken", &self.token).number("progress", self.progress);
        let writer = match self.total {
            Some(total) => writer.number("total", total),
            None => writer,
        };
        notification(method::PROGRESS, writer.string_if("message", self.message.as_deref()))
    }
}

impl<'a> Cancelled<'a> {
    /// Reads the params of `notifications/cancelled`.
    pub fn read(params: Json<'a>) -> Result<Self, FieldError> {
        let [request, reason] = params.pick(["requestId", "reason"]);
        Ok(Cancelled {
            request: read_id(request, "requestId")?,
            reason: reason.and_then(Json::as_str),
        })
    }

    /// Builds the complete notification. Streamable HTTP in the modern era cancels differently: see
    /// [`crate::Era::cancel_method`].
    pub fn build(&self) -> RawJson {
        let writer = ObjectWriter::new().id("requestId", &self.request);
        notification(method::CANCELLED, writer.string_if("reason", self.reason.as_deref()))
    }
}

impl<'a> LogMessage<'a> {
    /// Reads the params of `notifications/message`.
    pub fn read(params: Json<'a>) -> Self {
        let [level, logger, data] = params.pick(["level", "logger", "data"]);
        LogMessage {
            level: level.and_then(Json::as_str).and_then(|level| LogLevel::read(&level)),
            logger: logger.and_then(Json::as_str),
            data: data.unwrap_or(Json::NULL),
        }
    }

    /// Builds the complete notification. An unknown level becomes `info`.
    pub fn build(&self) -> RawJson {
        let writer = ObjectWriter::new()
            .string("level", self.level.unwrap_or(LogLevel::Info).as_str())
            .string_if("logger", self.logger.as_deref())
            .json("data", self.data);
        notification(method::LOG_MESSAGE, writer)
    }
}

fn notification(method: &str, params: ObjectWriter) -> RawJson {
    build::notification(method, Some(params.finish().json()))
}

fn read_id(value: Option<Json<'_>>, field: &'static str) -> Result<Id, FieldError> {
    let value = value.ok_or(FieldError::Missing { field })?;
    match (Id::read(value), value.kind()) {
        (Ok(id), _) => Ok(id),
        (Err(_), JsonKind::Number) => {
            Err(FieldError::Invalid { field, value: value.text().to_owned() })
        }
        (Err(_), found) => Err(FieldError::WrongType { field, expected: JsonKind::String, found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_round_trips_and_needs_only_a_token() {
        let progress = Progress {
            token: Id::from("t"),
            progress: 0.5,
            total: Some(2.0),
            message: Some("half".into()),
        };
        let built = progress.build();
        let expected = concat!(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","#,
            r#""params":{"progressToken":"t","progress":0.5,"total":2,"message":"half"}}"#
        );
        assert_eq!(built.text(), expected);
        assert_eq!(Progress::read(built.json().get("params").unwrap()), Ok(progress));
        assert_eq!(
            Progress::read(Json::from_trusted(r#"{"progressToken":3}"#)).unwrap().token,
            Id::from(3)
        );
        assert_eq!(
            Progress::read(Json::EMPTY),
            Err(FieldError::Missing { field: "progressToken" })
        );
        assert!(Progress::read(Json::from_trusted(r#"{"progressToken":1.5}"#)).is_err());
    }

    #[test]
    fn cancellation_names_the_request() {
        let built = Cancelled { request: Id::from(7), reason: None }.build();
        assert_eq!(
            built.text(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#
        );
        let params = Json::from_trusted(r#"{"requestId":"a","reason":"late"}"#);
        assert_eq!(
            Cancelled::read(params),
            Ok(Cancelled { request: Id::from("a"), reason: Some("late".into()) })
        );
        assert!(Cancelled::read(Json::from_trusted(r#"{"requestId":null}"#)).is_err());
    }

    #[test]
    fn log_messages_keep_their_data_bytes() {
        let params = Json::from_trusted(r#"{"level":"warning","logger":"db","data":{"n":1.0}}"#);
        let message = LogMessage::read(params);
        assert_eq!((message.level, message.data.text()), (Some(LogLevel::Warning), r#"{"n":1.0}"#));
        assert_eq!(message.build().json().get("params"), Some(params));
        assert_eq!(LogMessage::read(Json::EMPTY).level, None);
    }
}
