//! Property test: masked output never contains a value that may be a secret.

mod generated;

use generated::{CANARIES, SecretTexts, files};
use proptest::prelude::*;
use toolcrib_config::{SecretVisibility, ServerTrust};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn masked_output_contains_no_secret(files in files(SecretTexts::Canaries), cut in proptest::option::weighted(0.2, any::<prop::sample::Index>())) {
        let mut files = files;
        // A truncated file causes a parser error, and the parser may quote the text.
        if let (Some(cut), Some((_, text))) = (cut, files.files.first_mut()) {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.truncate(ends[cut.index(ends.len())]);
        }
        let mut config = files.compile();
        // Marks the servers as discovered, so that every launch needs trust and is described.
        config.servers.iter_mut().for_each(|spec| spec.trust = ServerTrust::Discovered);
        let mut shown = vec![
            ("explain", config.explain(SecretVisibility::Masked)),
            ("native", config.native(SecretVisibility::Masked).to_string()),
            ("debug", format!("{config:?}")),
        ];
        for spec in &config.servers {
            shown.push(("origins", serde_json::to_string(&config.origins(spec)).unwrap()));
            shown.push(("explain_server", config.explain_server(spec, SecretVisibility::Masked)));
            shown.push(("debug", format!("{spec:?}")));
        }
        for launch in config.launches() {
            shown.push(("launch", format!("{launch:?}")));
        }
        for problem in &config.problems {
            shown.push(("problem", serde_json::to_string(problem).unwrap()));
        }
        for (what, text) in shown {
            for canary in CANARIES {
                let line = text.lines().find(|line| line.contains(canary));
                prop_assert!(line.is_none(), "{} shows {:?}", what, line.map(|l| l.chars().take(600).collect::<String>()));
            }
        }
    }
}
