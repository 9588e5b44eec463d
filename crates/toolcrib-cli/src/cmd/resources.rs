//! `toolcrib resources`: what can be read, and the templates of what else can.

use std::sync::Arc;

use toolcrib::Turn;
use toolcrib::registry::{Resource, Template};
use toolcrib_wire::{ObjectWriter, Raw};

use super::tools::or_null;
use crate::Exit;
use crate::args::Resources;
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{Table, brief, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Resources) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let dialog = hosted.dialog(&args.who).await?;
        let turn = hosted.settled(&dialog, |_| false).await;
        let (resources, templates) = (turn.resources(), turn.templates());
        match settings.json {
            true => out.raw(&document(&turn, &resources, &templates)),
            false => {
                out.result(&table(&resources, &templates));
                hosted.footnotes(&turn);
                let (listed, more) = (resources.len(), templates.len());
                out.note(&format!("{}, {}", plural(listed, "resource"), plural(more, "template")));
            }
        }
        let is_empty = resources.is_empty() && templates.is_empty();
        Ok(if is_empty { hosted.exit_of_nothing() } else { Exit::Done })
    })
}

fn document(turn: &Turn, resources: &[Arc<Resource>], templates: &[Arc<Template>]) -> Raw {
    let resources = resources.iter().map(|it| {
        let writer = ObjectWriter::new().string("uri", it.uri()).string("name", it.name());
        finish(writer, it.server().id(), it.item().raw(), it.standing().is_available())
    });
    let templates = templates.iter().map(|it| {
        let writer = ObjectWriter::new().string("uri_template", it.uri()).string("name", it.name());
        finish(writer, it.server().id(), it.item().raw(), it.standing().is_available())
    });
    ObjectWriter::new()
        .integer("version", i64::try_from(turn.version()).unwrap_or(i64::MAX))
        .array("resources", resources)
        .array("templates", templates)
        .finish()
}

fn finish(writer: ObjectWriter, server: &str, raw: &Raw, available: bool) -> Raw {
    let [title, description, mime] = ["title", "description", "mimeType"].map(|key| raw.get(key));
    writer
        .string("server", server)
        .json("title", or_null(title.as_ref()))
        .json("description", or_null(description.as_ref()))
        .json("mime_type", or_null(mime.as_ref()))
        .bool("available", available)
        .finish()
}

fn table(resources: &[Arc<Resource>], templates: &[Arc<Template>]) -> String {
    let mut table = Table::new(&["URI", "SERVER", "TYPE", "DESCRIPTION"]);
    let mut row = |uri: &str, server: &str, mime: Option<&str>, text: Option<&str>, name: &str| {
        table.row([
            plain(printable(uri)),
            plain(printable(server)),
            plain(mime.map(printable).unwrap_or_default()),
            plain(brief(text.unwrap_or(name))),
        ]);
    };
    for it in resources {
        let (mime, text) = (it.item().mime_type(), it.item().description());
        row(it.uri(), it.server().id(), mime.as_deref(), text.as_deref(), it.name());
    }
    for it in templates {
        let (mime, text) = (it.item().mime_type(), it.item().description());
        row(it.uri(), it.server().id(), mime.as_deref(), text.as_deref(), it.name());
    }
    table.text()
}
