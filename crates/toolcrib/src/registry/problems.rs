//! What a plan tells people: each decision that leaves something out or renames it, with its place in the file.

use toolcrib_config::model::policy::OnUnavailable;
use toolcrib_config::{Origin, Problem, ServerSpec, Severity, clip};

use super::claims::Holder;
use super::dropped::{Dropped, List, Reason};
use super::server::Refusal;

/// The problem of one item that was left out; none where its server's problem says it all.
pub(super) fn dropped(spec: &ServerSpec, dropped: &Dropped) -> Option<Problem> {
    let rule = Rule::of(spec, dropped.rule()?);
    let (severity, code, fix) = match (&dropped.reason, dropped.list) {
        (Reason::Denied(pattern), _) => {
            let fix = format!("if it is wanted, change `{pattern}` in `{}`", rule.key);
            (Severity::Warning, "filter.denied", fix)
        }
        (Reason::NotAllowed, _) => {
            let fix = format!("if it is wanted, add it to `{}`", rule.key);
            (Severity::Warning, "filter.not_allowed", fix)
        }
        (Reason::MediaType(_), _) => {
            let fix = format!("if it is wanted, add its type to `{}`", rule.key);
            (Severity::Warning, "filter.media_type", fix)
        }
        (Reason::BadName(_), _) => {
            let fix = "rename it with a transform, or set `naming.validity` to `alias`";
            (Severity::Warning, "name.invalid", fix.to_owned())
        }
        (Reason::InvalidSchema(_), _) => (
            Severity::Warning,
            INVALID_SCHEMA,
            format!("mend it at the server, or set `{}`", rule.key),
        ),
        (Reason::Taken(_), List::Tool) => (Severity::Warning, "name.collision", APART.to_owned()),
        (Reason::Taken(_), _) => (Severity::Warning, "prompt.collision", APART.to_owned()),
        (Reason::OtherVersion(_), _) => {
            let fix = format!("if it is wanted, take it out of `{}`", rule.key);
            (Severity::Info, "tool.version.unused", fix)
        }
        (
            Reason::Off
            | Reason::Refused
            | Reason::Unaccepted
            | Reason::Unpinned
            | Reason::Away
            | Reason::Disabled,
            _,
        ) => return None,
    };
    let (list, name) = (dropped.list, clip(&dropped.original_name));
    let text = format!("{list} `{name}` of `{}` is not offered: {}", spec.id, dropped.reason);
    let problem = Problem::new(severity, code, text).fix(fix);
    let problem = match &dropped.reason {
        Reason::Taken(holder) => related(problem, holder),
        _ => problem,
    };
    Some(rule.place(problem, spec, dropped.list, &dropped.original_name))
}

/// A server of which nothing is offered.
pub(super) fn refused(spec: &ServerSpec, refusal: &Refusal) -> Problem {
    let (code, fix) = match refusal {
        Refusal::Toolset { .. } => ("toolset.collision", "give the server another id or `toolset`"),
        Refusal::Tool { .. } => ("name.collision", APART),
        Refusal::NoTools { .. } => (
            "server.no_tools",
            "see whether its filters leave anything, or set `discovery.require_tools` to `false`",
        ),
    };
    let problem = Problem::error(code, refusal.to_string()).fix(fix);
    let problem = match refusal {
        Refusal::Toolset { holder, .. } | Refusal::Tool { holder, .. } => related(problem, holder),
        Refusal::NoTools { .. } => problem,
    };
    let rule = Rule::of(spec, refusal.rule());
    match refusal {
        Refusal::Tool { tool, .. } => rule.place(problem, spec, List::Tool, tool),
        _ => rule.at(problem, spec, ""),
    }
}

/// Two ids that would be the same name for a model.
pub(super) fn told_apart(
    spec: &ServerSpec,
    tool: &str,
    (wanted, given): (&str, &str),
    holder: &Holder,
) -> Problem {
    let text = format!(
        "models know tool `{}` of `{}` as `{given}`, not as `{}`: {holder}",
        clip(tool),
        spec.id,
        clip(wanted)
    );
    let problem = Problem::new(Severity::Info, "name.alias.collision", text)
        .fix("nothing needs doing; a transform would give it a name that reads better");
    Rule::of(spec, "naming.validity").place(related(problem, holder), spec, List::Tool, tool)
}

pub(super) fn version_missing(
    spec: &ServerSpec,
    tool: &str,
    wanted: &str,
    used: Option<&str>,
) -> Problem {
    let instead = match used {
        Some(used) => format!("`{}` is used", clip(used)),
        None => "nothing takes its place".to_owned(),
    };
    let text = format!("`{}` has no version `{wanted}` of tool `{tool}`; {instead}", spec.id);
    let problem = Problem::warning("tool.version.missing", text)
        .fix("pin a version that the server has, or remove the pin");
    Rule::of(spec, "naming.versions").place(problem, spec, List::Tool, tool)
}

/// A tool that is offered although its schema is no JSON Schema.
pub(super) fn invalid_schema(spec: &ServerSpec, tool: &str, reason: &str) -> Problem {
    let text = format!(
        "tool `{}` of `{}` has a schema that is no JSON Schema: {}",
        clip(tool),
        spec.id,
        clip(reason)
    );
    let rule = Rule::of(spec, "discovery.invalid_schemas");
    let fix =
        "mend it at the server, or set `discovery.invalid_schemas: withhold` to leave the tool out";
    rule.place(Problem::warning(INVALID_SCHEMA, text).fix(fix), spec, List::Tool, tool)
}

/// A URI that an earlier server has too.
pub(super) fn same_uri(spec: &ServerSpec, list: List, uri: &str, holder: &Holder) -> Problem {
    let text = format!(
        "{list} `{}` of `{}` is not the only one of its URI: {holder}, and is asked first",
        clip(uri),
        spec.id
    );
    let problem = Problem::warning("uri.collision", text)
        .fix("name the server to reach this one, or leave it out with `expose.resources.deny`");
    Rule::of(spec, "expose.resources").place(related(problem, holder), spec, list, uri)
}

/// A server that is gone for now, and what becomes of its tools.
pub(super) fn away(spec: &ServerSpec) -> Problem {
    let meanwhile = match spec.policy.availability.on_unavailable {
        OnUnavailable::Unregister => "what it offers is gone and its names are free",
        OnUnavailable::Hide => "what it offers is hidden",
        OnUnavailable::Keep => "what it offers stays listed and does not answer",
    };
    let text = format!("server `{}` is away; meanwhile {meanwhile}", spec.id);
    let problem = Problem::new(Severity::Info, "server.away", text)
        .fix("nothing needs doing if it comes back; else see its own problems");
    Rule::of(spec, "availability.on_unavailable").at(problem, spec, "")
}

/// A native tool or toolset whose name another one has.
pub(super) fn native(code: &str, what: &str, name: &str, holder: &Holder) -> Problem {
    let text = format!("native {what} `{}` is not offered: {holder}", clip(name));
    let mut problem = Problem::error(code, text).fix("register it by another name");
    problem.id = format!("{code}:native:{what}:{name}");
    problem
}

/// Notes the server that a problem's text names as the holder of a name.
fn related(problem: Problem, holder: &Holder) -> Problem {
    match holder {
        Holder::Server(key) => problem.related(key),
        Holder::Reserved | Holder::Native(_) => problem,
    }
}

const INVALID_SCHEMA: &str = "tool.schema.invalid";

const APART: &str =
    "tell them apart with `naming.transforms` or `naming.template`, or leave one out";

/// A setting, and where it was made: in a file, or by leaving it out.
struct Rule {
    key: String,
    origin: Option<Origin>,
}

impl Rule {
    fn of(spec: &ServerSpec, native: &str) -> Self {
        match spec.origins.of(native) {
            Origin::File { source, place, key } => {
                Rule { key: key.clone(), origin: Some(Origin::File { source, place, key }) }
            }
            Origin::Profile(_) | Origin::Override(_) => {
                Rule { key: native.to_owned(), origin: None }
            }
        }
    }

    fn place(&self, problem: Problem, spec: &ServerSpec, list: List, item: &str) -> Problem {
        let item = clip(item);
        match list {
            List::Tool => self.at(problem, spec, "").tool(&item),
            _ => self.at(problem, spec, &format!(":{list}:{item}")),
        }
    }

    /// At the setting, else at the server, whose profile made it.
    fn at(&self, problem: Problem, spec: &ServerSpec, item: &str) -> Problem {
        let problem = match &self.origin {
            Some(Origin::File { source, place, key }) => {
                problem.at(source, *place, &format!("{key}{item}"))
            }
            _ => problem.at(&spec.source, spec.place, &format!("{}{item}", spec.id)),
        };
        problem.server(&spec.id)
    }
}
