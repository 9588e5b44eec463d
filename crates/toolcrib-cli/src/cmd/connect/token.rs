//! The token of an HTTP client: created with its entry and revoked with it.

use serde_json::Value as Json;
use toolcrib::internal::DEFAULT_AGENT;
use toolcrib_config::model::security::GatewayProtection;
use toolcrib_server::identity::{Identity, TokenStore};
use toolcrib_upstream::signals::chain;

use super::ClientTarget;
use crate::args::ConnectArgs;
use crate::client_entries::entry_token;
use crate::output::Output;
use crate::settings::Settings;

impl ClientTarget {
    /// Returns the token for the entry if the gateway requires one. The token is the client's own and `--undo` revokes
    /// it. The workspace's file never gets a token, because other users can read that file.
    pub(super) fn client_token(
        &self,
        settings: &Settings,
        out: &Output,
        args: &ConnectArgs,
        is_other: bool,
    ) -> Result<Option<String>, String> {
        let config = settings.compile_trusted();
        let state = settings.state_folder()?;
        let tokens = TokenStore::in_folder(&state);
        let known = tokens.list().map_err(|error| chain(&error))?;
        if let Some(before) = self.entry.as_ref().and_then(entry_token) {
            let is_known = tokens.find_by_secret(before).map_err(|error| chain(&error))?.is_some();
            // The user added this token. A token of another workspace is not kept.
            if is_known || !is_other {
                return Ok(Some(before.to_owned()));
            }
        }
        if let (Some(issuer), true) = (&config.gateway.oauth.issuer, known.is_empty()) {
            out.print_note(&format!("the client must log in at {issuer} or send a token from it"));
            return Ok(None);
        }
        if Identity::with_tokens_in(&state).protection(&config) == GatewayProtection::Open {
            return Ok(None);
        }
        if args.project || args.print {
            out.print_note(
                "the gateway requires a token: create one with `toolcrib token new`, and add",
            );
            out.print_note(
                "the header `Authorization: Bearer TOKEN` to a file that only you can read",
            );
            return Ok(None);
        }
        let made = tokens.issue(&self.token_name(), DEFAULT_AGENT, false);
        let (secret, issued) = made.map_err(|error| chain(&error))?;
        out.print_note(&format!("created token {} for the client; `--undo` revokes it", issued.id));
        Ok(Some(secret))
    }

    /// Revokes the token that was created for the client.
    pub(super) fn revoke_token(&self, settings: &Settings) -> Result<(), String> {
        match self.entry.as_ref().and_then(entry_token) {
            Some(token) => self.end_token(settings, token),
            None => Ok(()),
        }
    }

    /// Revokes only this token, because the client may have another one for the entry that comes back.
    pub(super) fn end_token(&self, settings: &Settings, token: &str) -> Result<(), String> {
        let tokens = TokenStore::in_folder(&settings.state_folder()?);
        let known = tokens.find_by_secret(token).map_err(|error| chain(&error))?;
        match known.filter(|known| known.name == self.token_name()) {
            Some(known) => tokens.revoke(&known.id).map(drop).map_err(|error| chain(&error)),
            None => Ok(()),
        }
    }

    /// Returns the token that was created for the planned entry.
    pub(super) fn new_token<'w>(&self, planned: &'w Json) -> Option<&'w str> {
        let before = self.entry.as_ref().and_then(entry_token);
        entry_token(planned).filter(|token| Some(*token) != before)
    }

    fn token_name(&self) -> String {
        format!("connect:{}", self.client.word)
    }
}
