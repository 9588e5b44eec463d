//! A working folder with its configuration and servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolcrib_config::model::policy::{ReloadTrigger, ServerScope};
use toolcrib_config::{Config, ServerSpec, Workspace, compile};

use super::config_files::FileSystemLookup;
use super::core::Core;
use super::slot::ServerSlot;
use super::trust::Trust;

pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) config: Arc<Config>,
    pub(super) slots: Vec<ServerSlot>,
    /// Number of dialogs in the folder.
    pub(super) users: usize,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Folder { path, config: Arc::default(), slots: Vec::new(), users: 1 }
    }

    /// Problem group of the folder's configuration.
    pub(super) fn problem_group(&self) -> String {
        format!("config {}", self.path.display())
    }

    /// Removes the slot of this server.
    pub(super) fn remove_slot(&mut self, key: &str) -> Option<ServerSlot> {
        let index = self.slots.iter().position(|slot| *slot.key == *key)?;
        Some(self.slots.remove(index))
    }

    /// Keeps the servers with `reload: manual` as they are, because only a requested reload changes
    /// them.
    fn keep_manual_servers(&self, mut new: Config) -> Config {
        let known = &self.config.servers;
        if !new.servers.iter().chain(known).any(is_manual) {
            return new;
        }
        new.servers
            .retain(|spec| !is_manual(spec) || known.iter().any(|old| old.key() == spec.key()));
        for (index, old) in known.iter().enumerate().filter(|(_, old)| is_manual(old)) {
            match new.servers.iter_mut().find(|spec| spec.key() == old.key()) {
                Some(spec) => spec.clone_from(old),
                None => new.servers.insert(index.min(new.servers.len()), old.clone()),
            }
        }
        new
    }

    /// Reads the folder's configuration in a blocking task. After a mere file change, servers with
    /// `reload: manual` stay unchanged.
    pub(super) async fn load_config(&self, core: &Arc<Core>, is_file_change: bool) -> Arc<Config> {
        let (core, path) = (Arc::clone(core), self.path.clone());
        let compiled = tokio::task::spawn_blocking(move || {
            let files = FileSystemLookup { env: &core.conn_context.env };
            // Read before the files: trust that is granted later counts for the next reading.
            let trusted = core.trust.trusted_content(&path, &core.workspace.root);
            let config = match path == core.workspace.root {
                true => compile(&core.workspace, &files),
                false => compile_outside_root(path, &files),
            };
            (config, trusted)
        });
        // The task does not panic. If it did, an empty configuration would stop every server.
        let Ok((mut config, trusted)) = compiled.await else { return Arc::clone(&self.config) };
        config.keep_global_settings(&self.config);
        if is_file_change {
            config = self.keep_manual_servers(config);
        }
        Trust::apply(trusted, &self.path, &mut config, &self.config);
        Arc::new(config)
    }
}

/// Whether only a requested reload changes this server.
fn is_manual(spec: &ServerSpec) -> bool {
    spec.policy.reload == ReloadTrigger::Manual
}

/// Compiles the configuration of a folder other than the root. Only servers with the scope `cwd`
/// count there. Labels are absolute paths, because two folders may use the same file names.
fn compile_outside_root(path: PathBuf, files: &FileSystemLookup<'_>) -> Config {
    let workspace = Workspace { root: path, home: None, config_file: None };
    let mut config = compile(&workspace, files);
    config.servers.retain(|spec| spec.policy.scope == ServerScope::Cwd);
    config.reset_global_settings();
    let absolute = |label: &str| absolute_label(&workspace.root, label);
    config.sources.iter_mut().for_each(|source| source.label = absolute(&source.label).into());
    config.servers.iter_mut().for_each(|spec| spec.source = absolute(&spec.source).into());
    config
        .rejected
        .iter_mut()
        .for_each(|rejected| rejected.source = absolute(&rejected.source).into());
    for problem in &mut config.problems {
        problem.source = problem.source.as_deref().map(absolute);
        problem.id = format!("{}:{}", workspace.root.display(), problem.id);
    }
    config
}

fn absolute_label(folder: &Path, label: &str) -> String {
    folder.join(label).display().to_string()
}
