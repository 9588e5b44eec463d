//! No value that may be a secret shows where nobody asked for it.

mod generated;

use generated::{CANARIES, Secrets, files};
use proptest::prelude::*;
use toolcrib_config::{Show, Standing};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_secret_is_told_unasked(files in files(Secrets::Canaries), cut in proptest::option::weighted(0.2, any::<prop::sample::Index>())) {
        let mut files = files;
        // A file that breaks off somewhere is told of by a parser, which may quote what it found.
        if let (Some(cut), Some((_, text))) = (cut, files.files.first_mut()) {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.truncate(ends[cut.index(ends.len())]);
        }
        let mut config = files.compile();
        // As if it had been found: then all of it needs trust.
        config.servers.iter_mut().for_each(|spec| spec.standing = Standing::Found);
        let mut shown = vec![
            ("explain", config.explain(Show::Masked)),
            ("native", config.native(Show::Masked).to_string()),
            ("debug", format!("{config:?}")),
        ];
        for spec in &config.servers {
            shown.push(("origins", serde_json::to_string(&config.origins(spec)).unwrap()));
            shown.push(("explain_server", config.explain_server(spec, Show::Masked)));
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
