//! `toolcrib read`: what a resource holds.

use serde::de::IgnoredAny;
use toolcrib_wire::view::{ReadResourceResult, ResourceContents};
use toolcrib_wire::{Raw, base64};

use crate::Exit;
use crate::args::Read;
use crate::hosted;
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::printable;

pub(crate) fn run(settings: &Settings, out: &Out, args: &Read) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let server = args.server.as_deref();
        let asked = [("uri", Some(args.uri.as_str())), ("server", server)];
        let answer = hosted.list(&["resources", "content"], &args.who, &asked).await?;
        match answer.good::<IgnoredAny>()? {
            Err(fault) => return hosted.failed(&fault, server).await,
            Ok(_) if settings.json => out.raw(&answer.body),
            Ok(_) => return print(out, answer.body),
        }
        Ok(Exit::Done)
    })
}

fn print(out: &Out, raw: Raw) -> Result<Exit, String> {
    let read = ReadResourceResult::read(raw).map_err(|flaw| flaw.to_string())?;
    for content in read.contents() {
        part(out, &content.map_err(|flaw| flaw.to_string())?)?;
    }
    Ok(Exit::Done)
}

fn part(out: &Out, content: &ResourceContents) -> Result<(), String> {
    if let Some(text) = content.text() {
        out.foreign(&text);
        return Ok(());
    }
    let uri = printable(content.uri());
    let blob = content.blob().ok_or_else(|| format!("`{uri}` has neither text nor data"))?;
    let bytes = base64::decode(&blob).ok_or_else(|| format!("the data of `{uri}` is no Base64"))?;
    if !out.binary(&bytes) {
        let kind = content.mime_type().map(|kind| printable(&kind)).unwrap_or_default();
        out.note(&format!("{} bytes {kind}: send the output to a file", bytes.len()));
    }
    Ok(())
}
