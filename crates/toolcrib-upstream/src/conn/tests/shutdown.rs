//! Liveness checks, close, restart and drain.

use super::*;

#[test]
fn min_26_disconnected_server_stays_down_until_connect() {
    // MIN-24: the second disconnect has nothing to close.
    check(
        &minion(),
        "0 connect, 1 up1, 2 disconnect, 3 call, 4 begin, 5 disconnect, 6 connect",
        "0 connecting open1, 1 ready, 2 stopped close1, 3 stopped, 4 stopped, 5 stopped, 6 connecting open2",
    );
    let (lifecycle, _) = replay(&minion(), "0 connect, 1 up1, 2 disconnect, 3 call");
    assert_eq!(lifecycle.availability(), ConnAvailability::Down);
}

#[test]
fn dkr_24_pings_follow_the_interval_and_missed_pings_degrade() {
    let settings = ConnSettings { ping_every: secs(10.0), ..docker(3) };
    check(
        &settings,
        "0 begin, 1 up1, 11.5 heard1, 31.5 heard1",
        "0 connecting open1, 1 ready, 11 ready ping1, 11.5 ready, 21 ready ping1, 31 degraded ping1, 31.5 ready",
    );
}

#[test]
fn dkr_25_silence_reconnects_and_traffic_keeps_alive() {
    let settings = ConnSettings { stale_after: secs(30.0), ..docker(3) };
    // DKR-26: the old session closes first.
    check(
        &settings,
        "0 begin, 0 up1, 20 heard1, 55 tick",
        "0 connecting open1, 0 ready, 20 ready, 50 backoff close1, 52 reconnecting open2, 55 reconnecting",
    );
    check(
        &settings,
        "0 begin, 0 up1, 29 heard1, 58 heard1, 87 heard1, 116 tick",
        "0 connecting open1, 0 ready, 29 ready, 58 ready, 87 ready, 116 ready",
    );
    // A sample from the future does not extend the session.
    let (lifecycle, _) = replay(&settings, "0 begin, 0 up1");
    let ahead = ConnEvent::Traffic(SessionNumber(1), moment(1e6));
    let (lifecycle, _) = step(lifecycle, ahead, &settings, moment(5.0), 0.5);
    assert_eq!(lifecycle.wake(&settings), Some(moment(35.0)));
    // Zero means never.
    check(&docker(3), "0 begin, 0 up1, 1000000 tick", "0 connecting open1, 0 ready, 1000000 ready");
}

#[test]
fn dkr_26_a_restart_closes_the_old_session_first() {
    // The last two events belong to an old session.
    check(
        &docker(3),
        "0 begin, 0.5 restart, 1 up2, 2 restart, 2.1 down2, 2.2 up2",
        "0 connecting open1, 0.5 connecting close1 open2, 1 ready, 2 connecting close2 open3, \
         2.1 connecting, 2.2 connecting",
    );
    for end in ["disconnect", "config1", "down1"] {
        let (_, lines) = replay(&docker(3), &format!("0 begin, 0.1 {end}, 0.2 restart"));
        assert_eq!(lines[2], "0.2 connecting open2", "{end}");
    }
}

#[test]
fn idle_session_closes_and_reconnects_on_demand() {
    let settings = ConnSettings { idle: secs(60.0), ..minion() };
    check(
        &settings,
        "0 call, 0 busy1, 1 up1, 100 busy0, 130 busy0, 170 call",
        "0 connecting open1, 0 connecting, 1 ready, 100 ready, 130 ready, 160 idle close1, 170 connecting open2",
    );
}

#[test]
fn dom_79_retired_session_closes_after_its_last_call() {
    let settings = docker(3);
    // DOM-80: new calls do not reconnect.
    let lifecycle = check(
        &settings,
        "0 begin, 0 up1, 0 busy2, 0.5 retire, 0.6 call, 0.7 restart, 1 busy1, 2 busy0",
        "0 connecting open1, 0 ready, 0 ready, 0.5 draining, 0.6 draining, 0.7 draining, 1 draining, \
         2 stopped close1",
    );
    assert!(lifecycle.is_over());
    // Calls that wait for the session count as in flight.
    check(
        &settings,
        "0 begin, 0 busy1, 0.5 retire, 1 up1, 2 busy0",
        "0 connecting open1, 0 connecting, 0.5 draining, 1 draining, 2 stopped close1",
    );
    check(
        &settings,
        "0 begin, 0 up1, 0.5 retire, 1 connect",
        "0 connecting open1, 0 ready, 0.5 stopped close1, 1 stopped",
    );
}

#[test]
fn dom_81_server_that_does_not_drain_is_killed() {
    let settings = ConnSettings { drain_kill: Some(secs(3.0)), ..docker(3) };
    check(
        &settings,
        "0 begin, 0 up1, 0 busy1, 1 retire, 9 tick",
        "0 connecting open1, 0 ready, 0 ready, 1 draining, 4 stopped kill1, 9 stopped",
    );
}

#[test]
fn disabled_server_closes_and_only_enable_reconnects_it() {
    check(
        &docker(3),
        "0 begin, 1 up1, 2 disable, 3 call, 4 connect, 5 disconnect, 6 enable",
        "0 connecting open1, 1 ready, 2 disabled close1, 3 disabled, 4 disabled, 5 disabled, 6 connecting open2",
    );
    assert_eq!(ConnLifecycle::new(false).state(), ServerState::Disabled);
    check(&minion(), "0 disable, 1 enable", "0 disabled, 1 idle");
}

#[test]
fn dom_96_session_without_a_drain_limit_waits_for_its_last_call() {
    let settings = ConnSettings { drain_kill: None, ..minion() };
    let events = "0 connect, 1 up1, 2 busy1, 3 retire, 86400 call, 86401 busy0";
    let (lifecycle, lines) = replay(&settings, events);
    assert_eq!(lines[3..], ["3 draining", "86400 draining", "86401 stopped close1"]);
    assert!(lifecycle.is_over());
}
