//! `toolcrib prompts`: the prompts that an agent sees.

use serde::Deserialize;
use toolcrib_server::api::shape::{PromptShape, Prompts as Listed};

use crate::Exit;
use crate::args::Prompts;
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{Table, brief, plain, printable};

/// What a server says of an argument, as far as it is shown.
#[derive(Deserialize)]
struct Argument {
    name: String,
    #[serde(default)]
    required: bool,
}

pub(crate) fn run(settings: &Settings, out: &Out, args: &Prompts) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let answer = hosted.list(&["prompts"], &args.who, &[]).await?;
        let prompts = match answer.good::<Listed>()? {
            Ok(listed) => listed.prompts,
            Err(fault) => return Ok(hosted.refused(&fault, None)),
        };
        match settings.json {
            true => out.raw(&answer.body),
            false => {
                out.result(&table(&prompts));
                hosted.footnotes().await?;
                out.note(&plural(prompts.len(), "prompt"));
            }
        }
        if prompts.is_empty() { hosted.exit_of_nothing().await } else { Ok(Exit::Done) }
    })
}

fn table(prompts: &[PromptShape]) -> String {
    let mut table = Table::new(&["NAME", "SERVER", "ARGUMENTS", "DESCRIPTION"]);
    for prompt in prompts {
        table.row([
            plain(printable(&prompt.name)),
            plain(printable(&prompt.server)),
            plain(arguments(prompt)),
            plain(prompt.description.as_deref().map(brief).unwrap_or_default()),
        ]);
    }
    table.text()
}

fn arguments(prompt: &PromptShape) -> String {
    let written = prompt.arguments.as_ref();
    // What is no list of arguments is not shown as one.
    let read = written.and_then(|raw| raw.json().read::<Vec<Argument>>().ok()).unwrap_or_default();
    let words = read.iter().map(|argument| match argument.required {
        true => printable(&argument.name),
        false => format!("[{}]", printable(&argument.name)),
    });
    words.collect::<Vec<_>>().join(" ")
}
