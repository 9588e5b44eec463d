//! `toolcrib prompt`: a prompt with its arguments filled in.

use serde::de::IgnoredAny;
use toolcrib_server::api::shape::PromptArguments;
use toolcrib_wire::Raw;
use toolcrib_wire::view::{Content, GetPromptResult, Part};

use crate::Exit;
use crate::args::Prompt;
use crate::hosted;
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::printable;

pub(crate) fn run(settings: &Settings, out: &Out, args: &Prompt) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let path = hosted::listing(&["prompts", &args.name], &args.who, &[]);
        let filled_in = PromptArguments { arguments: args.words.iter().cloned().collect() };
        let answer = hosted.waited(hosted.api.post(&path, &filled_in)).await?;
        match answer.good::<IgnoredAny>()? {
            Err(fault) => return hosted.failed(&fault, None).await,
            Ok(_) if settings.json => out.raw(&answer.body),
            Ok(_) => print(out, answer.body)?,
        }
        Ok(Exit::Done)
    })
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
