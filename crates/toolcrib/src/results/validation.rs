//! Acts on schema verdicts: refuses the call, reports a problem, or does nothing.

use toolcrib_config::Problem;
use toolcrib_upstream::schema::{SchemaValidator, UncheckedReason, Validity, Violation};
use toolcrib_wire::RawJson;
use toolcrib_wire::view::{CallToolResult, ResultType};

use super::error::{CallError, join_violations};

/// Treatment of schema violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// A violation is an error.
    Strict,
    /// A violation is a problem, and the call continues.
    Relaxed,
}

/// Refuses invalid arguments before anything is sent, or reports a problem and sends them. Unchecked arguments are
/// sent, because the server checks them itself.
pub(crate) fn apply_input_verdict(
    server: &str,
    tool: &str,
    verdict: Validity,
    strictness: Strictness,
) -> Result<Option<Problem>, CallError> {
    match (verdict, strictness) {
        (Validity::Valid, _) => Ok(None),
        (Validity::Unchecked(reason), _) => {
            Ok(Some(unchecked_problem(server, tool, "arguments", &reason)))
        }
        (Validity::Invalid(violations), Strictness::Strict) => {
            Err(CallError::invalid_arguments(tool, &violations).with_server(server))
        }
        (Validity::Invalid(violations), Strictness::Relaxed) => {
            let text =
                format!("arguments do not fit the tool's schema: {}", join_violations(&violations));
            Ok(Some(tool_problem("arguments.invalid", server, tool, text)))
        }
    }
}

/// Refuses a result that violates the tool's schema, or reports a problem.
pub(crate) fn apply_output_verdict(
    server: &str,
    tool: &str,
    verdict: Validity,
    strictness: Strictness,
) -> Result<Option<Problem>, CallError> {
    match (verdict, strictness) {
        (Validity::Valid, _) => Ok(None),
        (Validity::Unchecked(reason), _) => {
            Ok(Some(unchecked_problem(server, tool, "results", &reason)))
        }
        (Validity::Invalid(violations), Strictness::Strict) => {
            Err(CallError::invalid_output(tool, &violations).with_server(server))
        }
        (Validity::Invalid(violations), Strictness::Relaxed) => {
            let text = format!(
                "a result does not fit the tool's schema: {}",
                join_violations(&violations)
            );
            Ok(Some(tool_problem("output.invalid", server, tool, text)))
        }
    }
}

/// Checks a result. A tool with an output schema must return structured content, unless it failed or the result is
/// not complete.
pub(crate) fn check_output(
    checker: &SchemaValidator,
    schema: Option<&RawJson>,
    result: &CallToolResult,
) -> Validity {
    let Some(schema) = schema else { return Validity::Valid };
    if result.is_error() || *result.result_type() != ResultType::Complete {
        return Validity::Valid;
    }
    match result.structured_content() {
        Some(structured) => checker.check(schema, structured),
        None => Validity::Invalid(vec![Violation {
            pointer: "/structuredContent".to_owned(),
            expected: "a value, it is required".to_owned(),
        }]),
    }
}

fn unchecked_problem(server: &str, tool: &str, what: &str, reason: &UncheckedReason) -> Problem {
    tool_problem("schema.unchecked", server, tool, format!("its {what} are not checked: {reason}"))
        .fix("ask the server's author for a simpler schema; calls continue without the check")
}

fn tool_problem(code: &str, server: &str, tool: &str, text: String) -> Problem {
    let mut problem = Problem::warning(code, text).server(server).tool(tool);
    // Two servers may have tools with the same name.
    problem.id = format!("{code}:{server}:{tool}");
    problem
}
