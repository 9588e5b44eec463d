//! `toolcrib resources`: what can be read, and the templates of what else can.

use toolcrib_server::api::shape::Resources as Listed;

use crate::Exit;
use crate::args::Resources;
use crate::hosted;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::{Table, brief, plain, printable};

pub(crate) fn run(settings: &Settings, out: &Out, args: &Resources) -> Exit {
    hosted::run(settings, out, async |hosted| {
        let answer = hosted.list(&["resources"], &args.who, &[]).await?;
        let listed = match answer.good::<Listed>()? {
            Ok(listed) => listed,
            Err(fault) => return Ok(hosted.refused(&fault, None)),
        };
        let (resources, templates) = (listed.resources.len(), listed.templates.len());
        match settings.json {
            true => out.raw(&answer.body),
            false => {
                out.result(&table(&listed));
                hosted.footnotes().await?;
                let templates = plural(templates, "template");
                out.note(&format!("{}, {templates}", plural(resources, "resource")));
            }
        }
        match resources + templates {
            0 => hosted.exit_of_nothing().await,
            _ => Ok(Exit::Done),
        }
    })
}

fn table(listed: &Listed) -> String {
    let resources = listed.resources.iter().map(|it| (&it.uri, &it.name, &it.rest));
    let templates = listed.templates.iter().map(|it| (&it.uri_template, &it.name, &it.rest));
    let mut table = Table::new(&["URI", "SERVER", "TYPE", "DESCRIPTION"]);
    for (uri, name, rest) in resources.chain(templates) {
        table.row([
            plain(printable(uri)),
            plain(printable(&rest.server)),
            plain(rest.mime_type.as_deref().map(printable).unwrap_or_default()),
            plain(brief(rest.description.as_deref().unwrap_or(name))),
        ]);
    }
    table.text()
}
