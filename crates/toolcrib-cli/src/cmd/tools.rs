//! `toolcrib tools`: what an agent sees.

use std::sync::Arc;

use anstyle::AnsiColor;
use toolcrib::Tool;
use toolcrib_wire::{Json, ObjectWriter, Raw};

use crate::Exit;
use crate::args::Tools;
use crate::hosted::{self, Hosted};
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{Table, bold, brief, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Tools) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&args.who).await?;
        let turn = hosted.settled_of(&dialog, args.server.as_deref()).await;
        let mut tools = turn.tools();
        if let Some(name) = &args.server {
            let Some(server) = hosted.server(name) else { return Ok(hosted.no_server(name)) };
            tools.retain(|tool| tool.server().is_some_and(|of| of.key == server.key));
        }
        match settings.json {
            true => out.raw(&document(hosted, turn.version(), &tools)),
            false => {
                out.result(&table(&tools));
                if args.server.is_none() || tools.is_empty() {
                    hosted.footnotes(&turn);
                }
                out.note(&plural(tools.len(), "tool"));
            }
        }
        Ok(if tools.is_empty() { hosted.exit_of_nothing() } else { Exit::Done })
    })
}

/// Schemas stay byte for byte what servers wrote.
fn document(hosted: &Hosted<'_>, version: u64, tools: &[Arc<Tool>]) -> Raw {
    let problems = hosted.host.problems();
    ObjectWriter::new()
        .integer("version", i64::try_from(version).unwrap_or(i64::MAX))
        .array("tools", tools.iter().map(|tool| to_json(tool)))
        .array("problems", problems.iter().filter_map(|problem| Raw::of(problem).ok()))
        .finish()
}

fn to_json(tool: &Tool) -> Raw {
    let text = |text: Option<&str>| text.map(Raw::string);
    let server = text(tool.server().map(|server| server.id()));
    let (title, description) = (text(tool.title().as_deref()), text(tool.description().as_deref()));
    ObjectWriter::new()
        .string("name", tool.name())
        .string("model_name", tool.model_name())
        .json("server", or_null(server.as_ref()))
        .string("toolset", tool.toolset())
        .string("original_name", tool.original_name())
        .json("title", or_null(title.as_ref()))
        .json("description", or_null(description.as_ref()))
        .json("input_schema", tool.input_schema().json())
        .json("output_schema", or_null(tool.output_schema().as_ref()))
        .json("annotations", or_null(tool.annotations().as_ref()))
        .bool("available", tool.is_available())
        .finish()
}

pub(crate) fn or_null(raw: Option<&Raw>) -> Json<'_> {
    raw.map_or(Json::NULL, Raw::json)
}

fn table(tools: &[Arc<Tool>]) -> String {
    let mut table = Table::new(&["NAME", "SERVER", "", "DESCRIPTION"]);
    for tool in tools {
        let away = if tool.is_available() { "" } else { "away" };
        table.row([
            plain(printable(tool.name())),
            plain(printable(tool.server().map_or("", |server| server.id()))),
            (away.to_owned(), bold(AnsiColor::Yellow)),
            plain(tool.description().as_deref().map(brief).unwrap_or_default()),
        ]);
    }
    table.text()
}
