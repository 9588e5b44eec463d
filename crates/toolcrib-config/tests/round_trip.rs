//! What `explain` writes is a native file that says the same.

mod generated;

use std::collections::BTreeSet;

use generated::{Files, Secrets, compile_in, files};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use toolcrib_config::{Config, Dialect, Named, Show};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_explain_reveals_compiles_to_the_same(files in files(Secrets::Odd)) {
        check(&files)?;
    }
}

fn check(files: &Files) -> Result<(), TestCaseError> {
    let first = files.compile();
    let text = first.explain(Show::Revealed);
    let named = Named { path: "/else/where.yaml".into(), dialect: Some(Dialect::Native) };
    let again =
        compile_in(Some(named), [("/else/where.yaml".to_string(), text.clone())].into_iter());
    let news: Vec<_> = errors(&again).difference(&errors(&first)).cloned().collect();
    prop_assert!(news.is_empty(), "{:?}\n{}", news, text);
    prop_assert_eq!(&again.host, &first.host, "{}", text);
    prop_assert_eq!(&again.gateway, &first.gateway, "{}", text);
    prop_assert_eq!(&again.inputs, &first.inputs, "{}", text);
    for (was, is) in first.servers.iter().zip(&again.servers) {
        prop_assert_eq!(&is.id, &was.id, "{}", text);
        prop_assert_eq!(&is.transport, &was.transport, "{}", text);
        prop_assert_eq!(&is.policy, &was.policy, "{}", text);
        prop_assert_eq!(&is.extras, &was.extras, "{}", text);
        prop_assert_eq!(&is.hash, &was.hash, "{}", text);
    }
    prop_assert!(first.same_as(&again), "{}", text);
    prop_assert_eq!(
        again.explain(Show::Masked).lines().count(),
        first.explain(Show::Masked).lines().count()
    );
    Ok(())
}

/// Errors by code and server: the places differ.
fn errors(config: &Config) -> BTreeSet<(String, Option<String>)> {
    let errors = config.problems.iter().filter(|problem| problem.is_error());
    errors.map(|problem| (problem.code.clone(), problem.server.clone())).collect()
}

/// Otherwise the property above would hold of nothing.
#[test]
fn most_generated_servers_are_accepted() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut servers = std::collections::BTreeMap::new();
    for _ in 0..500 {
        let files = files(Secrets::Odd).new_tree(&mut runner).unwrap().current();
        let config = files.compile();
        let (made, lost) = servers.entry(files.dialect.as_str()).or_insert((0, 0));
        *made += config.servers.len();
        *lost += config.rejected.len();
    }
    assert_eq!(servers.len(), Dialect::WORDS.len());
    for (dialect, (made, lost)) in servers {
        assert!(made > 10 && made * 4 > lost, "{dialect}: {made} accepted, {lost} rejected");
    }
}
