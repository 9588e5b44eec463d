//! `toolcrib resources`: lists resources and resource templates.

use toolcrib_server::api::schema::ResourceList;

use crate::Exit;
use crate::args::ResourcesArgs;
use crate::host_access;
use crate::output::Output;
use crate::problem_report::plural;
use crate::settings::Settings;
use crate::terminal_text::{Table, brief, plain_cell, printable};

pub(crate) fn run(settings: &Settings, out: &Output, args: &ResourcesArgs) -> Exit {
    host_access::run(settings, out, async |access| {
        let response = access.get_list(&["resources"], &args.caller, &[]).await?;
        let listed = match response.parse_result::<ResourceList>()? {
            Ok(listed) => listed,
            Err(error_body) => return Ok(access.report_refusal(&error_body, None)),
        };
        let (resources, templates) = (listed.resources.len(), listed.templates.len());
        match settings.json {
            true => out.print_raw_json(&response.body),
            false => {
                out.print_result(&resource_table(&listed));
                access.print_footnotes().await?;
                let templates = plural(templates, "template");
                out.print_note(&format!("{}, {templates}", plural(resources, "resource")));
            }
        }
        match resources + templates {
            0 => access.empty_exit().await,
            _ => Ok(Exit::Done),
        }
    })
}

fn resource_table(listed: &ResourceList) -> String {
    let resources = listed.resources.iter().map(|it| (&it.uri, &it.name, &it.rest));
    let templates = listed.templates.iter().map(|it| (&it.uri_template, &it.name, &it.rest));
    let mut table = Table::new(&["URI", "SERVER", "TYPE", "DESCRIPTION"]);
    for (uri, name, rest) in resources.chain(templates) {
        table.add_row([
            plain_cell(printable(uri)),
            plain_cell(printable(&rest.server)),
            plain_cell(rest.mime_type.as_deref().map(printable).unwrap_or_default()),
            plain_cell(brief(rest.description.as_deref().unwrap_or(name))),
        ]);
    }
    table.render()
}
