//! Containment of child processes: cgroup, subreaper or process group, and the guarantee that each one gives.

use std::io;
use std::path::PathBuf;

use super::sys::{self, Cgroup};

/// Mechanisms by which an instance finds all processes that its children start. Every child also gets a
/// process group and an owner mark.
#[derive(Clone, Debug, Default)]
pub struct Containment {
    /// Parent of the instance's cgroup.
    pub cgroup: CgroupParent,
    /// Without a cgroup, this process adopts orphaned descendants (`PR_SET_CHILD_SUBREAPER`) and kills them.
    /// Set this only in programs that create no process groups of their own: the host treats an adopted
    /// process in a foreign group as a descendant of a server.
    pub adopt_orphans: bool,
}

/// Parent of the instance's cgroup (version 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CgroupParent {
    /// The cgroup of this process.
    #[default]
    Current,
    Folder(PathBuf),
    Never,
}

/// Which processes are certain to end with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// All processes. After a SIGKILL of the host, the next start ends them.
    Cgroup,
    /// All processes, at the latest when the host exits. After a SIGKILL of the host, only processes that
    /// kept their group or owner mark.
    Subreaper,
    /// Only processes that kept their group or owner mark.
    Group,
}

/// The current guarantee, and why no stronger one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainmentStatus {
    /// The current guarantee.
    pub guarantee: Guarantee,
    /// Why there is no cgroup. `None` if there is one.
    pub reason: Option<String>,
}

impl CgroupParent {
    /// Returns the folder of the parent cgroup. The error says why there is none.
    pub(crate) fn folder(&self) -> io::Result<PathBuf> {
        match self {
            Self::Current => sys::current_cgroup(),
            Self::Folder(folder) => Ok(folder.clone()),
            Self::Never => Err(io::Error::other("cgroups are disabled")),
        }
    }
}

impl ContainmentStatus {
    /// Selects the strongest available guarantee and records why no stronger one is available.
    pub(crate) fn new(cgroup: Result<&Cgroup, &io::Error>, adopts: bool) -> Self {
        match cgroup {
            Ok(_) => Self { guarantee: Guarantee::Cgroup, reason: None },
            Err(error) => Self::without_cgroup(error.to_string(), adopts),
        }
    }

    /// Makes this process a subreaper if that is requested and supported.
    pub(crate) fn without_cgroup(why: String, adopts: bool) -> Self {
        let guarantee = match adopts && sys::become_subreaper().is_ok() {
            true => Guarantee::Subreaper,
            false => Guarantee::Group,
        };
        Self { guarantee, reason: Some(why) }
    }
}

impl Guarantee {
    /// Stable identifier for machine-readable output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Subreaper => "subreaper",
            Self::Group => "group",
        }
    }

    /// Returns whether every process of a server ends at the latest when the host exits.
    pub fn covers_host_exit(self) -> bool {
        self != Self::Group
    }

    /// Returns whether the next start ends every process of a host that was killed with SIGKILL.
    pub fn covers_host_kill(self) -> bool {
        self == Self::Cgroup
    }

    /// Describes the guarantee in one sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Cgroup => {
                "each server runs in a cgroup of its own: every process it starts ends with it, and if the host is \
                 killed (`kill -9`), at the next start"
            }
            Self::Subreaper => {
                "there is no cgroup for servers: every process that a server starts ends at the latest with the host; \
                 if the host is killed (`kill -9`), a process that left its group and cleared its environment stays"
            }
            Self::Group => {
                "there is no cgroup for servers: a process that left its server's group and cleared its environment \
                 outlives it"
            }
        }
    }
}
