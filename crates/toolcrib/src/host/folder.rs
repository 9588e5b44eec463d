//! A working directory and what is configured in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolcrib_config::model::policy::{Reload as Taking, Scope as Sight};
use toolcrib_config::{Config, ServerSpec, Workspace, compile};

use super::core::Core;
use super::files::Files;
use super::slot::Slot;

pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) config: Arc<Config>,
    pub(super) slots: Vec<Slot>,
    /// Dialogs that are in it.
    pub(super) users: usize,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Folder { path, config: Arc::default(), slots: Vec::new(), users: 1 }
    }

    /// The matter that the problems of its files are.
    pub(super) fn matter(&self) -> String {
        format!("config {}", self.path.display())
    }

    /// Takes a slot out of its place.
    pub(super) fn take(&mut self, key: &str) -> Option<Slot> {
        let place = self.slots.iter().position(|slot| *slot.key == *key)?;
        Some(self.slots.remove(place))
    }

    /// A new configuration without what was changed of servers that are taken up only when somebody says so.
    pub(super) fn without_manual(&self, config: Arc<Config>) -> Arc<Config> {
        let is_manual = |spec: &&ServerSpec| spec.policy.reload == Taking::Manual;
        let (old, new) = (&self.config, &config);
        if !old.servers.iter().chain(&new.servers).any(|spec| is_manual(&spec)) {
            return config;
        }
        let as_before = |spec: &ServerSpec| match old.server(&spec.key()) {
            Some(before) if is_manual(&before) => Some(before.clone()),
            None if is_manual(&spec) => None,
            _ => Some(spec.clone()),
        };
        let gone = old.servers.iter().filter(is_manual);
        let gone = gone.filter(|spec| new.server(&spec.key()).is_none()).cloned();
        let servers = new.servers.iter().filter_map(as_before).chain(gone).collect();
        let mut config = Config::clone(new);
        config.servers = servers;
        Arc::new(config)
    }

    /// Reads its files anew, away from the tasks that serve.
    pub(super) async fn read(&self, core: &Arc<Core>) -> Arc<Config> {
        let (core, path) = (Arc::clone(core), self.path.clone());
        let compiled = tokio::task::spawn_blocking(move || {
            let files = Files { env: &core.world.env };
            match path == core.workspace.root {
                true => compile(&core.workspace, &files),
                false => read_elsewhere(path, &files),
            }
        });
        // It does not panic; if it did, an empty configuration would stop everything.
        let Ok(mut config) = compiled.await else { return Arc::clone(&self.config) };
        config.keep_host_of(&self.config);
        Arc::new(config)
    }
}

/// Outside of the root only what belongs to a working directory counts. Files are told by their whole paths there:
/// two folders may use the same names.
fn read_elsewhere(path: PathBuf, files: &Files<'_>) -> Config {
    let workspace = Workspace { root: path, home: None, named: None };
    let mut config = compile(&workspace, files);
    config.servers.retain(|spec| spec.policy.scope == Sight::Cwd);
    let whole = |label: &str| whole(&workspace.root, label);
    config.sources.iter_mut().for_each(|source| source.label = whole(&source.label).into());
    config.servers.iter_mut().for_each(|spec| spec.source = whole(&spec.source).into());
    config
        .rejected
        .iter_mut()
        .for_each(|rejected| rejected.source = whole(&rejected.source).into());
    for problem in &mut config.problems {
        problem.source = problem.source.as_deref().map(whole);
        problem.id = format!("{}:{}", workspace.root.display(), problem.id);
    }
    config
}

fn whole(folder: &Path, label: &str) -> String {
    folder.join(label).display().to_string()
}
