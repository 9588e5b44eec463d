//! What a found configuration would start and where it would send something, and what of it is trusted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::compile::SHADOWED;
use crate::model::auth::Auth;
use crate::model::policy::ConfigDelivery;
use crate::model::security::{self, Protection, Security};
use crate::model::setting::{Setting, Show};
use crate::model::{Config, Hash, Own, ServerSpec, Standing, to_json};
use crate::problem::Problem;

/// A part of a found configuration that decides what runs, or where traffic and credentials go.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The key `<source>#<id>` of a server; none where it is what is said of the host.
    pub server: Option<String>,
    /// Over the part as it is written, secrets and all. Nothing else of the configuration counts.
    pub hash: Hash,
    /// All that counts for the hash, in native keys, without secrets.
    pub shown: Map<String, Json>,
}

/// What of a folder's configuration may start something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// Whatever it says: somebody named the folder.
    Everything,
    /// What has one of these hashes.
    These(BTreeSet<Hash>),
    /// The folder never was trusted, or is not any more.
    Nothing,
}

impl Config {
    /// What needs trust, in load order, servers that are disabled too.
    pub fn launches(&self) -> Vec<Launch> {
        let found = self.servers.iter().filter(|spec| spec.standing != Standing::Own);
        let servers = found.map(|spec| Launch {
            server: Some(spec.key()),
            hash: spec.launch_hash(),
            shown: spec.launch(Show::Masked),
        });
        self.launch_of_host().into_iter().chain(servers).collect()
    }

    /// Leaves out what is not trusted. A server that is as it was before goes on; so does the old one where only the
    /// change is not trusted; any other is not enabled, whoever says so, and is in nobody's place. What is said of the
    /// host is left out whole. `fix` tells how to trust the folder.
    pub fn withhold(&mut self, before: &Config, trusted: &Trusted, fix: &str) {
        if *trusted == Trusted::Everything {
            return;
        }
        let problem = self.withhold_host(before, trusted);
        self.problems.extend(problem.map(|problem| problem.fix(fix)));
        let goes_on: BTreeMap<String, &ServerSpec> = match trusted {
            Trusted::Nothing | Trusted::Everything => BTreeMap::new(),
            Trusted::These(_) => {
                let may_be = before.servers.iter().filter(|spec| !spec.is_withheld());
                may_be.map(|spec| (spec.key(), spec)).collect()
            }
        };
        for spec in &mut self.servers {
            if spec.standing == Standing::Own || trusted.has(spec.launch_hash()) {
                continue;
            }
            let old = goes_on.get(&spec.key());
            let own = self
                .shadowed
                .iter()
                .rfind(|own| own.id == spec.id && own.standing == Standing::Own && old.is_none());
            if own.is_some() {
                // It is not so any more.
                let is_told =
                    |it: &Problem| it.code == SHADOWED && it.server.as_deref() == Some(&spec.id);
                self.problems.retain(|problem| !is_told(problem));
            }
            self.problems.push(required(spec, old.or(own.as_ref()).copied()).fix(fix));
            let instead = old.or(own.as_ref()).map(|spec| (*spec).clone());
            *spec = instead.unwrap_or_else(|| spec.withheld());
        }
    }

    fn withhold_host(&mut self, before: &Config, trusted: &Trusted) -> Option<Problem> {
        let part = self.launch_of_host().filter(|part| !trusted.has(part.hash))?;
        let was_read = !before.sources.is_empty() && *trusted != Trusted::Nothing;
        match was_read {
            true => self.say_of_host(before.of_host()),
            false => {
                let (own, found) = (Own::clone(self.own.as_deref()?), self.security.clone());
                self.say_of_host(own);
                self.stay_closed(found);
            }
        }
        let names: Vec<&str> = part.shown.keys().map(String::as_str).collect();
        let what = if names.is_empty() { "host".to_string() } else { names.join(", ") };
        let source = self.sources.iter().find(|source| source.found)?;
        let text =
            format!("what is said of the host here does not count until it is trusted ({what})");
        Some(Problem::error("trust.required", text).of(&source.label))
    }

    /// Untrusted files open nothing: their invalid sections stay closed, and a gateway that they protect admits
    /// nobody over TCP.
    fn stay_closed(&mut self, found: Security) {
        let Security { protection, invalid } = found;
        let is_opened =
            protection > Protection::Open && self.security.protection == Protection::Open;
        if is_opened {
            self.security.protection = Protection::Invalid;
        }
        for (section, fault) in invalid {
            self.security.invalid.entry(section).or_insert(fault);
        }
        security::close(&mut self.security, &mut self.host);
    }

    /// What found files say of the host, where that is something else than the person's own files do.
    fn launch_of_host(&self) -> Option<Launch> {
        let own = self.own.as_deref()?;
        let says = |said: &Own| (said.host.clone(), said.gateway.clone(), said.inputs.clone());
        let now = self.of_host();
        let part = |show| {
            let before = own.launch(show);
            let mut part = now.launch(show);
            part.retain(|key, value| before.get(key) != Some(value));
            part
        };
        // Where two secrets differ, their masks do not: the names are those of the parts as they are.
        let revealed = part(Show::Revealed);
        let mut shown = now.launch(Show::Masked);
        shown.retain(|key, _| revealed.contains_key(key));
        let launch = Launch { server: None, hash: Hash::of(&("host", revealed)), shown };
        (says(&now) != says(own)).then_some(launch)
    }
}

impl Trusted {
    pub fn has(&self, hash: Hash) -> bool {
        match self {
            Self::Everything => true,
            Self::These(hashes) => hashes.contains(&hash),
            Self::Nothing => false,
        }
    }
}

impl ServerSpec {
    /// The id counts: credentials are kept under it. What an environment file holds does, too.
    fn launch_hash(&self) -> Hash {
        Hash::of(&(&self.id, self.launch(Show::Revealed), self.held()))
    }

    fn launch(&self, show: Show) -> Map<String, Json> {
        let (policy, mut transport) = (&self.policy, self.transport.keys(show));
        // How messages are written changes neither who gets them nor what is run.
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

impl Own {
    /// Permissions, where secrets come from, whom the gateway lets in, and what stands in for a person's answers.
    fn launch(&self, show: Show) -> Map<String, Json> {
        let mut host = object(self.host.keys(show));
        host.retain(|key, _| matches!(&**key, "permissions" | "secrets" | "pins" | "credentials"));
        let mut gateway = object(self.gateway.keys(show));
        gateway.remove("limits");
        let gateway = gateway.into_iter().map(|(key, value)| (format!("gateway.{key}"), value));
        host.extend(gateway);
        let inputs = self.inputs.iter().map(|(id, input)| (id.clone(), to_json(input.shown(show))));
        host.insert("inputs".to_string(), Json::Object(inputs.collect()));
        prune(&mut host);
        host
    }
}

/// `instead` is what is used in its place.
fn required(spec: &ServerSpec, instead: Option<&ServerSpec>) -> Problem {
    let text = match instead {
        Some(own) if own.standing == Standing::Own => format!(
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
    problem.at(&spec.source, spec.place, &format!("servers.{}", spec.id)).server(&spec.id)
}

fn object(keys: impl serde::Serialize) -> Map<String, Json> {
    match to_json(keys) {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

/// What is empty says nothing.
fn prune(map: &mut Map<String, Json>) {
    for value in map.values_mut() {
        if let Json::Object(below) = value {
            prune(below);
        }
    }
    map.retain(|_, value| !is_nothing(value));
}

fn is_nothing(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(map) => map.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
