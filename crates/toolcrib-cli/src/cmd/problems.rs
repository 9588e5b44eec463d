//! `toolcrib problems`: lists the problems of the host, or explains one problem code.

use toolcrib_config::{Problem, ProblemEntry, Severity, explain_problem, problem_codes};
use toolcrib_server::api::schema::ProblemList;

use crate::Exit;
use crate::api_client::api_path;
use crate::args::ProblemsArgs;
use crate::host_access;
use crate::output::Output;
use crate::problem_report::{count_by_severity, render_problems};
use crate::settings::Settings;
use crate::terminal_text::printable;

pub(crate) fn run(settings: &Settings, out: &Output, args: &ProblemsArgs) -> Exit {
    match &args.explain {
        Some(code) => explain_code(settings, out, code),
        None => list_problems(settings, out),
    }
}

/// Prints the problems of the running host, or of a host that has started all servers.
fn list_problems(settings: &Settings, out: &Output) -> Exit {
    host_access::run(settings, out, async |access| {
        // The problems of a server are known when it has connected or failed once.
        if let Some(wait) = access.wait_parameter() {
            let path = api_path(&["status"], &[("wait", Some(wait))]);
            access.with_progress(access.api.get(&path)).await?;
        }
        let response = access.api.get("/problems").await?;
        let listed = match response.parse_result::<ProblemList>()? {
            Ok(listed) => listed,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        match settings.json {
            true => out.print_raw_json(&response.body),
            false => {
                let shown: Vec<&Problem> = listed.problems.iter().collect();
                out.print_result(&render_problems(&settings.compile(), &shown));
                out.print_note(&count_by_severity(&listed.problems));
            }
        }
        let has_errors = listed.problems.iter().any(Problem::is_error);
        Ok(if has_errors { Exit::Failed } else { Exit::Done })
    })
}

/// Prints one entry of the problem catalog.
fn explain_code(settings: &Settings, out: &Output, code: &str) -> Exit {
    let Some(entry) = explain_problem(code) else {
        let similar: Vec<_> = similar_codes(code).collect();
        let hint = match similar.is_empty() {
            true => "docs/problems.md lists all codes".to_owned(),
            false => format!("similar codes: {}", similar.join(", ")),
        };
        out.print_error(&format!("there is no problem code `{}`; {hint}", printable(code)));
        return Exit::Usage;
    };
    match settings.json {
        true => out.print_json(&serde_json::json!({
            "code": entry.code,
            "severity": entry.severity,
            "cause": entry.cause,
            "example": entry.example,
            "fix": entry.fix,
        })),
        false => out.print_result(&entry_text(entry)),
    }
    Exit::Done
}

fn entry_text(entry: &ProblemEntry) -> String {
    let severity = match entry.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    format!(
        "{} ({severity})\n{}\n\nExample: {}\nFix:     {}\n",
        entry.code, entry.cause, entry.example, entry.fix
    )
}

/// Codes that share a word with `code`.
fn similar_codes(code: &str) -> impl Iterator<Item = &'static str> {
    let words: Vec<&str> = code.split(['.', '_']).filter(|word| word.len() > 2).collect();
    problem_codes()
        .filter(move |known| {
            words.iter().any(|word| known.split(['.', '_']).any(|part| part == *word))
        })
        .take(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_codes_share_a_word() {
        assert!(similar_codes("env.mising").any(|code| code == "env.missing"));
        assert_eq!(similar_codes("x").count(), 0);
    }
}
