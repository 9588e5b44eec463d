//! Trust in discovered configuration: what it would start or contact, and what of it is trusted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::compile::SHADOWED;
use crate::model::auth::Auth;
use crate::model::policy::ConfigDelivery;
use crate::model::security::{self, GatewayProtection, Security};
use crate::model::setting::{SecretVisibility, Setting};
use crate::model::{Config, ConfigHash, GlobalSettings, ServerSpec, ServerTrust, to_json};
use crate::problem::Problem;

/// A part of a discovered configuration that decides what runs, or where traffic and credentials go.
#[derive(Clone, Debug)]
pub struct LaunchDefinition {
    /// The server's key `<source>#<id>`, or `None` for the host's settings.
    pub server: Option<String>,
    /// Hash over the part with its secrets. Other settings do not affect it.
    pub hash: ConfigHash,
    /// The hashed native keys, with secrets masked.
    pub masked_keys: Map<String, Json>,
}

/// The trusted part of a folder's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedLaunches {
    /// Everything, because the user named the folder.
    All,
    /// The launch definitions with one of these hashes.
    Only(BTreeSet<ConfigHash>),
    /// No definition: the folder was never trusted, or its trust was withdrawn.
    None,
}

impl Config {
    /// Returns the definitions that need trust in load order, including disabled servers.
    pub fn launches(&self) -> Vec<LaunchDefinition> {
        let found = self.servers.iter().filter(|spec| spec.trust != ServerTrust::User);
        let servers = found.map(|spec| LaunchDefinition {
            server: Some(spec.key()),
            hash: spec.launch_hash(),
            masked_keys: spec.launch_keys(SecretVisibility::Masked),
        });
        self.host_launch().into_iter().chain(servers).collect()
    }

    /// Withholds what is not trusted. An untrusted change keeps the server's earlier definition. A server without one
    /// is disabled, no override enables it, and it shadows no other server. The host settings are withheld as a whole.
    /// `fix` explains how to trust the folder.
    pub fn withhold(&mut self, before: &Config, trusted: &TrustedLaunches, fix: &str) {
        if *trusted == TrustedLaunches::All {
            return;
        }
        let problem = self.withhold_host(before, trusted);
        self.problems.extend(problem.map(|problem| problem.fix(fix)));
        let running: BTreeMap<String, &ServerSpec> = match trusted {
            TrustedLaunches::None | TrustedLaunches::All => BTreeMap::new(),
            TrustedLaunches::Only(_) => {
                let may_be = before.servers.iter().filter(|spec| !spec.is_withheld());
                may_be.map(|spec| (spec.key(), spec)).collect()
            }
        };
        for spec in &mut self.servers {
            if spec.trust == ServerTrust::User || trusted.contains(spec.launch_hash()) {
                continue;
            }
            let old = running.get(&spec.key());
            let own = self
                .shadowed
                .iter()
                .rfind(|own| own.id == spec.id && own.trust == ServerTrust::User && old.is_none());
            if own.is_some() {
                // The server no longer shadows the user's own.
                let is_told =
                    |it: &Problem| it.code == SHADOWED && it.server.as_deref() == Some(&spec.id);
                self.problems.retain(|problem| !is_told(problem));
            }
            self.problems.push(trust_required(spec, old.or(own.as_ref()).copied()).fix(fix));
            let replacement = old.or(own.as_ref()).map(|spec| (*spec).clone());
            *spec = replacement.unwrap_or_else(|| spec.to_withheld());
        }
    }

    fn withhold_host(&mut self, before: &Config, trusted: &TrustedLaunches) -> Option<Problem> {
        let part = self.host_launch().filter(|part| !trusted.contains(part.hash))?;
        let was_read = !before.sources.is_empty() && *trusted != TrustedLaunches::None;
        match was_read {
            true => self.set_global_settings(before.global_settings()),
            false => {
                let (own, found) =
                    (GlobalSettings::clone(self.user_settings.as_deref()?), self.security.clone());
                self.set_global_settings(own);
                self.keep_closed(found);
            }
        }
        let names: Vec<&str> = part.masked_keys.keys().map(String::as_str).collect();
        let what = if names.is_empty() { "host".to_string() } else { names.join(", ") };
        let source = self.sources.iter().find(|source| source.is_discovered)?;
        let text =
            format!("the host settings in this folder are ignored until they are trusted ({what})");
        Some(Problem::error("trust.required", text).in_source(&source.label))
    }

    /// Keeps invalid sections of untrusted files closed. A gateway that only untrusted files protect admits no one over
    /// TCP.
    fn keep_closed(&mut self, found: Security) {
        let Security { protection, invalid } = found;
        let is_opened = protection > GatewayProtection::Open
            && self.security.protection == GatewayProtection::Open;
        if is_opened {
            self.security.protection = GatewayProtection::Invalid;
        }
        for (section, fault) in invalid {
            self.security.invalid.entry(section).or_insert(fault);
        }
        security::close_invalid_sections(&mut self.security, &mut self.host);
    }

    /// Returns the global settings of discovered files that differ from the user's own files.
    fn host_launch(&self) -> Option<LaunchDefinition> {
        let own = self.user_settings.as_deref()?;
        let says =
            |said: &GlobalSettings| (said.host.clone(), said.gateway.clone(), said.inputs.clone());
        let now = self.global_settings();
        let part = |show| {
            let before = own.launch_keys(show);
            let mut part = now.launch_keys(show);
            part.retain(|key, value| before.get(key) != Some(value));
            part
        };
        // Masked secrets always compare equal, so the revealed values decide which keys differ.
        let revealed = part(SecretVisibility::Revealed);
        let mut shown = now.launch_keys(SecretVisibility::Masked);
        shown.retain(|key, _| revealed.contains_key(key));
        let launch = LaunchDefinition {
            server: None,
            hash: ConfigHash::of_value(&("host", revealed)),
            masked_keys: shown,
        };
        (says(&now) != says(own)).then_some(launch)
    }
}

impl TrustedLaunches {
    /// Returns whether a launch definition is trusted.
    pub fn contains(&self, hash: ConfigHash) -> bool {
        match self {
            Self::All => true,
            Self::Only(hashes) => hashes.contains(&hash),
            Self::None => false,
        }
    }
}

impl ServerSpec {
    /// Hashes the launch. The id is included because credentials are stored under it, and so is the content of the
    /// environment file.
    fn launch_hash(&self) -> ConfigHash {
        ConfigHash::of_value(&(
            &self.id,
            self.launch_keys(SecretVisibility::Revealed),
            self.env_file_values(),
        ))
    }

    fn launch_keys(&self, show: SecretVisibility) -> Map<String, Json> {
        let (policy, mut transport) = (&self.policy, self.transport.keys(show));
        // Encoding settings affect neither the recipient nor the command.
        (transport.framing, transport.encoding, transport.terminate_on_close) = (None, None, None);
        let mut launch = Map::new();
        launch.insert("transport".to_string(), to_json(transport));
        if policy.auth != Auth::None {
            launch.insert("auth".to_string(), to_json(policy.auth.keys(show)));
        }
        launch.insert("auth_per_agent".to_string(), to_json(policy.auth_per_agent.keys(show)));
        if policy.init.config_delivery != ConfigDelivery::Off {
            launch.insert("config".to_string(), to_json(policy.init.config.keys(show)));
        }
        prune(&mut launch);
        launch
    }
}

impl GlobalSettings {
    /// Returns permissions, secret stores, gateway access and input defaults.
    fn launch_keys(&self, show: SecretVisibility) -> Map<String, Json> {
        let mut host = to_object(self.host.keys(show));
        host.retain(|key, _| matches!(&**key, "permissions" | "secrets" | "pins" | "credentials"));
        let mut gateway = to_object(self.gateway.keys(show));
        gateway.remove("limits");
        let gateway = gateway.into_iter().map(|(key, value)| (format!("gateway.{key}"), value));
        host.extend(gateway);
        let inputs =
            self.inputs.iter().map(|(id, input)| (id.clone(), to_json(input.masked(show))));
        host.insert("inputs".to_string(), Json::Object(inputs.collect()));
        prune(&mut host);
        host
    }
}

/// Returns the problem of an untrusted server. `replacement` is the server that is used instead.
fn trust_required(spec: &ServerSpec, replacement: Option<&ServerSpec>) -> Problem {
    let text = match replacement {
        Some(own) if own.trust == ServerTrust::User => format!(
            "server `{}` is not started: its folder is not trusted for what it runs; the one of `{}` is used",
            spec.id, own.source
        ),
        Some(_) => format!(
            "the changed server `{}` is not started: what it runs has changed since its folder was trusted; the \
             one before goes on",
            spec.id
        ),
        None => format!(
            "server `{}` is not started: its folder is not trusted for what it runs",
            spec.id
        ),
    };
    let problem = Problem::error("trust.required", text);
    problem.at(&spec.source, spec.location, &format!("servers.{}", spec.id)).server(&spec.id)
}

fn to_object(keys: impl serde::Serialize) -> Map<String, Json> {
    match to_json(keys) {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

/// Removes empty values.
fn prune(map: &mut Map<String, Json>) {
    for value in map.values_mut() {
        if let Json::Object(below) = value {
            prune(below);
        }
    }
    map.retain(|_, value| !is_empty_value(value));
}

fn is_empty_value(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(map) => map.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "launch_trust_tests.rs"]
mod tests;
