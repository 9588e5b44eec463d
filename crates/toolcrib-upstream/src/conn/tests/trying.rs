//! Connecting, trying again, giving up.

use super::*;

#[test]
fn dis_17_many_wants_are_one_connect() {
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
fn min_25_a_lazy_server_waits_for_its_first_use() {
    for (connect, event, connects) in [
        (Connect::Eager, "0 begin", true),
        (Connect::Background, "0 begin", true),
        (Connect::OnFirstList, "0 begin", false),
        (Connect::OnFirstCall, "0 begin", false),
        (Connect::OnFirstList, "0 list", true),
        (Connect::OnFirstCall, "0 call", true),
        (Connect::OnFirstCall, "0 list", true),
    ] {
        let settings = Settings { connect, ..minion() };
        let expected = if connects { "0 connecting open1" } else { "0 idle" };
        check(&settings, event, expected);
    }
    // What is known from an earlier run can be listed without the server.
    let known = Life::new(true).remembering();
    let (life, effects) = step(known, Event::Wanted(Want::List), &minion(), moment(0.0), 0.5);
    assert_eq!((life.state(), effects), (State::Idle, vec![]));
}

#[test]
fn min_61_three_retries_after_1_2_and_4_seconds_then_no_more() {
    check(
        &minion(),
        "0 call, 0 down1, 1 tick, 1 down2, 3 tick, 3 down3, 7 tick, 7 down4, 1000 call, 1001 connect",
        "0 connecting open1, 0 backoff, 1 connecting open2, 1 backoff, 3 connecting open3, 3 backoff, \
         7 connecting open4, 7 failed, 1000 failed, 1001 connecting open5",
    );
    // A tick before its time is no try.
    check(
        &minion(),
        "0 connect, 0 down1, 0.9 tick, 0.95 call",
        "0 connecting open1, 0 backoff, 0.9 backoff, 0.95 backoff",
    );
}

#[test]
fn min_59_and_61_only_what_may_pass_is_tried_again() {
    // MIN-61 as well.
    for (kind, again) in [
        ("down", true),
        ("timeout", true),
        ("config", false),
        ("auth", false),
        ("protocol", false),
        ("resource", false),
    ] {
        let expected = if again { State::Backoff } else { State::Failed };
        for events in [format!("0 connect, 0 {kind}1"), format!("0 connect, 0 up1, 0 {kind}1")] {
            assert_eq!(live(&minion(), &events).0.state(), expected, "{events}");
        }
    }
}

#[test]
fn a_server_that_says_when_is_asked_then() {
    for (asked, waits) in [(0.2, 1.0), (20.0, 20.0), (1e9, 3600.0)] {
        let mut failure = Failure::new(FailureKind::Resource, "429");
        failure.retry_after = Some(secs(asked));
        let (life, _) = live(&minion(), "0 connect");
        let down = Event::Down(Link(1), failure);
        let (life, _) = step(life, down, &minion(), moment(0.0), 0.5);
        assert_eq!(life.next_retry(), Some(moment(waits)));
        assert_eq!(life.outlook(), Outlook::Coming);
    }
}

#[test]
fn min_31_a_lost_session_is_made_anew_and_the_old_one_closed_first() {
    let life = check(
        &minion(),
        "0 connect, 1 up1, 10 down1, 11 tick, 11.5 down2, 13.5 tick, 14 up3",
        "0 connecting open1, 1 ready, 10 backoff close1, 11 reconnecting open2, 11.5 backoff, \
         13.5 reconnecting open3, 14 ready",
    );
    assert_eq!(
        (life.restarts(), life.attempts(), life.last_connected()),
        (1, 0, Some(moment(14.0)))
    );
    assert_eq!(life.outlook(), Outlook::Up);
}

#[test]
fn a_session_that_the_server_has_forgotten_is_opened_anew_at_once() {
    // Dispatch makes no loss good by itself, but this is none of the server.
    check(
        &dispatch(),
        "0 call, 1 up1, 9 gone1, 10 up2, 10.5 gone2, 10.6 call",
        "0 connecting open1, 1 ready, 9 reconnecting close1 open2, 10 ready, 10.5 failed close2, \
         10.6 reconnecting open3",
    );
    // DOM-93: whatever the policy says of lost connections.
    let off = Settings { on_demand: false, ..holodeck() };
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
    // Without `EnableAutoReconnect` not even a call starts it again.
    off.on_demand = false;
    check(
        &off,
        "0 connect, 0 up1, 1 down1, 9 call",
        "0 connecting open1, 0 ready, 1 failed close1, 9 failed",
    );
}

#[test]
fn dkr_27_exactly_n_attempts_and_dkr_28_equal_waits() {
    // At the start: the first and two more.
    let life = check(
        &docker(3),
        "0 begin, 0 down1, 2 tick, 2 down2, 4 tick, 4 down3, 99 tick",
        "0 connecting open1, 0 backoff, 2 connecting open2, 2 backoff, 4 connecting open3, 4 failed, 99 failed",
    );
    assert_eq!((life.attempts(), life.next_retry()), (3, None));
    // After a loss: three.
    check(
        &docker(3),
        "0 begin, 0 up1, 0 down1, 2 tick, 2 down2, 4 tick, 4 down3, 6 tick, 6 down4, 99 tick",
        "0 connecting open1, 0 ready, 0 backoff close1, 2 reconnecting open2, 2 backoff, \
         4 reconnecting open3, 4 backoff, 6 reconnecting open4, 6 failed, 99 failed",
    );
}

#[test]
fn dkr_30_a_success_begins_the_count_anew() {
    let life = check(
        &docker(2),
        "0 begin, 0 down1, 2 tick, 2 up2, 5 down2, 7 tick, 7 down3",
        "0 connecting open1, 0 backoff, 2 connecting open2, 2 ready, 5 backoff close2, \
         7 reconnecting open3, 7 backoff",
    );
    assert_eq!(life.attempts(), 1);
}

#[test]
fn a_session_that_does_not_last_is_no_success() {
    // Each time it comes up and dies at once: the waits grow, and it ends.
    let life = check(
        &minion(),
        "0 connect, 0 up1, 0 down1, 1 tick, 1 up2, 1.5 down2, 3.5 tick, 3.5 up3, 4 down3, 8 tick, 8 up4, \
         8.1 down4, 99 call",
        "0 connecting open1, 0 ready, 0 backoff close1, 1 reconnecting open2, 1 ready, 1.5 backoff close2, \
         3.5 reconnecting open3, 3.5 ready, 4 backoff close3, 8 reconnecting open4, 8 ready, \
         8.1 failed close4, 99 failed",
    );
    assert_eq!(life.attempts(), 3);
    // DKR-30: one that lasted longer than the longest wait begins the count anew.
    let (life, _) =
        live(&docker(2), "0 begin, 0 up1, 1 down1, 3 tick, 3 up2, 4 down2, 6 tick, 6 up3, 8 down3");
    assert_eq!((life.state(), life.attempts()), (State::Backoff, 0));
    let (life, _) =
        live(&docker(2), "0 begin, 0 up1, 1 down1, 3 tick, 3 up2, 4 down2, 6 tick, 6 up3, 7 down3");
    assert_eq!((life.state(), life.attempts()), (State::Failed, 2));
}

#[test]
fn dom_94_a_lost_server_is_started_again_by_the_next_call_or_list() {
    for want in ["list", "call"] {
        check(
            &holodeck(),
            &format!("0 list, 1 up1, 9 down1, 10 {want}, 10.5 down2, 11 {want}"),
            "0 connecting open1, 1 ready, 9 failed close1, 10 reconnecting open2, 10.5 failed, \
             11 reconnecting open3",
        );
    }
    // A server that never came up is started again by a call, and not by every list.
    check(
        &holodeck(),
        "0 list, 1 down1, 2 list, 3 call",
        "0 connecting open1, 1 failed, 2 failed, 3 connecting open2",
    );
    // A loss that the policy does not retry by itself exhausts nothing.
    check(
        &minion(),
        "0 connect, 1 up1, 9 protocol1, 10 call",
        "0 connecting open1, 1 ready, 9 failed close1, 10 reconnecting open2",
    );
}

#[test]
fn dom_95_a_retry_tries_again_what_failed_and_nothing_else() {
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
fn ext_11_after_a_failed_connect_nothing_is_tried_for_a_while() {
    let settings = dispatch();
    // What is lost was no failed connect: the next turn may try at once.
    check(
        &settings,
        "0 list, 1 down1, 30.9 list, 31 list, 32 up2, 40 down2, 40 call",
        "0 connecting open1, 1 failed, 30.9 failed, 31 connecting open2, 32 ready, 40 failed close2, \
         40 reconnecting open3",
    );
    let (life, _) = live(&settings, "0 list, 1 down1, 30.9 list");
    assert_eq!(life.word(Words::Dispatch), "error");
    assert_eq!(life.next_retry(), Some(moment(31.0)));
}

#[test]
fn min_32_what_happened_stays_visible() {
    let (life, _) =
        live(&minion(), "0 connect, 1 up1, 5 down1, 6 tick, 6.5 down2, 8.5 tick, 9 down3");
    assert_eq!(life.attempts(), 2);
    assert_eq!(life.last_connected(), Some(moment(1.0)));
    assert_eq!(life.next_retry(), Some(moment(13.0)));
    let (at, failure) = life.last_error().unwrap();
    assert_eq!((at, failure.message.as_str()), (moment(9.0), "x"));
}
