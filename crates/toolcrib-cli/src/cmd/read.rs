//! `toolcrib read`: reads a resource.

use serde::de::IgnoredAny;
use toolcrib_wire::view::{ReadResourceResult, ResourceContents};
use toolcrib_wire::{RawJson, base64};

use crate::Exit;
use crate::args::ReadArgs;
use crate::host_access;
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal_text::printable;

pub(crate) fn run(settings: &Settings, out: &Output, args: &ReadArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        let server = args.server.as_deref();
        let query = [("uri", Some(args.uri.as_str())), ("server", server)];
        let response = access.get_list(&["resources", "content"], &args.caller, &query).await?;
        match response.parse_result::<IgnoredAny>()? {
            Err(error_body) => return access.report_failure(&error_body, server).await,
            Ok(_) if settings.json => out.print_raw_json(&response.body),
            Ok(_) => return print_contents(out, response.body),
        }
        Ok(Exit::Done)
    })
}

fn print_contents(out: &Output, raw: RawJson) -> Result<Exit, String> {
    let read = ReadResourceResult::read(raw).map_err(|error| error.to_string())?;
    for content in read.contents() {
        print_content(out, &content.map_err(|error| error.to_string())?)?;
    }
    Ok(Exit::Done)
}

fn print_content(out: &Output, content: &ResourceContents) -> Result<(), String> {
    if let Some(text) = content.text() {
        out.print_server_text(&text);
        return Ok(());
    }
    let uri = printable(content.uri());
    let blob = content.blob().ok_or_else(|| format!("`{uri}` has neither text nor data"))?;
    let bytes =
        base64::decode(&blob).ok_or_else(|| format!("the data of `{uri}` is not valid Base64"))?;
    if !out.print_binary(&bytes) {
        let kind = content.mime_type().map(|kind| printable(&kind)).unwrap_or_default();
        out.print_note(&format!("{} bytes {kind}: redirect the output to a file", bytes.len()));
    }
    Ok(())
}
