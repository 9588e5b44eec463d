//! Security sections: which of them are invalid, and what an invalid section closes.
//!
//! Each section fails closed by itself. [`Config::keep_host_of`](super::Config::keep_host_of) replaces an invalid
//! section by its last good version on a reload; [`close`] applies the closed values where there is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::host::{Gateway, Host, Pins};
use crate::place::Place;
use crate::problem::Problem;
use crate::text;

/// Who may use the gateway and the API over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// Everybody on this machine is the agent `default`.
    #[default]
    Open,
    /// Only principals with a token.
    Protected,
    /// The section is invalid: nobody, until it is corrected.
    Invalid,
}

/// A part of the configuration that decides who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    Gateway,
    Spawn,
    Network,
    Docker,
    Grants,
    Pins,
    Secrets,
}

/// The place of the first mistake in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) source: Arc<str>,
    pub(crate) place: Place,
}

/// The state of all security sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    pub protection: Protection,
    pub(crate) invalid: BTreeMap<Section, Fault>,
}

impl Section {
    pub(crate) const PERMISSIONS: [Self; 3] = [Self::Spawn, Self::Network, Self::Docker];

    /// Everything in `host`.
    pub(crate) const HOST: [Self; 6] =
        [Self::Spawn, Self::Network, Self::Docker, Self::Grants, Self::Pins, Self::Secrets];

    /// Everything that an unreadable native file closes. Servers of other files still start.
    pub(crate) const UNREADABLE: [Self; 6] =
        [Self::Gateway, Self::Network, Self::Docker, Self::Grants, Self::Pins, Self::Secrets];

    /// The sections that a key of `host` holds.
    pub(crate) fn of_host_key(key: &str) -> &'static [Self] {
        match key {
            "permissions" => &Self::PERMISSIONS,
            "grants" => &[Self::Grants],
            "pins" => &[Self::Pins],
            "secrets" => &[Self::Secrets],
            _ => &[],
        }
    }

    /// The section that a key of `host.permissions` is.
    pub(crate) fn of_permission(key: &str) -> Option<Self> {
        match key {
            "spawn" => Some(Self::Spawn),
            "network" => Some(Self::Network),
            "docker" => Some(Self::Docker),
            _ => None,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Spawn => "host.permissions.spawn",
            Self::Network => "host.permissions.network",
            Self::Docker => "host.permissions.docker",
            Self::Grants => "host.grants",
            Self::Pins => "host.pins",
            Self::Secrets => "host.secrets",
        }
    }

    /// The effect of the closed section.
    fn effect(self) -> &'static str {
        match self {
            Self::Gateway => "over TCP only /healthz and /readyz are answered",
            Self::Spawn => "no process is started",
            Self::Network => "no address is connected to",
            Self::Docker => "the Docker engine is not used",
            Self::Grants => "no agent has a grant",
            Self::Pins => "changed tool definitions are withheld (`enforce`)",
            Self::Secrets => "servers that use secrets do not start",
        }
    }
}

/// The code of the problem of a section that is closed.
pub(crate) const CLOSED: &str = "security.closed";
/// The code of the problem of a section whose last good version stays.
pub(crate) const KEPT: &str = "security.kept";

impl Security {
    pub fn is_invalid(&self, section: Section) -> bool {
        self.invalid.contains_key(&section)
    }

    pub(crate) fn mark(
        &mut self,
        sections: impl IntoIterator<Item = Section>,
        source: &Arc<str>,
        place: Place,
    ) {
        for section in sections {
            self.invalid.entry(section).or_insert_with(|| Fault { source: source.clone(), place });
        }
    }
}

/// The problems of closed sections, one for each mistake.
pub(crate) fn closed(invalid: &BTreeMap<Section, Fault>) -> Vec<Problem> {
    let text = |sections: &[Section]| {
        let effects: Vec<&str> = sections.iter().map(|section| section.effect()).collect();
        format!("{} invalid, so closed: {}", names(sections), effects.join("; "))
    };
    problems(CLOSED, invalid, text)
}

/// The problems of sections whose last good version stays, one for each mistake.
pub(crate) fn kept(invalid: &BTreeMap<Section, Fault>) -> Vec<Problem> {
    problems(KEPT, invalid, |sections| {
        format!("{} invalid; the last good settings stay", names(sections))
    })
}

fn problems(
    code: &str,
    invalid: &BTreeMap<Section, Fault>,
    text: impl Fn(&[Section]) -> String,
) -> Vec<Problem> {
    let mut faults: BTreeMap<(&str, Place), Vec<Section>> = BTreeMap::new();
    for (section, fault) in invalid {
        faults.entry((&fault.source, fault.place)).or_default().push(*section);
    }
    let problem = |((source, place), sections): ((&str, Place), Vec<Section>)| {
        let fix = "correct the file; its other problems say where";
        let path: Vec<&str> = sections.iter().map(|section| section.key()).collect();
        Problem::error(code, text(&sections)).at(source, place, &path.join(",")).fix(fix)
    };
    faults.into_iter().map(problem).collect()
}

/// `` `gateway` is `` or `` `host.grants` and `host.pins` are ``.
fn names(sections: &[Section]) -> String {
    let names: Vec<&str> = sections.iter().map(|section| section.key()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", text::list(&names))
}

/// The protection that valid settings ask for.
pub(crate) fn protection(gateway: &Gateway) -> Protection {
    match gateway.tokens.is_some() || gateway.oauth.issuer.is_some() {
        true => Protection::Protected,
        false => Protection::Open,
    }
}

/// Gives the invalid sections their closed values.
pub(crate) fn close(security: &mut Security, host: &mut Host) {
    for section in security.invalid.keys() {
        match section {
            Section::Gateway => security.protection = Protection::Invalid,
            Section::Spawn => host.permissions.spawn = false,
            Section::Network => host.permissions.network = false,
            Section::Docker => host.permissions.docker = false,
            Section::Pins => host.pins = Pins::Enforce,
            // Everybody who reads these asks `is_invalid` first.
            Section::Grants | Section::Secrets => {}
        }
    }
}
