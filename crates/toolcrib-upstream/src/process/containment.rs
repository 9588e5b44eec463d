//! How a host keeps hold of everything that its servers start, and what that guarantees.

use std::io;
use std::path::PathBuf;

use super::sys::{self, Cgroup};

/// What an instance does, besides giving each child a process group and a mark, to find all processes that its
/// children start.
#[derive(Clone, Debug, Default)]
pub struct Containment {
    pub cgroup: CgroupParent,
    /// Where there is no cgroup, this process adopts orphaned descendants (`PR_SET_CHILD_SUBREAPER`) and ends them.
    /// Only for programs that start no process groups of their own: an adopted process in another group than the
    /// program's is taken for one that a server has started.
    pub adopt_orphans: bool,
}

/// Below which cgroup (version 2) an instance makes its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CgroupParent {
    /// The cgroup that this process is in.
    #[default]
    Current,
    Folder(PathBuf),
    Never,
}

/// Which processes are certain to end with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// All, even after the host was killed: then at its next start.
    Cgroup,
    /// All, at the latest when the host ends. After the host was killed: those that kept group or mark.
    Subreaper,
    /// Those that kept group or mark.
    Group,
}

/// The guarantee that holds, and why no better one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub guarantee: Guarantee,
    pub why: Option<String>,
}

impl CgroupParent {
    /// The folder of the cgroup; an error says why there is none.
    pub(crate) fn folder(&self) -> io::Result<PathBuf> {
        match self {
            Self::Current => sys::current_cgroup(),
            Self::Folder(folder) => Ok(folder.clone()),
            Self::Never => Err(io::Error::other("cgroups are switched off")),
        }
    }
}

impl Held {
    /// The best that can be had, and what stands in the way of a better one.
    pub(crate) fn by(cgroup: Result<&Cgroup, &io::Error>, adopts: bool) -> Self {
        match cgroup {
            Ok(_) => Self { guarantee: Guarantee::Cgroup, why: None },
            Err(error) => Self::without_cgroup(error.to_string(), adopts),
        }
    }

    /// Becomes a subreaper where that is wanted and possible.
    pub(crate) fn without_cgroup(why: String, adopts: bool) -> Self {
        let guarantee = match adopts && sys::become_subreaper().is_ok() {
            true => Guarantee::Subreaper,
            false => Guarantee::Group,
        };
        Self { guarantee, why: Some(why) }
    }
}

impl Guarantee {
    /// Stable, for machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Subreaper => "subreaper",
            Self::Group => "group",
        }
    }

    /// Whether every process that a server started ends at the latest with the host.
    pub fn holds_at_the_end(self) -> bool {
        self != Self::Group
    }

    /// Whether every such process ends at the next start of a host that was killed with SIGKILL.
    pub fn holds_after_a_kill(self) -> bool {
        self == Self::Cgroup
    }

    /// In a sentence.
    pub fn text(self) -> &'static str {
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
