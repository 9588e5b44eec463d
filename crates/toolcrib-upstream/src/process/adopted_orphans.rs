//! Adopted orphans: without cgroups the host becomes the parent of descendants that lost their own parents.

use super::sys::ProcessInfo;

/// Selects the processes that `own_pid` has adopted: its child processes, except its own `leaders` and the
/// members of its own group.
pub(crate) fn filter_adopted(
    table: Vec<ProcessInfo>,
    own_pid: u32,
    own_group: u32,
    leaders: &[u32],
) -> Vec<ProcessInfo> {
    let is_adopted = |row: &ProcessInfo| {
        row.parent == own_pid && row.group != own_group && !leaders.contains(&row.pid)
    };
    table.into_iter().filter(is_adopted).collect()
}

/// Returns whether no running child can have started the orphan. A process is never older than its ancestor; `living`
/// holds the start times of the running children.
pub(crate) fn is_ownerless(orphan: &ProcessInfo, living: &[u64]) -> bool {
    living.iter().all(|start| *start > orphan.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: ProcessInfo = ProcessInfo {
        pid: 20,
        parent: 7,
        group: 20,
        start: 500,
        zombie: false,
        mark: None,
        is_mid_exec: false,
    };

    #[test]
    fn children_not_started_by_the_host_are_adopted() {
        let (own_pid, own_group, leaders) = (7, 5, [10]);
        for (row, wanted) in [
            (ROW, true),
            (ProcessInfo { zombie: true, ..ROW }, true),
            (ProcessInfo { parent: 8, ..ROW }, false),
            (ProcessInfo { pid: 10, group: 10, ..ROW }, false),
            // Processes that other code of the program starts stay in the program's group.
            (ProcessInfo { group: 5, ..ROW }, false),
        ] {
            let found = filter_adopted(vec![row.clone()], own_pid, own_group, &leaders);
            assert_eq!(!found.is_empty(), wanted, "{row:?}");
        }
    }

    #[test]
    fn orphan_survives_while_a_possible_parent_lives() {
        for (living, wanted) in [
            (&[][..], true),
            (&[501], true),
            (&[500], false),
            (&[499], false),
            (&[900, 3], false),
            // A child with an unknown start time.
            (&[0], false),
        ] {
            assert_eq!(is_ownerless(&ROW, living), wanted, "{living:?}");
        }
    }
}
