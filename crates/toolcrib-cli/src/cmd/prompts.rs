//! `toolcrib prompts`: lists the prompts of an agent.

use serde::Deserialize;
use toolcrib_server::api::schema::{PromptList, PromptListItem};

use crate::Exit;
use crate::args::PromptsArgs;
use crate::host_access;
use crate::output::Output;
use crate::problem_report::plural;
use crate::settings::Settings;
use crate::terminal_text::{Table, brief, plain_cell, printable};

/// The displayed members of a prompt argument.
#[derive(Deserialize)]
struct PromptArgument {
    name: String,
    #[serde(default)]
    required: bool,
}

pub(crate) fn run(settings: &Settings, out: &Output, args: &PromptsArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        let response = access.get_list(&["prompts"], &args.caller, &[]).await?;
        let prompts = match response.parse_result::<PromptList>()? {
            Ok(listed) => listed.prompts,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        match settings.json {
            true => out.print_raw_json(&response.body),
            false => {
                out.print_result(&prompt_table(&prompts));
                access.print_footnotes().await?;
                out.print_note(&plural(prompts.len(), "prompt"));
            }
        }
        if prompts.is_empty() { access.empty_exit().await } else { Ok(Exit::Done) }
    })
}

fn prompt_table(prompts: &[PromptListItem]) -> String {
    let mut table = Table::new(&["NAME", "SERVER", "ARGUMENTS", "DESCRIPTION"]);
    for prompt in prompts {
        table.add_row([
            plain_cell(printable(&prompt.name)),
            plain_cell(printable(&prompt.server)),
            plain_cell(argument_list(prompt)),
            plain_cell(prompt.description.as_deref().map(brief).unwrap_or_default()),
        ]);
    }
    table.render()
}

fn argument_list(prompt: &PromptListItem) -> String {
    let written = prompt.arguments.as_ref();
    // Malformed arguments are not displayed.
    let read =
        written.and_then(|raw| raw.json().read::<Vec<PromptArgument>>().ok()).unwrap_or_default();
    let words = read.iter().map(|argument| match argument.required {
        true => printable(&argument.name),
        false => format!("[{}]", printable(&argument.name)),
    });
    words.collect::<Vec<_>>().join(" ")
}
