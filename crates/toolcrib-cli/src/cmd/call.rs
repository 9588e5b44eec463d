//! `toolcrib call`: one call, its progress on standard error and its result on standard output.

use std::io::Read;
use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use toolcrib::conn::FailureKind;
use toolcrib::conn::peer::{Remark, mailbox};
use toolcrib::host::{Execution, OpError};
use toolcrib::shape::{Audience, ErrorKind, Facts, View, arguments};
use toolcrib::{CallError, CallRequest, Tool, Turn};
use toolcrib_wire::{Kind, Limits, ObjectWriter, Raw};

use crate::Exit;
use crate::args::Call;
use crate::hosted::{self, Hosted, is_up};
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{brief, lines};

/// Progress that waits to be shown; then the oldest is dropped.
const PROGRESS: usize = 16;

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
        let turn = hosted.settled(&dialog, |turn| turn.tool(&args.tool).is_some()).await;
        let done = match prepared(hosted, &turn, args, given).await {
            Ok(arguments) => execute(out, &turn, args, arguments).await,
            Err(unmade) => *unmade,
        };
        match (settings.json, args.raw, &done.outcome) {
            (true, _, _) => out.raw(&done.report()),
            (false, true, Ok(result)) => out.raw(result.raw()),
            (false, _, _) => deliver(out, &done),
        }
        let exit = exit(hosted, &done);
        if is_unknown(&done) && !settings.json {
            hosted.footnotes(&turn);
        }
        Ok(exit)
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

/// The arguments of the call, if its server can be reached. For a tool that is not there they do not matter.
async fn prepared(
    hosted: &Hosted<'_>,
    turn: &Turn,
    args: &Call,
    given: Option<Raw>,
) -> Result<Raw, Box<Execution>> {
    let none = ObjectWriter::new().finish();
    let Some(tool) = turn.tool(&args.tool) else { return Ok(given.unwrap_or(none)) };
    let unmade = |error: CallError| Box::new(unmade(&tool, error));
    let arguments = match given {
        Some(given) => given,
        None => made(&tool, &args.words).map_err(unmade)?,
    };
    reached(hosted, &tool).await.map_err(unmade)?;
    Ok(arguments)
}

/// Words become what the tool's schema asks for.
fn made(tool: &Tool, words: &[(String, String)]) -> Result<Raw, CallError> {
    let words = words.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    arguments(tool.input_schema(), words).map_err(|bad| {
        let text = format!("invalid arguments for `{}`: {bad}", tool.name());
        CallError::new(ErrorKind::InvalidArguments, text)
    })
}

/// Who waits at a terminal wants the first failure, not the last: a host would try again for as long as a call
/// may take. What else may be wrong with the server the call itself finds out.
async fn reached(hosted: &Hosted<'_>, tool: &Tool) -> Result<(), CallError> {
    let Some(server) = tool.server() else { return Ok(()) };
    if hosted.server(&server.key).is_none_or(|server| is_up(&server)) {
        return Ok(());
    }
    hosted.out.progress(&format!("connecting {}", brief(server.id())));
    match hosted.host.connect(&server.key).await {
        Err(OpError::Failed { cause, .. }) if cause.kind == FailureKind::Connection => {
            Err(CallError::not_connected(server.id()).with_cause(cause))
        }
        _ => Ok(()),
    }
}

/// A call that was not made.
fn unmade(tool: &Tool, error: CallError) -> Execution {
    let server = tool.server().map_or("", |server| server.id());
    Execution {
        call: 0,
        facts: Facts {
            server: server.to_owned(),
            tool: tool.name().to_owned(),
            duration: Duration::ZERO,
            attempts: 0,
            repeated: false,
        },
        outcome: Err(error.with_tool(tool.name()).with_server(server)),
        results: tool.server().map(|it| it.spec.policy.results.clone()).unwrap_or_default(),
    }
}

async fn execute(out: &Out, turn: &Turn, args: &Call, arguments: Raw) -> Execution {
    let (told, mut progress) = mailbox(PROGRESS);
    let request = CallRequest {
        timeout: args.timeout,
        check: true,
        remarks: Some(told),
        ..CallRequest::new(args.tool.as_str(), arguments)
    };
    out.progress(&format!("calling {}", brief(&args.tool)));
    let mut call = pin!(turn.execute(request));
    let done = loop {
        tokio::select! {
            biased;
            Some(remark) = progress.next() => say(out, &args.tool, &remark),
            done = &mut call => break done,
        }
    };
    out.progress("");
    done
}

fn say(out: &Out, tool: &str, remark: &Remark) {
    if let Remark::Progress(params) = remark {
        out.progress(&format!("{}: {}", brief(tool), how_far(params)));
    }
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
fn deliver(out: &Out, done: &Execution) {
    match (done.deliver(Audience::Other), &done.outcome) {
        (Err(error), _) => out.error(&lines(&error.tagged())),
        (Ok(delivered), Err(error)) => match delivered.view {
            View::Json(raw) => out.raw(&raw),
            View::Text(_) => out.error(&lines(&error.tagged())),
        },
        (Ok(delivered), Ok(_)) => match delivered.view {
            View::Json(raw) => out.raw(&raw),
            View::Text(text) => out.foreign(&text),
        },
    }
}

fn exit(hosted: &Hosted<'_>, done: &Execution) -> Exit {
    match &done.outcome {
        Ok(result) if result.is_error() => Exit::Failed,
        Ok(_) => Exit::Done,
        Err(_) if is_unknown(done) && hosted.is_cut_off() => Exit::Unreached,
        Err(error) if is_unreached(hosted, error) => Exit::Unreached,
        Err(_) => Exit::Failed,
    }
}

fn is_unknown(done: &Execution) -> bool {
    done.outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::UnknownTool)
}

/// Tells that something other than a call went wrong.
pub(crate) fn failed(hosted: &Hosted<'_>, turn: &Turn, as_json: bool, error: &CallError) -> Exit {
    if as_json {
        let (kind, code) = (error.kind().as_str(), error.code());
        hosted.out.json(&json!({"error": {"kind": kind, "code": code, "message": error.chain()}}));
    } else {
        hosted.out.error(&lines(&error.tagged()));
        hosted.footnotes(turn);
    }
    match is_unreached(hosted, error) || hosted.is_cut_off() {
        true => Exit::Unreached,
        false => Exit::Failed,
    }
}

/// Whether nothing was sent because there is nobody to send it to. A tool may be known of a server that was
/// never there: from an earlier time.
fn is_unreached(hosted: &Hosted<'_>, error: &CallError) -> bool {
    let was_there = || {
        let server = error.server().and_then(|server| hosted.server(server));
        server.is_none_or(|server| server.last_connected.is_some())
    };
    let of_connection = matches!(
        error.kind(),
        ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Authentication
    );
    error.is_not_connected() || (of_connection && !was_there())
}
