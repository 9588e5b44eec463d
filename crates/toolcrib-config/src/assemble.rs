//! From a draft in native keys to a complete server: profile, transport, files, checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::Dialect;
use crate::cx::Cx;
use crate::dialect::Draft;
use crate::doc::{Doc, NodeId};
use crate::dotenv;
use crate::lookup::File;
use crate::model::choice::Manual;
use crate::model::naming::Naming;
use crate::model::policy::{Expose, Policy, PromptsAs, ResourcesAs};
use crate::model::transport::{
    Container, DockerExec, Env, EnvFile, EnvSettings, Plain, Remote, Stdio, StreamableHttp,
    Transport, TransportKind, TransportSettings,
};
use crate::model::units::Period;
use crate::model::{Hash, Origins, ServerSpec, Standing};
use crate::profile::Profiles;
use crate::text;
use crate::value::Hidden;

mod address;
mod references;

pub(crate) use address::check_url;

/// Makes a server of a draft, or tells why it cannot be one.
pub(crate) fn assemble(
    cx: &mut Cx<'_>,
    doc: &Arc<Doc>,
    profiles: &Profiles,
    draft: Draft,
) -> Option<ServerSpec> {
    cx.enter(&draft.id);
    let spec = Assembly { node: draft.node, own: BTreeMap::new() }.run(cx, doc, profiles, draft);
    cx.leave();
    spec
}

struct Assembly {
    node: NodeId,
    own: BTreeMap<String, NodeId>,
}

impl Assembly {
    fn run(
        mut self,
        cx: &mut Cx<'_>,
        doc: &Arc<Doc>,
        profiles: &Profiles,
        draft: Draft,
    ) -> Option<ServerSpec> {
        let Some(profile) = profiles.get(&draft.profile) else {
            let text = format!("there is no profile `{}`", text::clip(&draft.profile));
            let fix = format!("use one of {}", text::list(&profiles.names()));
            cx.error(self.node, "profile.unknown", text, &fix);
            return None;
        };
        if !profile.sound {
            // Settings that could not be read may be those that restrict the server.
            let text = format!("the profile `{}` is invalid", text::clip(&draft.profile));
            cx.error(self.node, "profile.invalid", text, "correct the profile");
            return None;
        }
        let mut profile = profile.clone();
        let own = &mut self.own;
        profile.lay(draft.policy, draft.transport, &mut |path, node| {
            own.extend(node.map(|node| (path.to_string(), node)));
        });
        let mut policy = profile.policy;
        // The entry's own mistakes come first; what follows from them need not be told.
        if !draft.sound {
            return None;
        }
        let transport = self.transport(cx, profile.transport)?;
        let startup = "timeouts.startup";
        let startup_is_given =
            self.own.contains_key(startup) || profile.origins.values.contains_key(startup);
        settle(&mut policy, &draft.id, &transport, startup_is_given);
        self.manual(cx, &policy);
        self.becomes(cx, &policy.expose);
        self.separator(cx, &policy.naming);
        self.widen(&mut policy);
        let origins = Origins {
            source: cx.label.clone(),
            doc: doc.clone(),
            own: std::mem::take(&mut self.own),
            profile: profile.origins,
            enabled_by: None,
        };
        let place = cx.doc.place(draft.node);
        let spec = ServerSpec {
            id: draft.id,
            source: draft.source.unwrap_or_else(|| cx.label.clone()),
            dialect: cx.dialect,
            place,
            base: cx.base.as_path().into(),
            transport,
            policy,
            extras: draft.extras,
            origins,
            standing: Standing::Own,
            agent: None,
            hash: Hash::NONE,
        };
        self.references(cx, &spec).then(|| spec.hashed())
    }

    /// The node of a value, or of the server where no file says it.
    fn at(&self, path: &str) -> NodeId {
        self.own.get(path).copied().unwrap_or(self.node)
    }

    fn separator(&self, cx: &mut Cx<'_>, naming: &Naming) {
        if naming.separator.is_none() || naming.has_place_for_separator() {
            return;
        }
        let text = format!(
            "`naming.separator` has no effect: the template `{}` has no `{{tool}}` after `{{server}}`",
            text::clip(&naming.template)
        );
        let fix = "set `naming.template` to `{server}{tool}`, or remove the separator";
        cx.warning(self.at("naming.separator"), "naming.separator.unused", text, fix);
    }

    /// A limit that nobody wrote gives way to a time that somebody did.
    fn widen(&self, policy: &mut Policy) {
        let (times, life) = (&mut policy.timeouts, &mut policy.lifecycle);
        let (retry, reconnect) = (&mut life.retry, &mut life.reconnect);
        for (path, time, limit) in [
            ("timeouts.request_max", times.request, &mut times.request_max),
            ("lifecycle.retry.max_delay", retry.initial, &mut retry.max_delay),
            ("lifecycle.reconnect.max_delay", reconnect.initial, &mut reconnect.max_delay),
        ] {
            if !self.own.contains_key(path) && *limit != Period::ZERO {
                *limit = time.max(*limit);
            }
        }
    }

    fn transport(&self, cx: &mut Cx<'_>, settings: TransportSettings) -> Option<Transport> {
        match self.kind(cx, &settings)? {
            TransportKind::Stdio => self.stdio(cx, settings),
            TransportKind::DockerExec => self.docker(cx, settings),
            TransportKind::StreamableHttp => {
                let (session_id, terminate_on_close) =
                    (settings.session_id.clone(), settings.terminate_on_close);
                let remote = self.remote(cx, settings, &["http", "https"])?;
                Some(Transport::StreamableHttp(StreamableHttp {
                    remote,
                    session_id,
                    terminate_on_close,
                }))
            }
            TransportKind::Sse => self.remote(cx, settings, &["http", "https"]).map(Transport::Sse),
            TransportKind::WebSocket => {
                self.remote(cx, settings, &["ws", "wss"]).map(Transport::WebSocket)
            }
        }
    }

    fn kind(&self, cx: &mut Cx<'_>, settings: &TransportSettings) -> Option<TransportKind> {
        let websocket =
            |url: &Plain| url.shown().starts_with("ws://") || url.shown().starts_with("wss://");
        let docker = settings.image.is_some() || settings.container.is_some();
        let kind = match (settings.kind, &settings.url, docker, &settings.command) {
            (Some(kind), ..) => Some(kind),
            (None, None, true, _) => Some(TransportKind::DockerExec),
            (None, None, false, Some(_)) => Some(TransportKind::Stdio),
            (None, Some(url), false, None) if websocket(url) => Some(TransportKind::WebSocket),
            (None, Some(_), false, None) => Some(TransportKind::StreamableHttp),
            (None, None, false, None) => {
                let text = "nothing says how the server is reached";
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
                    self.at("transport.url"),
                    "transport.ambiguous",
                    text,
                    "keep one of them, or name the `transport.kind`",
                );
                None
            }
        };
        self.strays(cx, kind);
        kind
    }

    /// Keys that the kind of transport does not have are told; they have no effect.
    fn strays(&self, cx: &mut Cx<'_>, kind: Option<TransportKind>) {
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
        for (path, node) in &self.own {
            let Some(key) = path.strip_prefix("transport.").and_then(|p| p.split('.').next())
            else {
                continue;
            };
            if key != "kind" && !known.contains(&key) {
                let text = format!("`{key}` has no meaning for transport `{kind}`");
                cx.warning(*node, "transport.stray_key", text, "remove it");
            }
        }
    }

    fn stdio(&self, cx: &mut Cx<'_>, settings: TransportSettings) -> Option<Transport> {
        let command = self.command(cx, settings.command)?;
        if !command.0.as_literal().is_none_or(|name| settings.allow_commands.admits(name)) {
            let text = format!(
                "the command `{}` is not among `allow_commands`",
                text::clip(&command.masked().shown())
            );
            let node = self.at("transport.command");
            cx.error(
                node,
                "command.not_allowed",
                text,
                "use one of the allowed commands, or allow this one",
            );
            return None;
        }
        if !is_known_encoding(&settings.encoding) {
            let text = format!("`{}` is no encoding that is known", text::clip(&settings.encoding));
            cx.error(
                self.at("transport.encoding"),
                "encoding.unknown",
                text,
                "use `utf-8` or another name of the WHATWG list",
            );
            return None;
        }
        self.working_directory(cx, settings.cwd.as_ref());
        let env = self.env(cx, settings.env)?;
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

    fn command(&self, cx: &mut Cx<'_>, command: Option<Plain>) -> Option<Plain> {
        let command = command.filter(|command| command.0.as_literal() != Some(""));
        if command.is_none() {
            let node = self.at("transport.command");
            cx.error(
                node,
                "command.missing",
                "the server has no `command`",
                "add `command: PROGRAM`",
            );
        }
        command
    }

    fn working_directory(&self, cx: &mut Cx<'_>, cwd: Option<&Plain>) {
        if let Some(path) = cwd.and_then(|cwd| cwd.0.as_literal())
            && !cx.lookup.is_dir(&PathBuf::from(path))
        {
            let text = format!("the working directory `{}` is not there", text::clip(path));
            cx.error(
                self.at("transport.cwd"),
                "cwd.missing",
                text,
                "create it or correct the path",
            );
        }
    }

    fn docker(&self, cx: &mut Cx<'_>, settings: TransportSettings) -> Option<Transport> {
        let target = match (settings.container, settings.image) {
            (Some(name), None) => Container::Existing(name),
            (None, Some(image)) => Container::FromImage(image),
            _ => {
                let text = "a server in a container needs either a `container` or an `image`";
                cx.error(self.node, "docker.target", text, "give one of the two");
                return None;
            }
        };
        let command = self.command(cx, settings.command)?;
        let env = self.env(cx, settings.env)?;
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

    fn remote(
        &self,
        cx: &mut Cx<'_>,
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
            cx.error(self.at("transport.url"), code, text, "correct the address");
            return None;
        }
        Some(Remote { url, headers: settings.headers.0, url_policy: settings.url_policy })
    }

    fn env(&self, cx: &mut Cx<'_>, settings: EnvSettings) -> Option<Env> {
        let file = match settings.file {
            Some(path) => Some(self.env_file(cx, PathBuf::from(path))?),
            None => None,
        };
        Some(Env { inherit: settings.inherit, file, unset: settings.unset, set: settings.set.0 })
    }

    fn env_file(&self, cx: &mut Cx<'_>, path: PathBuf) -> Option<EnvFile> {
        let node = self.at("transport.env.file");
        let shown = path.display();
        let problem = match cx.lookup.file(&path) {
            File::Content(bytes) => match String::from_utf8(bytes) {
                Ok(text) => {
                    let (values, bad) = dotenv::parse(&text);
                    for line in bad {
                        let text =
                            format!("line {line} of `{shown}` is no assignment; it is passed over");
                        cx.warning(node, "env_file.line", text, "write `NAME=value`");
                    }
                    let values = values.into_iter().map(|(k, v)| (k, Hidden::new(v))).collect();
                    return Some(EnvFile { path, values });
                }
                Err(_) => format!("the environment file `{shown}` is not UTF-8 text"),
            },
            File::Missing => format!("the environment file `{shown}` is not there"),
            File::Unreadable(why) => {
                format!("the environment file `{shown}` cannot be read: {why}")
            }
        };
        cx.error(node, "env_file.unreadable", problem, "create the file or correct the path");
        None
    }

    fn manual(&self, cx: &mut Cx<'_>, policy: &Policy) {
        if let Some(Manual::File(path)) = &policy.manual
            && !matches!(cx.lookup.file(&PathBuf::from(path)), File::Content(_))
        {
            let text = format!("the manual `{}` is not there", text::clip(path));
            cx.warning(self.at("manual"), "manual.missing", text, "write it or correct the path");
        }
    }

    /// Whoever writes what prompts and resources become should know who looks at that.
    fn becomes(&self, cx: &mut Cx<'_>, expose: &Expose) {
        // The other formats are those of agent runtimes.
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
            if let (Some(word), Some(node)) = (word, self.own.get(&path)) {
                let text = format!(
                    "`{path}: {word}` is for an agent runtime; clients of the gateway and the API have {what} as {what}"
                );
                let fix = "leave it out, or say `off` where nobody is to have them";
                cx.info(*node, "expose.as.elsewhere", text, fix);
            }
        }
    }
}

/// Defaults that depend on other values.
pub(crate) fn settle(policy: &mut Policy, id: &str, transport: &Transport, startup_is_given: bool) {
    policy.toolset.get_or_insert_with(|| id.to_string());
    // A package runner may have to download the server first.
    if let Transport::Stdio(stdio) = transport
        && !startup_is_given
        && RUNNERS.contains(&program(&stdio.command))
    {
        policy.timeouts.startup = Period::secs(120);
    }
}

/// Programs that may download what they run.
const RUNNERS: &[&str] = &["npx", "uvx", "pipx", "bunx", "docker"];

fn program(command: &Plain) -> &str {
    let path = command.0.as_literal().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Names of encodings that streams may have.
pub(crate) fn is_known_encoding(name: &str) -> bool {
    encoding_rs::Encoding::for_label(name.as_bytes()).is_some() || matches!(name, "utf8" | "UTF8")
}
