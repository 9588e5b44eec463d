//! What is wrong with definitions of tools, as it is told to people.

use toolcrib_config::{Problem, ServerSpec, clip};

use super::pinning::ChangedDefinition;
use super::slot::placed;

const CODE: &str = "definition.changed";
const UNREADABLE: &str = "pins.unreadable";
const UNWRITTEN: &str = "pins.unwritten";
const FULL: &str = "pins.full";

const SEE_TO_IT: &str = "see to the store in the state folder; it is tried again";

pub(super) fn problem(
    spec: &ServerSpec,
    changed: &ChangedDefinition,
    is_enforced: bool,
) -> Problem {
    let (name, server) = (clip(&changed.tool), &spec.id);
    let what = if is_enforced { ", so it is withheld" } else { "" };
    let text = format!(
        "tool `{name}` of `{server}` is not what it was when it was first seen{what}:\n{}",
        changed.difference
    );
    let problem = match is_enforced {
        true => Problem::error(CODE, text),
        false => Problem::warning(CODE, text),
    };
    let fix = format!("if the change is right, accept it: `toolcrib accept {}`", changed.name);
    placed(problem, spec).tool(&changed.tool).fix(fix)
}

pub(super) fn and_more(spec: &ServerSpec, more: usize) -> Problem {
    let text = format!("{more} more tools of `{}` are not what they were", spec.id);
    let mut problem = placed(Problem::warning(CODE, text), spec).fix("see `toolcrib accept`");
    problem.id += ":more";
    problem
}

pub(super) fn unreadable(spec: &ServerSpec, why: &str, is_enforced: bool) -> Problem {
    let server = &spec.id;
    let problem = match is_enforced {
        true => Problem::error(
            UNREADABLE,
            format!(
                "nobody can tell whether the tools of `{server}` changed, so they are withheld: {why}"
            ),
        ),
        false => Problem::warning(
            UNREADABLE,
            format!("nobody can tell whether the tools of `{server}` changed: {why}"),
        ),
    };
    placed(problem, spec).fix(SEE_TO_IT)
}

pub(super) fn unwritten(spec: &ServerSpec, why: &str) -> Problem {
    let text = format!(
        "how the tools of `{}` are could not be written, so that another host will not know what changes: {why}",
        spec.id
    );
    placed(Problem::warning(UNWRITTEN, text), spec).fix(SEE_TO_IT)
}

pub(super) fn too_many(spec: &ServerSpec, excess: usize, is_enforced: bool) -> Problem {
    let limit = spec.policy.limits.pins;
    let text = format!(
        "`{}` has shown {limit} tools by now: {excess} of its tools are not remembered, so that nobody can tell \
         when they change",
        spec.id
    );
    let problem = match is_enforced {
        true => Problem::error(FULL, format!("{text}; they are withheld")),
        false => Problem::warning(FULL, text),
    };
    placed(problem, spec).fix(
        "see whether the server gives its tools new names all the time; if not, raise its `limits.pins`",
    )
}
