//! A server that is silent until its start-up limit: one wait, then `Content-Length` in the background.

use super::*;

#[test]
fn dis_53_silence_fails_everybody_and_content_length_follows_in_the_background() {
    let life = check(
        &dispatch(),
        "0 call, 5 silent1, 6 call, 7 list, 8 connect",
        "0 connecting open1, 5 failed framed2, 6 failed, 7 failed, 8 failed",
    );
    assert_eq!((life.outlook(), life.attempts()), (Outlook::Down, 1));
    assert!(life.is_trying_content_length());
    check(&dispatch(), "0 call, 5 silent1, 6 up2", "0 connecting open1, 5 failed framed2, 6 ready");
}

#[test]
fn dis_53_after_content_length_failed_the_retry_policy_goes_on() {
    for kind in ["down", "timeout", "protocol", "config"] {
        // A hold-off of 30 seconds, counted from the end of the attempt.
        let life = check(
            &dispatch(),
            &format!("0 call, 5 silent1, 10 {kind}2, 39 call, 41 call"),
            "0 connecting open1, 5 failed framed2, 10 failed, 39 failed, 41 connecting open3",
        );
        // The failure that is known stays the first.
        assert_eq!(life.last_error().unwrap().1.message, "silent", "{kind}");
        // Tries that are left.
        check(
            &minion(),
            &format!("0 call, 5 silent1, 10 {kind}2, 11 tick"),
            "0 connecting open1, 5 failed framed2, 10 backoff, 11 connecting open3",
        );
    }
}

#[test]
fn dis_53_a_retry_waits_for_the_background_attempt_and_does_not_end_it() {
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
fn the_background_attempt_is_closed_by_whatever_ends_a_connection() {
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
fn silence_of_a_draining_server_is_its_end() {
    check(
        &dispatch(),
        "0 call, 1 busy1, 2 retire, 5 silent1",
        "0 connecting open1, 1 connecting, 2 draining, 5 stopped close1",
    );
}

#[test]
fn hol_45_a_late_diagnosis_is_added_to_the_failure_and_changes_no_state() {
    let life = check(
        &dispatch(),
        "0 call, 5 timeout1, 6 diagnosed1",
        "0 connecting open1, 5 failed, 6 failed",
    );
    let (at, failure) = life.last_error().unwrap();
    assert_eq!((at, failure.message.as_str()), (moment(5.0), "diagnosed"));
    let (_, effects) = step(
        life,
        Event::Diagnosed(Link(1), Failure::new(FailureKind::Timeout, "again")),
        &dispatch(),
        moment(7.0),
        0.5,
    );
    assert_eq!(effects, [Effect::Announce]);
    // A diagnosis of an earlier session says nothing of this one.
    for events in ["0 call, 5 timeout1, 36 call, 37 diagnosed1", "0 call, 1 up1, 2 diagnosed1"] {
        let life = live(&dispatch(), events).0;
        let told = life.last_error().map(|(_, failure)| failure.message.as_str());
        assert_ne!(told, Some("diagnosed"), "{events}");
    }
}
