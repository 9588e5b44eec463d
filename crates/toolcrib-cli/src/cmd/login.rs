//! `toolcrib login`: obtains tokens for a server through a browser, and answers for its inputs.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;
use toolcrib_server::api::schema::OperationResult;
use toolcrib_upstream::auth::{AuthError, Login, LoginOutcome, LoginStart, ProtectedServer};
use toolcrib_upstream::signals::chain;

use crate::Exit;
use crate::args;
use crate::browser;
use crate::callback::{BrowserRedirect, CallbackListener};
use crate::host_access::is_up;
use crate::output::Output;
use crate::server_account::{self, ServerAccount, notify_host};
use crate::settings::Settings;
use crate::terminal_text::{name_list, printable, printable_lines};

/// Time limit for the login in the browser. The user may have to look for a password first.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn run(settings: &Settings, out: &Output, args: &args::LoginArgs) -> Exit {
    server_account::run(settings, out, &args.account, async |account| {
        let is_answered = account.ask_inputs(out).await?;
        let Some(server) = account.protected_server().await? else {
            return match is_answered {
                true => Ok(report_not_needed(settings, out, account, is_answered).await),
                false => Err(account.no_login_message()),
            };
        };
        let result = LoginFlow { account, server: &server, out }.log_in(args.no_browser).await;
        let outcome = match result {
            Err(LoginError::NotNeeded) => {
                return Ok(report_not_needed(settings, out, account, is_answered).await);
            }
            Err(LoginError::Error(text)) => return Err(text),
            Ok(outcome) => outcome,
        };
        let host = notify_host(settings, &account.spec, "connect").await;
        report_login(settings, out, account, &outcome, host.as_ref());
        Ok(Exit::Done)
    })
}

enum LoginError {
    NotNeeded,
    Error(String),
}

impl LoginError {
    fn new(server: &ProtectedServer, error: &AuthError) -> Self {
        match error {
            AuthError::LoginNotNeeded => LoginError::NotNeeded,
            error => {
                let fix = error.fix(&server.login_args());
                LoginError::Error(format!("{}\n  {fix}", printable_lines(&chain(error))))
            }
        }
    }
}

impl From<String> for LoginError {
    fn from(text: String) -> Self {
        LoginError::Error(text)
    }
}

/// One login attempt.
struct LoginFlow<'a> {
    account: &'a ServerAccount<'a>,
    server: &'a ProtectedServer,
    out: &'a Output,
}

impl LoginFlow<'_> {
    async fn log_in(&self, no_browser: bool) -> Result<LoginOutcome, LoginError> {
        let accounts = &self.account.accounts;
        let listening = self.bind_callback().await?;
        let redirect = listening.redirect_uri();
        self.out.show_progress(&format!("looking up the token issuer of `{}`", self.server.id));
        let result = accounts.start_login(self.server, &redirect).await;
        self.out.show_progress("");
        match result.map_err(|error| self.login_error(&error))? {
            LoginStart::Done(outcome) => self.finish_login(Ok(outcome)),
            LoginStart::Browser(login) if no_browser => {
                // With `--no-browser` nothing reads the callback, so a browser on this machine must not reach it.
                drop(listening);
                self.log_in_with_pasted_address(*login).await
            }
            LoginStart::Browser(login) => self.log_in_with_browser(*login, listening).await,
        }
    }

    /// Binds the redirect URI. The port of the last login is preferred, because that URI may be registered.
    async fn bind_callback(&self) -> Result<CallbackListener, String> {
        let last = self.account.accounts.registered_redirect(self.server).await;
        let listening = CallbackListener::bind(last.as_deref()).await;
        listening.map_err(|error| format!("cannot listen for the browser: {error}"))
    }

    async fn log_in_with_browser(
        &self,
        login: Login,
        listening: CallbackListener,
    ) -> Result<LoginOutcome, LoginError> {
        let (out, address) = (self.out, login.authorization_url().to_string());
        out.print_instruction(&format!(
            "log in to `{}` at this address:\n  {address}",
            self.server.id
        ));
        if !browser::open_url(self.account.browser.as_deref(), &address) {
            out.print_note("cannot open a browser; open the address on this machine yourself");
        }
        out.show_progress("waiting for the browser");
        let visit =
            timeout(LOGIN_TIMEOUT, listening.wait_for_redirect(|query| login.is_response(query)))
                .await;
        let visit =
            visit.map_err(|_| "the login was not completed in the browser in time".to_owned())?;
        let BrowserRedirect { query, reply } =
            visit.map_err(|error| format!("cannot receive the browser's redirect: {error}"))?;
        out.show_progress("");
        let outcome = self.finish_login(login.finish(&query).await);
        reply.send_outcome(outcome.is_ok()).await;
        outcome
    }

    async fn log_in_with_pasted_address(&self, login: Login) -> Result<LoginOutcome, LoginError> {
        let (out, address) = (self.out, login.authorization_url());
        out.print_instruction(&format!(
            "log in to `{}` at this address, in any browser:\n  {address}",
            self.server.id
        ));
        out.print_instruction(
            "the browser ends on a page that it cannot load; paste the address of that page here:",
        );
        let mut answer = String::new();
        let read = BufReader::new(tokio::io::stdin()).read_line(&mut answer).await;
        if read.map_err(|error| format!("cannot read the address: {error}"))? == 0 {
            return Err(
                format!("no address was entered: {}", self.account.describe_changes()).into()
            );
        }
        self.finish_login(login.finish(&answer).await)
    }

    fn finish_login(
        &self,
        outcome: Result<LoginOutcome, AuthError>,
    ) -> Result<LoginOutcome, LoginError> {
        let outcome = outcome.map_err(|error| self.login_error(&error))?;
        self.account.record_change(format!("you are logged in to {}", self.account.display_name()));
        Ok(outcome)
    }

    fn login_error(&self, error: &AuthError) -> LoginError {
        LoginError::new(self.server, error)
    }
}

/// Reports that the server needs no login. It may have lacked only the answers.
async fn report_not_needed(
    settings: &Settings,
    out: &Output,
    account: &ServerAccount<'_>,
    is_answered: bool,
) -> Exit {
    let host = match is_answered {
        true => notify_host(settings, &account.spec, "connect").await,
        false => None,
    };
    let id = &account.spec.id;
    if settings.json {
        let host = host.as_ref().map_or(Json::Null, |host| json!(host));
        out.print_json(&json!({
            "server": id, "needed": false, "answered": is_answered, "host": host,
        }));
        return Exit::Done;
    }
    match is_answered {
        true => out.print_result(&format!("`{id}` has the answers that it needs\n")),
        false => out.print_result(&format!("`{id}` needs no login\n")),
    }
    report_host_state(out, host.as_ref());
    Exit::Done
}

fn report_login(
    settings: &Settings,
    out: &Output,
    account: &ServerAccount<'_>,
    outcome: &LoginOutcome,
    host: Option<&OperationResult>,
) {
    let LoginOutcome { issuer, scopes, expires_in, is_lasting } = outcome;
    let id = &account.spec.id;
    if settings.json {
        let host = host.map_or(Json::Null, |host| json!(host));
        out.print_json(&json!({
            "server": id, "needed": true, "issuer": issuer, "scopes": scopes,
            "expires_in": expires_in, "renewable": is_lasting, "host": host,
        }));
        return;
    }
    out.print_result(&format!(
        "logged in to {} by {}\n",
        account.display_name(),
        printable(issuer)
    ));
    if !scopes.is_empty() {
        out.print_note(&format!("for {}", name_list(scopes.iter().map(String::as_str))));
    }
    if let (Some(seconds), false) = (expires_in, is_lasting) {
        out.print_note(&format!("valid for {seconds} s; the issuer gave no refresh token"));
    }
    report_host_state(out, host);
}

fn report_host_state(out: &Output, host: Option<&OperationResult>) {
    match host.map(|host| (&host.server, &host.error)) {
        Some((server, _)) if is_up(server) => {
            out.print_note("the running host has connected the server")
        }
        Some((server, Some(error))) => {
            let why = printable_lines(&error.message);
            out.print_note(&format!("in the running host the server is {}: {why}", server.state));
        }
        _ => {}
    }
}
