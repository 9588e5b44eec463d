//! Silent starts: one timeout, then a `Content-Length` attempt in the background.

use super::*;

#[test]
fn dis_53_silent_start_fails_waiting_calls_and_tries_content_length_in_the_background() {
    let lifecycle = check(
        &dispatch(),
        "0 call, 5 silent1, 6 call, 7 list, 8 connect",
        "0 connecting open1, 5 failed framed2, 6 failed, 7 failed, 8 failed",
    );
    assert_eq!((lifecycle.availability(), lifecycle.attempts()), (ConnAvailability::Down, 1));
    assert!(lifecycle.is_trying_content_length());
    check(&dispatch(), "0 call, 5 silent1, 6 up2", "0 connecting open1, 5 failed framed2, 6 ready");
}

#[test]
fn dis_53_retry_policy_continues_after_content_length_failed() {
    for kind in ["down", "timeout", "protocol", "config"] {
        // The hold-off of 30 seconds starts at the end of the attempt.
        let lifecycle = check(
            &dispatch(),
            &format!("0 call, 5 silent1, 10 {kind}2, 39 call, 41 call"),
            "0 connecting open1, 5 failed framed2, 10 failed, 39 failed, 41 connecting open3",
        );
        // The first failure is kept.
        assert_eq!(lifecycle.last_error().unwrap().1.message, "silent", "{kind}");
        // With retries left.
        check(
            &minion(),
            &format!("0 call, 5 silent1, 10 {kind}2, 11 tick"),
            "0 connecting open1, 5 failed framed2, 10 backoff, 11 connecting open3",
        );
    }
}

#[test]
fn dis_53_retry_waits_for_the_background_attempt() {
    for settings in [dispatch(), minion()] {
        check(
            &settings,
            "0 call, 5 silent1, 6 retry, 7 call, 8 up2",
            "0 connecting open1, 5 failed framed2, 6 failed, 7 failed, 8 ready",
        );
        check(
            &settings,
            "0 call, 5 silent1, 6 retry, 7 retry, 10 timeout2, 11 up3",
            "0 connecting open1, 5 failed framed2, 6 failed, 7 failed, 10 connecting open3, 11 ready",
        );
    }
}

#[test]
fn background_attempt_closes_on_every_end_event() {
    for (event, after) in [
        ("disconnect", "stopped close2"),
        ("disable", "disabled close2"),
        ("retire", "stopped close2"),
        ("release", "idle close2"),
        ("restart", "connecting close2 open3"),
    ] {
        check(
            &dispatch(),
            &format!("0 call, 5 silent1, 6 {event}, 7 up2"),
            &format!(
                "0 connecting open1, 5 failed framed2, 6 {after}, 7 {}",
                after.split(' ').next().unwrap()
            ),
        );
    }
}

#[test]
fn silent_start_of_a_draining_server_retires_it() {
    check(
        &dispatch(),
        "0 call, 1 busy1, 2 retire, 5 silent1",
        "0 connecting open1, 1 connecting, 2 draining, 5 stopped close1",
    );
}

#[test]
fn hol_45_late_diagnosis_replaces_the_failure_without_a_state_change() {
    let lifecycle = check(
        &dispatch(),
        "0 call, 5 timeout1, 6 diagnosed1",
        "0 connecting open1, 5 failed, 6 failed",
    );
    let (at, failure) = lifecycle.last_error().unwrap();
    assert_eq!((at, failure.message.as_str()), (moment(5.0), "diagnosed"));
    let (_, effects) = step(
        lifecycle,
        ConnEvent::Diagnosed(SessionNumber(1), Failure::new(FailureKind::Timeout, "again")),
        &dispatch(),
        moment(7.0),
        0.5,
    );
    assert_eq!(effects, [Effect::Announce]);
    // A diagnosis of an earlier session is ignored.
    for events in ["0 call, 5 timeout1, 36 call, 37 diagnosed1", "0 call, 1 up1, 2 diagnosed1"] {
        let lifecycle = replay(&dispatch(), events).0;
        let message = lifecycle.last_error().map(|(_, failure)| failure.message.as_str());
        assert_ne!(message, Some("diagnosed"), "{events}");
    }
}
