//! Conversations that open: what real servers answer, and what is said next.

use proptest::prelude::*;
use toolcrib_wire::{Limits, code};

use super::*;

const MODERN: &str =
    r#"{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{"tools":{}}}"#;
const LEGACY: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}}}"#;

fn raw(text: &str) -> Raw {
    Raw::parse(text, &Limits::default()).unwrap()
}

fn discovered(text: &str) -> Heard {
    Heard::Discovered(Ok(raw(text)))
}

fn initialized(text: &str) -> Heard {
    Heard::Initialized(Ok(raw(text)))
}

fn no_discover(code: i64) -> Heard {
    Heard::Discovered(Err(RpcError::new(code, "no")))
}

fn no_initialize(code: i64) -> Heard {
    Heard::Initialized(Err(RpcError::new(code, "no")))
}

/// What is said to each word that is heard.
fn tell(probe: &mut Probe, heard: Vec<Heard>) -> Vec<String> {
    heard.into_iter().map(|heard| line(probe.hear(heard))).collect()
}

fn line(next: Next) -> String {
    match next {
        Next::Discover(version) => format!("discover {version}"),
        Next::Initialize(version) => format!("initialize {version}"),
        Next::Respawn => "respawn".to_owned(),
        Next::OpenStream => "get".to_owned(),
        Next::Wait => "wait".to_owned(),
        Next::Decided(agreed) => format!("{} {}", agreed.era.name(), agreed.version),
        Next::Failed(error) => format!("failed: {error}"),
    }
}

fn check(protocol: Protocol, channel: Channel, heard: Vec<Heard>, expected: &[&str]) {
    let shown = format!("{protocol:?} {heard:?}");
    let mut probe = Probe::new(&protocol, channel, None);
    let heard = std::iter::once(Heard::Open).chain(heard).collect();
    assert_eq!(tell(&mut probe, heard), expected, "{shown}");
}

fn stream(heard: Vec<Heard>, expected: &[&str]) {
    check(Protocol::Auto, Channel::Shared, heard, expected);
}

fn http(heard: Vec<Heard>, expected: &[&str]) {
    check(Protocol::Auto, Channel::Http, heard, expected);
}

#[test]
fn a_modern_server_is_modern() {
    stream(vec![discovered(MODERN)], &["discover 2026-07-28", "modern 2026-07-28"]);
    http(vec![discovered(MODERN)], &["discover 2026-07-28", "modern 2026-07-28"]);
}

#[test]
fn any_other_error_means_legacy() {
    // -32601 as the TypeScript SDK answers, -32602 as Python's 1.x does, and whatever else comes to mind.
    for code in [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INTERNAL_ERROR, -32000, 7] {
        stream(
            vec![no_discover(code), initialized(LEGACY)],
            &["discover 2026-07-28", "initialize 2025-11-25", "legacy 2025-06-18"],
        );
    }
    // Answers that are none: nonsense, or no version of the modern era.
    for text in ["{}", "null", r#"{"supportedVersions":["2025-06-18"]}"#] {
        stream(
            vec![discovered(text), initialized(LEGACY)],
            &["discover 2026-07-28", "initialize 2025-11-25", "legacy 2025-06-18"],
        );
    }
}

#[test]
fn silence_asks_the_other_question_and_the_first_good_answer_decides() {
    let start = ["discover 2026-07-28", "initialize 2025-11-25"];
    for (heard, expected) in [
        (vec![initialized(LEGACY), discovered(MODERN)], ["legacy 2025-06-18", "wait"]),
        (vec![discovered(MODERN), no_initialize(-32022)], ["modern 2026-07-28", "wait"]),
        (vec![no_discover(-32601), initialized(LEGACY)], ["wait", "legacy 2025-06-18"]),
        (vec![no_initialize(-32022), discovered(MODERN)], ["wait", "modern 2026-07-28"]),
        (
            vec![no_initialize(-32600), no_discover(-32601)],
            ["wait", "failed: the server refused `initialize`"],
        ),
        (vec![Heard::Silence, initialized(LEGACY)], ["wait", "legacy 2025-06-18"]),
    ] {
        let heard = std::iter::once(Heard::Silence).chain(heard).collect();
        stream(heard, &[&start[..], &expected[..]].concat());
    }
}

#[test]
fn a_modern_server_that_refuses_the_version_is_asked_for_another_or_told_of() {
    let refuse = |versions: &[&str]| {
        let versions: Vec<_> = versions.iter().map(|v| Version::from(*v)).collect();
        Heard::Discovered(Err(RpcError::unsupported_version(&Version::NEWEST, &versions)))
    };
    stream(
        vec![refuse(&["2027-01-01"])],
        &[
            "discover 2026-07-28",
            "failed: the server speaks `2027-01-01`, and none of these versions can be used",
        ],
    );
    // It names what it refused: it is asked once more, and not for ever.
    stream(
        vec![refuse(&["2026-07-28"]), discovered(MODERN)],
        &["discover 2026-07-28", "discover 2026-07-28", "modern 2026-07-28"],
    );
    stream(
        vec![refuse(&["2026-07-28"]), refuse(&["2026-07-28"])],
        &[
            "discover 2026-07-28",
            "discover 2026-07-28",
            "failed: the server speaks `2026-07-28`, and none of these versions can be used",
        ],
    );
    stream(
        vec![refuse(&["2027-01-01", "2025-06-18"]), initialized(LEGACY)],
        &["discover 2026-07-28", "initialize 2025-11-25", "legacy 2025-06-18"],
    );
    // A modern error is no invitation to `initialize`.
    for code in [code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY, code::UNSUPPORTED_VERSION]
    {
        stream(
            vec![no_discover(code)],
            &["discover 2026-07-28", "failed: the server refused `server/discover`"],
        );
    }
}

#[test]
fn only_a_server_that_ended_is_started_again_and_only_once() {
    stream(
        vec![Heard::Exited, Heard::Open, initialized(LEGACY)],
        &["discover 2026-07-28", "respawn", "initialize 2025-11-25", "legacy 2025-06-18"],
    );
    stream(
        vec![Heard::Exited, Heard::Open, Heard::Exited],
        &[
            "discover 2026-07-28",
            "respawn",
            "initialize 2025-11-25",
            "failed: the server ended during the handshake",
        ],
    );
    check(
        Protocol::Legacy,
        Channel::Shared,
        vec![Heard::Exited],
        &["initialize 2025-11-25", "failed: the server ended during the handshake"],
    );
}

#[test]
fn dis_12_and_min_04_legacy_offers_the_newest_and_takes_any_older_one() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        check(
            Protocol::Legacy,
            Channel::Shared,
            vec![initialized(&format!(r#"{{"protocolVersion":"{version}"}}"#))],
            &["initialize 2025-11-25", &format!("legacy {version}")],
        );
    }
    for (version, reason) in [
        ("2024-10-07", "is not known here"),
        ("2030-01-01", "is not known here"),
        ("2026-07-28", "does not begin with `initialize`"),
    ] {
        check(
            Protocol::Legacy,
            Channel::Shared,
            vec![initialized(&format!(r#"{{"protocolVersion":"{version}"}}"#))],
            &[
                "initialize 2025-11-25",
                &format!(
                    "failed: the server answers with protocol version `{version}`, which {reason}"
                ),
            ],
        );
    }
}

#[test]
fn one_configured_version_is_the_only_one() {
    let only = |version: &str| Protocol::Version(version.to_owned());
    check(
        only("2025-03-26"),
        Channel::Shared,
        vec![initialized(LEGACY)],
        &[
            "initialize 2025-03-26",
            "failed: the server answers with protocol version `2025-06-18`, which is not the one that is configured",
        ],
    );
    check(
        only("2025-06-18"),
        Channel::Shared,
        vec![initialized(LEGACY)],
        &["initialize 2025-06-18", "legacy 2025-06-18"],
    );
    check(
        only("2026-07-28"),
        Channel::Shared,
        vec![discovered(MODERN)],
        &["discover 2026-07-28", "modern 2026-07-28"],
    );
    check(
        only("2031-01-01"),
        Channel::Shared,
        vec![],
        &["failed: protocol version `2031-01-01` is not known here"],
    );
}

#[test]
fn modern_never_falls_back() {
    check(
        Protocol::Modern,
        Channel::Shared,
        vec![Heard::Silence, no_discover(-32601)],
        &["discover 2026-07-28", "wait", "failed: the server refused `server/discover`"],
    );
    check(
        Protocol::Modern,
        Channel::Http,
        vec![Heard::Refused],
        &[
            "discover 2026-07-28",
            "failed: the address takes neither a POST nor a GET of an event stream",
        ],
    );
}

#[test]
fn http_tries_modern_then_initialize_then_the_old_event_stream() {
    let post = ["discover 2026-07-28", "initialize 2025-11-25"];
    http(vec![Heard::Refused, initialized(LEGACY)], &[&post[..], &["legacy 2025-06-18"]].concat());
    http(
        vec![no_discover(-32601), initialized(LEGACY)],
        &[&post[..], &["legacy 2025-06-18"]].concat(),
    );
    http(
        vec![Heard::Refused, Heard::Refused, Heard::Open, no_discover(-32601), initialized(LEGACY)],
        &[&post[..], &["get"], &post[..], &["legacy 2025-06-18"]].concat(),
    );
    http(
        vec![Heard::Refused, Heard::Refused, Heard::NoStream],
        &[
            &post[..],
            &["get", "failed: the address takes neither a POST nor a GET of an event stream"],
        ]
        .concat(),
    );
    // A slow answer has its own stream: there is no reason to ask twice.
    http(
        vec![Heard::Silence, discovered(MODERN)],
        &["discover 2026-07-28", "wait", "modern 2026-07-28"],
    );
    check(
        Protocol::Legacy,
        Channel::Http,
        vec![Heard::Refused, Heard::Open, initialized(LEGACY)],
        &["initialize 2025-11-25", "get", "initialize 2025-11-25", "legacy 2025-06-18"],
    );
}

#[test]
fn what_was_spoken_before_is_spoken_again() {
    for (era, said) in
        [(Era::Legacy, "initialize 2025-11-25"), (Era::Modern, "discover 2026-07-28")]
    {
        let mut probe = Probe::new(&Protocol::Auto, Channel::Shared, Some(era));
        assert_eq!(tell(&mut probe, vec![Heard::Open]), [said]);
    }
}

#[test]
fn what_is_agreed_carries_the_answer_whole() {
    let mut probe = Probe::new(&Protocol::Auto, Channel::Shared, None);
    probe.hear(Heard::Open);
    let Next::Decided(agreed) = probe.hear(discovered(MODERN)) else {
        panic!("modern");
    };
    assert!(agreed.capabilities.tools());
    assert_eq!(agreed.answer.text(), MODERN);
    let mut probe = Probe::new(&Protocol::Legacy, Channel::Shared, None);
    probe.hear(Heard::Open);
    let Next::Decided(agreed) = probe.hear(initialized(LEGACY)) else {
        panic!("legacy");
    };
    assert!(agreed.capabilities.prompts());
    assert_eq!(agreed.answer.text(), LEGACY);
}

#[test]
fn only_a_server_that_ended_may_do_better_next_time() {
    for (error, kind) in [
        (ProbeError::Exited, FailureKind::Connection),
        (ProbeError::NotOurs("x".to_owned()), FailureKind::Config),
        (ProbeError::NoEndpoint, FailureKind::Protocol),
    ] {
        assert_eq!(error.kind(), kind);
    }
}

fn any_heard() -> impl Strategy<Value = Heard> {
    let versions = Version::KNOWN.to_vec();
    let refusal = RpcError::unsupported_version(&Version::NEWEST, &versions);
    prop::sample::select(vec![
        Heard::Open,
        discovered(MODERN),
        discovered("[]"),
        Heard::Discovered(Err(refusal)),
        no_discover(-32601),
        no_discover(-32022),
        initialized(LEGACY),
        initialized("{}"),
        no_initialize(-32601),
        Heard::Silence,
        Heard::Refused,
        Heard::NoStream,
        Heard::Exited,
    ])
}

proptest! {
    #[test]
    fn whatever_is_heard_it_ends_once_and_says_little(
        heard in prop::collection::vec(any_heard(), 0..30),
        http: bool,
    ) {
        let channel = if http { Channel::Http } else { Channel::Shared };
        let mut probe = Probe::new(&Protocol::Auto, channel, None);
        let (mut ended, mut respawns) = (0, 0);
        for heard in heard {
            match probe.hear(heard) {
                Next::Decided(_) | Next::Failed(_) => ended += 1,
                Next::Respawn => respawns += 1,
                Next::Wait => {}
                _ => prop_assert_eq!(ended, 0, "it went on after its end"),
            }
        }
        prop_assert!(ended <= 1 && respawns <= 1);
    }
}
