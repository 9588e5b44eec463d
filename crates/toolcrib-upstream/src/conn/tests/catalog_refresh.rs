//! Reading, expiry and comparison of the lists.

use super::*;

#[test]
fn min_33_to_35_cache_states_follow_reads_and_expiry() {
    let settings = ConnSettings { ttl: secs(1.0), ..minion() };
    let (events, caches): (Vec<_>, Vec<_>) = [
        ("0 connect", "populating"),
        ("1 up1", "ready"),
        ("1.5 list", "ready"),
        ("3 list", "populating"), // MIN-35: the TTL expired
        ("3.2 list", "populating"),
        ("3.5 listed1", "ready"),
        ("3.6 refresh", "populating"), // MIN-34
        ("3.7 unlisted1", "stale"),
        ("4 refresh", "populating"),
        ("4.1 listed1", "ready"),
        ("4.2 down1", "stale"),
        ("5.2 tick", "populating"),
        ("5.3 up2", "ready"), // MIN-34: read again with the new session
    ]
    .into_iter()
    .unzip();
    assert_eq!(ConnLifecycle::new(true).cache().as_str(), "empty");
    let events: [&str; 13] = events.try_into().unwrap();
    for (events, cache) in event_prefixes(events).iter().zip(caches) {
        let (lifecycle, _) = replay(&settings, events);
        assert_eq!(lifecycle.cache().as_str(), cache, "{events}");
    }
    let (_, lines) = replay(&settings, &events.join(","));
    let read = lines.iter().filter(|line| line.contains("discover"));
    assert_eq!(read.count(), 3);
}

#[test]
fn refresh_without_a_session_has_no_effect() {
    check(&minion(), "0 refresh", "0 idle");
}

#[test]
fn refresh_during_a_catalog_read_runs_after_it() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 refresh, 3 refresh, 4 listed1, 5 listed1",
        "0 connecting open1, 1 ready, 2 ready discover1, 3 ready, 4 ready discover1, 5 ready",
    );
}

#[test]
fn dis_14_repeated_list_changes_cause_one_catalog_read() {
    // The third change comes during the first reading, which may have seen the old list.
    check(
        &docker(3),
        "0 begin, 1 up1, 2 changed1, 2.15 changed1, 3 changed1, 4 listed1, 5 listed1",
        "0 connecting open1, 1 ready, 2 ready, 2.15 ready, 2.2 ready discover1, 3 ready, 4 ready discover1, 5 ready",
    );
    // A change during the first reading causes another reading.
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
fn min_64_changed_list_is_marked_stale_until_refresh() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 changed1, 3 list, 4 refresh",
        "0 connecting open1, 1 ready, 2 ready, 2.2 ready compare1, 3 ready, 4 ready discover1",
    );
    let (lifecycle, _) = replay(&minion(), "0 connect, 1 up1, 2 changed1, 3 list");
    assert_eq!(lifecycle.cache().as_str(), "stale");
}

#[test]
fn min_82_changed_list_is_compared_once_and_not_during_a_refresh() {
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
fn failed_catalog_read_degrades_without_reconnecting() {
    check(
        &minion(),
        "0 connect, 1 up1, 2 refresh, 3 unlisted1, 4 list, 5 listed1",
        "0 connecting open1, 1 ready, 2 ready discover1, 3 degraded, 4 degraded discover1, 5 ready",
    );
}
