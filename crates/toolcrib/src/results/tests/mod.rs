//! Tests of results, errors and arguments.

mod errors;
mod input;
mod large;
mod properties;
mod results;

use std::time::Duration;

use toolcrib_config::model::policy::{ErrorMessage, ErrorStyle, ResultFormat, Results};
use toolcrib_upstream::schema::{SchemaValidator, Validity};
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{MessageLimits, RawJson};

use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::parse(text, &MessageLimits::default()).unwrap()
}

fn result(text: &str) -> CallToolResult {
    CallToolResult::read(raw(text)).unwrap()
}

fn facts() -> CallFacts {
    CallFacts {
        server: "github".to_owned(),
        tool: "mcp_github_create_issue".to_owned(),
        duration: Duration::from_millis(1500),
        attempts: 2,
        repeated: true,
    }
}

fn policy(format: ResultFormat, error_style: ErrorStyle, error_message: ErrorMessage) -> Results {
    Results { format, error_style, error_message, ..Results::default() }
}

/// The policy of the `minion` profile.
fn minion() -> Results {
    policy(ResultFormat::FirstJson, ErrorStyle::Output, ErrorMessage::FirstText)
}

fn docker() -> Results {
    policy(ResultFormat::Yaml, ErrorStyle::Throw, ErrorMessage::Structured)
}

fn dominds() -> Results {
    policy(ResultFormat::Text, ErrorStyle::Result, ErrorMessage::FirstText)
}
