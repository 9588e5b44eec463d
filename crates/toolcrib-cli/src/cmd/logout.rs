//! `toolcrib logout`: revokes and deletes the tokens and answers of a server.

use serde_json::json;
use toolcrib_upstream::auth::{LogoutOutcome, ProtectedServer};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args;
use crate::output::Output;
use crate::problem_report::plural;
use crate::server_account::{self, ServerAccount, notify_host};
use crate::settings::Settings;
use crate::terminal_text::printable_lines;

pub(crate) fn run(settings: &Settings, out: &Output, args: &args::AccountArgs) -> Exit {
    server_account::run(settings, out, args, async |account| {
        // Runs before the answers are deleted, because reaching the issuer may require them.
        let server = account.protected_server().await;
        let outcome = match &server {
            Ok(Some(server)) => Some(log_out(account, server).await?),
            Ok(None) | Err(_) => None,
        };
        let forgotten = account.forget_answers().await?;
        let was_known = outcome.as_ref().is_some_and(|outcome| outcome.was_known);
        // Open sessions use the deleted credentials until they end.
        if was_known || forgotten > 0 {
            notify_host(settings, &account.spec, "restart").await;
        }
        match server {
            Err(text) if forgotten == 0 => return Err(text),
            Ok(None) if !account.has_inputs() => return Err(account.no_login_message()),
            _ => {}
        }
        report_logout(settings, out, account, outcome.as_ref(), forgotten);
        Ok(Exit::Done)
    })
}

async fn log_out(
    account: &ServerAccount<'_>,
    server: &ProtectedServer,
) -> Result<LogoutOutcome, String> {
    let outcome = account.accounts.logout(server).await.map_err(|error| chain(&error))?;
    if outcome.was_known {
        account.record_change(format!("you are logged out of {}", account.display_name()));
    }
    Ok(outcome)
}

fn report_logout(
    settings: &Settings,
    out: &Output,
    account: &ServerAccount<'_>,
    outcome: Option<&LogoutOutcome>,
    forgotten: usize,
) {
    let was_known = outcome.is_some_and(|outcome| outcome.was_known);
    let revoked = outcome.and_then(|outcome| outcome.revoked.as_ref());
    if settings.json {
        let is_revoked = matches!(revoked, Some(Ok(())));
        out.print_json(&json!({
            "server": account.spec.id, "was_known": was_known, "revoked": is_revoked,
            "answers_forgotten": forgotten,
        }));
        return;
    }
    let shown = account.display_name();
    match (was_known, revoked) {
        (false, _) if forgotten == 0 => {
            out.print_result(&format!("there is no login at {shown}\n"));
        }
        (false, _) => {}
        (true, Some(Ok(()))) => {
            out.print_result(&format!("logged out of {shown}; its tokens were revoked\n"));
        }
        (true, None) => {
            out.print_result(&format!("logged out of {shown}\n"));
            out.print_note("its issuer cannot revoke tokens: they stay valid until they expire");
        }
        (true, Some(Err(error))) => {
            out.print_result(&format!("logged out of {shown}\n"));
            let why = printable_lines(&chain(error));
            out.print_note(&format!("its tokens stay valid until they expire: {why}"));
        }
    }
    if forgotten > 0 {
        let count = plural(forgotten, "answer");
        out.print_result(&format!("deleted {count} that only {shown} uses\n"));
    }
}
