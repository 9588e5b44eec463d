//! What is to be run in which container: every value resolved before anything begins.

use bollard::models::ExecConfig;
use toolcrib_config::model::choice::Inherit;
use toolcrib_config::model::transport::{Container, DockerExec, Env, Plain};

use super::engine::Address;
use crate::process::{Mark, OWNER_VARIABLE};
use crate::transport::open::{OpenError, Opening};

pub(super) struct Plan {
    pub(super) engine: Address,
    pub(super) target: Target,
    argv: Vec<String>,
    /// `NAME=VALUE`, or `NAME` for one that is taken away.
    env: Vec<String>,
    workdir: Option<String>,
}

/// Which container.
pub(super) enum Target {
    Existing(String),
    /// One that was made from this image earlier and kept, or is now.
    Kept(String),
    /// A new one from this image.
    Fresh(String),
}

impl Plan {
    pub(super) fn of(docker: &DockerExec, opening: &Opening<'_>) -> Result<Self, OpenError> {
        let text = |plain: &Plain| opening.text(&plain.0);
        let endpoint = docker.endpoint.as_ref().map(text).transpose()?;
        let target = match &docker.target {
            Container::Existing(name) => Target::Existing(text(name)?),
            Container::FromImage(image) if docker.keep_container => Target::Kept(text(image)?),
            Container::FromImage(image) => Target::Fresh(text(image)?),
        };
        let args = docker.args.iter().map(text).collect::<Result<_, _>>()?;
        Ok(Self {
            engine: Address::of(endpoint, opening.host_env)?,
            target,
            argv: argv(docker.shell.as_deref(), text(&docker.command)?, args),
            env: environment(&docker.env, opening)?,
            workdir: docker.workdir.as_ref().map(text).transpose()?,
        })
    }

    /// The exec of a session: all three streams, and no terminal that would mix them.
    pub(super) fn exec(&self, mark: Mark) -> ExecConfig {
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

impl Target {
    pub(super) fn name(&self) -> &str {
        let (Self::Existing(name) | Self::Kept(name) | Self::Fresh(name)) = self;
        name
    }
}

/// A shell reads the command as one text, and never the arguments.
fn argv(shell: Option<&str>, command: String, args: Vec<String>) -> Vec<String> {
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

/// The container has what programs need to run at all, so `minimal` takes nothing from the host: its `PATH` and
/// `HOME` would only mislead.
fn environment(env: &Env, opening: &Opening<'_>) -> Result<Vec<String>, OpenError> {
    let host = if env.inherit == Inherit::Minimal { &[] } else { opening.host_env };
    let variables = env.variables(host.iter().cloned(), &opening.find);
    let mut all = variables.map_err(OpenError::Missing)?;
    let extra = opening.extra_env.iter();
    all.extend(extra.map(|(name, value)| (name.clone(), toolcrib_config::Hidden::new(value))));
    let unset = env.unset.iter().filter(|name| !all.contains_key(*name)).cloned();
    let unset: Vec<String> = unset.collect();
    let set = all.into_iter().map(|(name, value)| format!("{name}={}", value.reveal()));
    Ok(set.chain(unset).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_command_and_never_the_arguments() {
        let args = || vec!["$HOME".to_owned(), "a b".to_owned()];
        let command = || "mcp start".to_owned();
        assert_eq!(argv(None, command(), args()), ["mcp start", "$HOME", "a b"]);
        assert_eq!(argv(Some("sh -lc"), command(), Vec::new()), ["sh", "-lc", "mcp start"]);
        assert_eq!(
            argv(Some("sh -lc"), command(), args()),
            ["sh", "-lc", "mcp start \"$@\"", "sh", "$HOME", "a b"]
        );
    }
}
