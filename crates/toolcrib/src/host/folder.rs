//! A working directory and what is configured in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolcrib_config::model::policy::{Reload as Taking, Scope as Sight};
use toolcrib_config::{Config, ServerSpec, Workspace, compile};

use super::core::Core;
use super::files::Files;
use super::slot::Slot;
use super::trust::Trust;

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

    /// A changed configuration without what is taken up only when somebody asks for it.
    fn hold_manual(&self, mut new: Config) -> Config {
        let known = &self.config.servers;
        if !new.servers.iter().chain(known).any(is_manual) {
            return new;
        }
        new.servers
            .retain(|spec| !is_manual(spec) || known.iter().any(|old| old.key() == spec.key()));
        for (place, old) in known.iter().enumerate().filter(|(_, old)| is_manual(old)) {
            match new.servers.iter_mut().find(|spec| spec.key() == old.key()) {
                Some(spec) => spec.clone_from(old),
                None => new.servers.insert(place.min(new.servers.len()), old.clone()),
            }
        }
        new
    }

    /// Reads its files anew, away from the tasks that serve: what of it counts. Where a change was only noticed, it
    /// counts as far as nobody has to ask for it.
    pub(super) async fn read(&self, core: &Arc<Core>, is_noticed: bool) -> Arc<Config> {
        let (core, path) = (Arc::clone(core), self.path.clone());
        let compiled = tokio::task::spawn_blocking(move || {
            let files = Files { env: &core.world.env };
            // Before the files: what is trusted later counts with the next reading.
            let trusted = core.trust.of(&path, &core.workspace.root);
            let config = match path == core.workspace.root {
                true => compile(&core.workspace, &files),
                false => read_elsewhere(path, &files),
            };
            (config, trusted)
        });
        // It does not panic; if it did, an empty configuration would stop everything.
        let Ok((mut config, trusted)) = compiled.await else { return Arc::clone(&self.config) };
        config.keep_host_of(&self.config);
        if is_noticed {
            config = self.hold_manual(config);
        }
        Trust::apply(trusted, &self.path, &mut config, &self.config);
        Arc::new(config)
    }
}

/// Whether changes of it wait until somebody asks for them.
fn is_manual(spec: &ServerSpec) -> bool {
    spec.policy.reload == Taking::Manual
}

/// Outside of the root only what belongs to a working directory counts. Files are told by their whole paths there:
/// two folders may use the same names.
fn read_elsewhere(path: PathBuf, files: &Files<'_>) -> Config {
    let workspace = Workspace { root: path, home: None, named: None };
    let mut config = compile(&workspace, files);
    config.servers.retain(|spec| spec.policy.scope == Sight::Cwd);
    config.forget_host();
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
