//! Sessions that are watched, closed, restarted and drained.

use super::*;

#[test]
fn min_26_what_was_disconnected_stays_down_until_connected() {
    // MIN-24: the second time there is nothing more to close.
    check(
        &minion(),
        "0 connect, 1 up1, 2 disconnect, 3 call, 4 begin, 5 disconnect, 6 connect",
        "0 connecting open1, 1 ready, 2 stopped close1, 3 stopped, 4 stopped, 5 stopped, 6 connecting open2",
    );
    let (life, _) = live(&minion(), "0 connect, 1 up1, 2 disconnect, 3 call");
    assert_eq!(life.outlook(), Outlook::Down);
}

#[test]
fn dkr_24_pings_go_out_at_their_interval_and_silence_degrades() {
    let settings = Settings { ping_every: secs(10.0), ..docker(3) };
    check(
        &settings,
        "0 begin, 1 up1, 11.5 heard1, 31.5 heard1",
        "0 connecting open1, 1 ready, 11 ready ping1, 11.5 ready, 21 ready ping1, 31 degraded ping1, 31.5 ready",
    );
}

#[test]
fn dkr_25_silence_restarts_and_traffic_alone_keeps_alive() {
    let settings = Settings { stale_after: secs(30.0), ..docker(3) };
    // DKR-26: closed first.
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
    // A sample from a clock that runs ahead does not keep anything alive.
    let (life, _) = live(&settings, "0 begin, 0 up1");
    let ahead = Event::Traffic(Link(1), moment(1e6));
    let (life, _) = step(life, ahead, &settings, moment(5.0), 0.5);
    assert_eq!(life.wake(&settings), Some(moment(35.0)));
    // Zero means never.
    check(&docker(3), "0 begin, 0 up1, 1000000 tick", "0 connecting open1, 0 ready, 1000000 ready");
}

#[test]
fn dkr_26_a_restart_closes_the_old_session_first() {
    // The last two are late words of a session that is over.
    check(
        &docker(3),
        "0 begin, 0.5 restart, 1 up2, 2 restart, 2.1 down2, 2.2 up2",
        "0 connecting open1, 0.5 connecting close1 open2, 1 ready, 2 connecting close2 open3, \
         2.1 connecting, 2.2 connecting",
    );
    for end in ["disconnect", "config1", "down1"] {
        let (_, lines) = live(&docker(3), &format!("0 begin, 0.1 {end}, 0.2 restart"));
        assert_eq!(lines[2], "0.2 connecting open2", "{end}");
    }
}

#[test]
fn an_unused_lease_is_closed_and_comes_back_when_wanted() {
    let settings = Settings { idle: secs(60.0), ..minion() };
    check(
        &settings,
        "0 call, 0 busy1, 1 up1, 100 busy0, 130 busy0, 170 call",
        "0 connecting open1, 0 connecting, 1 ready, 100 ready, 130 ready, 160 idle close1, 170 connecting open2",
    );
}

#[test]
fn dom_79_a_retired_session_ends_with_its_last_call() {
    let settings = docker(3);
    // DOM-80: new calls bring nothing back.
    let life = check(
        &settings,
        "0 begin, 0 up1, 0 busy2, 0.5 retire, 0.6 call, 0.7 restart, 1 busy1, 2 busy0",
        "0 connecting open1, 0 ready, 0 ready, 0.5 draining, 0.6 draining, 0.7 draining, 1 draining, \
         2 stopped close1",
    );
    assert!(life.is_over());
    // Calls that wait for the session to open are in flight too.
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
fn dom_81_a_server_that_does_not_drain_is_killed() {
    let settings = Settings { drain_kill: Some(secs(3.0)), ..docker(3) };
    check(
        &settings,
        "0 begin, 0 up1, 0 busy1, 1 retire, 9 tick",
        "0 connecting open1, 0 ready, 0 ready, 1 draining, 4 stopped kill1, 9 stopped",
    );
}

#[test]
fn a_disabled_server_is_closed_and_only_enabling_brings_it_back() {
    check(
        &docker(3),
        "0 begin, 1 up1, 2 disable, 3 call, 4 connect, 5 disconnect, 6 enable",
        "0 connecting open1, 1 ready, 2 disabled close1, 3 disabled, 4 disabled, 5 disabled, 6 connecting open2",
    );
    assert_eq!(Life::new(false).state(), State::Disabled);
    check(&minion(), "0 disable, 1 enable", "0 disabled, 1 idle");
}

#[test]
fn dom_96_without_a_limit_a_session_drains_until_its_last_call_has_ended() {
    let settings = Settings { drain_kill: None, ..minion() };
    let events = "0 connect, 1 up1, 2 busy1, 3 retire, 86400 call, 86401 busy0";
    let (life, lines) = live(&settings, events);
    assert_eq!(lines[3..], ["3 draining", "86400 draining", "86401 stopped close1"]);
    assert!(life.is_over());
}
