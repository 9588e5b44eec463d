//! Adopted orphans: where there are no cgroups, the host is the parent of processes whose own parents have ended.

use super::sys::Process;

/// The rows that this process (`me`) has adopted: its children, but for those that it started itself, which are
/// `leaders` or in its own group.
pub(crate) fn adopted(
    table: Vec<Process>,
    me: u32,
    own_group: u32,
    leaders: &[u32],
) -> Vec<Process> {
    let is_adopted =
        |row: &Process| row.parent == me && row.group != own_group && !leaders.contains(&row.pid);
    table.into_iter().filter(is_adopted).collect()
}

/// Whether no living child can have started the orphan: nobody is older than its ancestor. `living` are the start
/// times of the children.
pub(crate) fn is_ownerless(orphan: &Process, living: &[u64]) -> bool {
    living.iter().all(|start| *start > orphan.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Process = Process {
        pid: 20,
        parent: 7,
        group: 20,
        start: 500,
        zombie: false,
        mark: None,
        unsettled: false,
    };

    #[test]
    fn children_that_nobody_started_here_are_adopted() {
        let (me, own_group, leaders) = (7, 5, [10]);
        for (row, wanted) in [
            (ROW, true),
            (Process { zombie: true, ..ROW }, true),
            (Process { parent: 8, ..ROW }, false),
            (Process { pid: 10, group: 10, ..ROW }, false),
            // What other code of the program has started stays in the program's group.
            (Process { group: 5, ..ROW }, false),
        ] {
            let found = adopted(vec![row.clone()], me, own_group, &leaders);
            assert_eq!(!found.is_empty(), wanted, "{row:?}");
        }
    }

    #[test]
    fn an_orphan_stays_while_a_child_lives_that_may_have_started_it() {
        for (living, wanted) in [
            (&[][..], true),
            (&[501], true),
            (&[500], false),
            (&[499], false),
            (&[900, 3], false),
            // Its start is not known.
            (&[0], false),
        ] {
            assert_eq!(is_ownerless(&ROW, living), wanted, "{living:?}");
        }
    }
}
