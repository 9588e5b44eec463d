//! `toolcrib logout`: what was given for a server is given back and forgotten.

use serde_json::json;
use toolcrib_upstream::auth::{LoggedOut, Protected};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::account::{self, Place, wake};
use crate::args;
use crate::out::Out;
use crate::report::plural;
use crate::settings::Settings;
use crate::shown::lines;

pub(crate) fn run(settings: &Settings, out: &Out, args: &args::Account) -> Exit {
    account::run(settings, out, args, async |place| {
        // Before the answers are forgotten: it may take them to reach the issuer.
        let server = place.server().await;
        let done = match &server {
            Ok(Some(server)) => Some(logged_out(place, server).await?),
            Ok(None) | Err(_) => None,
        };
        let forgotten = place.forget_answers().await?;
        let was_known = done.as_ref().is_some_and(|done| done.was_known);
        // Its sessions have what is forgotten until they end.
        if was_known || forgotten > 0 {
            wake(settings, &place.spec, "restart").await;
        }
        match server {
            Err(text) if forgotten == 0 => return Err(text),
            Ok(None) if !place.has_inputs() => return Err(place.takes_none()),
            _ => {}
        }
        tell(settings, out, place, done.as_ref(), forgotten);
        Ok(Exit::Done)
    })
}

async fn logged_out(place: &Place<'_>, server: &Protected) -> Result<LoggedOut, String> {
    let done = place.accounts.logout(server).await.map_err(|error| chain(&error))?;
    if done.was_known {
        place.change(format!("you are logged out of {}", place.shown()));
    }
    Ok(done)
}

fn tell(
    settings: &Settings,
    out: &Out,
    place: &Place<'_>,
    done: Option<&LoggedOut>,
    forgotten: usize,
) {
    let was_known = done.is_some_and(|done| done.was_known);
    let revoked = done.and_then(|done| done.revoked.as_ref());
    if settings.json {
        let is_revoked = matches!(revoked, Some(Ok(())));
        out.json(&json!({
            "server": place.spec.id, "was_known": was_known, "revoked": is_revoked,
            "answers_forgotten": forgotten,
        }));
        return;
    }
    let shown = place.shown();
    match (was_known, revoked) {
        (false, _) if forgotten == 0 => {
            out.result(&format!("there is no login at {shown}\n"));
        }
        (false, _) => {}
        (true, Some(Ok(()))) => {
            out.result(&format!("logged out of {shown}; its tokens were taken back\n"));
        }
        (true, None) => {
            out.result(&format!("logged out of {shown}\n"));
            out.note("its issuer takes no tokens back: they are good until they expire");
        }
        (true, Some(Err(error))) => {
            out.result(&format!("logged out of {shown}\n"));
            let why = lines(&chain(error));
            out.note(&format!("its tokens are good until they expire: {why}"));
        }
    }
    if forgotten > 0 {
        let count = plural(forgotten, "answer");
        out.result(&format!("{count} that only {shown} uses: forgotten\n"));
    }
}
