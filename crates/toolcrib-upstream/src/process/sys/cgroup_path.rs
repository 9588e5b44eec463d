//! Finds this process's cgroup (version 2) in `/proc`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Returns the folder of the process's cgroup, from `/proc/self/mountinfo` and `/proc/self/cgroup`. Returns
/// `None` if no cgroup v2 file system is mounted, or if the mount does not include the process's cgroup.
pub(crate) fn own_cgroup(mountinfo: &[u8], cgroup: &str) -> Option<PathBuf> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = Path::new(own);
    if own.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    let mounts = mountinfo.split(|byte| *byte == b'\n').filter_map(parse_mount);
    mounts.into_iter().find_map(|(root, point)| {
        let inside = own.strip_prefix(&root).ok()?;
        Some(if inside.as_os_str().is_empty() { point } else { point.join(inside) })
    })
}

/// Parses the root and the mount point of a `mountinfo` line of a cgroup v2 file system.
fn parse_mount(line: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (root, point) = (fields.nth(3)?, fields.next()?);
    // Optional fields end with a lone dash. The file system type follows.
    fields.find(|field| *field == b"-")?;
    (fields.next()? == b"cgroup2").then(|| (decode_path(root), decode_path(point)))
}

/// Decodes octal escapes: spaces and some other characters are written as three octal digits.
fn decode_path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let code = octal.and_then(|digits| str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "25 30 0:23 / /proc rw,nosuid - proc proc rw\n\
        35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn own_cgroup_is_below_the_mount_point() {
        let hybrid = "40 39 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 39 0:36 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let part = "35 24 0:30 /user.slice /run/my\\040cgroup rw - cgroup2 cgroup2 rw\n";
        for (mountinfo, cgroup, wanted) in [
            (UNIFIED, "0::/", Some("/sys/fs/cgroup")),
            (UNIFIED, "0::/user.slice/a.scope\n", Some("/sys/fs/cgroup/user.slice/a.scope")),
            (hybrid, "4:memory:/x\n0::/\n", Some("/sys/fs/cgroup/unified")),
            (part, "0::/user.slice/a.scope", Some("/run/my cgroup/a.scope")),
            (part, "0::/system.slice", None),
            (UNIFIED, "0::/../other", None),
            (UNIFIED, "4:memory:/x\n", None),
            ("40 39 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw", "0::/", None),
            ("", "", None),
        ] {
            let found = own_cgroup(mountinfo.as_bytes(), cgroup);
            assert_eq!(found, wanted.map(PathBuf::from), "{mountinfo}{cgroup}");
        }
    }
}
