//! Connecting, retries and final failures.

use super::*;

#[test]
fn dis_17_concurrent_demands_connect_once() {
    let settings = dispatch();
    check(
        &settings,
        "0 call, 0.1 list, 0.2 connect",
        "0 connecting open1, 0.1 connecting, 0.2 connecting",
    );
    check(
        &settings,
        "0 call, 1 up1, 2 call, 3 connect",
        "0 connecting open1, 1 ready, 2 ready, 3 ready",
    );
}

#[test]
fn min_25_lazy_server_waits_for_its_first_demand() {
    for (connect, event, connects) in [
        (Connect::Eager, "0 begin", true),
        (Connect::Background, "0 begin", true),
        (Connect::OnFirstList, "0 begin", false),
        (Connect::OnFirstCall, "0 begin", false),
        (Connect::OnFirstList, "0 list", true),
        (Connect::OnFirstCall, "0 call", true),
        (Connect::OnFirstCall, "0 list", true),
    ] {
        let settings = ConnSettings { connect, ..minion() };
        let expected = if connects { "0 connecting open1" } else { "0 idle" };
        check(&settings, event, expected);
    }
    // Stored lists are available without the server.
    let known = ConnLifecycle::new(true).with_stored_catalog();
    let (lifecycle, effects) =
        step(known, ConnEvent::Demanded(Demand::List), &minion(), moment(0.0), 0.5);
    assert_eq!((lifecycle.state(), effects), (ServerState::Idle, vec![]));
}

#[test]
fn min_61_three_retries_after_1_2_and_4_seconds() {
    check(
        &minion(),
        "0 call, 0 down1, 1 tick, 1 down2, 3 tick, 3 down3, 7 tick, 7 down4, 1000 call, 1001 connect",
        "0 connecting open1, 0 backoff, 1 connecting open2, 1 backoff, 3 connecting open3, 3 backoff, \
         7 connecting open4, 7 failed, 1000 failed, 1001 connecting open5",
    );
    // An early tick does not retry.
    check(
        &minion(),
        "0 connect, 0 down1, 0.9 tick, 0.95 call",
        "0 connecting open1, 0 backoff, 0.9 backoff, 0.95 backoff",
    );
}

#[test]
fn min_59_and_61_only_transient_failures_are_retried() {
    for (kind, again) in [
        ("down", true),
        ("timeout", true),
        ("config", false),
        ("auth", false),
        ("protocol", false),
        ("resource", false),
    ] {
        let expected = if again { ServerState::Backoff } else { ServerState::Failed };
        for events in [format!("0 connect, 0 {kind}1"), format!("0 connect, 0 up1, 0 {kind}1")] {
            assert_eq!(replay(&minion(), &events).0.state(), expected, "{events}");
        }
    }
}

#[test]
fn retry_after_sets_the_backoff() {
    for (asked, waits) in [(0.2, 1.0), (20.0, 20.0), (1e9, 3600.0)] {
        let mut failure = Failure::new(FailureKind::Resource, "429");
        failure.retry_after = Some(secs(asked));
        let (lifecycle, _) = replay(&minion(), "0 connect");
        let down = ConnEvent::Down(SessionNumber(1), failure);
        let (lifecycle, _) = step(lifecycle, down, &minion(), moment(0.0), 0.5);
        assert_eq!(lifecycle.next_retry(), Some(moment(waits)));
        assert_eq!(lifecycle.availability(), ConnAvailability::Pending);
    }
}

#[test]
fn min_31_lost_session_closes_before_the_reconnect() {
    let lifecycle = check(
        &minion(),
        "0 connect, 1 up1, 10 down1, 11 tick, 11.5 down2, 13.5 tick, 14 up3",
        "0 connecting open1, 1 ready, 10 backoff close1, 11 reconnecting open2, 11.5 backoff, \
         13.5 reconnecting open3, 14 ready",
    );
    assert_eq!(
        (lifecycle.restarts(), lifecycle.attempts(), lifecycle.last_connected()),
        (1, 0, Some(moment(14.0)))
    );
    assert_eq!(lifecycle.availability(), ConnAvailability::Up);
}

#[test]
fn forgotten_session_is_reopened_at_once() {
    // Dispatch does not reconnect after a loss, but a forgotten session is not a lost server.
    check(
        &dispatch(),
        "0 call, 1 up1, 9 gone1, 10 up2, 10.5 gone2, 10.6 call",
        "0 connecting open1, 1 ready, 9 reconnecting close1 open2, 10 ready, 10.5 failed close2, \
         10.6 reconnecting open3",
    );
    // DOM-93: regardless of the reconnect policy.
    let off = ConnSettings { on_demand: false, ..holodeck() };
    for settings in [off, holodeck(), minion()] {
        check(
            &settings,
            "0 call, 1 up1, 9 gone1, 10 up2, 10.5 gone2, 11 list, 12 up3",
            "0 connecting open1, 1 ready, 9 reconnecting close1 open2, 10 ready, 10.5 failed close2, \
             11 reconnecting open3, 12 ready",
        );
    }
    check(
        &minion(),
        "0 call, 1 up1, 9 gone1, 9 down2",
        "0 connecting open1, 1 ready, 9 reconnecting close1 open2, 9 backoff",
    );
}

#[test]
fn min_63_reconnects_are_counted_and_can_be_off() {
    check(
        &minion(),
        "0 connect, 0 up1, 0 down1, 1 tick, 1 down2, 3 tick, 3 down3, 7 tick, 7 down4, 100 call",
        "0 connecting open1, 0 ready, 0 backoff close1, 1 reconnecting open2, 1 backoff, \
         3 reconnecting open3, 3 backoff, 7 reconnecting open4, 7 failed, 100 failed",
    );
    let mut off = minion();
    off.reconnect.max = 0;
    // Without `EnableAutoReconnect` not even a call reconnects.
    off.on_demand = false;
    check(
        &off,
        "0 connect, 0 up1, 1 down1, 9 call",
        "0 connecting open1, 0 ready, 1 failed close1, 9 failed",
    );
}

#[test]
fn dkr_27_exactly_n_attempts_and_dkr_28_equal_delays() {
    // At the start: one attempt and two retries.
    let lifecycle = check(
        &docker(3),
        "0 begin, 0 down1, 2 tick, 2 down2, 4 tick, 4 down3, 99 tick",
        "0 connecting open1, 0 backoff, 2 connecting open2, 2 backoff, 4 connecting open3, 4 failed, 99 failed",
    );
    assert_eq!((lifecycle.attempts(), lifecycle.next_retry()), (3, None));
    // After a loss: three attempts.
    check(
        &docker(3),
        "0 begin, 0 up1, 0 down1, 2 tick, 2 down2, 4 tick, 4 down3, 6 tick, 6 down4, 99 tick",
        "0 connecting open1, 0 ready, 0 backoff close1, 2 reconnecting open2, 2 backoff, \
         4 reconnecting open3, 4 backoff, 6 reconnecting open4, 6 failed, 99 failed",
    );
}

#[test]
fn dkr_30_success_resets_the_retry_count() {
    let lifecycle = check(
        &docker(2),
        "0 begin, 0 down1, 2 tick, 2 up2, 5 down2, 7 tick, 7 down3",
        "0 connecting open1, 0 backoff, 2 connecting open2, 2 ready, 5 backoff close2, \
         7 reconnecting open3, 7 backoff",
    );
    assert_eq!(lifecycle.attempts(), 1);
}

#[test]
fn short_session_does_not_reset_the_retry_count() {
    // The session is lost at once each time: the delays grow until the attempts are exhausted.
    let lifecycle = check(
        &minion(),
        "0 connect, 0 up1, 0 down1, 1 tick, 1 up2, 1.5 down2, 3.5 tick, 3.5 up3, 4 down3, 8 tick, 8 up4, \
         8.1 down4, 99 call",
        "0 connecting open1, 0 ready, 0 backoff close1, 1 reconnecting open2, 1 ready, 1.5 backoff close2, \
         3.5 reconnecting open3, 3.5 ready, 4 backoff close3, 8 reconnecting open4, 8 ready, \
         8.1 failed close4, 99 failed",
    );
    assert_eq!(lifecycle.attempts(), 3);
    // DKR-30: a session that lasted longer than the longest delay resets the count.
    let (lifecycle, _) = replay(
        &docker(2),
        "0 begin, 0 up1, 1 down1, 3 tick, 3 up2, 4 down2, 6 tick, 6 up3, 8 down3",
    );
    assert_eq!((lifecycle.state(), lifecycle.attempts()), (ServerState::Backoff, 0));
    let (lifecycle, _) = replay(
        &docker(2),
        "0 begin, 0 up1, 1 down1, 3 tick, 3 up2, 4 down2, 6 tick, 6 up3, 7 down3",
    );
    assert_eq!((lifecycle.state(), lifecycle.attempts()), (ServerState::Failed, 2));
}

#[test]
fn dom_94_lost_server_reconnects_on_the_next_call_or_list() {
    for want in ["list", "call"] {
        check(
            &holodeck(),
            &format!("0 list, 1 up1, 9 down1, 10 {want}, 10.5 down2, 11 {want}"),
            "0 connecting open1, 1 ready, 9 failed close1, 10 reconnecting open2, 10.5 failed, \
             11 reconnecting open3",
        );
    }
    // A server that never came up is started by a call, not by a list.
    check(
        &holodeck(),
        "0 list, 1 down1, 2 list, 3 call",
        "0 connecting open1, 1 failed, 2 failed, 3 connecting open2",
    );
    // A failure that is not retried automatically does not exhaust the attempts.
    check(
        &minion(),
        "0 connect, 1 up1, 9 protocol1, 10 call",
        "0 connecting open1, 1 ready, 9 failed close1, 10 reconnecting open2",
    );
}

#[test]
fn dom_95_retry_reconnects_failed_servers_only() {
    check(
        &docker(1),
        "0 begin, 0 down1, 9 call, 10 retry, 10 retry, 11 up2, 12 retry",
        "0 connecting open1, 0 failed, 9 failed, 10 connecting open2, 10 connecting, 11 ready, 12 ready",
    );
    check(
        &minion(),
        "0 connect, 0 down1, 0.5 retry, 0.6 disconnect, 1 retry, 2 disable, 3 retry",
        "0 connecting open1, 0 backoff, 0.5 connecting open2, 0.6 stopped close2, 1 stopped, \
         2 disabled, 3 disabled",
    );
}

#[test]
fn ext_11_hold_off_follows_a_failed_connect() {
    let settings = dispatch();
    // A lost session is not a failed connect, so there is no hold-off.
    check(
        &settings,
        "0 list, 1 down1, 30.9 list, 31 list, 32 up2, 40 down2, 40 call",
        "0 connecting open1, 1 failed, 30.9 failed, 31 connecting open2, 32 ready, 40 failed close2, \
         40 reconnecting open3",
    );
    let (lifecycle, _) = replay(&settings, "0 list, 1 down1, 30.9 list");
    assert_eq!(lifecycle.state_label(StateVocabulary::Dispatch), "error");
    assert_eq!(lifecycle.next_retry(), Some(moment(31.0)));
}

#[test]
fn min_32_attempts_and_last_error_stay_visible() {
    let (lifecycle, _) =
        replay(&minion(), "0 connect, 1 up1, 5 down1, 6 tick, 6.5 down2, 8.5 tick, 9 down3");
    assert_eq!(lifecycle.attempts(), 2);
    assert_eq!(lifecycle.last_connected(), Some(moment(1.0)));
    assert_eq!(lifecycle.next_retry(), Some(moment(13.0)));
    let (at, failure) = lifecycle.last_error().unwrap();
    assert_eq!((at, failure.message.as_str()), (moment(9.0), "x"));
}
