//! What goes wrong while a host serves, on standard error: each error once, for as long as it is there.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;
use toolcrib::Host;
use toolcrib_config::{Problem, Severity};

use crate::out::Out;
use crate::shown::lines;

/// How often is looked. Who listens to a host hears of every call, which costs more.
const LOOK: Duration = Duration::from_secs(1);

/// Never ends.
pub(crate) async fn tell(host: &Host, out: &Out) {
    let mut known = BTreeSet::new();
    loop {
        let problems = host.problems();
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let now: BTreeSet<String> = errors.clone().map(|problem| problem.id.clone()).collect();
        errors.filter(|it| !known.contains(&it.id)).for_each(|it| out.error(&lines(&line(it))));
        known = now;
        sleep(LOOK).await;
    }
}

/// `toolcrib.yaml:6:31: server `docs`: what is wrong; what to do`, as far as all that is known.
fn line(problem: &Problem) -> String {
    let place = problem.source.as_ref().map(|source| match (problem.line, problem.column) {
        (Some(line), Some(column)) => format!("{source}:{line}:{column}: "),
        (Some(line), None) => format!("{source}:{line}: "),
        _ => format!("{source}: "),
    });
    let server = problem.server.as_ref().map(|server| format!("server `{server}`: "));
    let fix = problem.fix.as_ref().map(|fix| format!("; {fix}"));
    [place, server, Some(problem.text.clone()), fix].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_where_what_and_what_to_do() {
        let mut problem = Problem::new(Severity::Error, "env.missing", "`A` is not set");
        assert_eq!(line(&problem), "`A` is not set");
        problem.server = Some("docs".to_owned());
        problem.source = Some("toolcrib.yaml".to_owned());
        problem.fix = Some("set it".to_owned());
        assert_eq!(line(&problem), "toolcrib.yaml: server `docs`: `A` is not set; set it");
        (problem.line, problem.column) = (Some(6), Some(31));
        assert!(line(&problem).starts_with("toolcrib.yaml:6:31: server"));
    }
}
