//! `docs/cli.md`: every command with its arguments, options and examples, from the argument parser.

use clap::{Arg, Command, CommandFactory};

use super::table_row;
use crate::args::Args;

const INTRODUCTION: &str = "\
<!-- Generated from crates/toolcrib-cli/src/args.rs by its tests. Do not edit. -->
# Command line

`toolcrib COMMAND --help` prints the same text. Options of every command are listed once, at the end.

";

pub(super) fn page() -> String {
    let mut root = Args::command();
    root.build();
    let mut text = INTRODUCTION.to_owned();
    text += &after_help(&root);
    text += "\n## Commands\n\n| Command | Description |\n|---|---|\n";
    for command in subcommands(&root) {
        let name = format!("[`{}`](#{})", command.get_name(), anchor(command));
        text += &table_row(&[&name, &about(command)]);
    }
    for command in subcommands(&root) {
        text += &section(command, 2);
    }
    text += "\n## Options of every command\n\n";
    let global =
        root.get_arguments().filter(|arg| arg.is_global_set() || arg.get_id() == "version");
    text + &argument_table(global)
}

/// The section of a command, with the sections of its subcommands.
fn section(command: &Command, level: usize) -> String {
    let path = command_path(command);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).trim().to_owned();
    let mut text = format!(
        "\n{} `{path}`\n\n{}.\n\n```text\n{usage}\n```\n",
        "#".repeat(level),
        about(command)
    );
    let own = command.get_arguments().filter(|arg| !arg.is_global_set() && arg.get_id() != "help");
    let table = argument_table(own);
    if !table.is_empty() {
        text += &format!("\n{table}");
    }
    text += &after_help(command);
    for below in subcommands(command) {
        text += &section(below, level + 1);
    }
    text
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help")
}

fn command_path(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// The anchor that Markdown renderers give to the heading of a command.
fn anchor(command: &Command) -> String {
    command_path(command).replace(' ', "-")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn argument_table<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let rows: String = arguments.filter(|arg| !arg.is_hide_set()).map(argument_row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("| Argument | Description |\n|---|---|\n{rows}"),
    }
}

fn argument_row(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    table_row(&[&format!("`{}`", argument_name(arg)), &help])
}

/// The argument as it is typed, such as `-q, --quiet` or `--root <DIR>`.
fn argument_name(arg: &Arg) -> String {
    let value = match arg.get_action().takes_values() {
        true => {
            arg.get_value_names().into_iter().flatten().map(|name| format!("<{name}>")).collect()
        }
        false => String::new(),
    };
    let names =
        [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|name| format!("--{name}"))];
    let names: Vec<String> = names.into_iter().flatten().collect();
    match (names.is_empty(), value.is_empty(), arg.is_required_set()) {
        (true, _, true) => value,
        (true, _, false) => format!("[{}]", value.trim_matches(['<', '>'])),
        (false, true, _) => names.join(", "),
        (false, false, _) => format!("{} {value}", names.join(", ")),
    }
}

/// The text after a command's options: examples as code, everything else as paragraphs.
fn after_help(command: &Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    help.split("\n\n").filter(|part| !part.is_empty()).map(paragraph).collect()
}

fn paragraph(part: &str) -> String {
    match part.split_once('\n') {
        None => format!("\n{}\n", escaped(part)),
        Some((title, lines)) => {
            let code: String = lines
                .lines()
                .map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line)))
                .collect();
            format!("\n{}\n\n```text\n{code}```\n", escaped(title))
        }
    }
}

/// Escapes angle brackets outside of code, which Markdown would take for HTML.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts: Vec<String> = parts
        .map(|(at, part)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() })
        .collect();
    parts.join("`")
}

#[test]
fn every_command_and_option_is_on_the_page() {
    let page = page();
    let mut root = Args::command();
    root.build();
    for command in subcommands(&root) {
        assert!(
            page.contains(&format!("\n## `toolcrib {}`\n", command.get_name())),
            "{}",
            command.get_name()
        );
        for arg in command.get_arguments().filter_map(Arg::get_long).filter(|name| *name != "help")
        {
            assert!(page.contains(&format!("--{arg}")), "{arg}");
        }
    }
    for option in ["`--root <DIR>`", "`-q, --quiet`", "`[SERVER]`", "`<TOOL>`", "`-a <NAME=VALUE>`"]
    {
        assert!(page.contains(option), "{option}");
    }
}
