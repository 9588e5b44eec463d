//! Parsers for files of `/proc`.

use std::path::Path;

use crate::process::owner_mark::{OWNER_VARIABLE, OwnerMark};

/// The fields of `/proc/<pid>/stat` that identify a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) start: u64,
    pub(crate) zombie: bool,
    /// A kernel thread, which never has an environment.
    pub(crate) kernel: bool,
    /// Length of the environment. `None` in the middle of `execve` and when the process is about to exit.
    pub(crate) environ: Option<u64>,
}

/// Parses `/proc/<pid>/stat`. Returns `None` if the text does not match proc(5).
pub(crate) fn parse_stat(text: &[u8]) -> Option<Stat> {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    // The name may contain spaces and parentheses, so the fields start after the last closing one.
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(&text[name_end + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(3)?.parse().ok()?;
    let start = fields.nth(12)?.parse().ok()?;
    // `execve` sets this field last. While it is 0, the other memory fields are not reliable.
    let code = fields.nth(3)?;
    let environ_start: u64 = fields.nth(23)?.parse().ok()?;
    let environ_end: u64 = fields.next()?.parse().ok()?;
    Some(Stat {
        parent,
        group,
        start,
        zombie: matches!(state, "Z" | "X" | "x"),
        kernel: flags & KERNEL_THREAD != 0,
        environ: environ_end.checked_sub(environ_start).filter(|_| code != "0"),
    })
}

/// Parses the resident memory in bytes from `/proc/<pid>/status`.
pub(crate) fn parse_resident_memory(status: &[u8]) -> Option<u64> {
    let text = str::from_utf8(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Parses the machine's memory in bytes from `/proc/meminfo`.
pub(crate) fn parse_total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Lists the files that may hold a memory limit, from `/proc/self/cgroup`: those of each group and all its
/// ancestors, for cgroup v2 and for the memory controller of cgroup v1.
pub(crate) fn memory_limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for group in Path::new(path).ancestors() {
            let group = group.to_string_lossy();
            files.push(format!("{root}{}/{file}", group.trim_end_matches('/')));
        }
    }
    files
}

/// Parses address and length of a `/proc/<pid>/maps` line that maps code of `executable`.
pub(crate) fn parse_code_mapping(line: &str, executable: &Path) -> Option<(usize, usize)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let file = fields.nth(3)?.trim_start();
    if rights != "r-xp" || Path::new(file) != executable {
        return None;
    }
    let address = |text| usize::from_str_radix(text, 16).ok();
    let start = address(start)?;
    Some((start, address(end)?.checked_sub(start)?))
}

/// Parses the owner mark from `/proc/<pid>/environ`, as `getenv` in that process would find it.
pub(crate) fn parse_mark(environ: &[u8]) -> Option<OwnerMark> {
    let entry = environ
        .split_inclusive(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(OWNER_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    // A value without its final NUL was truncated during the read and may be a prefix of another mark.
    let value = entry.strip_suffix(b"\0")?;
    OwnerMark::parse(str::from_utf8(value).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limit_files_cover_all_ancestor_cgroups_of_both_versions() {
        assert_eq!(parse_total_memory("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 << 10));
        assert_eq!(parse_total_memory("MemTotal: much"), None);
        let groups = "4:cpu,memory:/a\n3:cpuset:/b\n0::/c/d\nodd\n";
        let expected = [
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/c/d/memory.max",
            "/sys/fs/cgroup/c/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(memory_limit_files(groups), expected);
    }

    #[test]
    fn code_mappings_are_those_of_the_executable() {
        let own = Path::new("/usr/bin/tool crib");
        for (line, expected) in [
            ("1000-3000 r-xp 00000000 fe:00 7    /usr/bin/tool crib", Some((0x1000, 0x2000))),
            ("1000-3000 r--p 00000000 fe:00 7    /usr/bin/tool crib", None),
            ("1000-3000 rw-p 00000000 fe:00 7    /usr/bin/tool crib", None),
            ("1000-3000 r-xp 00000000 fe:00 7    /usr/lib/libc.so.6", None),
            ("1000-3000 r-xp 00000000 00:00 0", None),
            ("3000-1000 r-xp 00000000 fe:00 7    /usr/bin/tool crib", None),
            ("", None),
        ] {
            assert_eq!(parse_code_mapping(line, own), expected, "{line}");
        }
    }

    /// A real line of the kernel, from the parent pid on.
    const REST: &str = "1 4242 4241 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 1 0 987654 2523136 374 \
        18446744073709551615 94098461646848 94098461665865 140734693446208 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 \
        94098461677968 94098461679592 94098493235200 140734693451319 140734693451339 140734693451339 \
        140734693453803 0";

    const WANTED: Stat = Stat {
        parent: 1,
        group: 4242,
        start: 987_654,
        zombie: false,
        kernel: false,
        environ: Some(2464),
    };

    #[test]
    fn stat_parses_with_any_process_name() {
        for name in ["sh", "a b", "x) Z 1 9 9", "((", ")", "\u{fffd}"] {
            let text = format!("17 ({name}) S {REST}\n");
            assert_eq!(parse_stat(text.as_bytes()), Some(WANTED), "{name}");
        }
    }

    #[test]
    fn stat_parses_with_a_non_utf8_process_name() {
        let text = [b"17 (\xff\xfe) Z ", REST.as_bytes()].concat();
        assert_eq!(parse_stat(&text), Some(Stat { zombie: true, ..WANTED }));
    }

    #[test]
    fn missing_environment_differs_from_an_empty_one() {
        let read = |code: &str, end: &str| {
            let rest = REST.replace("94098461646848", code).replace("140734693453803", end);
            parse_stat(format!("17 (sh) R {rest}").as_bytes()).unwrap().environ
        };
        assert_eq!(read("94098461646848", "140734693451339"), Some(0));
        assert_eq!(read("0", "140734693451339"), None);
        assert_eq!(read("0", "0"), None);
    }

    #[test]
    fn kernel_thread_is_detected_by_its_flag() {
        let text = format!("2 (kthreadd) S {}", REST.replace(" 4194304 ", " 2129984 "));
        assert_eq!(parse_stat(text.as_bytes()), Some(Stat { kernel: true, ..WANTED }));
    }

    #[test]
    fn truncated_or_malformed_stat_is_rejected() {
        for text in [
            "",
            "17",
            "17 (sh)",
            "17 (sh) S 1 4242",
            "17 (sh) S 1 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        ] {
            assert_eq!(parse_stat(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn mark_is_read_from_the_owner_variable_only() {
        let id = "0123456789abcdef0123456789abcdef";
        let found = |text: String| {
            parse_mark(text.replace('|', "\0").as_bytes()).map(|mark| mark.to_string())
        };
        let wanted = Some(format!("{id}:3"));
        assert_eq!(found(format!("A=1|TOOLCRIB_OWNER={id}:3|B=2|")), wanted);
        assert_eq!(found(format!("A=1|TOOLCRIB_OWNER={id}:3")), None, "cut");
        assert_eq!(found(format!("TOOLCRIB_OWNER={id}:3|TOOLCRIB_OWNER={id}:4|")), wanted);
        for other in ["", "|", "TOOLCRIB_OWNER=", "TOOLCRIB_OWNER=nonsense|"] {
            assert_eq!(found(other.to_owned()), None, "{other}");
        }
        assert_eq!(
            found(format!("XTOOLCRIB_OWNER={id}:3|TOOLCRIB_OWNERS={id}:3|A=TOOLCRIB_OWNER={id}:3")),
            None
        );
    }
}
