//! Conversion of all drafts to servers: assembly, rejection and shadowing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Compiler;
use crate::assemble::assemble;
use crate::compile_context::CompileContext;
use crate::dialect::Dialect;
use crate::model::host::SecretStore;
use crate::model::policy::{OnConfigError, Resolve};
use crate::model::security::SecuritySection;
use crate::model::{RejectedServer, ServerSpec, ServerTrust, SourceOutcome};
use crate::problem::Problem;
use crate::text;
use crate::value::{Reference, Value};

impl Compiler<'_> {
    pub(super) fn assemble_all(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let Some(source) = self.config.sources.get(pending.source) else {
                continue;
            };
            let (label, dialect) = (source.label.clone(), source.dialect);
            let (profiles, trust) = match (&self.user_profiles, source.is_discovered) {
                (Some(own), false) => (own, ServerTrust::User),
                (_, true) => (&self.profiles, ServerTrust::Discovered),
                (None, false) => (&self.profiles, ServerTrust::User),
            };
            // Discovered settings may be untrusted and must not change the user's own servers.
            let own = self.config.user_settings.as_deref().filter(|_| trust == ServerTrust::User);
            let host = own.map_or(&self.config.host, |own| &own.host);
            let reserved = host.reserved_toolsets.clone();
            let mut problems = std::mem::take(&mut self.config.problems);
            let mut cx = CompileContext::new(
                label.clone(),
                dialect,
                &pending.doc,
                pending.base,
                self.lookup,
                &mut problems,
            );
            let mut made = Vec::new();
            let mut failed = false;
            for draft in pending.drafts {
                let (id, profile) = (draft.id.clone(), draft.profile.clone());
                let spec = assemble(&mut cx, &pending.doc, profiles, draft).filter(|spec| {
                    toolset_is_free(&mut cx, spec, &reserved)
                        // The stores of an invalid section are unknown, and the host refuses to use any of them.
                        && (self.config.security.is_invalid(SecuritySection::Secrets)
                            || secrets_are_declared(&mut cx, spec, &self.config.host.secrets))
                });
                let Some(spec) = spec else {
                    let policy =
                        profiles.get(&profile).map(|p| p.policy.availability.on_config_error);
                    failed |= policy == Some(OnConfigError::FailLoad);
                    let keep_last_good = policy.is_none_or(|p| p == OnConfigError::KeepLastGood);
                    self.config.rejected.push(RejectedServer {
                        id,
                        source: label.clone(),
                        keep_last_good,
                    });
                    continue;
                };
                made.push(ServerSpec { trust, ..spec });
            }
            self.config.problems = problems;
            if failed {
                self.fail_source(pending.source, made);
            } else {
                self.config.servers.extend(made);
            }
        }
        self.shadow_duplicates();
    }

    /// Fails the whole file because of one invalid entry, as its dialect requires.
    fn fail_source(&mut self, source: usize, made: Vec<ServerSpec>) {
        if let Some(source) = self.config.sources.get_mut(source) {
            source.outcome = SourceOutcome::Failed;
        }
        let rejected = made.into_iter().map(|spec| RejectedServer {
            id: spec.id,
            source: spec.source,
            keep_last_good: false,
        });
        self.config.rejected.extend(rejected);
    }

    /// Removes shadowed servers: among native files the later file wins, so the workspace's server replaces the user's
    /// own.
    fn shadow_duplicates(&mut self) {
        let mut last: HashMap<&str, &ServerSpec> = HashMap::new();
        let (mut gone, mut problems) = (BTreeSet::new(), Vec::new());
        let own = |spec: &&ServerSpec| {
            spec.dialect == Dialect::Native && spec.source == spec.origins.source
        };
        for spec in self.config.servers.iter().filter(own) {
            let Some(old) = last.insert(&spec.id, spec) else {
                continue;
            };
            gone.insert(old.key());
            let text =
                format!("`{}` is also declared in `{}`; this one is used", spec.id, old.source);
            let problem = Problem::new(crate::Severity::Info, SHADOWED, text)
                .at(&spec.source, spec.location, &spec.id)
                .server(&spec.id)
                .fix("remove one of the two");
            problems.push(problem);
        }
        if !gone.is_empty() {
            let servers = std::mem::take(&mut self.config.servers).into_iter();
            (self.config.shadowed, self.config.servers) =
                servers.partition(|spec| gone.contains(&spec.key()));
        }
        self.config.problems.extend(problems);
    }
}

/// Reports undeclared secret stores. The server's policy decides whether that rejects the server.
fn secrets_are_declared(
    cx: &mut CompileContext<'_>,
    spec: &ServerSpec,
    declared: &BTreeMap<String, SecretStore>,
) -> bool {
    let references = spec.values().into_iter().flat_map(Value::references);
    let unknown: BTreeSet<String> = references
        .filter_map(|reference| match reference {
            Reference::Secret { provider, .. } => Some(provider),
            Reference::Env(_) | Reference::Input(_) => None,
        })
        .filter(|name| !BUILT_IN_STORES.contains(&name.as_str()) && !declared.contains_key(name))
        .collect();
    for name in &unknown {
        let shown = text::clip(name);
        let text = format!("a value refers to the undeclared secret store `{shown}`");
        let problem = Problem::error("secret.undeclared", text)
            .at(&cx.label, spec.location, &format!("{}.{name}", spec.id))
            .server(&spec.id)
            .fix(format!("declare `{shown}` under `host.secrets`"));
        cx.problems.push(problem);
    }
    unknown.is_empty() || spec.policy.secrets.resolve != Resolve::Load
}

/// Problem code of a server that shadows another one.
pub(crate) const SHADOWED: &str = "server.shadowed";

/// Secret stores that need no declaration.
const BUILT_IN_STORES: [&str; 2] = ["file", "keyring"];

fn toolset_is_free(cx: &mut CompileContext<'_>, spec: &ServerSpec, reserved: &[String]) -> bool {
    let taken = reserved.iter().any(|name| name == spec.toolset());
    if taken {
        let text = format!(
            "the toolset `{}` is built in; server `{}` cannot take its place",
            spec.toolset(),
            spec.id
        );
        let problem = Problem::error("toolset.reserved", text)
            .at(&cx.label, spec.location, &spec.id)
            .server(&spec.id)
            .fix("give the server another id or `toolset`");
        cx.problems.push(problem);
    }
    !taken
}
