//! Settings of one invocation, from arguments and environment.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toolcrib::{Trust, TrustFile};
use toolcrib_config::{Config, ConfigFile, Lookup, Workspace, compile};
use toolcrib_upstream::process::{CgroupParent, Containment};
use toolcrib_upstream::secrets::{CredentialStore, StorageMode};

use crate::args::Common;
use crate::environment::ProcessEnvironment;

/// The settings of one invocation.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) workspace: Workspace,
    pub(crate) environment: ProcessEnvironment,
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    /// True if the user named the configuration instead of using the current folder.
    pub(crate) is_named: bool,
    /// True if discovered configuration is trusted for this run.
    pub(crate) trusts_discovered: bool,
}

impl Settings {
    pub(crate) fn new(common: &Common, environment: ProcessEnvironment) -> Result<Self, String> {
        let requested = common.root.clone().unwrap_or_else(|| environment.cwd().to_path_buf());
        let root = std::path::absolute(environment.cwd().join(&requested))
            .ok()
            .filter(|root| root.is_dir())
            .ok_or_else(|| format!("--root `{}` is not a folder", requested.display()))?;
        // The user typed this path, so it is relative to the current folder and not to the workspace.
        let path = common.config.as_ref().map(|path| environment.cwd().join(path));
        let named = path.map(|path| ConfigFile { path, dialect: common.dialect });
        let home = config_home(&environment);
        let workspace = Workspace { root, home, config_file: named };
        Ok(Self {
            is_named: common.root.is_some() || workspace.config_file.is_some(),
            workspace,
            environment,
            json: common.json,
            verbose: common.verbose,
            trusts_discovered: common.trust,
        })
    }

    /// Returns the settings for the configuration discovered in another folder.
    pub(crate) fn for_folder(&self, root: &Path) -> Self {
        let workspace = Workspace {
            root: root.to_owned(),
            home: self.workspace.home.clone(),
            config_file: None,
        };
        Self {
            workspace,
            environment: self.environment.clone(),
            is_named: false,
            trusts_discovered: false,
            ..*self
        }
    }

    pub(crate) fn compile(&self) -> Config {
        compile(&self.workspace, &self.environment)
    }

    /// Compiles the configuration and withholds untrusted parts.
    pub(crate) fn compile_trusted(&self) -> Config {
        let mut config = self.compile();
        let trusted = self.trust_policy(&config).trusted_content(self.root(), self.root());
        Trust::apply(trusted, self.root(), &mut config, &Config::default());
        config
    }

    /// Returns the trust policy for this invocation.
    pub(crate) fn trust_policy(&self, config: &Config) -> Trust {
        let trust = match (self.is_named, self.trusts_discovered) {
            (true, _) => Trust::root_only(),
            (false, true) => {
                // Only the current definitions are trusted; later changes need trust again.
                Trust::no_folder().with_hashes(config.launches().iter().map(|launch| launch.hash))
            }
            (false, false) => Trust::no_folder(),
        };
        match self.trust_file() {
            Some(file) => trust.with_file(file.path()),
            None => trust,
        }
    }

    /// Returns the file of trusted folders, or `None` if the state folder is unknown.
    pub(crate) fn trust_file(&self) -> Option<TrustFile> {
        self.user_state().map(|folder| TrustFile::new(folder.join("trust.json")))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.workspace.root
    }
}

impl Settings {
    /// Returns the state folder, or an error with advice.
    pub(crate) fn state_folder(&self) -> Result<PathBuf, String> {
        let advice = "set HOME or TOOLCRIB_STATE_DIR: it contains the state folder";
        self.find_state_folder().ok_or_else(|| advice.to_owned())
    }

    /// Returns the folder of this workspace's ledgers, store and socket.
    pub(crate) fn find_state_folder(&self) -> Option<PathBuf> {
        let folder = self.user_state()?;
        if self.env_path("TOOLCRIB_STATE_DIR").is_some() {
            return Some(folder);
        }
        let real = self.root().canonicalize().unwrap_or_else(|_| self.root().to_path_buf());
        Some(folder.join(path_digest(&real)))
    }

    /// Opens the user's credentials, which all workspaces share.
    pub(crate) fn credential_store(&self, storage: StorageMode) -> Result<CredentialStore, String> {
        let folder = self.user_state().map(|state| state.join("credentials"));
        let advice = "set HOME or TOOLCRIB_STATE_DIR: credentials are stored there";
        Ok(CredentialStore::open(folder.ok_or(advice)?, storage))
    }

    /// Returns the folder of the state that all workspaces share.
    pub(crate) fn user_state(&self) -> Option<PathBuf> {
        self.env_path("TOOLCRIB_STATE_DIR").or_else(|| {
            let base = self.env_path("XDG_STATE_HOME");
            let base = base.or_else(|| Some(self.env_path("HOME")?.join(".local/state")))?;
            Some(base.join("toolcrib"))
        })
    }

    /// Returns the containment of servers' processes: in a cgroup below the one that `TOOLCRIB_CGROUP` names (`off`: in
    /// none), or below the program's own. The host starts no other processes, so it may adopt orphans.
    pub(crate) fn containment(&self) -> Containment {
        let cgroup = match self.env_path("TOOLCRIB_CGROUP") {
            None => CgroupParent::Current,
            Some(word) if word == Path::new("off") => CgroupParent::Never,
            Some(folder) => CgroupParent::Folder(folder),
        };
        Containment { cgroup, adopt_orphans: true }
    }

    fn env_path(&self, name: &str) -> Option<PathBuf> {
        self.environment.env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

/// Returns sixteen hexadecimal digits of a path's hash.
pub(crate) fn path_digest(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the folder of the user's own `toolcrib.yaml`.
fn config_home(environment: &ProcessEnvironment) -> Option<PathBuf> {
    let given =
        |name: &str| environment.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("TOOLCRIB_CONFIG_HOME")
        .or_else(|| config_folder(environment).map(|folder| folder.join("toolcrib")))
}

/// Returns the folder of the user's configuration files.
pub(crate) fn config_folder(environment: &ProcessEnvironment) -> Option<PathBuf> {
    let given =
        |name: &str| environment.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")))
}
