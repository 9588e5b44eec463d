//! The user's account at one server: logins, stored inputs and the notification of a running host.

use std::cell::RefCell;

use serde_json::json;
use tokio::runtime::Builder;
use toolcrib_config::model::host;
use toolcrib_config::{Config, Lookup, Reference, ServerSpec};
use toolcrib_server::api::schema::{OperationResult, ServerView};
use toolcrib_upstream::auth::{Accounts, ProtectedServer};
use toolcrib_upstream::process::Instance;
use toolcrib_upstream::secrets::{CredentialStore, SecretSources, StoreContext};
use toolcrib_upstream::signals::chain;
use toolcrib_upstream::transport::{Permissions, Tls};

use crate::Exit;
use crate::api_client::{ApiClient, api_path};
use crate::args;
use crate::host_access::is_up;
use crate::input_prompts;
use crate::output::Output;
use crate::problem_report::{plural, report_unknown_server};
use crate::running_host;
use crate::settings::Settings;
use crate::terminal_text::printable;
use crate::trust_prompt;

/// One server and the user's login state there.
pub(crate) struct ServerAccount<'a> {
    settings: &'a Settings,
    config: &'a Config,
    /// The server as the account's agent sees it.
    pub(crate) spec: ServerSpec,
    pub(crate) accounts: Accounts,
    pub(crate) browser: Option<String>,
    credential_store: CredentialStore,
    permissions: Permissions,
    /// Completed changes, for the message after an interruption.
    changed: RefCell<Vec<String>>,
}

/// Runs a command on an account. An interruption prints the changes made so far.
pub(crate) fn run(
    settings: &Settings,
    out: &Output,
    meant: &args::AccountArgs,
    work: impl AsyncFnOnce(&ServerAccount<'_>) -> Result<Exit, String>,
) -> Exit {
    // Signals are watched after this prompt, so that Ctrl-C ends the prompt.
    if let Err(text) = trust_prompt::ask_trust(settings, out, None) {
        out.print_error(&text);
        return Exit::Failed;
    }
    let config = settings.compile_trusted();
    let Some(spec) = config.server(&meant.id) else {
        return report_unknown_server(&config, out, &meant.id);
    };
    if spec.is_withheld() {
        out.print_error(&printable(&trust_prompt::withheld_message(&meant.id)));
        return Exit::Failed;
    }
    let done = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let account = ServerAccount::new(settings, &config, spec, meant.agent.as_deref())?;
            let done = runtime.block_on(async {
                tokio::select! {
                    done = work(&account) => done,
                    _ = tokio::signal::ctrl_c() => Ok(account.interrupted(out)),
                }
            });
            // A read from standard input cannot be cancelled, so the runtime does not wait for it.
            runtime.shutdown_background();
            done
        });
    out.show_progress("");
    done.unwrap_or_else(|text| {
        out.print_error(&text);
        Exit::Failed
    })
}

/// Performs an operation on the server in the running host, if there is one.
pub(crate) async fn notify_host(
    settings: &Settings,
    spec: &ServerSpec,
    what: &str,
) -> Option<OperationResult> {
    let api = ApiClient::remote(&running_host::find(settings).await?);
    let key = spec.key();
    let response = api.get(&api_path(&["servers", &key], &[])).await.ok()?;
    let server = response.parse_result::<ServerView>().ok()?.ok()?;
    // A connected server uses the new token as soon as the old one is rejected. An agent's session may have failed
    // separately.
    if what == "connect" && is_up(&server) && spec.agent.is_none() {
        return Some(OperationResult { ok: true, server, error: None });
    }
    api.post(&api_path(&["servers", &key, what], &[]), &json!({})).await.ok()?.read().ok()
}

impl<'a> ServerAccount<'a> {
    fn new(
        settings: &'a Settings,
        config: &'a Config,
        spec: &ServerSpec,
        agent: Option<&str>,
    ) -> Result<Self, String> {
        let spec = match agent {
            None => spec.clone(),
            Some(agent) => spec.for_agent(agent).ok_or_else(|| {
                let (id, agent) = (&spec.id, printable(agent));
                let fix =
                    format!("configure them: `auth_per_agent: {{ {agent}: {{ kind: oauth }} }}`");
                format!("agent `{agent}` has no credentials of its own for `{id}`\n  {fix}")
            })?,
        };
        let credential_store = settings.credential_store(config.host.credentials.into())?;
        let host::HostPermissions { spawn, network, docker } = config.host.permissions;
        let permissions = Permissions { spawn, network, docker };
        let accounts =
            Accounts::new(credential_store.clone(), Tls::default()).with_permissions(permissions);
        let browser = settings.environment.env("BROWSER");
        let changed = RefCell::default();
        Ok(ServerAccount {
            settings,
            config,
            spec,
            accounts,
            browser,
            credential_store,
            permissions,
            changed,
        })
    }

    /// Records a completed change.
    pub(crate) fn record_change(&self, what: String) {
        self.changed.borrow_mut().push(what);
    }

    /// Describes the completed changes.
    pub(crate) fn describe_changes(&self) -> String {
        let changed = self.changed.borrow();
        match changed.is_empty() {
            true => "nothing has changed".to_owned(),
            false => changed.join("; "),
        }
    }

    fn interrupted(&self, out: &Output) -> Exit {
        out.show_progress("");
        out.print_note(&format!("interrupted: {}", self.describe_changes()));
        Exit::Interrupted
    }

    /// Asks for missing inputs of the server. Returns whether any was answered.
    pub(crate) async fn ask_inputs(&self, out: &Output) -> Result<bool, String> {
        let one = std::iter::once(&self.spec);
        let kept =
            |id: &str| self.record_change(format!("the answer to `{}` is stored", printable(id)));
        Ok(!input_prompts::ask_missing(out, self.config, one, &self.credential_store, kept)
            .await?
            .is_empty())
    }

    /// Deletes the answers that no other server needs. Returns their number.
    pub(crate) async fn forget_answers(&self) -> Result<usize, String> {
        let forgotten =
            input_prompts::forget_unshared(self.config, &self.spec, &self.credential_store).await?;
        if forgotten > 0 {
            self.record_change(format!("{} forgotten", plural(forgotten, "answer")));
        }
        Ok(forgotten)
    }

    pub(crate) fn has_inputs(&self) -> bool {
        !input_prompts::storage_names(&self.spec).is_empty()
    }

    /// Returns the server as an OAuth resource, if it can be one.
    pub(crate) async fn protected_server(&self) -> Result<Option<ProtectedServer>, String> {
        let (settings, spec) = (self.settings, &self.spec);
        if !ProtectedServer::may_need_token(spec, &spec.policy.auth) {
            return Ok(None);
        }
        let env = settings.environment.variables();
        let instance = Instance::open(&settings.state_folder()?).map_err(|error| chain(&error))?;
        let cwd = settings.root().to_path_buf();
        let tls = Tls::default();
        let means = StoreContext { instance: instance.clone(), env: env.clone(), cwd, tls };
        let sources = SecretSources::new(self.credential_store.clone(), means);
        sources.configure(self.config);
        let found = sources.resolve(spec, self.permissions).await;
        // Commands that secrets needed have ended.
        instance.close().await;
        let found =
            found.map_err(|error| format!("{}\n  {}", chain(&error), error.fix(&spec.id)))?;
        let find = |reference: &Reference| found.find(&env, Some(spec), reference);
        ProtectedServer::from_spec(spec, &find).map_err(|error| chain(&error))
    }

    pub(crate) fn no_login_message(&self) -> String {
        let shown = self.display_name();
        format!(
            "{shown} does not support a login: its transport is not HTTP, or it has other credentials"
        )
    }

    /// Returns the server's id and the agent for messages.
    pub(crate) fn display_name(&self) -> String {
        let id = &self.spec.id;
        match &self.spec.agent {
            Some(agent) => format!("`{id}` as agent `{}`", printable(agent)),
            None => format!("`{id}`"),
        }
    }
}
