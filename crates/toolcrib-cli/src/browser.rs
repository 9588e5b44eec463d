//! Opening an address in the person's browser: the one that `BROWSER` names, else the system's.

use std::process::{Command, Stdio};

/// What opens an address on a desktop.
const OPENERS: [&str; 2] =
    if cfg!(target_os = "macos") { ["open", "xdg-open"] } else { ["xdg-open", "sensible-browser"] };

/// True if something was started. It is not waited for, and outlives the command.
pub(crate) fn open(browser: Option<&str>, address: &str) -> bool {
    commands(browser, address).iter().any(|words| {
        let Some((program, args)) = words.split_first() else { return false };
        let quiet = Stdio::null;
        let mut command = Command::new(program);
        command.args(args).stdin(quiet()).stdout(quiet()).stderr(quiet());
        command.spawn().is_ok()
    })
}

/// What is tried, in order. `BROWSER` is a list of commands with colons between; no shell reads them.
fn commands(browser: Option<&str>, address: &str) -> Vec<Vec<String>> {
    let named = browser.unwrap_or_default().split(':').map(str::trim);
    let mut commands: Vec<Vec<String>> =
        named.filter(|command| !command.is_empty()).map(|command| with(command, address)).collect();
    if commands.is_empty() {
        commands.extend(OPENERS.iter().map(|command| with(command, address)));
    }
    commands
}

/// The address takes the place of `%s`, or comes last.
fn with(command: &str, address: &str) -> Vec<String> {
    let mut words: Vec<String> =
        command.split_whitespace().map(|word| word.replace("%s", address)).collect();
    if !command.contains("%s") {
        words.push(address.to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_word_whatever_it_holds() {
        let address = "https://i.example/a?b=$(c);d e";
        assert_eq!(
            commands(Some("w3m -x:fire %s now"), address),
            [
                vec!["w3m".to_owned(), "-x".to_owned(), address.to_owned()],
                vec!["fire".to_owned(), address.to_owned(), "now".to_owned()],
            ]
        );
        let first = |browser| commands(browser, address)[0].clone();
        for browser in [None, Some(""), Some(" : ")] {
            assert_eq!(first(browser), [OPENERS[0].to_owned(), address.to_owned()]);
        }
    }
}
