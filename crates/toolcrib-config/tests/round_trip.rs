//! Property test: the output of `explain` compiles to the same configuration.

mod generated;

use std::collections::BTreeSet;

use generated::{GeneratedFiles, SecretTexts, compile_in, files};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use toolcrib_config::{Config, ConfigFile, Dialect, SecretVisibility};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn explain_output_compiles_to_the_same_configuration(files in files(SecretTexts::Odd)) {
        assert_round_trip(&files)?;
    }
}

fn assert_round_trip(files: &GeneratedFiles) -> Result<(), TestCaseError> {
    let first = files.compile();
    let text = first.explain(SecretVisibility::Revealed);
    let config_file =
        ConfigFile { path: "/else/where.yaml".into(), dialect: Some(Dialect::Native) };
    let again =
        compile_in(Some(config_file), [("/else/where.yaml".to_string(), text.clone())].into_iter());
    let news: Vec<_> = error_codes(&again).difference(&error_codes(&first)).cloned().collect();
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
    prop_assert!(first.is_equivalent(&again), "{}", text);
    prop_assert_eq!(
        again.explain(SecretVisibility::Masked).lines().count(),
        first.explain(SecretVisibility::Masked).lines().count()
    );
    Ok(())
}

/// Errors by code and server; locations differ.
fn error_codes(config: &Config) -> BTreeSet<(String, Option<String>)> {
    let errors = config.problems.iter().filter(|problem| problem.is_error());
    errors.map(|problem| (problem.code.clone(), problem.server.clone())).collect()
}

/// Guards against a vacuous property: most generated servers must compile.
#[test]
fn most_generated_servers_are_accepted() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut servers = std::collections::BTreeMap::new();
    for _ in 0..500 {
        let files = files(SecretTexts::Odd).new_tree(&mut runner).unwrap().current();
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
