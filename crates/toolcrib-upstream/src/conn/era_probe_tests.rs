//! Tests of the era probe with the responses of real servers.

use proptest::prelude::*;
use toolcrib_wire::{MessageLimits, code};

use super::*;

const MODERN: &str =
    r#"{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{"tools":{}}}"#;
const LEGACY: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}}}"#;

fn raw(text: &str) -> RawJson {
    RawJson::parse(text, &MessageLimits::default()).unwrap()
}

fn discovered(text: &str) -> ProbeEvent {
    ProbeEvent::Discovered(Ok(raw(text)))
}

fn initialized(text: &str) -> ProbeEvent {
    ProbeEvent::Initialized(Ok(raw(text)))
}

fn no_discover(code: i64) -> ProbeEvent {
    ProbeEvent::Discovered(Err(RpcError::new(code, "no")))
}

fn no_initialize(code: i64) -> ProbeEvent {
    ProbeEvent::Initialized(Err(RpcError::new(code, "no")))
}

/// Feeds events into the probe and returns one line per action.
fn run_probe(probe: &mut EraProbe, event: Vec<ProbeEvent>) -> Vec<String> {
    event.into_iter().map(|event| action_line(probe.handle(event))).collect()
}

fn action_line(next: ProbeAction) -> String {
    match next {
        ProbeAction::Discover(version) => format!("discover {version}"),
        ProbeAction::Initialize(version) => format!("initialize {version}"),
        ProbeAction::Respawn => "respawn".to_owned(),
        ProbeAction::OpenEventStream => "get".to_owned(),
        ProbeAction::Wait => "wait".to_owned(),
        ProbeAction::Decided(agreed) => format!("{} {}", agreed.era.name(), agreed.version),
        ProbeAction::Failed(error) => format!("failed: {error}"),
    }
}

fn check(protocol: Protocol, channel: Channel, event: Vec<ProbeEvent>, expected: &[&str]) {
    let shown = format!("{protocol:?} {event:?}");
    let mut probe = EraProbe::new(&protocol, channel, None);
    let event = std::iter::once(ProbeEvent::Open).chain(event).collect();
    assert_eq!(run_probe(&mut probe, event), expected, "{shown}");
}

fn stream(event: Vec<ProbeEvent>, expected: &[&str]) {
    check(Protocol::Auto, Channel::Shared, event, expected);
}

fn http(event: Vec<ProbeEvent>, expected: &[&str]) {
    check(Protocol::Auto, Channel::Http, event, expected);
}

#[test]
fn modern_server_is_detected() {
    stream(vec![discovered(MODERN)], &["discover 2026-07-28", "modern 2026-07-28"]);
    http(vec![discovered(MODERN)], &["discover 2026-07-28", "modern 2026-07-28"]);
}

#[test]
fn other_errors_mean_legacy() {
    // The TypeScript SDK answers -32601, Python 1.x answers -32602, other servers anything.
    for code in [code::METHOD_NOT_FOUND, code::INVALID_PARAMS, code::INTERNAL_ERROR, -32000, 7] {
        stream(
            vec![no_discover(code), initialized(LEGACY)],
            &["discover 2026-07-28", "initialize 2025-11-25", "legacy 2025-06-18"],
        );
    }
    // Unusable responses: nonsense, or no modern version.
    for text in ["{}", "null", r#"{"supportedVersions":["2025-06-18"]}"#] {
        stream(
            vec![discovered(text), initialized(LEGACY)],
            &["discover 2026-07-28", "initialize 2025-11-25", "legacy 2025-06-18"],
        );
    }
}

#[test]
fn silence_sends_initialize_and_the_first_valid_response_decides() {
    let start = ["discover 2026-07-28", "initialize 2025-11-25"];
    for (event, expected) in [
        (vec![initialized(LEGACY), discovered(MODERN)], ["legacy 2025-06-18", "wait"]),
        (vec![discovered(MODERN), no_initialize(-32022)], ["modern 2026-07-28", "wait"]),
        (vec![no_discover(-32601), initialized(LEGACY)], ["wait", "legacy 2025-06-18"]),
        (vec![no_initialize(-32022), discovered(MODERN)], ["wait", "modern 2026-07-28"]),
        (
            vec![no_initialize(-32600), no_discover(-32601)],
            ["wait", "failed: the server refused `initialize`"],
        ),
        (vec![ProbeEvent::Silence, initialized(LEGACY)], ["wait", "legacy 2025-06-18"]),
    ] {
        let event = std::iter::once(ProbeEvent::Silence).chain(event).collect();
        stream(event, &[&start[..], &expected[..]].concat());
    }
}

#[test]
fn refused_modern_version_is_negotiated_or_reported() {
    let refuse = |versions: &[&str]| {
        let versions: Vec<_> = versions.iter().map(|v| Version::from(*v)).collect();
        ProbeEvent::Discovered(Err(RpcError::unsupported_version(&Version::NEWEST, &versions)))
    };
    stream(
        vec![refuse(&["2027-01-01"])],
        &[
            "discover 2026-07-28",
            "failed: no common protocol version: the server supports `2027-01-01`",
        ],
    );
    // The server names the refused version: it is tried once more, but not twice.
    stream(
        vec![refuse(&["2026-07-28"]), discovered(MODERN)],
        &["discover 2026-07-28", "discover 2026-07-28", "modern 2026-07-28"],
    );
    stream(
        vec![refuse(&["2026-07-28"]), refuse(&["2026-07-28"])],
        &[
            "discover 2026-07-28",
            "discover 2026-07-28",
            "failed: no common protocol version: the server supports `2026-07-28`",
        ],
    );
    stream(
        vec![refuse(&["2027-01-01", "2025-06-18"]), initialized(LEGACY)],
        &["discover 2026-07-28", "initialize 2025-11-25", "legacy 2025-06-18"],
    );
    // A modern error does not lead to `initialize`.
    for code in [code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY, code::UNSUPPORTED_VERSION]
    {
        stream(
            vec![no_discover(code)],
            &["discover 2026-07-28", "failed: the server refused `server/discover`"],
        );
    }
}

#[test]
fn exited_server_is_respawned_once() {
    stream(
        vec![ProbeEvent::Exited, ProbeEvent::Open, initialized(LEGACY)],
        &["discover 2026-07-28", "respawn", "initialize 2025-11-25", "legacy 2025-06-18"],
    );
    stream(
        vec![ProbeEvent::Exited, ProbeEvent::Open, ProbeEvent::Exited],
        &[
            "discover 2026-07-28",
            "respawn",
            "initialize 2025-11-25",
            "failed: the server exited during the handshake",
        ],
    );
    check(
        Protocol::Legacy,
        Channel::Shared,
        vec![ProbeEvent::Exited],
        &["initialize 2025-11-25", "failed: the server exited during the handshake"],
    );
}

#[test]
fn dis_12_and_min_04_legacy_offers_the_newest_version_and_accepts_older_ones() {
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        check(
            Protocol::Legacy,
            Channel::Shared,
            vec![initialized(&format!(r#"{{"protocolVersion":"{version}"}}"#))],
            &["initialize 2025-11-25", &format!("legacy {version}")],
        );
    }
    for (version, reason) in [
        ("2024-10-07", "is unknown"),
        ("2030-01-01", "is unknown"),
        ("2026-07-28", "does not use `initialize`"),
    ] {
        check(
            Protocol::Legacy,
            Channel::Shared,
            vec![initialized(&format!(r#"{{"protocolVersion":"{version}"}}"#))],
            &[
                "initialize 2025-11-25",
                &format!(
                    "failed: the server answered with protocol version `{version}`, which {reason}"
                ),
            ],
        );
    }
}

#[test]
fn configured_version_is_the_only_one_accepted() {
    let only = |version: &str| Protocol::Version(version.to_owned());
    check(
        only("2025-03-26"),
        Channel::Shared,
        vec![initialized(LEGACY)],
        &[
            "initialize 2025-03-26",
            "failed: the server answered with protocol version `2025-06-18`, which is not the configured one",
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
        &["failed: unknown protocol version `2031-01-01`"],
    );
}

#[test]
fn modern_protocol_never_falls_back() {
    check(
        Protocol::Modern,
        Channel::Shared,
        vec![ProbeEvent::Silence, no_discover(-32601)],
        &["discover 2026-07-28", "wait", "failed: the server refused `server/discover`"],
    );
    check(
        Protocol::Modern,
        Channel::Http,
        vec![ProbeEvent::HttpRefused],
        &[
            "discover 2026-07-28",
            "failed: the address accepts neither POST requests nor an event stream GET",
        ],
    );
}

#[test]
fn http_tries_modern_then_initialize_then_the_old_event_stream() {
    let post = ["discover 2026-07-28", "initialize 2025-11-25"];
    http(
        vec![ProbeEvent::HttpRefused, initialized(LEGACY)],
        &[&post[..], &["legacy 2025-06-18"]].concat(),
    );
    http(
        vec![no_discover(-32601), initialized(LEGACY)],
        &[&post[..], &["legacy 2025-06-18"]].concat(),
    );
    http(
        vec![
            ProbeEvent::HttpRefused,
            ProbeEvent::HttpRefused,
            ProbeEvent::Open,
            no_discover(-32601),
            initialized(LEGACY),
        ],
        &[&post[..], &["get"], &post[..], &["legacy 2025-06-18"]].concat(),
    );
    http(
        vec![ProbeEvent::HttpRefused, ProbeEvent::HttpRefused, ProbeEvent::NoEventStream],
        &[
            &post[..],
            &["get", "failed: the address accepts neither POST requests nor an event stream GET"],
        ]
        .concat(),
    );
    // Each HTTP request has its own response, so `initialize` is not sent as well.
    http(
        vec![ProbeEvent::Silence, discovered(MODERN)],
        &["discover 2026-07-28", "wait", "modern 2026-07-28"],
    );
    check(
        Protocol::Legacy,
        Channel::Http,
        vec![ProbeEvent::HttpRefused, ProbeEvent::Open, initialized(LEGACY)],
        &["initialize 2025-11-25", "get", "initialize 2025-11-25", "legacy 2025-06-18"],
    );
}

#[test]
fn known_era_is_tried_first() {
    for (era, said) in
        [(Era::Legacy, "initialize 2025-11-25"), (Era::Modern, "discover 2026-07-28")]
    {
        let mut probe = EraProbe::new(&Protocol::Auto, Channel::Shared, Some(era));
        assert_eq!(run_probe(&mut probe, vec![ProbeEvent::Open]), [said]);
    }
}

#[test]
fn agreed_protocol_carries_the_whole_response() {
    let mut probe = EraProbe::new(&Protocol::Auto, Channel::Shared, None);
    probe.handle(ProbeEvent::Open);
    let ProbeAction::Decided(agreed) = probe.handle(discovered(MODERN)) else {
        panic!("modern");
    };
    assert!(agreed.capabilities.tools());
    assert_eq!(agreed.answer.text(), MODERN);
    let mut probe = EraProbe::new(&Protocol::Legacy, Channel::Shared, None);
    probe.handle(ProbeEvent::Open);
    let ProbeAction::Decided(agreed) = probe.handle(initialized(LEGACY)) else {
        panic!("legacy");
    };
    assert!(agreed.capabilities.prompts());
    assert_eq!(agreed.answer.text(), LEGACY);
}

#[test]
fn probe_errors_map_to_failure_kinds() {
    for (error, kind) in [
        (EraProbeError::Exited, FailureKind::Connection),
        (EraProbeError::UnknownVersion("x".to_owned()), FailureKind::Config),
        (EraProbeError::NoEndpoint, FailureKind::Protocol),
    ] {
        assert_eq!(error.kind(), kind);
    }
}

fn any_heard() -> impl Strategy<Value = ProbeEvent> {
    let versions = Version::KNOWN.to_vec();
    let refusal = RpcError::unsupported_version(&Version::NEWEST, &versions);
    prop::sample::select(vec![
        ProbeEvent::Open,
        discovered(MODERN),
        discovered("[]"),
        ProbeEvent::Discovered(Err(refusal)),
        no_discover(-32601),
        no_discover(-32022),
        initialized(LEGACY),
        initialized("{}"),
        no_initialize(-32601),
        ProbeEvent::Silence,
        ProbeEvent::HttpRefused,
        ProbeEvent::NoEventStream,
        ProbeEvent::Exited,
    ])
}

proptest! {
    #[test]
    fn random_responses_decide_the_probe_once(
        event in prop::collection::vec(any_heard(), 0..30),
        http: bool,
    ) {
        let channel = if http { Channel::Http } else { Channel::Shared };
        let mut probe = EraProbe::new(&Protocol::Auto, channel, None);
        let (mut ended, mut respawns) = (0, 0);
        for event in event {
            match probe.handle(event) {
                ProbeAction::Decided(_) | ProbeAction::Failed(_) => ended += 1,
                ProbeAction::Respawn => respawns += 1,
                ProbeAction::Wait => {}
                _ => prop_assert_eq!(ended, 0, "an action after the decision"),
            }
        }
        prop_assert!(ended <= 1 && respawns <= 1);
    }
}
