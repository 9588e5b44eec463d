//! Results, errors and arguments in every form that a design asks for.

mod any;
mod errors;
mod input;
mod large;
mod results;

use std::time::Duration;

use toolcrib_config::model::policy::{ErrorMessage, ErrorStyle, ResultFormat, Results};
use toolcrib_upstream::schema::{Checker, Verdict};
use toolcrib_wire::view::CallToolResult;
use toolcrib_wire::{Limits, Raw};

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(text, &Limits::default()).unwrap()
}

fn result(text: &str) -> CallToolResult {
    CallToolResult::read(raw(text)).unwrap()
}

fn facts() -> Facts {
    Facts {
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

/// A policy as the design has it that the profile is named after.
fn minion() -> Results {
    policy(ResultFormat::FirstJson, ErrorStyle::Output, ErrorMessage::FirstText)
}

fn docker() -> Results {
    policy(ResultFormat::Yaml, ErrorStyle::Throw, ErrorMessage::Structured)
}

fn dominds() -> Results {
    policy(ResultFormat::Text, ErrorStyle::Result, ErrorMessage::FirstText)
}
