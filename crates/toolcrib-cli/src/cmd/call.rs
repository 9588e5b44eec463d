//! `toolcrib call`: one call, its progress on standard error and its result on standard output.

use std::io::Read;

use toolcrib_server::api::shape::{Delivered, Extra, Fault, Faulted, NewCall, Reported};
use toolcrib_wire::{Kind, Limits, Raw};

use crate::Exit;
use crate::api::{Followed, path};
use crate::args::Call;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{brief, lines};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Call) -> Exit {
    let given = match args.args.as_deref().map(read).transpose() {
        Ok(given) => given,
        Err(text) => {
            out.error(&text);
            return Exit::Usage;
        }
    };
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&args.who).await?;
        let raw = conduct(hosted, args, &dialog, &asked(settings, args, given)).await?;
        let report: Reported = raw.json().read().map_err(|error| error.to_string())?;
        let fault = fault(&report)?;
        match (settings.json, args.raw, &report.result, &report.delivered) {
            (true, _, _, _) => out.raw(&raw),
            (false, true, Some(result), _) => out.raw(result),
            (false, _, _, delivered) => deliver(out, delivered.as_ref()),
        }
        if fault.as_ref().is_some_and(is_unknown) && !settings.json {
            hosted.footnotes().await?;
        }
        exit(hosted, &report, fault.as_ref()).await
    })
}

/// The object that was given, before anything is started for it.
fn read(text: &str) -> Result<Raw, String> {
    let limits = Limits::default();
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
    let raw = Raw::parse(bytes, &limits).map_err(|fault| format!("--args is no JSON: {fault}"))?;
    match raw.json().kind() {
        Kind::Object => Ok(raw),
        kind => Err(format!("--args must be a JSON object, this is {kind}")),
    }
}

/// Who waits at a terminal wants his arguments checked, and the first failure, not the last.
fn asked(settings: &Settings, args: &Call, given: Option<Raw>) -> NewCall {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let with = match (settings.json, args.raw) {
        (true, _) => Vec::new(),
        (false, true) => vec![Extra::Result, Extra::Delivered],
        (false, false) => vec![Extra::Delivered],
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

/// The report of the call. Whoever goes away before it comes has cancelled the call.
async fn conduct(
    hosted: &Hosted<'_>,
    args: &Call,
    dialog: &str,
    new: &NewCall,
) -> Result<Raw, String> {
    let path = path(&["dialogs", dialog, "calls"], &[]);
    let mut events = match hosted.waited(hosted.api.follow(&path, new)).await? {
        Followed::Telling(events) => events,
        Followed::Answered(answer) => {
            return Err(answer.read::<Faulted>()?.error.message);
        }
    };
    let tool = brief(&args.tool);
    let report = loop {
        let Some((name, data)) = events.next().await? else {
            return Err("the host ended before the call did".to_owned());
        };
        match name.as_str() {
            "call" => hosted.out.progress(&format!("calling {tool}")),
            "progress" => hosted.out.progress(&format!("{tool}: {}", how_far(&data))),
            "result" => break data,
            "log" => tracing::info!(server = %brief(data.text()), "the server says something"),
            "error" => {
                let faulted: Faulted = data.json().read().map_err(|error| error.to_string())?;
                return Err(faulted.error.message);
            }
            // A newer host may tell more.
            _ => {}
        }
    };
    hosted.out.progress("");
    Ok(report)
}

/// `3 of 10: half way`, as far as the server says so.
fn how_far(params: &Raw) -> String {
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

/// The form that the server's policy asks for. What went wrong before there was a result is no result.
fn deliver(out: &Out, delivered: Option<&Delivered>) {
    match delivered {
        Some(Delivered { error: Some(error), .. }) => out.error(&lines(error)),
        Some(Delivered { json: Some(json), .. }) => out.raw(json),
        Some(Delivered { text: Some(text), .. }) => out.foreign(text),
        _ => {}
    }
}

/// Why there is no result.
fn fault(report: &Reported) -> Result<Option<Fault>, String> {
    let error = report.error.as_ref().filter(|_| !report.is_error);
    // The cause may be any JSON: a server's `error.data` is handed on as it is.
    let read = |raw: &Raw| raw.with_members([("cause", None)]).json().read();
    error.map(read).transpose().map_err(|error| error.to_string())
}

async fn exit(
    hosted: &Hosted<'_>,
    report: &Reported,
    fault: Option<&Fault>,
) -> Result<Exit, String> {
    let unreached = match fault {
        None if report.ok => return Ok(Exit::Done),
        None => false,
        Some(fault) if is_unknown(fault) => hosted.is_cut_off().await?,
        Some(fault) => hosted.is_unreached(fault, report.server.as_deref()).await?,
    };
    Ok(if unreached { Exit::Unreached } else { Exit::Failed })
}

fn is_unknown(fault: &Fault) -> bool {
    fault.kind == "unknown_tool"
}
