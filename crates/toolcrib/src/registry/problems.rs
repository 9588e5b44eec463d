//! Problems of a plan: each dropped or renamed item with its location in the configuration.

use toolcrib_config::model::policy::OnUnavailable;
use toolcrib_config::{Problem, ServerSpec, Severity, ValueOrigin, clip};

use super::dropped_items::{DropReason, DroppedItem, ItemKind};
use super::name_claims::NameHolder;
use super::registered_server::ServerRefusal;

/// Returns the problem of a dropped item. `None` if its server's problem covers it.
pub(super) fn dropped_item(spec: &ServerSpec, dropped: &DroppedItem) -> Option<Problem> {
    let rule = RuleSource::new(spec, dropped.rule()?);
    let (severity, code, fix) = match (&dropped.reason, dropped.kind) {
        (DropReason::Denied(pattern), _) => {
            let fix = format!("to offer it, change `{pattern}` in `{}`", rule.key);
            (Severity::Warning, "filter.denied", fix)
        }
        (DropReason::NotAllowed, _) => {
            let fix = format!("to offer it, add it to `{}`", rule.key);
            (Severity::Warning, "filter.not_allowed", fix)
        }
        (DropReason::MediaType(_), _) => {
            let fix = format!("to offer it, add its type to `{}`", rule.key);
            (Severity::Warning, "filter.media_type", fix)
        }
        (DropReason::InvalidName(_), _) => {
            let fix = "rename it with a transform, or set `naming.validity` to `alias`";
            (Severity::Warning, "name.invalid", fix.to_owned())
        }
        (DropReason::InvalidSchema(_), _) => (
            Severity::Warning,
            INVALID_SCHEMA,
            format!("fix the schema at the server, or set `{}`", rule.key),
        ),
        (DropReason::Taken(_), ItemKind::Tool) => {
            (Severity::Warning, "name.collision", RENAME_FIX.to_owned())
        }
        (DropReason::Taken(_), _) => (Severity::Warning, "prompt.collision", RENAME_FIX.to_owned()),
        (DropReason::OtherVersion(_), _) => {
            let fix = format!("to offer it, remove it from `{}`", rule.key);
            (Severity::Info, "tool.version.unused", fix)
        }
        (
            DropReason::Off
            | DropReason::Refused
            | DropReason::Unaccepted
            | DropReason::Unpinned
            | DropReason::Away
            | DropReason::Disabled,
            _,
        ) => return None,
    };
    let (kind, name) = (dropped.kind, clip(&dropped.original_name));
    let text = format!("{kind} `{name}` of `{}` is not offered: {}", spec.id, dropped.reason);
    let problem = Problem::new(severity, code, text).fix(fix);
    let problem = match &dropped.reason {
        DropReason::Taken(holder) => with_related_holder(problem, holder),
        _ => problem,
    };
    Some(rule.locate_item(problem, spec, dropped.kind, &dropped.original_name))
}

/// Reports a server that was refused as a whole.
pub(super) fn server_refused(spec: &ServerSpec, refusal: &ServerRefusal) -> Problem {
    let (code, fix) = match refusal {
        ServerRefusal::Toolset { .. } => {
            ("toolset.collision", "give the server another id or `toolset`")
        }
        ServerRefusal::Tool { .. } => ("name.collision", RENAME_FIX),
        ServerRefusal::NoTools { .. } => {
            ("server.no_tools", "check its filters, or set `discovery.require_tools` to `false`")
        }
    };
    let problem = Problem::error(code, refusal.to_string()).fix(fix);
    let problem = match refusal {
        ServerRefusal::Toolset { holder, .. } | ServerRefusal::Tool { holder, .. } => {
            with_related_holder(problem, holder)
        }
        ServerRefusal::NoTools { .. } => problem,
    };
    let rule = RuleSource::new(spec, refusal.rule());
    match refusal {
        ServerRefusal::Tool { tool, .. } => rule.locate_item(problem, spec, ItemKind::Tool, tool),
        _ => rule.locate(problem, spec, ""),
    }
}

/// Reports a tool whose name for models was taken.
pub(super) fn alias_collision(
    spec: &ServerSpec,
    tool: &str,
    (wanted, given): (&str, &str),
    holder: &NameHolder,
) -> Problem {
    let text = format!(
        "tool `{}` of `{}` has the model name `{given}` instead of `{}`, which is {holder}",
        clip(tool),
        spec.id,
        clip(wanted)
    );
    let problem = Problem::new(Severity::Info, "name.alias.collision", text)
        .fix("no action is needed; a transform can give the tool a more readable name");
    RuleSource::new(spec, "naming.validity").locate_item(
        with_related_holder(problem, holder),
        spec,
        ItemKind::Tool,
        tool,
    )
}

pub(super) fn version_missing(
    spec: &ServerSpec,
    tool: &str,
    wanted: &str,
    used: Option<&str>,
) -> Problem {
    let instead = match used {
        Some(used) => format!("`{}` is used", clip(used)),
        None => "no other version is used".to_owned(),
    };
    let text = format!("`{}` has no version `{wanted}` of tool `{tool}`; {instead}", spec.id);
    let problem = Problem::warning("tool.version.missing", text)
        .fix("pin a version that the server has, or remove the pin");
    RuleSource::new(spec, "naming.versions").locate_item(problem, spec, ItemKind::Tool, tool)
}

/// Reports a tool that is offered although its schema is invalid.
pub(super) fn invalid_schema(spec: &ServerSpec, tool: &str, reason: &str) -> Problem {
    let text = format!(
        "tool `{}` of `{}` has an invalid JSON Schema: {}",
        clip(tool),
        spec.id,
        clip(reason)
    );
    let rule = RuleSource::new(spec, "discovery.invalid_schemas");
    let fix = "fix the schema at the server, or set `discovery.invalid_schemas: withhold` to leave the tool out";
    rule.locate_item(Problem::warning(INVALID_SCHEMA, text).fix(fix), spec, ItemKind::Tool, tool)
}

/// Reports a URI that an earlier server has too.
pub(super) fn uri_collision(
    spec: &ServerSpec,
    kind: ItemKind,
    uri: &str,
    holder: &NameHolder,
) -> Problem {
    let text = format!(
        "the URI of {kind} `{}` of `{}` is {holder}, which is asked first",
        clip(uri),
        spec.id
    );
    let problem = Problem::warning("uri.collision", text)
        .fix("name the server in requests for this one, or drop it with `expose.resources.deny`");
    RuleSource::new(spec, "expose.resources").locate_item(
        with_related_holder(problem, holder),
        spec,
        kind,
        uri,
    )
}

/// Reports an unavailable server and the effect on its items.
pub(super) fn server_away(spec: &ServerSpec) -> Problem {
    let effect = match spec.policy.availability.on_unavailable {
        OnUnavailable::Unregister => "its items are unregistered and their names are free",
        OnUnavailable::Hide => "its items are hidden",
        OnUnavailable::Keep => "its items stay listed and calls fail",
    };
    let text = format!("server `{}` is unavailable: {effect}", spec.id);
    let problem = Problem::new(Severity::Info, "server.away", text)
        .fix("no action is needed if it recovers; otherwise see the server's other problems");
    RuleSource::new(spec, "availability.on_unavailable").locate(problem, spec, "")
}

/// Reports a native tool or toolset whose name is taken.
pub(super) fn native_collision(code: &str, what: &str, name: &str, holder: &NameHolder) -> Problem {
    let text = format!("native {what} `{}` is not offered: its name is {holder}", clip(name));
    let mut problem = Problem::error(code, text).fix("register it under another name");
    problem.id = format!("{code}:native:{what}:{name}");
    problem
}

/// Adds the server that holds a name to the problem's related servers.
fn with_related_holder(problem: Problem, holder: &NameHolder) -> Problem {
    match holder {
        NameHolder::Server(key) => problem.related(key),
        NameHolder::Reserved | NameHolder::Native(_) => problem,
    }
}

const INVALID_SCHEMA: &str = "tool.schema.invalid";

const RENAME_FIX: &str =
    "rename one with `naming.transforms` or `naming.template`, or filter it out";

/// A setting and its location in a file. Settings by default have no location.
struct RuleSource {
    key: String,
    origin: Option<ValueOrigin>,
}

impl RuleSource {
    fn new(spec: &ServerSpec, setting: &str) -> Self {
        match spec.origins.origin(setting) {
            ValueOrigin::File { source, location, key } => RuleSource {
                key: key.clone(),
                origin: Some(ValueOrigin::File { source, location, key }),
            },
            ValueOrigin::Profile(_) | ValueOrigin::Override(_) => {
                RuleSource { key: setting.to_owned(), origin: None }
            }
        }
    }

    fn locate_item(
        &self,
        problem: Problem,
        spec: &ServerSpec,
        kind: ItemKind,
        item: &str,
    ) -> Problem {
        let item = clip(item);
        match kind {
            ItemKind::Tool => self.locate(problem, spec, "").tool(&item),
            _ => self.locate(problem, spec, &format!(":{kind}:{item}")),
        }
    }

    /// Sets the location of a problem: the setting, or the server if its profile made the setting.
    fn locate(&self, problem: Problem, spec: &ServerSpec, item: &str) -> Problem {
        let problem = match &self.origin {
            Some(ValueOrigin::File { source, location, key }) => {
                problem.at(source, *location, &format!("{key}{item}"))
            }
            _ => problem.at(&spec.source, spec.location, &format!("{}{item}", spec.id)),
        };
        problem.server(&spec.id)
    }
}
