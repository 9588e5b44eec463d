//! Decides which running processes belong to a dead instance. Reaping kills only these.

use super::ledger::ChildEntry;
use super::owner_mark::HostInstanceId;
use super::sys::{PidScope, ProcessIdentity, ProcessInfo};

/// Evidence that a process belongs to the dead instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnershipProof {
    /// The process carries the instance's owner mark.
    Mark,
    /// The process has no readable mark, but its pid and start time match a ledger entry.
    Leader,
    /// The process has no readable mark, but belongs to the group of a verified leader.
    Group,
    /// Neither mark nor ledger match, but the process is in the instance's cgroup.
    Cgroup,
}

/// Returns the processes of `table` that belong to `instance`. Skips `own_pid`: this process may carry the
/// mark too, if a child of the dead instance started it.
pub(crate) fn find_owned_processes<'a>(
    instance: HostInstanceId,
    entries: &[ChildEntry],
    pid_scope: &PidScope,
    table: &'a [ProcessInfo],
    own_pid: u32,
) -> Vec<(&'a ProcessInfo, OwnershipProof)> {
    let leaders: Vec<&ProcessIdentity> =
        entries.iter().filter_map(|entry| entry.leader.as_ref()).collect();
    // A group id is trustworthy while its leader runs or is an unreaped zombie: until then the kernel does
    // not reuse the id.
    let is_verified = |leader: &ProcessIdentity| {
        table
            .iter()
            .any(|process| leader.matches(pid_scope, process) && !has_other_mark(instance, process))
    };
    let groups: Vec<u32> =
        leaders.iter().filter(|leader| is_verified(leader)).map(|leader| leader.pid).collect();

    let proof = |process: &ProcessInfo| match process.mark {
        Some(mark) => (mark.instance == instance).then_some(OwnershipProof::Mark),
        None if leaders.iter().any(|leader| leader.matches(pid_scope, process)) => {
            Some(OwnershipProof::Leader)
        }
        None => groups.contains(&process.group).then_some(OwnershipProof::Group),
    };
    table
        .iter()
        .filter(|process| !process.zombie && process.pid > 1 && process.pid != own_pid)
        .filter_map(|process| proof(process).map(|proof| (process, proof)))
        .collect()
}

fn has_other_mark(instance: HostInstanceId, process: &ProcessInfo) -> bool {
    process.mark.is_some_and(|mark| mark.instance != instance)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::process::owner_mark::OwnerMark;

    const LEADER: ProcessInfo = ProcessInfo {
        pid: 10,
        parent: 1,
        group: 10,
        start: 500,
        zombie: false,
        mark: None,
        is_mid_exec: false,
    };
    const OWN_PID: u32 = 77;

    fn dead_instance() -> HostInstanceId {
        HostInstanceId::parse("00000000000000000000000000000001").unwrap()
    }

    fn mark(instance: &str, session: u64) -> Option<OwnerMark> {
        Some(OwnerMark { instance: HostInstanceId::parse(instance).unwrap(), session })
    }

    fn own_mark() -> Option<OwnerMark> {
        mark("00000000000000000000000000000001", 1)
    }

    fn other_mark() -> Option<OwnerMark> {
        mark("00000000000000000000000000000002", 1)
    }

    fn local_scope() -> PidScope {
        PidScope { boot: "monday".to_owned(), pids: "pid:[1]".to_owned() }
    }

    /// Checks which processes of `table` are owned when the ledger holds pid 10 with start time 500 in
    /// `pid_scope`.
    fn check_in(pid_scope: &PidScope, table: &[ProcessInfo], wanted: &[(u32, OwnershipProof)]) {
        let leader = ProcessIdentity { pid: 10, start: 500, pid_scope: pid_scope.clone() };
        let entry = ChildEntry {
            mark: own_mark().unwrap(),
            program: "npx".to_owned(),
            leader: Some(leader),
        };
        let intent = ChildEntry {
            mark: mark("00000000000000000000000000000001", 2).unwrap(),
            leader: None,
            ..entry.clone()
        };
        let owned =
            find_owned_processes(dead_instance(), &[entry, intent], &local_scope(), table, OWN_PID);
        let owned: Vec<_> =
            owned.into_iter().map(|(process, proof)| (process.pid, proof)).collect();
        assert_eq!(owned, wanted, "{table:?}");
    }

    fn check(table: &[ProcessInfo], wanted: &[(u32, OwnershipProof)]) {
        check_in(&local_scope(), table, wanted);
    }

    #[test]
    fn leader_matches_by_start_time_or_mark() {
        check(&[LEADER], &[(10, OwnershipProof::Leader)]);
        check(&[ProcessInfo { mark: own_mark(), ..LEADER }], &[(10, OwnershipProof::Mark)]);
    }

    #[test]
    fn recycled_pid_is_not_owned() {
        check(&[ProcessInfo { start: 501, ..LEADER }], &[]);
        check(&[ProcessInfo { start: 501, mark: other_mark(), ..LEADER }], &[]);
    }

    #[test]
    fn child_of_another_live_host_is_not_owned() {
        check(&[ProcessInfo { pid: 11, group: 11, mark: other_mark(), ..LEADER }], &[]);
        // The mark wins even if pid and start time match, as after copying a state folder.
        check(
            &[ProcessInfo { mark: other_mark(), ..LEADER }, ProcessInfo { pid: 11, ..LEADER }],
            &[],
        );
    }

    #[test]
    fn members_of_a_leaderless_group_need_the_mark() {
        let member = ProcessInfo { pid: 11, ..LEADER };
        check(slice::from_ref(&member), &[]);
        check(&[ProcessInfo { mark: own_mark(), ..member }], &[(11, OwnershipProof::Mark)]);
    }

    #[test]
    fn members_of_a_recycled_group_are_not_owned() {
        check(&[ProcessInfo { start: 501, ..LEADER }, ProcessInfo { pid: 11, ..LEADER }], &[]);
    }

    #[test]
    fn members_of_a_verified_leaders_group_need_no_mark() {
        let member = ProcessInfo { pid: 11, ..LEADER };
        check(
            &[LEADER, member.clone()],
            &[(10, OwnershipProof::Leader), (11, OwnershipProof::Group)],
        );
        check(&[ProcessInfo { zombie: true, ..LEADER }, member], &[(11, OwnershipProof::Group)]);
    }

    #[test]
    fn descendant_outside_the_group_matches_by_mark() {
        let stray = ProcessInfo { pid: 12, group: 12, start: 900, mark: own_mark(), ..LEADER };
        check(slice::from_ref(&stray), &[(12, OwnershipProof::Mark)]);
        check(&[ProcessInfo { mark: None, ..stray }], &[]);
    }

    #[test]
    fn child_without_a_recorded_pid_matches_by_mark() {
        let mark = mark("00000000000000000000000000000001", 2);
        check(&[ProcessInfo { pid: 13, group: 13, mark, ..LEADER }], &[(13, OwnershipProof::Mark)]);
    }

    #[test]
    fn pids_of_another_boot_or_namespace_are_ignored() {
        check_in(
            &PidScope { boot: "tuesday".to_owned(), ..local_scope() },
            &[LEADER, ProcessInfo { pid: 11, ..LEADER }],
            &[],
        );
        check_in(&PidScope { pids: "pid:[2]".to_owned(), ..local_scope() }, &[LEADER], &[]);
    }

    #[test]
    fn zombies_init_and_the_own_process_are_never_owned() {
        let row = |pid, zombie| ProcessInfo { pid, zombie, mark: own_mark(), ..LEADER };
        check(&[row(10, true), row(1, false), row(OWN_PID, false)], &[]);
    }
}
