//! What is known of a server's tools, and when it is read anew.

use super::*;

#[test]
fn min_33_to_35_the_cache_is_empty_then_read_then_old() {
    let settings = Settings { ttl: secs(1.0), ..minion() };
    let (events, caches): (Vec<_>, Vec<_>) = [
        ("0 connect", "populating"),
        ("1 up1", "ready"),
        ("1.5 list", "ready"),
        ("3 list", "populating"), // MIN-35: its time was up
        ("3.2 list", "populating"),
        ("3.5 listed1", "ready"),
        ("3.6 refresh", "populating"), // MIN-34
        ("3.7 unlisted1", "stale"),
        ("4 refresh", "populating"),
        ("4.1 listed1", "ready"),
        ("4.2 down1", "stale"),
        ("5.2 tick", "populating"),
        ("5.3 up2", "ready"), // MIN-34: read anew with the new session
    ]
    .into_iter()
    .unzip();
    assert_eq!(Life::new(true).cache().as_str(), "empty");
    let events: [&str; 13] = events.try_into().unwrap();
    for (events, cache) in beginnings(events).iter().zip(caches) {
        let (life, _) = live(&settings, events);
        assert_eq!(life.cache().as_str(), cache, "{events}");
    }
    let (_, lines) = live(&settings, &events.join(","));
    let read = lines.iter().filter(|line| line.contains("discover"));
    assert_eq!(read.count(), 3);
}

#[test]
fn there_is_nothing_to_refresh_without_a_session() {
    check(&minion(), "0 refresh", "0 idle");
}

#[test]
fn a_refresh_during_a_reading_follows_it() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 refresh, 3 refresh, 4 listed1, 5 listed1",
        "0 connecting open1, 1 ready, 2 ready discover1, 3 ready, 4 ready discover1, 5 ready",
    );
}

#[test]
fn dis_14_a_changed_list_is_read_once_however_often_it_is_told() {
    // The third time the first reading still runs: it may have seen the old list.
    check(
        &docker(3),
        "0 begin, 1 up1, 2 changed1, 2.15 changed1, 3 changed1, 4 listed1, 5 listed1",
        "0 connecting open1, 1 ready, 2 ready, 2.15 ready, 2.2 ready discover1, 3 ready, 4 ready discover1, 5 ready",
    );
    // Told while the lists are first read: they are read once more.
    let early = "0 begin, 0.5 changed1, 1 up1, 2 tick";
    check(
        &docker(3),
        early,
        "0 connecting open1, 0.5 connecting, 1 ready, 1.2 ready discover1, 2 ready",
    );
    let mut ignoring = docker(3);
    ignoring.on_list_changed = OnListChanged::Ignore;
    check(&ignoring, early, "0 connecting open1, 0.5 connecting, 1 ready, 2 ready");
}

#[test]
fn min_64_a_changed_list_is_only_marked_until_it_is_refreshed() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 changed1, 3 list, 4 refresh",
        "0 connecting open1, 1 ready, 2 ready, 2.2 ready compare1, 3 ready, 4 ready discover1",
    );
    let (life, _) = live(&minion(), "0 connect, 1 up1, 2 changed1, 3 list");
    assert_eq!(life.cache().as_str(), "stale");
}

#[test]
fn min_82_a_changed_list_is_compared_once_at_a_time_and_not_when_it_is_refreshed() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 changed1, 2.1 changed1, 3 changed1, 4 compared1, 5 compared1",
        "0 connecting open1, 1 ready, 2 ready, 2.1 ready, 2.2 ready compare1, 3 ready, 4 ready compare1, 5 ready",
    );
    check(
        &minion(),
        "0 connect, 1 up1, 2 changed1, 2.1 refresh, 3 listed1, 4 tick",
        "0 connecting open1, 1 ready, 2 ready, 2.1 ready discover1, 3 ready, 4 ready",
    );
}

#[test]
fn a_list_that_cannot_be_read_anew_degrades_and_is_no_loss() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 refresh, 3 unlisted1, 4 list, 5 listed1",
        "0 connecting open1, 1 ready, 2 ready discover1, 3 degraded, 4 degraded discover1, 5 ready",
    );
}
