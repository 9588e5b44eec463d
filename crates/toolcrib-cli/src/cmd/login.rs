//! `toolcrib login` and `toolcrib logout`: tokens for a server, by way of a person's browser.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Builder;
use tokio::time::timeout;
use toolcrib::auth::{Accounts, AuthError, Begun, LoggedIn, Login, Protected};
use toolcrib::process::Instance;
use toolcrib::secrets::{Means, Sources};
use toolcrib::signals::chain;
use toolcrib::transport::{Permissions, Tls};
use toolcrib_config::model::host;
use toolcrib_config::{Config, Lookup, Reference, ServerSpec};
use toolcrib_server::api::shape::{Operated, ServerShape};

use crate::Exit;
use crate::api::{Api, path};
use crate::args;
use crate::browser;
use crate::callback::{Callback, Visit};
use crate::hosted::is_up;
use crate::inputs;
use crate::out::Out;
use crate::report::no_such_server;
use crate::running;
use crate::settings::Settings;
use crate::shown::{few, lines, printable};
use crate::trust;

/// A person may have to look for a password first.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn login(settings: &Settings, out: &Out, args: &args::Login) -> Exit {
    run(settings, out, &args.id, async |place| {
        let listening = listen(place).await?;
        let redirect = listening.address();
        out.progress(&format!("asking `{}` who gives its tokens", place.server.id));
        let begun = place.accounts.begin_login(&place.server, &redirect).await;
        out.progress("");
        let done = match begun.map_err(|error| place.told(&error)) {
            Ok(Begun::Done(done)) => done,
            Ok(Begun::Ask(login)) if args.no_browser => {
                // A browser on this machine must not wait for an answer there.
                drop(listening);
                pasted(place, out, *login).await?
            }
            Ok(Begun::Ask(login)) => visited(place, out, *login, listening).await?,
            Err(Told::NotNeeded) => return Ok(not_needed(settings, out, place)),
            Err(Told::Error(text)) => return Err(text),
        };
        let host = wake(settings, &place.spec, "connect").await;
        tell(settings, out, place, &done, host.as_ref());
        Ok(Exit::Done)
    })
}

pub(crate) fn logout(settings: &Settings, out: &Out, target: &args::Target) -> Exit {
    run(settings, out, &target.id, async |place| {
        let done = place.accounts.logout(&place.server).await.map_err(|error| chain(&error))?;
        // Its sessions have the token until they end.
        if done.was_known {
            wake(settings, &place.spec, "restart").await;
        }
        let (id, is_revoked) = (&place.server.id, matches!(done.revoked, Some(Ok(()))));
        if settings.json {
            out.json(&json!({"server": id, "was_known": done.was_known, "revoked": is_revoked}));
            return Ok(Exit::Done);
        }
        match (done.was_known, &done.revoked) {
            (false, _) => out.result(&format!("there is no login at `{id}`\n")),
            (true, Some(Ok(()))) => {
                out.result(&format!("logged out of `{id}`; its tokens were taken back\n"));
            }
            (true, None) => {
                out.result(&format!("logged out of `{id}`\n"));
                out.note("its issuer takes no tokens back: they are good until they expire");
            }
            (true, Some(Err(error))) => {
                out.result(&format!("logged out of `{id}`\n"));
                let why = lines(&chain(error));
                out.note(&format!("its tokens are good until they expire: {why}"));
            }
        }
        Ok(Exit::Done)
    })
}

/// The server that is meant, and what is known of logins at it.
struct Place {
    spec: ServerSpec,
    server: Protected,
    accounts: Accounts,
    browser: Option<String>,
}

enum Told {
    NotNeeded,
    Error(String),
}

impl Place {
    fn told(&self, error: &AuthError) -> Told {
        match error {
            AuthError::NotNeeded => Told::NotNeeded,
            error => {
                let fix = error.fix(&self.server.id);
                Told::Error(format!("{}\n  {fix}", lines(&chain(error))))
            }
        }
    }
}

/// Does a command's work. Whatever ends it early has changed nothing.
fn run(
    settings: &Settings,
    out: &Out,
    name: &str,
    work: impl AsyncFnOnce(&Place) -> Result<Exit, String>,
) -> Exit {
    // Before signals are watched: they end a question as they end any program.
    if let Err(text) = trust::ask(settings, out, None) {
        out.error(&text);
        return Exit::Failed;
    }
    let config = settings.effective();
    let Some(spec) = config.server(name) else { return no_such_server(&config, out, name) };
    if spec.is_withheld() {
        out.error(&printable(&trust::withheld(name)));
        return Exit::Failed;
    }
    let done = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let done = runtime.block_on(async {
                let all = async { work(&place(settings, out, &config, spec).await?).await };
                tokio::select! {
                    done = all => done,
                    _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
                }
            });
            // Standard input cannot be called off, so its end is not waited for.
            runtime.shutdown_background();
            done
        });
    out.progress("");
    match done {
        Ok(Exit::Interrupted) => {
            out.note("interrupted: nothing has changed");
            Exit::Interrupted
        }
        Ok(exit) => exit,
        Err(text) => {
            out.error(&text);
            Exit::Failed
        }
    }
}

async fn place(
    settings: &Settings,
    out: &Out,
    config: &Config,
    spec: &ServerSpec,
) -> Result<Place, String> {
    let keep = settings.keep(config.host.credentials.into())?;
    inputs::ask(out, config, std::iter::once(spec), &keep).await?;
    let (env, tls) = (settings.world.variables(), Tls::default());
    let instance = Instance::open(&settings.state_folder()?).map_err(|error| chain(&error))?;
    let cwd = settings.root().to_path_buf();
    let means = Means { instance: instance.clone(), env: env.clone(), cwd, tls: tls.clone() };
    let sources = Sources::new(keep.clone(), means);
    sources.declare(&config.host.secrets);
    let host::Permissions { spawn, network, docker } = config.host.permissions;
    let found = sources.resolve(spec, Permissions { spawn, network, docker }).await;
    // Whatever was run for a secret has ended.
    instance.close().await;
    let found = found.map_err(|error| format!("{}\n  {}", chain(&error), error.fix(&spec.id)))?;
    let find = |reference: &Reference| found.find(&env, Some(spec), reference);
    let server = Protected::of(spec, &find).map_err(|error| chain(&error))?;
    let server = server.ok_or_else(|| {
        let id = &spec.id;
        format!("`{id}` takes no login: it is not reached over HTTP, or has other credentials")
    })?;
    let browser = settings.world.env("BROWSER");
    Ok(Place { spec: spec.clone(), server, accounts: Accounts::new(keep, tls), browser })
}

/// Where the issuer sends the browser: as the last time, if that place is free, since it may be registered.
async fn listen(place: &Place) -> Result<Callback, String> {
    let last = place.accounts.last_redirect(&place.server).await;
    let listening = Callback::listen(last.as_deref()).await;
    listening.map_err(|error| format!("cannot listen for the browser: {error}"))
}

async fn visited(
    place: &Place,
    out: &Out,
    login: Login,
    listening: Callback,
) -> Result<LoggedIn, String> {
    out.instruct(&format!(
        "log in to `{}` at this address:\n  {}",
        place.server.id,
        login.address()
    ));
    if !browser::open(place.browser.as_deref(), login.address().as_str()) {
        out.note("no browser could be opened here; open the address yourself, on this machine");
    }
    out.progress("waiting for the browser");
    let visit = timeout(PATIENCE, listening.visit(|query| login.is_answer(query))).await;
    let visit = visit.map_err(|_| "nobody came back from the browser in time".to_owned())?;
    let Visit { query, reply } =
        visit.map_err(|error| format!("cannot hear the browser: {error}"))?;
    out.progress("");
    let done = login.finish(&query).await;
    reply.say(done.is_ok()).await;
    finished(place, done)
}

async fn pasted(place: &Place, out: &Out, login: Login) -> Result<LoggedIn, String> {
    let id = &place.server.id;
    out.instruct(&format!(
        "log in to `{id}` at this address, in any browser:\n  {}",
        login.address()
    ));
    out.instruct("the browser ends on a page that it cannot show; paste its address here:");
    let mut answer = String::new();
    let read = BufReader::new(tokio::io::stdin()).read_line(&mut answer).await;
    if read.map_err(|error| format!("cannot read the address: {error}"))? == 0 {
        return Err("no address was pasted: nothing has changed".to_owned());
    }
    finished(place, login.finish(&answer).await)
}

fn finished(place: &Place, done: Result<LoggedIn, AuthError>) -> Result<LoggedIn, String> {
    done.map_err(|error| match place.told(&error) {
        Told::Error(text) => text,
        Told::NotNeeded => chain(&error),
    })
}

fn not_needed(settings: &Settings, out: &Out, place: &Place) -> Exit {
    let id = &place.server.id;
    match settings.json {
        true => out.json(&json!({"server": id, "needed": false})),
        false => out.result(&format!("`{id}` needs no login\n")),
    }
    Exit::Done
}

fn tell(settings: &Settings, out: &Out, place: &Place, done: &LoggedIn, host: Option<&Operated>) {
    let LoggedIn { issuer, scopes, expires_in, is_lasting } = done;
    let id = &place.server.id;
    if settings.json {
        let host = host.map_or(Json::Null, |host| json!(host));
        out.json(&json!({
            "server": id, "needed": true, "issuer": issuer, "scopes": scopes,
            "expires_in": expires_in, "renewable": is_lasting, "host": host,
        }));
        return;
    }
    out.result(&format!("logged in to `{id}` by {}\n", printable(issuer)));
    if !scopes.is_empty() {
        out.note(&format!("for {}", few(scopes.iter().map(String::as_str))));
    }
    if let (Some(seconds), false) = (expires_in, is_lasting) {
        out.note(&format!("for {seconds} s; the issuer gave nothing to renew it with"));
    }
    match host.map(|host| (&host.server, &host.error)) {
        Some((server, _)) if is_up(server) => out.note("the host that runs has connected it"),
        Some((server, Some(error))) => {
            let why = lines(&error.message);
            out.note(&format!("in the host that runs it is {}: {why}", server.state));
        }
        _ => {}
    }
}

/// Tells the host that runs for this root, if there is one.
async fn wake(settings: &Settings, spec: &ServerSpec, what: &str) -> Option<Operated> {
    let api = Api::running(&running::find(settings).await?);
    let key = spec.key();
    let looked = api.get(&path(&["servers", &key], &[])).await.ok()?;
    let server = looked.good::<ServerShape>().ok()?.ok()?;
    // What is up takes the new token as soon as the old one is refused.
    if what == "connect" && is_up(&server) {
        return Some(Operated { ok: true, server, error: None });
    }
    api.post(&path(&["servers", &key, what], &[]), &json!({})).await.ok()?.read().ok()
}
