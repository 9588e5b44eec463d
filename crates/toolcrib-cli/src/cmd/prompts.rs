//! `toolcrib prompts`: the prompts that an agent sees.

use std::sync::Arc;

use toolcrib::registry::Prompt;
use toolcrib_wire::{ObjectWriter, Raw};

use super::tools::or_null;
use crate::Exit;
use crate::args::Prompts;
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{Table, brief, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Prompts) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&args.who).await?;
        let turn = hosted.settled(&dialog, |_| false).await;
        let prompts = turn.prompts();
        match settings.json {
            true => {
                let version = i64::try_from(turn.version()).unwrap_or(i64::MAX);
                let listed = prompts.iter().map(|prompt| to_json(prompt));
                let document = ObjectWriter::new().integer("version", version);
                out.raw(&document.array("prompts", listed).finish());
            }
            false => {
                out.result(&table(&prompts));
                hosted.footnotes(&turn);
                out.note(&plural(prompts.len(), "prompt"));
            }
        }
        Ok(if prompts.is_empty() { hosted.exit_of_nothing() } else { Exit::Done })
    })
}

fn to_json(prompt: &Prompt) -> Raw {
    let raw = prompt.item().raw();
    let [title, description, arguments] =
        ["title", "description", "arguments"].map(|key| raw.get(key));
    ObjectWriter::new()
        .string("name", prompt.name())
        .string("server", prompt.server().id())
        .string("original_name", prompt.original_name())
        .json("title", or_null(title.as_ref()))
        .json("description", or_null(description.as_ref()))
        .json("arguments", or_null(arguments.as_ref()))
        .bool("available", prompt.standing().is_available())
        .finish()
}

fn table(prompts: &[Arc<Prompt>]) -> String {
    let mut table = Table::new(&["NAME", "SERVER", "ARGUMENTS", "DESCRIPTION"]);
    for prompt in prompts {
        let arguments = prompt.item().arguments();
        let arguments = arguments.iter().map(|argument| match argument.required {
            true => printable(&argument.name),
            false => format!("[{}]", printable(&argument.name)),
        });
        table.row([
            plain(printable(prompt.name())),
            plain(printable(prompt.server().id())),
            plain(arguments.collect::<Vec<_>>().join(" ")),
            plain(prompt.item().description().as_deref().map(brief).unwrap_or_default()),
        ]);
    }
    table.text()
}
