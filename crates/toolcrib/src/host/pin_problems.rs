//! Builds the problems about pinned tool definitions.

use toolcrib_config::{Problem, ServerSpec, clip};

use super::pinning::ChangedDefinition;
use super::slot::with_location;

const CHANGED: &str = "definition.changed";
const UNREADABLE: &str = "pins.unreadable";
const UNWRITTEN: &str = "pins.unwritten";
const FULL: &str = "pins.full";

const STORE_FIX: &str = "check the store in the state folder; the host retries by itself";

pub(super) fn changed_definition(
    spec: &ServerSpec,
    changed: &ChangedDefinition,
    is_enforced: bool,
) -> Problem {
    let (name, server) = (clip(&changed.tool), &spec.id);
    let consequence = if is_enforced { ", so the tool is withheld" } else { "" };
    let text = format!(
        "the definition of tool `{name}` of `{server}` has changed{consequence}:\n{}",
        changed.difference
    );
    let problem = match is_enforced {
        true => Problem::error(CHANGED, text),
        false => Problem::warning(CHANGED, text),
    };
    let fix = format!("if the change is intended, accept it: `toolcrib accept {}`", changed.name);
    with_location(problem, spec).tool(&changed.tool).fix(fix)
}

pub(super) fn more_changed_definitions(spec: &ServerSpec, more: usize) -> Problem {
    let text = format!("the definitions of {more} more tools of `{}` have changed", spec.id);
    let mut problem =
        with_location(Problem::warning(CHANGED, text), spec).fix("see `toolcrib accept`");
    problem.id += ":more";
    problem
}

pub(super) fn unreadable_pins(spec: &ServerSpec, why: &str, is_enforced: bool) -> Problem {
    let server = &spec.id;
    let problem = match is_enforced {
        true => Problem::error(
            UNREADABLE,
            format!(
                "cannot check the tools of `{server}` for changes, so they are withheld: {why}"
            ),
        ),
        false => Problem::warning(
            UNREADABLE,
            format!("cannot check the tools of `{server}` for changes: {why}"),
        ),
    };
    with_location(problem, spec).fix(STORE_FIX)
}

pub(super) fn unwritten_pins(spec: &ServerSpec, why: &str) -> Problem {
    let text = format!(
        "cannot store the tool definitions of `{}`, so another host will not detect changes: {why}",
        spec.id
    );
    with_location(Problem::warning(UNWRITTEN, text), spec).fix(STORE_FIX)
}

pub(super) fn too_many_tools(spec: &ServerSpec, excess: usize, is_enforced: bool) -> Problem {
    let limit = spec.policy.limits.pins;
    let text = format!(
        "`{}` has reached its limit of {limit} pinned tools (`limits.pins`): {excess} of its tools are not \
         pinned, so changes of their definitions are not detected",
        spec.id
    );
    let problem = match is_enforced {
        true => Problem::error(FULL, format!("{text}; they are withheld")),
        false => Problem::warning(FULL, text),
    };
    with_location(problem, spec)
        .fix("check whether the server keeps renaming its tools; if not, raise `limits.pins`")
}
