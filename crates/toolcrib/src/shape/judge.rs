//! What follows from a check: a refusal, a problem to show, or nothing.

use toolcrib_config::Problem;
use toolcrib_upstream::schema::{Checker, Unchecked, Verdict, Violation};
use toolcrib_wire::Raw;
use toolcrib_wire::view::{CallToolResult, ResultType};

use super::error::{CallError, listed};

/// What a violation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// An error.
    Strict,
    /// A problem; the call goes on.
    Relaxed,
}

/// Arguments that break the schema are refused before anything is sent, or sent with a problem. Arguments
/// that could not be checked are sent: the server will judge them itself.
pub fn judge_input(
    server: &str,
    tool: &str,
    verdict: Verdict,
    strictness: Strictness,
) -> Result<Option<Problem>, CallError> {
    match (verdict, strictness) {
        (Verdict::Valid, _) => Ok(None),
        (Verdict::Unchecked(why), _) => Ok(Some(unchecked(server, tool, "arguments", &why))),
        (Verdict::Invalid(violations), Strictness::Strict) => {
            Err(CallError::invalid_arguments(tool, &violations).with_server(server))
        }
        (Verdict::Invalid(violations), Strictness::Relaxed) => {
            let text = format!("arguments do not fit the tool's schema: {}", listed(&violations));
            Ok(Some(problem("arguments.invalid", server, tool, text)))
        }
    }
}

/// A result that breaks the tool's own schema is refused, or passes with a problem.
pub fn judge_output(
    server: &str,
    tool: &str,
    verdict: Verdict,
    strictness: Strictness,
) -> Result<Option<Problem>, CallError> {
    match (verdict, strictness) {
        (Verdict::Valid, _) => Ok(None),
        (Verdict::Unchecked(why), _) => Ok(Some(unchecked(server, tool, "results", &why))),
        (Verdict::Invalid(violations), Strictness::Strict) => {
            Err(CallError::invalid_output(tool, &violations).with_server(server))
        }
        (Verdict::Invalid(violations), Strictness::Relaxed) => {
            let text = format!("a result does not fit the tool's schema: {}", listed(&violations));
            Ok(Some(problem("output.invalid", server, tool, text)))
        }
    }
}

/// A tool with an output schema owes a structured part that fits it, unless it failed or is not done yet.
pub fn check_output(checker: &Checker, schema: Option<&Raw>, result: &CallToolResult) -> Verdict {
    let Some(schema) = schema else { return Verdict::Valid };
    if result.is_error() || *result.result_type() != ResultType::Complete {
        return Verdict::Valid;
    }
    match result.structured_content() {
        Some(structured) => checker.check(schema, structured),
        None => Verdict::Invalid(vec![Violation {
            pointer: "/structuredContent".to_owned(),
            expected: "a value, it is required".to_owned(),
        }]),
    }
}

fn unchecked(server: &str, tool: &str, what: &str, why: &Unchecked) -> Problem {
    problem("schema.unchecked", server, tool, format!("its {what} are not checked: {why}"))
        .fix("ask the server's author for a simpler schema; calls go on meanwhile")
}

fn problem(code: &str, server: &str, tool: &str, text: String) -> Problem {
    let mut problem = Problem::warning(code, text).server(server).tool(tool);
    // Two servers may have a tool of the same name.
    problem.id = format!("{code}:{server}:{tool}");
    problem
}
