//! Opens a URL in the browser that `BROWSER` names, or else in the system's browser.

use std::process::{Command, Stdio};

/// Programs that open a URL on a desktop.
const OPENERS: [&str; 2] =
    if cfg!(target_os = "macos") { ["open", "xdg-open"] } else { ["xdg-open", "sensible-browser"] };

/// Starts a browser and returns whether one started. The browser is not waited for and outlives the command.
pub(crate) fn open_url(browser: Option<&str>, address: &str) -> bool {
    commands(browser, address).iter().any(|words| {
        let Some((program, args)) = words.split_first() else { return false };
        let quiet = Stdio::null;
        let mut command = Command::new(program);
        command.args(args).stdin(quiet()).stdout(quiet()).stderr(quiet());
        command.spawn().is_ok()
    })
}

/// Returns the commands to try, in order. `BROWSER` is a colon-separated list of commands; no shell reads them.
fn commands(browser: Option<&str>, address: &str) -> Vec<Vec<String>> {
    let named = browser.unwrap_or_default().split(':').map(str::trim);
    let mut commands: Vec<Vec<String>> = named
        .filter(|command| !command.is_empty())
        .map(|command| command_words(command, address))
        .collect();
    if commands.is_empty() {
        commands.extend(OPENERS.iter().map(|command| command_words(command, address)));
    }
    commands
}

/// Splits a command into words. The URL replaces `%s` or becomes the last word.
fn command_words(command: &str, address: &str) -> Vec<String> {
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
    fn browser_command_gets_the_url_as_one_argument() {
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
