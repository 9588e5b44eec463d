//! Assembly of a server from a draft: profile, transport, files and checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Dialect;
use crate::compile_context::CompileContext;
use crate::dialect::ServerDraft;
use crate::doc::{Doc, NodeId};
use crate::dotenv;
use crate::lookup::FileLookup;
use crate::model::choice::Manual;
use crate::model::naming::Naming;
use crate::model::policy::{Expose, Policy, PromptsAs, ResourcesAs};
use crate::model::transport::{
    ContainerTarget, DisplayValue, DockerExec, EnvFile, EnvSettings, ProcessEnv, Remote, Stdio,
    StreamableHttp, Transport, TransportKind, TransportSettings,
};
use crate::model::units::Period;
use crate::model::{ConfigHash, OriginMap, ServerSpec, ServerTrust};
use crate::profile::Profiles;
use crate::text;
use crate::value::SecretString;

mod url_check;
mod variables;

pub(crate) use url_check::check_url;

/// Builds a server from a draft, or reports why it is invalid.
pub(crate) fn assemble(
    cx: &mut CompileContext<'_>,
    doc: &Arc<Doc>,
    profiles: &Profiles,
    draft: ServerDraft,
) -> Option<ServerSpec> {
    cx.enter_server(&draft.id);
    let spec =
        ServerAssembly { node: draft.node, nodes: BTreeMap::new() }.run(cx, doc, profiles, draft);
    cx.leave_server();
    spec
}

struct ServerAssembly {
    node: NodeId,
    nodes: BTreeMap<String, NodeId>,
}

impl ServerAssembly {
    fn run(
        mut self,
        cx: &mut CompileContext<'_>,
        doc: &Arc<Doc>,
        profiles: &Profiles,
        draft: ServerDraft,
    ) -> Option<ServerSpec> {
        let Some(profile) = profiles.get(&draft.profile) else {
            let text = format!("there is no profile `{}`", text::clip(&draft.profile));
            let fix = format!("use one of {}", text::quoted_list(&profiles.names()));
            cx.error(self.node, "profile.unknown", text, &fix);
            return None;
        };
        if !profile.is_valid {
            // Settings that could not be read may be restrictions.
            let text = format!("the profile `{}` is invalid", text::clip(&draft.profile));
            cx.error(self.node, "profile.invalid", text, "correct the profile");
            return None;
        }
        let mut profile = profile.clone();
        let own = &mut self.nodes;
        profile.overlay_keys(draft.policy, draft.transport, &mut |path, node| {
            own.extend(node.map(|node| (path.to_string(), node)));
        });
        let mut policy = profile.policy;
        // The entry's own errors are already reported, and further errors would only follow from them.
        if !draft.is_valid {
            return None;
        }
        let transport = self.build_transport(cx, profile.transport)?;
        let startup = "timeouts.startup";
        let startup_is_given =
            self.nodes.contains_key(startup) || profile.origins.values.contains_key(startup);
        apply_dependent_defaults(&mut policy, &draft.id, &transport, startup_is_given);
        self.check_manual(cx, &policy);
        self.report_runtime_only_values(cx, &policy.expose);
        self.check_separator(cx, &policy.naming);
        self.widen_limits(&mut policy);
        let origins = OriginMap {
            source: cx.label.clone(),
            doc: doc.clone(),
            nodes: std::mem::take(&mut self.nodes),
            profile: profile.origins,
            enabled_by: None,
        };
        let location = cx.doc.location(draft.node);
        let spec = ServerSpec {
            id: draft.id,
            source: draft.source.unwrap_or_else(|| cx.label.clone()),
            dialect: cx.dialect,
            location,
            base: cx.base.as_path().into(),
            transport,
            policy,
            extras: draft.extras,
            origins,
            trust: ServerTrust::User,
            agent: None,
            hash: ConfigHash::NONE,
        };
        self.check_references(cx, &spec).then(|| spec.with_hash())
    }

    /// Returns the node of a value, or of the server if no file sets the value.
    fn node_of(&self, path: &str) -> NodeId {
        self.nodes.get(path).copied().unwrap_or(self.node)
    }

    fn check_separator(&self, cx: &mut CompileContext<'_>, naming: &Naming) {
        if naming.separator.is_none() || naming.has_separator_slot() {
            return;
        }
        let text = format!(
            "`naming.separator` has no effect: the template `{}` has no `{{tool}}` after `{{server}}`",
            text::clip(&naming.template)
        );
        let fix = "set `naming.template` to `{server}{tool}`, or remove the separator";
        cx.warning(self.node_of("naming.separator"), "naming.separator.unused", text, fix);
    }

    /// Raises a default limit to an explicit duration.
    fn widen_limits(&self, policy: &mut Policy) {
        let (times, life) = (&mut policy.timeouts, &mut policy.lifecycle);
        let (retry, reconnect) = (&mut life.retry, &mut life.reconnect);
        for (path, time, limit) in [
            ("timeouts.request_max", times.request, &mut times.request_max),
            ("lifecycle.retry.max_delay", retry.initial, &mut retry.max_delay),
            ("lifecycle.reconnect.max_delay", reconnect.initial, &mut reconnect.max_delay),
        ] {
            if !self.nodes.contains_key(path) && *limit != Period::ZERO {
                *limit = time.max(*limit);
            }
        }
    }

    fn build_transport(
        &self,
        cx: &mut CompileContext<'_>,
        settings: TransportSettings,
    ) -> Option<Transport> {
        match self.transport_kind(cx, &settings)? {
            TransportKind::Stdio => self.build_stdio(cx, settings),
            TransportKind::DockerExec => self.build_docker_exec(cx, settings),
            TransportKind::StreamableHttp => {
                let (session_id, terminate_on_close) =
                    (settings.session_id.clone(), settings.terminate_on_close);
                let remote = self.build_remote(cx, settings, &["http", "https"])?;
                Some(Transport::StreamableHttp(StreamableHttp {
                    remote,
                    session_id,
                    terminate_on_close,
                }))
            }
            TransportKind::Sse => {
                self.build_remote(cx, settings, &["http", "https"]).map(Transport::Sse)
            }
            TransportKind::WebSocket => {
                self.build_remote(cx, settings, &["ws", "wss"]).map(Transport::WebSocket)
            }
        }
    }

    fn transport_kind(
        &self,
        cx: &mut CompileContext<'_>,
        settings: &TransportSettings,
    ) -> Option<TransportKind> {
        let websocket = |url: &DisplayValue| {
            url.display_text().starts_with("ws://") || url.display_text().starts_with("wss://")
        };
        let docker = settings.image.is_some() || settings.container.is_some();
        let kind = match (settings.kind, &settings.url, docker, &settings.command) {
            (Some(kind), ..) => Some(kind),
            (None, None, true, _) => Some(TransportKind::DockerExec),
            (None, None, false, Some(_)) => Some(TransportKind::Stdio),
            (None, Some(url), false, None) if websocket(url) => Some(TransportKind::WebSocket),
            (None, Some(_), false, None) => Some(TransportKind::StreamableHttp),
            (None, None, false, None) => {
                let text = "the server has no transport";
                cx.error(
                    self.node,
                    "transport.missing",
                    text,
                    "give it a `command`, a `url` or `docker`",
                );
                None
            }
            (None, Some(_), ..) => {
                let text = "the server has a `url` and also a `command` or `docker`";
                cx.error(
                    self.node_of("transport.url"),
                    "transport.ambiguous",
                    text,
                    "keep one of them, or set `transport.kind`",
                );
                None
            }
        };
        self.report_stray_keys(cx, kind);
        kind
    }

    /// Reports keys that the kind of transport does not use.
    fn report_stray_keys(&self, cx: &mut CompileContext<'_>, kind: Option<TransportKind>) {
        let Some(kind) = kind else { return };
        const STDIO: &[&str] =
            &["command", "args", "cwd", "encoding", "framing", "allow_commands", "env"];
        const DOCKER: &[&str] = &[
            "command",
            "args",
            "framing",
            "env",
            "image",
            "container",
            "endpoint",
            "workdir",
            "shell",
            "keep_container",
        ];
        const HTTP: &[&str] = &["url", "headers", "url_policy", "session_id", "terminate_on_close"];
        const REMOTE: &[&str] = &["url", "headers", "url_policy"];
        let known = match kind {
            TransportKind::Stdio => STDIO,
            TransportKind::DockerExec => DOCKER,
            TransportKind::StreamableHttp => HTTP,
            TransportKind::Sse | TransportKind::WebSocket => REMOTE,
        };
        for (path, node) in &self.nodes {
            let Some(key) = path.strip_prefix("transport.").and_then(|p| p.split('.').next())
            else {
                continue;
            };
            if key != "kind" && !known.contains(&key) {
                let text = format!("`{key}` has no effect for transport `{kind}`");
                cx.warning(*node, "transport.stray_key", text, "remove it");
            }
        }
    }

    fn build_stdio(
        &self,
        cx: &mut CompileContext<'_>,
        settings: TransportSettings,
    ) -> Option<Transport> {
        let command = self.require_command(cx, settings.command)?;
        if !command.0.as_literal().is_none_or(|name| settings.allow_commands.allows(name)) {
            let text = format!(
                "the command `{}` is not among `allow_commands`",
                text::clip(&command.masked().display_text())
            );
            let node = self.node_of("transport.command");
            cx.error(
                node,
                "command.not_allowed",
                text,
                "use one of the allowed commands, or allow this one",
            );
            return None;
        }
        if !is_known_encoding(&settings.encoding) {
            let text = format!("unknown encoding `{}`", text::clip(&settings.encoding));
            cx.error(
                self.node_of("transport.encoding"),
                "encoding.unknown",
                text,
                "use `utf-8` or another name of the WHATWG list",
            );
            return None;
        }
        self.check_working_directory(cx, settings.cwd.as_ref());
        let env = self.build_env(cx, settings.env)?;
        Some(Transport::Stdio(Stdio {
            command,
            args: settings.args,
            cwd: settings.cwd,
            encoding: settings.encoding,
            framing: settings.framing,
            allow_commands: settings.allow_commands,
            env,
        }))
    }

    fn require_command(
        &self,
        cx: &mut CompileContext<'_>,
        command: Option<DisplayValue>,
    ) -> Option<DisplayValue> {
        let command = command.filter(|command| command.0.as_literal() != Some(""));
        if command.is_none() {
            let node = self.node_of("transport.command");
            cx.error(
                node,
                "command.missing",
                "the server has no `command`",
                "add `command: PROGRAM`",
            );
        }
        command
    }

    fn check_working_directory(&self, cx: &mut CompileContext<'_>, cwd: Option<&DisplayValue>) {
        if let Some(path) = cwd.and_then(|cwd| cwd.0.as_literal())
            && !cx.lookup.is_dir(&PathBuf::from(path))
        {
            let text = format!("the working directory `{}` does not exist", text::clip(path));
            cx.error(
                self.node_of("transport.cwd"),
                "cwd.missing",
                text,
                "create it or correct the path",
            );
        }
    }

    fn build_docker_exec(
        &self,
        cx: &mut CompileContext<'_>,
        settings: TransportSettings,
    ) -> Option<Transport> {
        let target = match (settings.container, settings.image) {
            (Some(name), None) => ContainerTarget::Existing(name),
            (None, Some(image)) => ContainerTarget::FromImage(image),
            _ => {
                let text = "a server in a container needs either a `container` or an `image`";
                cx.error(self.node, "docker.target", text, "give one of the two");
                return None;
            }
        };
        let command = self.require_command(cx, settings.command)?;
        let env = self.build_env(cx, settings.env)?;
        Some(Transport::DockerExec(DockerExec {
            target,
            command,
            args: settings.args,
            shell: settings.shell.filter(|shell| !shell.is_empty()),
            workdir: settings.workdir,
            endpoint: settings.endpoint,
            keep_container: settings.keep_container,
            framing: settings.framing,
            env,
        }))
    }

    fn build_remote(
        &self,
        cx: &mut CompileContext<'_>,
        settings: TransportSettings,
        schemes: &[&str],
    ) -> Option<Remote> {
        let Some(url) = settings.url else {
            cx.error(self.node, "url.missing", "the server has no `url`", "add `url: ADDRESS`");
            return None;
        };
        if let Some(literal) = url.0.as_literal()
            && let Err((code, text)) = check_url(literal, schemes, settings.url_policy)
        {
            cx.error(self.node_of("transport.url"), code, text, "correct the address");
            return None;
        }
        Some(Remote { url, headers: settings.headers.0, url_policy: settings.url_policy })
    }

    fn build_env(&self, cx: &mut CompileContext<'_>, settings: EnvSettings) -> Option<ProcessEnv> {
        let file = match settings.file {
            Some(path) => Some(self.read_env_file(cx, PathBuf::from(path))?),
            None => None,
        };
        Some(ProcessEnv {
            inherit: settings.inherit,
            file,
            unset: settings.unset,
            set: settings.set.0,
        })
    }

    fn read_env_file(&self, cx: &mut CompileContext<'_>, path: PathBuf) -> Option<EnvFile> {
        let node = self.node_of("transport.env.file");
        let shown = path.display();
        let problem = match cx.lookup.file(&path) {
            FileLookup::Content(bytes) => match String::from_utf8(bytes) {
                Ok(text) => {
                    let (values, bad) = dotenv::parse(&text);
                    for line in bad {
                        let text =
                            format!("line {line} of `{shown}` is not an assignment; it is skipped");
                        cx.warning(node, "env_file.line", text, "write `NAME=value`");
                    }
                    let values =
                        values.into_iter().map(|(k, v)| (k, SecretString::new(v))).collect();
                    return Some(EnvFile { path, values });
                }
                Err(_) => format!("the environment file `{shown}` is not UTF-8 text"),
            },
            FileLookup::Missing => format!("the environment file `{shown}` does not exist"),
            FileLookup::Unreadable(why) => {
                format!("the environment file `{shown}` cannot be read: {why}")
            }
        };
        cx.error(node, "env_file.unreadable", problem, "create the file or correct the path");
        None
    }

    fn check_manual(&self, cx: &mut CompileContext<'_>, policy: &Policy) {
        if let Some(Manual::File(path)) = &policy.manual
            && !matches!(cx.lookup.file(&PathBuf::from(path)), FileLookup::Content(_))
        {
            let text = format!("the manual `{}` does not exist", text::clip(path));
            cx.warning(
                self.node_of("manual"),
                "manual.missing",
                text,
                "write it or correct the path",
            );
        }
    }

    /// Reports prompt and resource forms that only agent runtimes use.
    fn report_runtime_only_values(&self, cx: &mut CompileContext<'_>, expose: &Expose) {
        // The other formats belong to agent runtimes.
        if cx.dialect != Dialect::Native {
            return;
        }
        let prompts = matches!(expose.prompts.r#as, PromptsAs::Skill).then_some("skill");
        let resources = match expose.resources.r#as {
            ResourcesAs::Context => Some("context"),
            ResourcesAs::Tools | ResourcesAs::Off => None,
        };
        for (what, word) in [("prompts", prompts), ("resources", resources)] {
            let path = format!("expose.{what}.as");
            if let (Some(word), Some(node)) = (word, self.nodes.get(&path)) {
                let text = format!(
                    "`{path}: {word}` is for an agent runtime; clients of the gateway and the API have {what} as {what}"
                );
                let fix = "remove it, or set `off` to hide them from everyone";
                cx.info(*node, "expose.as.elsewhere", text, fix);
            }
        }
    }
}

/// Sets defaults that depend on other values.
pub(crate) fn apply_dependent_defaults(
    policy: &mut Policy,
    id: &str,
    transport: &Transport,
    startup_is_given: bool,
) {
    policy.toolset.get_or_insert_with(|| id.to_string());
    // A package runner may download the server first.
    if let Transport::Stdio(stdio) = transport
        && !startup_is_given
        && PACKAGE_RUNNERS.contains(&program_name(&stdio.command))
    {
        policy.timeouts.startup = Period::secs(120);
    }
}

/// Programs that may download what they run.
const PACKAGE_RUNNERS: &[&str] = &["npx", "uvx", "pipx", "bunx", "docker"];

fn program_name(command: &DisplayValue) -> &str {
    let path = command.0.as_literal().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns whether a stream encoding is supported.
pub(crate) fn is_known_encoding(name: &str) -> bool {
    encoding_rs::Encoding::for_label(name.as_bytes()).is_some() || matches!(name, "utf8" | "UTF8")
}
