//! `toolcrib login`: tokens for a server, by way of a person's browser, and answers to what it asks for.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;
use toolcrib_server::api::shape::Operated;
use toolcrib_upstream::auth::{AuthError, Begun, LoggedIn, Login, Protected};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::account::{self, Place, wake};
use crate::args;
use crate::browser;
use crate::callback::{Callback, Visit};
use crate::hosted::is_up;
use crate::out::Out;
use crate::settings::Settings;
use crate::shown::{few, lines, printable};

/// A person may have to look for a password first.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn run(settings: &Settings, out: &Out, args: &args::Login) -> Exit {
    account::run(settings, out, &args.account, async |place| {
        let is_answered = place.ask(out).await?;
        let Some(server) = place.server().await? else {
            return match is_answered {
                true => Ok(not_needed(settings, out, place, is_answered).await),
                false => Err(place.takes_none()),
            };
        };
        let begun = Visitor { place, server: &server, out }.log_in(args.no_browser).await;
        let done = match begun {
            Err(Told::NotNeeded) => {
                return Ok(not_needed(settings, out, place, is_answered).await);
            }
            Err(Told::Error(text)) => return Err(text),
            Ok(done) => done,
        };
        let host = wake(settings, &place.spec, "connect").await;
        tell(settings, out, place, &done, host.as_ref());
        Ok(Exit::Done)
    })
}

enum Told {
    NotNeeded,
    Error(String),
}

impl Told {
    fn of(server: &Protected, error: &AuthError) -> Self {
        match error {
            AuthError::NotNeeded => Told::NotNeeded,
            error => {
                let fix = error.fix(&server.words());
                Told::Error(format!("{}\n  {fix}", lines(&chain(error))))
            }
        }
    }
}

impl From<String> for Told {
    fn from(text: String) -> Self {
        Told::Error(text)
    }
}

/// Somebody who is about to log in.
struct Visitor<'a> {
    place: &'a Place<'a>,
    server: &'a Protected,
    out: &'a Out,
}

impl Visitor<'_> {
    async fn log_in(&self, no_browser: bool) -> Result<LoggedIn, Told> {
        let accounts = &self.place.accounts;
        let listening = self.listen().await?;
        let redirect = listening.address();
        self.out.progress(&format!("asking `{}` who gives its tokens", self.server.id));
        let begun = accounts.begin_login(self.server, &redirect).await;
        self.out.progress("");
        match begun.map_err(|error| self.told(&error))? {
            Begun::Done(done) => self.finished(Ok(done)),
            Begun::Ask(login) if no_browser => {
                // A browser on this machine must not wait for an answer there.
                drop(listening);
                self.pasted(*login).await
            }
            Begun::Ask(login) => self.visited(*login, listening).await,
        }
    }

    /// Where the issuer sends the browser: as the last time, if that place is free, since it may be registered.
    async fn listen(&self) -> Result<Callback, String> {
        let last = self.place.accounts.last_redirect(self.server).await;
        let listening = Callback::listen(last.as_deref()).await;
        listening.map_err(|error| format!("cannot listen for the browser: {error}"))
    }

    async fn visited(&self, login: Login, listening: Callback) -> Result<LoggedIn, Told> {
        let (out, address) = (self.out, login.address().to_string());
        out.instruct(&format!("log in to `{}` at this address:\n  {address}", self.server.id));
        if !browser::open(self.place.browser.as_deref(), &address) {
            out.note("no browser could be opened here; open the address yourself, on this machine");
        }
        out.progress("waiting for the browser");
        let visit = timeout(PATIENCE, listening.visit(|query| login.is_answer(query))).await;
        let visit = visit.map_err(|_| "nobody came back from the browser in time".to_owned())?;
        let Visit { query, reply } =
            visit.map_err(|error| format!("cannot hear the browser: {error}"))?;
        out.progress("");
        let done = self.finished(login.finish(&query).await);
        reply.say(done.is_ok()).await;
        done
    }

    async fn pasted(&self, login: Login) -> Result<LoggedIn, Told> {
        let (out, address) = (self.out, login.address());
        out.instruct(&format!(
            "log in to `{}` at this address, in any browser:\n  {address}",
            self.server.id
        ));
        out.instruct("the browser ends on a page that it cannot show; paste its address here:");
        let mut answer = String::new();
        let read = BufReader::new(tokio::io::stdin()).read_line(&mut answer).await;
        if read.map_err(|error| format!("cannot read the address: {error}"))? == 0 {
            return Err(format!("no address was pasted: {}", self.place.changes()).into());
        }
        self.finished(login.finish(&answer).await)
    }

    fn finished(&self, done: Result<LoggedIn, AuthError>) -> Result<LoggedIn, Told> {
        let done = done.map_err(|error| self.told(&error))?;
        self.place.change(format!("you are logged in to {}", self.place.shown()));
        Ok(done)
    }

    fn told(&self, error: &AuthError) -> Told {
        Told::of(self.server, error)
    }
}

/// It is reached without one; what a person was asked for may have been all that it missed.
async fn not_needed(settings: &Settings, out: &Out, place: &Place<'_>, is_answered: bool) -> Exit {
    let host = match is_answered {
        true => wake(settings, &place.spec, "connect").await,
        false => None,
    };
    let id = &place.spec.id;
    if settings.json {
        let host = host.as_ref().map_or(Json::Null, |host| json!(host));
        out.json(&json!({
            "server": id, "needed": false, "answered": is_answered, "host": host,
        }));
        return Exit::Done;
    }
    match is_answered {
        true => out.result(&format!("`{id}` has the answers that it needs\n")),
        false => out.result(&format!("`{id}` needs no login\n")),
    }
    tell_host(out, host.as_ref());
    Exit::Done
}

fn tell(
    settings: &Settings,
    out: &Out,
    place: &Place<'_>,
    done: &LoggedIn,
    host: Option<&Operated>,
) {
    let LoggedIn { issuer, scopes, expires_in, is_lasting } = done;
    let id = &place.spec.id;
    if settings.json {
        let host = host.map_or(Json::Null, |host| json!(host));
        out.json(&json!({
            "server": id, "needed": true, "issuer": issuer, "scopes": scopes,
            "expires_in": expires_in, "renewable": is_lasting, "host": host,
        }));
        return;
    }
    out.result(&format!("logged in to {} by {}\n", place.shown(), printable(issuer)));
    if !scopes.is_empty() {
        out.note(&format!("for {}", few(scopes.iter().map(String::as_str))));
    }
    if let (Some(seconds), false) = (expires_in, is_lasting) {
        out.note(&format!("for {seconds} s; the issuer gave nothing to renew it with"));
    }
    tell_host(out, host);
}

fn tell_host(out: &Out, host: Option<&Operated>) {
    match host.map(|host| (&host.server, &host.error)) {
        Some((server, _)) if is_up(server) => out.note("the host that runs has connected it"),
        Some((server, Some(error))) => {
            let why = lines(&error.message);
            out.note(&format!("in the host that runs it is {}: {why}", server.state));
        }
        _ => {}
    }
}
