//! What a person has with one server: the account that a command is about, the answers that were given for it, and
//! the host that is to know of a change.

use std::cell::RefCell;

use serde_json::json;
use tokio::runtime::Builder;
use toolcrib_config::model::host;
use toolcrib_config::{Config, Lookup, Reference, ServerSpec};
use toolcrib_server::api::shape::{Operated, ServerShape};
use toolcrib_upstream::auth::{Accounts, Protected};
use toolcrib_upstream::process::Instance;
use toolcrib_upstream::secrets::{Keep, Means, Sources};
use toolcrib_upstream::signals::chain;
use toolcrib_upstream::transport::{Permissions, Tls};

use crate::Exit;
use crate::api::{Api, path};
use crate::args;
use crate::hosted::is_up;
use crate::inputs;
use crate::out::Out;
use crate::report::{no_such_server, plural};
use crate::running;
use crate::settings::Settings;
use crate::shown::printable;
use crate::trust;

/// The server that is meant, and what is known of logins at it.
pub(crate) struct Place<'a> {
    settings: &'a Settings,
    config: &'a Config,
    /// The server as the agent sees it whose account it is.
    pub(crate) spec: ServerSpec,
    pub(crate) accounts: Accounts,
    pub(crate) browser: Option<String>,
    keep: Keep,
    permissions: Permissions,
    /// What is other than before.
    changed: RefCell<Vec<String>>,
}

/// Does a command's work. Whoever ends it early is told what it has changed by then.
pub(crate) fn run(
    settings: &Settings,
    out: &Out,
    meant: &args::Account,
    work: impl AsyncFnOnce(&Place<'_>) -> Result<Exit, String>,
) -> Exit {
    // Before signals are watched: they end a question as they end any program.
    if let Err(text) = trust::ask(settings, out, None) {
        out.error(&text);
        return Exit::Failed;
    }
    let config = settings.effective();
    let Some(spec) = config.server(&meant.id) else {
        return no_such_server(&config, out, &meant.id);
    };
    if spec.is_withheld() {
        out.error(&printable(&trust::withheld(&meant.id)));
        return Exit::Failed;
    }
    let done = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let place = Place::new(settings, &config, spec, meant.agent.as_deref())?;
            let done = runtime.block_on(async {
                tokio::select! {
                    done = work(&place) => done,
                    _ = tokio::signal::ctrl_c() => Ok(place.interrupted(out)),
                }
            });
            // Standard input cannot be called off, so its end is not waited for.
            runtime.shutdown_background();
            done
        });
    out.progress("");
    done.unwrap_or_else(|text| {
        out.error(&text);
        Exit::Failed
    })
}

/// Tells the host that runs for this root, if there is one.
pub(crate) async fn wake(settings: &Settings, spec: &ServerSpec, what: &str) -> Option<Operated> {
    let api = Api::running(&running::find(settings).await?);
    let key = spec.key();
    let looked = api.get(&path(&["servers", &key], &[])).await.ok()?;
    let server = looked.good::<ServerShape>().ok()?.ok()?;
    // What is up takes the new token as soon as the old one is refused; an agent's session may have failed beside it.
    if what == "connect" && is_up(&server) && spec.agent.is_none() {
        return Some(Operated { ok: true, server, error: None });
    }
    api.post(&path(&["servers", &key, what], &[]), &json!({})).await.ok()?.read().ok()
}

impl<'a> Place<'a> {
    fn new(
        settings: &'a Settings,
        config: &'a Config,
        spec: &ServerSpec,
        agent: Option<&str>,
    ) -> Result<Self, String> {
        let spec = match agent {
            None => spec.clone(),
            Some(agent) => spec.of_agent(agent).ok_or_else(|| {
                let (id, agent) = (&spec.id, printable(agent));
                let fix =
                    format!("give it some: `auth_per_agent: {{ {agent}: {{ kind: oauth }} }}`");
                format!("agent `{agent}` has no credentials of its own for `{id}`\n  {fix}")
            })?,
        };
        let keep = settings.keep(config.host.credentials.into())?;
        let host::Permissions { spawn, network, docker } = config.host.permissions;
        let permissions = Permissions { spawn, network, docker };
        let accounts = Accounts::new(keep.clone(), Tls::default()).within(permissions);
        let browser = settings.world.env("BROWSER");
        let changed = RefCell::default();
        Ok(Place { settings, config, spec, accounts, browser, keep, permissions, changed })
    }

    /// From now on this is other than before.
    pub(crate) fn change(&self, what: String) {
        self.changed.borrow_mut().push(what);
    }

    /// What is other than before, for whoever ends the work early.
    pub(crate) fn changes(&self) -> String {
        let changed = self.changed.borrow();
        match changed.is_empty() {
            true => "nothing has changed".to_owned(),
            false => changed.join("; "),
        }
    }

    fn interrupted(&self, out: &Out) -> Exit {
        out.progress("");
        out.note(&format!("interrupted: {}", self.changes()));
        Exit::Interrupted
    }

    /// Asks for what the server needs and nobody has answered yet; whether anything was answered.
    pub(crate) async fn ask(&self, out: &Out) -> Result<bool, String> {
        let one = std::iter::once(&self.spec);
        let kept = |id: &str| self.change(format!("the answer to `{}` is kept", printable(id)));
        Ok(!inputs::ask(out, self.config, one, &self.keep, kept).await?.is_empty())
    }

    /// Forgets the answers that no other server needs; how many there were.
    pub(crate) async fn forget_answers(&self) -> Result<usize, String> {
        let forgotten = inputs::forget(self.config, &self.spec, &self.keep).await?;
        if forgotten > 0 {
            self.change(format!("{} forgotten", plural(forgotten, "answer")));
        }
        Ok(forgotten)
    }

    pub(crate) fn has_inputs(&self) -> bool {
        !inputs::names(&self.spec).is_empty()
    }

    /// The server as one that may want tokens, if it is one.
    pub(crate) async fn server(&self) -> Result<Option<Protected>, String> {
        let (settings, spec) = (self.settings, &self.spec);
        if !Protected::is_possible(spec, &spec.policy.auth) {
            return Ok(None);
        }
        let env = settings.world.variables();
        let instance = Instance::open(&settings.state_folder()?).map_err(|error| chain(&error))?;
        let cwd = settings.root().to_path_buf();
        let tls = Tls::default();
        let means = Means { instance: instance.clone(), env: env.clone(), cwd, tls };
        let sources = Sources::new(self.keep.clone(), means);
        sources.configure(self.config);
        let found = sources.resolve(spec, self.permissions).await;
        // Whatever was run for a secret has ended.
        instance.close().await;
        let found =
            found.map_err(|error| format!("{}\n  {}", chain(&error), error.fix(&spec.id)))?;
        let find = |reference: &Reference| found.find(&env, Some(spec), reference);
        Protected::of(spec, &find).map_err(|error| chain(&error))
    }

    pub(crate) fn takes_none(&self) -> String {
        let shown = self.shown();
        format!("{shown} takes no login: it is not reached over HTTP, or has other credentials")
    }

    /// The server, and whose account it is.
    pub(crate) fn shown(&self) -> String {
        let id = &self.spec.id;
        match &self.spec.agent {
            Some(agent) => format!("`{id}` as agent `{}`", printable(agent)),
            None => format!("`{id}`"),
        }
    }
}
