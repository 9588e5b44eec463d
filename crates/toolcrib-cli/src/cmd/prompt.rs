//! `toolcrib prompt`: a prompt with its arguments filled in.

use toolcrib_wire::view::{Content, GetPromptResult, Part};
use toolcrib_wire::{ObjectWriter, Raw};

use super::call::failed;
use crate::Exit;
use crate::args::Prompt;
use crate::hosted;
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::printable;

pub(crate) fn run(settings: &Settings, out: &Out, args: &Prompt) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&args.who).await?;
        let is_listed =
            |turn: &toolcrib::Turn| turn.prompts().iter().any(|it| it.name() == args.name);
        let turn = hosted.settled(&dialog, is_listed).await;
        match turn.prompt(&args.name, arguments(&args.words)).await {
            Ok(raw) if settings.json => out.raw(&raw),
            Ok(raw) => print(out, raw)?,
            Err(error) => return Ok(failed(hosted, &turn, settings.json, &error)),
        }
        Ok(Exit::Done)
    })
}

/// They are text, whatever they look like.
fn arguments(words: &[(String, String)]) -> Raw {
    let writer = ObjectWriter::new();
    words.iter().fold(writer, |writer, (name, value)| writer.string(name, value)).finish()
}

fn print(out: &Out, raw: Raw) -> Result<(), String> {
    let prompt = GetPromptResult::read(raw).map_err(|flaw| flaw.to_string())?;
    for message in prompt.messages() {
        let role = message.role().map(|role| printable(&role)).unwrap_or_default();
        for content in message.content() {
            out.foreign(&format!("{role}: {}", text(&content)));
        }
    }
    Ok(())
}

fn text(content: &Content) -> String {
    match content.part() {
        Part::Text(text) => text.into_owned(),
        Part::Resource(held) => held.text().map(|text| text.into_owned()).unwrap_or_default(),
        Part::ResourceLink(link) => link.uri().to_owned(),
        Part::Image { mime_type, .. } | Part::Audio { mime_type, .. } => format!("({mime_type})"),
        Part::Other(kind) => format!("({})", kind.as_deref().unwrap_or("of no known kind")),
    }
}
