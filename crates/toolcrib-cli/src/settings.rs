//! Arguments and environment made into what the commands need.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toolcrib::host::Trust;
use toolcrib::store::TrustFile;
use toolcrib_config::{Config, Lookup, Named, Workspace, compile};
use toolcrib_upstream::process::{CgroupParent, Containment};
use toolcrib_upstream::secrets::{Keep, Storage};

use crate::args::Common;
use crate::world::Real;

/// One invocation.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) workspace: Workspace,
    pub(crate) world: Real,
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    /// Whether somebody said which configuration is meant, rather than being where it is.
    pub(crate) is_named: bool,
    /// Whether what is found here is trusted for this run.
    pub(crate) trusts: bool,
}

impl Settings {
    pub(crate) fn new(common: &Common, world: Real) -> Result<Self, String> {
        let asked = common.root.clone().unwrap_or_else(|| world.cwd().to_path_buf());
        let root = std::path::absolute(world.cwd().join(&asked))
            .ok()
            .filter(|root| root.is_dir())
            .ok_or_else(|| format!("--root `{}` is not a folder", asked.display()))?;
        // A file that is named is one of the person's own words: it starts from where they are.
        let path = common.config.as_ref().map(|path| world.cwd().join(path));
        let named = path.map(|path| Named { path, dialect: common.dialect });
        let home = config_home(&world);
        let workspace = Workspace { root, home, named };
        Ok(Self {
            is_named: common.root.is_some() || workspace.named.is_some(),
            workspace,
            world,
            json: common.json,
            verbose: common.verbose,
            trusts: common.trust,
        })
    }

    /// The same for what is found in another folder.
    pub(crate) fn elsewhere(&self, root: &Path) -> Self {
        let workspace =
            Workspace { root: root.to_owned(), home: self.workspace.home.clone(), named: None };
        Self { workspace, world: self.world.clone(), is_named: false, trusts: false, ..*self }
    }

    pub(crate) fn compile(&self) -> Config {
        compile(&self.workspace, &self.world)
    }

    /// What of the configuration counts for whoever starts something.
    pub(crate) fn effective(&self) -> Config {
        let mut config = self.compile();
        let trusted = self.trust(&config).of(self.root(), self.root());
        Trust::apply(trusted, self.root(), &mut config, &Config::default());
        config
    }

    /// Whose configuration may start something.
    pub(crate) fn trust(&self, config: &Config) -> Trust {
        let trust = match (self.is_named, self.trusts) {
            (true, _) => Trust::of_root(),
            (false, true) => {
                // Of what there is now: what becomes of it later, nobody has seen.
                Trust::of_nothing().once(config.launches().iter().map(|launch| launch.hash))
            }
            (false, false) => Trust::of_nothing(),
        };
        match self.trust_file() {
            Some(file) => trust.kept_in(file.path()),
            None => trust,
        }
    }

    /// Where it is kept what somebody trusts; nowhere where nothing says where state is.
    pub(crate) fn trust_file(&self) -> Option<TrustFile> {
        self.user_state().map(|folder| TrustFile::new(folder.join("trust.json")))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.workspace.root
    }
}

impl Settings {
    /// The same folder, or what can be done where nothing says where it is.
    pub(crate) fn state_folder(&self) -> Result<PathBuf, String> {
        let advice = "set HOME or TOOLCRIB_STATE_DIR: the state folder is there";
        self.state().ok_or_else(|| advice.to_owned())
    }

    /// Where the host of this root keeps what it needs: ledgers, store, socket.
    pub(crate) fn state(&self) -> Option<PathBuf> {
        let folder = self.user_state()?;
        if self.given("TOOLCRIB_STATE_DIR").is_some() {
            return Some(folder);
        }
        let real = self.root().canonicalize().unwrap_or_else(|_| self.root().to_path_buf());
        Some(folder.join(digits(&real)))
    }

    /// The person's credentials, for the hosts of all roots.
    pub(crate) fn keep(&self, storage: Storage) -> Result<Keep, String> {
        let folder = self.user_state().map(|state| state.join("credentials"));
        let advice = "set HOME or TOOLCRIB_STATE_DIR: credentials are kept there";
        Ok(Keep::open(folder.ok_or(advice)?, storage))
    }

    /// Where a person's hosts keep what is of no root alone.
    pub(crate) fn user_state(&self) -> Option<PathBuf> {
        self.given("TOOLCRIB_STATE_DIR").or_else(|| {
            let base = self.given("XDG_STATE_HOME");
            let base = base.or_else(|| Some(self.given("HOME")?.join(".local/state")))?;
            Some(base.join("toolcrib"))
        })
    }

    /// How servers' processes are held: in a cgroup below the one that `TOOLCRIB_CGROUP` names (`off`: in none), or
    /// below the program's own. A program that runs servers starts no other processes, so it may adopt orphans.
    pub(crate) fn containment(&self) -> Containment {
        let cgroup = match self.given("TOOLCRIB_CGROUP") {
            None => CgroupParent::Current,
            Some(word) if word == Path::new("off") => CgroupParent::Never,
            Some(folder) => CgroupParent::Folder(folder),
        };
        Containment { cgroup, adopt_orphans: true }
    }

    fn given(&self, name: &str) -> Option<PathBuf> {
        self.world.env(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

/// Sixteen digits that stand for a path.
pub(crate) fn digits(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of the person's own `toolcrib.yaml`.
fn config_home(world: &Real) -> Option<PathBuf> {
    let given = |name: &str| world.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("TOOLCRIB_CONFIG_HOME")
        .or_else(|| config_folder(world).map(|folder| folder.join("toolcrib")))
}

/// Where programs keep their configuration.
pub(crate) fn config_folder(world: &Real) -> Option<PathBuf> {
    let given = |name: &str| world.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")))
}
