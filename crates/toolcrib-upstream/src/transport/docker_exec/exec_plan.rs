//! Resolves the container, command and environment of a server before any of it is used.

use bollard::models::ExecConfig;
use toolcrib_config::model::choice::InheritedEnv;
use toolcrib_config::model::transport::{ContainerTarget, DisplayValue, DockerExec, ProcessEnv};

use super::engine::EngineAddress;
use crate::process::{OWNER_VARIABLE, OwnerMark};
use crate::transport::open::{OpenContext, OpenError};

pub(super) struct ExecPlan {
    pub(super) engine: EngineAddress,
    pub(super) target: PlannedContainer,
    argv: Vec<String>,
    /// `NAME=VALUE`, or `NAME` for a variable to remove.
    env: Vec<String>,
    workdir: Option<String>,
}

/// The container of a server.
pub(super) enum PlannedContainer {
    Existing(String),
    /// The container that is kept for this image; created if missing.
    Kept(String),
    /// A new container from this image.
    Fresh(String),
}

impl ExecPlan {
    pub(super) fn resolve(
        docker: &DockerExec,
        context: &OpenContext<'_>,
    ) -> Result<Self, OpenError> {
        let text = |plain: &DisplayValue| context.text(&plain.0);
        let endpoint = docker.endpoint.as_ref().map(text).transpose()?;
        let target = match &docker.target {
            ContainerTarget::Existing(name) => PlannedContainer::Existing(text(name)?),
            ContainerTarget::FromImage(image) if docker.keep_container => {
                PlannedContainer::Kept(text(image)?)
            }
            ContainerTarget::FromImage(image) => PlannedContainer::Fresh(text(image)?),
        };
        let args = docker.args.iter().map(text).collect::<Result<_, _>>()?;
        Ok(Self {
            engine: EngineAddress::resolve(endpoint, context.host_env)?,
            target,
            argv: build_argv(docker.shell.as_deref(), text(&docker.command)?, args),
            env: build_environment(&docker.env, context)?,
            workdir: docker.workdir.as_ref().map(text).transpose()?,
        })
    }

    /// Exec of a session with three separate streams. A terminal would mix stdout and stderr.
    pub(super) fn exec_config(&self, mark: OwnerMark) -> ExecConfig {
        let mut env = self.env.clone();
        env.push(format!("{OWNER_VARIABLE}={mark}"));
        ExecConfig {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            env: Some(env),
            cmd: Some(self.argv.clone()),
            working_dir: self.workdir.clone(),
            ..ExecConfig::default()
        }
    }
}

impl PlannedContainer {
    pub(super) fn name(&self) -> &str {
        let (Self::Existing(name) | Self::Kept(name) | Self::Fresh(name)) = self;
        name
    }
}

/// A shell interprets the command as one text, and never the arguments.
fn build_argv(shell: Option<&str>, command: String, args: Vec<String>) -> Vec<String> {
    let Some(shell) = shell else {
        return [vec![command], args].concat();
    };
    let mut argv: Vec<String> = shell.split_whitespace().map(str::to_owned).collect();
    if args.is_empty() {
        argv.push(command);
        return argv;
    }
    let name = argv.first().cloned().unwrap_or_default();
    argv.extend([format!("{command} \"$@\""), name]);
    argv.extend(args);
    argv
}

/// The container has the variables that programs need, so `minimal` inherits none from the host: the host's `PATH` and
/// `HOME` would be wrong in the container.
fn build_environment(
    env: &ProcessEnv,
    context: &OpenContext<'_>,
) -> Result<Vec<String>, OpenError> {
    let host = if env.inherit == InheritedEnv::Minimal { &[] } else { context.host_env };
    let variables = env.variables(host.iter().cloned(), &context.lookup);
    let mut all = variables.map_err(OpenError::Missing)?;
    let extra = context.extra_env.iter();
    all.extend(
        extra.map(|(name, value)| (name.clone(), toolcrib_config::SecretString::new(value))),
    );
    let unset = env.unset.iter().filter(|name| !all.contains_key(*name)).cloned();
    let unset: Vec<String> = unset.collect();
    let set = all.into_iter().map(|(name, value)| format!("{name}={}", value.reveal()));
    Ok(set.chain(unset).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_interprets_command_but_not_arguments() {
        let args = || vec!["$HOME".to_owned(), "a b".to_owned()];
        let command = || "mcp start".to_owned();
        assert_eq!(build_argv(None, command(), args()), ["mcp start", "$HOME", "a b"]);
        assert_eq!(build_argv(Some("sh -lc"), command(), Vec::new()), ["sh", "-lc", "mcp start"]);
        assert_eq!(
            build_argv(Some("sh -lc"), command(), args()),
            ["sh", "-lc", "mcp start \"$@\"", "sh", "$HOME", "a b"]
        );
    }
}
