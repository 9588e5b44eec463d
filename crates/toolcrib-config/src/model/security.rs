//! Security sections: which are invalid, and the effect of an invalid section.
//!
//! Each section fails closed on its own. [`Config::keep_global_settings`](super::Config::keep_global_settings) replaces
//! an invalid section by its last good version on a reload. [`close_invalid_sections`] applies the closed values if
//! there is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::host::{GatewaySettings, HostSettings, Pins};
use crate::problem::Problem;
use crate::source_location::SourceLocation;
use crate::text;

/// The callers that may use the gateway and the API over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GatewayProtection {
    /// Every local caller, as the agent `default`.
    #[default]
    Open,
    /// Principals with a token.
    Protected,
    /// No one, because the section is invalid.
    Invalid,
}

/// A part of the configuration that decides about access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecuritySection {
    Gateway,
    Spawn,
    Network,
    Docker,
    Grants,
    Pins,
    Secrets,
}

/// The location of the first error in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultLocation {
    pub(crate) source: Arc<str>,
    pub(crate) location: SourceLocation,
}

/// The state of all security sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// The protection of the gateway.
    pub protection: GatewayProtection,
    pub(crate) invalid: BTreeMap<SecuritySection, FaultLocation>,
}

impl SecuritySection {
    pub(crate) const PERMISSIONS: [Self; 3] = [Self::Spawn, Self::Network, Self::Docker];

    /// All sections in `host`.
    pub(crate) const HOST: [Self; 6] =
        [Self::Spawn, Self::Network, Self::Docker, Self::Grants, Self::Pins, Self::Secrets];

    /// The sections that an unreadable native file closes. Servers of other files still start.
    pub(crate) const UNREADABLE: [Self; 6] =
        [Self::Gateway, Self::Network, Self::Docker, Self::Grants, Self::Pins, Self::Secrets];

    /// Returns the sections in a key of `host`.
    pub(crate) fn for_host_key(key: &str) -> &'static [Self] {
        match key {
            "permissions" => &Self::PERMISSIONS,
            "grants" => &[Self::Grants],
            "pins" => &[Self::Pins],
            "secrets" => &[Self::Secrets],
            _ => &[],
        }
    }

    /// Returns the section of a key of `host.permissions`.
    pub(crate) fn for_permission(key: &str) -> Option<Self> {
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

    /// Describes the effect of the closed section.
    fn effect(self) -> &'static str {
        match self {
            Self::Gateway => "over TCP only /healthz and /readyz are answered",
            Self::Spawn => "no process is started",
            Self::Network => "no connections to addresses are made",
            Self::Docker => "the Docker engine is not used",
            Self::Grants => "no agent has a grant",
            Self::Pins => "changed tool definitions are withheld (`enforce`)",
            Self::Secrets => "servers that use secrets do not start",
        }
    }
}

/// Problem code of a closed section.
pub(crate) const CLOSED: &str = "security.closed";
/// Problem code of a section that keeps its last good version.
pub(crate) const KEPT: &str = "security.kept";

impl Security {
    /// Returns whether a section is invalid.
    pub fn is_invalid(&self, section: SecuritySection) -> bool {
        self.invalid.contains_key(&section)
    }

    pub(crate) fn mark_invalid(
        &mut self,
        sections: impl IntoIterator<Item = SecuritySection>,
        source: &Arc<str>,
        location: SourceLocation,
    ) {
        for section in sections {
            self.invalid
                .entry(section)
                .or_insert_with(|| FaultLocation { source: source.clone(), location });
        }
    }
}

/// Returns the problems of closed sections, one for each error.
pub(crate) fn closed_problems(invalid: &BTreeMap<SecuritySection, FaultLocation>) -> Vec<Problem> {
    let text = |sections: &[SecuritySection]| {
        let effects: Vec<&str> = sections.iter().map(|section| section.effect()).collect();
        format!("{} invalid and therefore closed: {}", section_names(sections), effects.join("; "))
    };
    section_problems(CLOSED, invalid, text)
}

/// Returns the problems of sections that keep their last good version, one for each error.
pub(crate) fn kept_problems(invalid: &BTreeMap<SecuritySection, FaultLocation>) -> Vec<Problem> {
    section_problems(KEPT, invalid, |sections| {
        format!("{} invalid; the last good settings stay", section_names(sections))
    })
}

fn section_problems(
    code: &str,
    invalid: &BTreeMap<SecuritySection, FaultLocation>,
    text: impl Fn(&[SecuritySection]) -> String,
) -> Vec<Problem> {
    let mut faults: BTreeMap<(&str, SourceLocation), Vec<SecuritySection>> = BTreeMap::new();
    for (section, fault) in invalid {
        faults.entry((&fault.source, fault.location)).or_default().push(*section);
    }
    let problem =
        |((source, location), sections): ((&str, SourceLocation), Vec<SecuritySection>)| {
            let fix = "correct the file; its other problems have the locations";
            let path: Vec<&str> = sections.iter().map(|section| section.key()).collect();
            Problem::error(code, text(&sections)).at(source, location, &path.join(",")).fix(fix)
        };
    faults.into_iter().map(problem).collect()
}

/// `` `gateway` is `` or `` `host.grants` and `host.pins` are ``.
fn section_names(sections: &[SecuritySection]) -> String {
    let names: Vec<&str> = sections.iter().map(|section| section.key()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", text::quoted_list(&names))
}

/// Returns the protection that the gateway's settings require.
pub(crate) fn required_protection(gateway: &GatewaySettings) -> GatewayProtection {
    match gateway.tokens.is_some() || gateway.oauth.issuer.is_some() {
        true => GatewayProtection::Protected,
        false => GatewayProtection::Open,
    }
}

/// Sets the closed values of invalid sections.
pub(crate) fn close_invalid_sections(security: &mut Security, host: &mut HostSettings) {
    for section in security.invalid.keys() {
        match section {
            SecuritySection::Gateway => security.protection = GatewayProtection::Invalid,
            SecuritySection::Spawn => host.permissions.spawn = false,
            SecuritySection::Network => host.permissions.network = false,
            SecuritySection::Docker => host.permissions.docker = false,
            SecuritySection::Pins => host.pins = Pins::Enforce,
            // Code that reads these settings checks `is_invalid` first.
            SecuritySection::Grants | SecuritySection::Secrets => {}
        }
    }
}
