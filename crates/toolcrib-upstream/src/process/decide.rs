//! Which living processes are certainly a dead instance's: the rule that reaping stands on.

use super::ledger::Entry;
use super::mark::InstanceId;
use super::sys::{Identity, Process, Realm};

/// How a process was shown to be the dead instance's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It carries the instance's mark.
    Mark,
    /// It has no readable mark, but the pid and the start time that the ledger holds.
    Leader,
    /// It has no readable mark, but is in the group of a leader that is still itself.
    Group,
    /// It has neither, but is in the cgroup that the instance made.
    Cgroup,
}

/// Processes of `table` that belong to `instance`. `me` is the one that asks: it may carry the mark too, if
/// a child of the dead instance started it.
pub(crate) fn decide<'a>(
    instance: InstanceId,
    entries: &[Entry],
    realm: &Realm,
    table: &'a [Process],
    me: u32,
) -> Vec<(&'a Process, Proof)> {
    let leaders: Vec<&Identity> =
        entries.iter().filter_map(|entry| entry.leader.as_ref()).collect();
    // A group is known by its leader, and while that lives, or is at least not yet forgotten by the kernel.
    let known = |leader: &Identity| {
        table.iter().any(|process| leader.is(realm, process) && !foreign(instance, process))
    };
    let groups: Vec<u32> =
        leaders.iter().filter(|leader| known(leader)).map(|leader| leader.pid).collect();

    let proof = |process: &Process| match process.mark {
        Some(mark) => (mark.instance == instance).then_some(Proof::Mark),
        None if leaders.iter().any(|leader| leader.is(realm, process)) => Some(Proof::Leader),
        None => groups.contains(&process.group).then_some(Proof::Group),
    };
    table
        .iter()
        .filter(|process| !process.zombie && process.pid > 1 && process.pid != me)
        .filter_map(|process| proof(process).map(|proof| (process, proof)))
        .collect()
}

fn foreign(instance: InstanceId, process: &Process) -> bool {
    process.mark.is_some_and(|mark| mark.instance != instance)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::process::mark::Mark;

    const LEADER: Process = Process {
        pid: 10,
        parent: 1,
        group: 10,
        start: 500,
        zombie: false,
        mark: None,
        unsettled: false,
    };
    const ME: u32 = 77;

    fn dead() -> InstanceId {
        InstanceId::parse("00000000000000000000000000000001").unwrap()
    }

    fn mark_of(instance: &str, session: u64) -> Option<Mark> {
        Some(Mark { instance: InstanceId::parse(instance).unwrap(), session })
    }

    fn ours() -> Option<Mark> {
        mark_of("00000000000000000000000000000001", 1)
    }

    fn neighbours() -> Option<Mark> {
        mark_of("00000000000000000000000000000002", 1)
    }

    fn here() -> Realm {
        Realm { boot: "monday".to_owned(), pids: "pid:[1]".to_owned() }
    }

    /// The ledger holds pid 10, start 500, in `realm`; which of `table` must die?
    fn check_in(realm: &Realm, table: &[Process], wanted: &[(u32, Proof)]) {
        let leader = Identity { pid: 10, start: 500, realm: realm.clone() };
        let entry =
            Entry { mark: ours().unwrap(), program: "npx".to_owned(), leader: Some(leader) };
        let intent = Entry {
            mark: mark_of("00000000000000000000000000000001", 2).unwrap(),
            leader: None,
            ..entry.clone()
        };
        let doomed = decide(dead(), &[entry, intent], &here(), table, ME);
        let doomed: Vec<_> =
            doomed.into_iter().map(|(process, proof)| (process.pid, proof)).collect();
        assert_eq!(doomed, wanted, "{table:?}");
    }

    fn check(table: &[Process], wanted: &[(u32, Proof)]) {
        check_in(&here(), table, wanted);
    }

    #[test]
    fn the_leader_is_known_by_its_start_or_its_mark() {
        check(&[LEADER], &[(10, Proof::Leader)]);
        check(&[Process { mark: ours(), ..LEADER }], &[(10, Proof::Mark)]);
    }

    #[test]
    fn a_recycled_pid_is_left_alone() {
        check(&[Process { start: 501, ..LEADER }], &[]);
        check(&[Process { start: 501, mark: neighbours(), ..LEADER }], &[]);
    }

    #[test]
    fn a_living_neighbours_child_is_left_alone() {
        check(&[Process { pid: 11, group: 11, mark: neighbours(), ..LEADER }], &[]);
        // Even where everything else fits, as after a copied state folder.
        check(&[Process { mark: neighbours(), ..LEADER }, Process { pid: 11, ..LEADER }], &[]);
    }

    #[test]
    fn members_of_a_group_whose_leader_is_gone_need_the_mark() {
        let member = Process { pid: 11, ..LEADER };
        check(slice::from_ref(&member), &[]);
        check(&[Process { mark: ours(), ..member }], &[(11, Proof::Mark)]);
    }

    #[test]
    fn members_of_a_recycled_group_are_left_alone() {
        check(&[Process { start: 501, ..LEADER }, Process { pid: 11, ..LEADER }], &[]);
    }

    #[test]
    fn members_of_a_verified_leaders_group_need_no_mark() {
        let member = Process { pid: 11, ..LEADER };
        check(&[LEADER, member.clone()], &[(10, Proof::Leader), (11, Proof::Group)]);
        check(&[Process { zombie: true, ..LEADER }, member], &[(11, Proof::Group)]);
    }

    #[test]
    fn a_descendant_that_left_the_group_is_known_by_its_mark() {
        let stray = Process { pid: 12, group: 12, start: 900, mark: ours(), ..LEADER };
        check(slice::from_ref(&stray), &[(12, Proof::Mark)]);
        check(&[Process { mark: None, ..stray }], &[]);
    }

    #[test]
    fn a_child_without_a_pid_line_is_known_by_its_mark() {
        let mark = mark_of("00000000000000000000000000000001", 2);
        check(&[Process { pid: 13, group: 13, mark, ..LEADER }], &[(13, Proof::Mark)]);
    }

    #[test]
    fn pids_of_another_boot_or_namespace_mean_nothing() {
        check_in(
            &Realm { boot: "tuesday".to_owned(), ..here() },
            &[LEADER, Process { pid: 11, ..LEADER }],
            &[],
        );
        check_in(&Realm { pids: "pid:[2]".to_owned(), ..here() }, &[LEADER], &[]);
    }

    #[test]
    fn the_dead_the_first_process_and_the_asker_are_never_killed() {
        let row = |pid, zombie| Process { pid, zombie, mark: ours(), ..LEADER };
        check(&[row(10, true), row(1, false), row(ME, false)], &[]);
    }
}
