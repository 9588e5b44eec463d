//! `toolcrib call`: calls a tool, with progress on standard error and the result on standard output.

use std::io::Read;

use toolcrib_server::api::schema::{
    CallReport, DeliveredOutput, ErrorBody, ErrorResponse, NewCall, ReportExtra,
};
use toolcrib_wire::{JsonKind, MessageLimits, RawJson};

use crate::Exit;
use crate::api_client::{StreamedResponse, api_path};
use crate::args::CallArgs;
use crate::host_access::{self, HostAccess};
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal_text::{brief, printable_lines};

pub(crate) fn run(settings: &Settings, out: &Output, args: &CallArgs) -> Exit {
    let given = match args.args.as_deref().map(parse_arguments).transpose() {
        Ok(given) => given,
        Err(text) => {
            out.print_error(&text);
            return Exit::Usage;
        }
    };
    host_access::run(settings, out, async |access| {
        let dialog = access.open_dialog(&args.caller).await?;
        let raw = follow_call(access, args, &dialog, &call_request(settings, args, given)).await?;
        let report: CallReport = raw.json().read().map_err(|error| error.to_string())?;
        let error_body = call_fault(&report)?;
        match (settings.json, args.raw, &report.result, &report.delivered) {
            (true, _, _, _) => out.print_raw_json(&raw),
            (false, true, Some(result), _) => out.print_raw_json(result),
            (false, _, _, delivered) => print_delivered(out, delivered.as_ref()),
        }
        if error_body.as_ref().is_some_and(is_unknown_tool) && !settings.json {
            access.print_footnotes().await?;
        }
        exit_code(access, &report, error_body.as_ref()).await
    })
}

/// Parses the JSON object of `--args` before anything is started.
fn parse_arguments(text: &str) -> Result<RawJson, String> {
    let limits = MessageLimits::default();
    let bytes = match text {
        "-" => {
            let mut bytes = Vec::new();
            let most = u64::try_from(limits.size).unwrap_or(u64::MAX).saturating_add(1);
            let taken = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
            taken.map_err(|error| format!("cannot read standard input: {error}"))?;
            bytes
        }
        text => text.as_bytes().to_vec(),
    };
    let raw = RawJson::parse(bytes, &limits)
        .map_err(|error_body| format!("--args is not valid JSON: {error_body}"))?;
    match raw.json().kind() {
        JsonKind::Object => Ok(raw),
        kind => Err(format!("--args must be a JSON object, not {kind}")),
    }
}

/// Builds the request. A user at a terminal wants checked arguments and the first failure instead of retries.
fn call_request(settings: &Settings, args: &CallArgs, given: Option<RawJson>) -> NewCall {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let with = match (settings.json, args.raw) {
        (true, _) => Vec::new(),
        (false, true) => vec![ReportExtra::Result, ReportExtra::Delivered],
        (false, false) => vec![ReportExtra::Delivered],
    };
    NewCall {
        tool: args.tool.clone(),
        arguments: given,
        words: args.words.clone(),
        timeout_ms: args.timeout.map(millis),
        check: true,
        once: true,
        request_id: None,
        mcp: None,
        with,
    }
}

/// Makes the call and returns its report. Dropping the future cancels the call.
async fn follow_call(
    access: &HostAccess<'_>,
    args: &CallArgs,
    dialog: &str,
    new: &NewCall,
) -> Result<RawJson, String> {
    let path = api_path(&["dialogs", dialog, "calls"], &[]);
    let mut events = match access.with_progress(access.api.follow(&path, new)).await? {
        StreamedResponse::Events(events) => events,
        StreamedResponse::Complete(response) => {
            return Err(response.read::<ErrorResponse>()?.error.message);
        }
    };
    let tool = brief(&args.tool);
    let report = loop {
        let Some((name, data)) = events.next().await? else {
            return Err("the host ended before the call completed".to_owned());
        };
        match name.as_str() {
            "call" => access.out.show_progress(&format!("calling {tool}")),
            "progress" => access.out.show_progress(&format!("{tool}: {}", progress_text(&data))),
            "result" => break data,
            "log" => tracing::info!(server = %brief(data.text()), "server log message"),
            "error" => {
                let faulted: ErrorResponse =
                    data.json().read().map_err(|error| error.to_string())?;
                return Err(faulted.error.message);
            }
            // A newer host may send other events.
            _ => {}
        }
    };
    access.out.show_progress("");
    Ok(report)
}

/// Formats progress such as `3 of 10: half way`, as far as the server reports it.
fn progress_text(params: &RawJson) -> String {
    let [progress, total, message] = params.json().pick(["progress", "total", "message"]);
    let number = |json: Option<toolcrib_wire::Json<'_>>| json.and_then(|json| json.as_f64());
    let far = match (number(progress), number(total)) {
        (Some(progress), Some(total)) => format!("{progress} of {total}"),
        (Some(progress), None) => progress.to_string(),
        _ => "…".to_owned(),
    };
    match message.and_then(|message| message.as_str()) {
        Some(message) => format!("{far}: {}", brief(&message)),
        None => far,
    }
}

/// Prints the result in the format of the server's policy. A failure before the result goes to standard error.
fn print_delivered(out: &Output, delivered: Option<&DeliveredOutput>) {
    match delivered {
        Some(DeliveredOutput { error: Some(error), .. }) => {
            out.print_error(&printable_lines(error))
        }
        Some(DeliveredOutput { json: Some(json), .. }) => out.print_raw_json(json),
        Some(DeliveredOutput { text: Some(text), .. }) => out.print_server_text(text),
        _ => {}
    }
}

/// Returns the error of a call that has no result.
fn call_fault(report: &CallReport) -> Result<Option<ErrorBody>, String> {
    let error = report.error.as_ref().filter(|_| !report.is_error);
    // The cause may be any JSON, because the host passes a server's `error.data` through.
    let read = |raw: &RawJson| raw.with_members([("cause", None)]).json().read();
    error.map(read).transpose().map_err(|error| error.to_string())
}

async fn exit_code(
    access: &HostAccess<'_>,
    report: &CallReport,
    error_body: Option<&ErrorBody>,
) -> Result<Exit, String> {
    let unreached = match error_body {
        None if report.ok => return Ok(Exit::Done),
        None => false,
        Some(error_body) if is_unknown_tool(error_body) => access.are_all_unavailable().await?,
        Some(error_body) => access.is_unreached(error_body, report.server.as_deref()).await?,
    };
    Ok(if unreached { Exit::Unreached } else { Exit::Failed })
}

fn is_unknown_tool(error_body: &ErrorBody) -> bool {
    error_body.kind == "unknown_tool"
}
