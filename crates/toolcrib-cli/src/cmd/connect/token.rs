//! The token of a client that comes over HTTP: made with its entry, and ended with it.

use serde_json::Value as Json;
use toolcrib::access::DEFAULT_AGENT;
use toolcrib_config::model::security::Protection;
use toolcrib_server::identity::{Identity, Tokens};
use toolcrib_upstream::signals::chain;

use super::Target;
use crate::args::Connect;
use crate::clients::token_of;
use crate::out::Out;
use crate::settings::Settings;

impl Target {
    /// What the client has to come in with, where nobody comes in without: a token of its own, which ends with
    /// `--undo`. Into a workspace's file none is written, since others read that too.
    pub(super) fn token(
        &self,
        settings: &Settings,
        out: &Out,
        args: &Connect,
        is_other: bool,
    ) -> Result<Option<String>, String> {
        let config = settings.effective();
        let state = settings.state_folder()?;
        let tokens = Tokens::of(&state);
        let known = tokens.list().map_err(|error| chain(&error))?;
        if let Some(before) = self.entry.as_ref().and_then(token_of) {
            let is_known = tokens.known(before).map_err(|error| chain(&error))?.is_some();
            // Whatever it is, somebody put it there; but another workspace's is not for this one.
            if is_known || !is_other {
                return Ok(Some(before.to_owned()));
            }
        }
        if let (Some(issuer), true) = (&config.gateway.oauth.issuer, known.is_empty()) {
            out.note(&format!("the client logs in at {issuer}, or sends a token of it"));
            return Ok(None);
        }
        if Identity::of(&state).protection(&config) == Protection::Open {
            return Ok(None);
        }
        if args.project || args.print {
            out.note("the gateway wants a token: make one with `toolcrib token new`, and add");
            out.note("the header `Authorization: Bearer TOKEN` where only you can read it");
            return Ok(None);
        }
        let made = tokens.issue(&self.token_name(), DEFAULT_AGENT, false);
        let (secret, issued) = made.map_err(|error| chain(&error))?;
        out.note(&format!("token {} was made for it; `--undo` ends that, too", issued.id));
        Ok(Some(secret))
    }

    /// The token that was made for the client ends.
    pub(super) fn revoke(&self, settings: &Settings) -> Result<(), String> {
        match self.entry.as_ref().and_then(token_of) {
            Some(token) => self.end_token(settings, token),
            None => Ok(()),
        }
    }

    /// Only this one: the same client may have another for the entry that comes back.
    pub(super) fn end_token(&self, settings: &Settings, token: &str) -> Result<(), String> {
        let tokens = Tokens::of(&settings.state_folder()?);
        let known = tokens.known(token).map_err(|error| chain(&error))?;
        match known.filter(|known| known.name == self.token_name()) {
            Some(known) => tokens.revoke(&known.id).map(drop).map_err(|error| chain(&error)),
            None => Ok(()),
        }
    }

    /// The token that was made for what is to be written.
    pub(super) fn new_token<'w>(&self, wanted: &'w Json) -> Option<&'w str> {
        let before = self.entry.as_ref().and_then(token_of);
        token_of(wanted).filter(|token| Some(*token) != before)
    }

    fn token_name(&self) -> String {
        format!("connect:{}", self.client.word)
    }
}
