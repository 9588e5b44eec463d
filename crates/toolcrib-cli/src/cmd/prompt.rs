//! `toolcrib prompt`: fills in a prompt.

use serde::de::IgnoredAny;
use toolcrib_server::api::schema::PromptArguments;
use toolcrib_wire::RawJson;
use toolcrib_wire::view::{ContentBlock, GetPromptResult, ParsedContent};

use crate::Exit;
use crate::args::PromptArgs;
use crate::host_access;
use crate::output::Output;
use crate::settings::Settings;
use crate::terminal_text::printable;

pub(crate) fn run(settings: &Settings, out: &Output, args: &PromptArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        let path = host_access::list_path(&["prompts", &args.name], &args.caller, &[]);
        let filled_in = PromptArguments { arguments: args.words.iter().cloned().collect() };
        let response = access.with_progress(access.api.post(&path, &filled_in)).await?;
        match response.parse_result::<IgnoredAny>()? {
            Err(error_body) => return access.report_failure(&error_body, None).await,
            Ok(_) if settings.json => out.print_raw_json(&response.body),
            Ok(_) => print_prompt(out, response.body)?,
        }
        Ok(Exit::Done)
    })
}

fn print_prompt(out: &Output, raw: RawJson) -> Result<(), String> {
    let prompt = GetPromptResult::read(raw).map_err(|error| error.to_string())?;
    for message in prompt.messages() {
        let role = message.role().map(|role| printable(&role)).unwrap_or_default();
        for content in message.content() {
            out.print_server_text(&format!("{role}: {}", content_text(&content)));
        }
    }
    Ok(())
}

fn content_text(content: &ContentBlock) -> String {
    match content.parse() {
        ParsedContent::Text(text) => text.into_owned(),
        ParsedContent::Resource(held) => {
            held.text().map(|text| text.into_owned()).unwrap_or_default()
        }
        ParsedContent::ResourceLink(link) => link.uri().to_owned(),
        ParsedContent::Image { mime_type, .. } | ParsedContent::Audio { mime_type, .. } => {
            format!("({mime_type})")
        }
        ParsedContent::Other(kind) => format!("({})", kind.as_deref().unwrap_or("unknown content")),
    }
}
