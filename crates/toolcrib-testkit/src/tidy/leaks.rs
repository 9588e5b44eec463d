//! Rules against what does not belong in the tree: paths of one machine, registry hosts, big files.

use super::{File, Finding, by_line, finding};

const MAX_BYTES: usize = 100 * 1024;

// Cut in two so that the rule does not find itself.
const PLACES: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/re", "search"),
    concat!("/tmp/ba", "sh_jobs"),
];
const HOMES: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];
const HOSTS: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("debian", ".org"),
];

/// Names that documents and examples give to a person who does not exist.
const NOBODY: [&str; 8] = ["user", "me", "you", "alice", "bob", "ada", "dev", "username"];

/// Where somebody happened to work is nobody else's path.
pub(super) fn machine_paths(file: &File) -> Vec<Finding> {
    by_line("machine-path", file, |line| {
        let place = PLACES.iter().find(|place| starts_path(line, place, |_| true));
        let home = HOMES.iter().find(|home| starts_path(line, home, |rest| !is_nobody(rest)));
        place.or(home).map(|found| format!("names the path `{found}` of one machine"))
    })
}

/// Whether an absolute path begins with `prefix` in the line; a longer path that only contains it
/// does not count.
fn starts_path(line: &str, prefix: &str, counts: impl Fn(&str) -> bool) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let inside = before.is_some_and(|c| c.is_alphanumeric() || "._-~/}>)*".contains(c));
        !inside && counts(&line[at + prefix.len()..])
    })
}

fn is_nobody(rest: &str) -> bool {
    let end =
        rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    let name = &rest[..end];
    // An empty name is a placeholder such as `<you>` or `$USER`.
    name.is_empty() || NOBODY.contains(&name)
}

/// Packages come by name from whatever registry the machine has; a host in a file would bypass that.
pub(super) fn registry_hosts(file: &File) -> Vec<Finding> {
    let is_cargo_lock = file.name() == "Cargo.lock";
    by_line("registry-host", file, |line| {
        // Cargo writes this line itself, the same on every machine.
        if is_cargo_lock && line.starts_with("source = \"registry+") {
            return None;
        }
        let line = line.to_ascii_lowercase();
        let host = HOSTS.iter().find(|host| line.contains(**host))?;
        Some(format!("names the registry host `{host}`"))
    })
}

/// A big file is data or somebody's output: it makes every clone heavy for ever.
pub(super) fn too_big(file: &File) -> Option<Finding> {
    let big = file.bytes > MAX_BYTES && !file.is_lock();
    big.then(|| finding("file-size", file, 1, format!("{} bytes, at most {MAX_BYTES}", file.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> File {
        File::new("notes.md", text)
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for place in PLACES {
            assert_eq!(machine_paths(&note(&format!("a\nsee `{place}x`"))).len(), 1, "{place}");
        }
        for home in HOMES {
            assert_eq!(machine_paths(&note(&format!("{home}jdoe/src"))).len(), 1, "{home}");
        }
    }

    #[test]
    fn sample_people_and_inner_folders_are_not() {
        for home in HOMES {
            for name in ["user/x", "me", "alice/.ssh", "<you>/x", "$USER/x", "${USER}"] {
                assert!(machine_paths(&note(&format!("{home}{name}"))).is_empty(), "{home}{name}");
            }
        }
        for place in PLACES {
            for before in ["src", ".", "~", "${x}"] {
                assert!(
                    machine_paths(&note(&format!("{before}{place}a"))).is_empty(),
                    "{before}{place}"
                );
            }
        }
    }

    #[test]
    fn registry_hosts_are_found_in_any_file_and_case() {
        for host in HOSTS {
            assert_eq!(registry_hosts(&note(&format!("https://{host}/x"))).len(), 1, "{host}");
            assert_eq!(registry_hosts(&note(&host.to_uppercase())).len(), 1, "{host}");
            let lock = File::new(
                "tests/peers/package-lock.json",
                &format!("\"resolved\": \"https://x.{host}/a\""),
            );
            assert_eq!(registry_hosts(&lock).len(), 1, "{host}");
        }
    }

    #[test]
    fn only_cargo_s_own_source_line_may_name_one() {
        let line =
            format!("source = \"registry+https://github.com/rust-lang/{}-index\"\n", HOSTS[0]);
        assert!(registry_hosts(&File::new("fuzz/Cargo.lock", &line)).is_empty());
        assert_eq!(registry_hosts(&note(&line)).len(), 1);
        assert_eq!(registry_hosts(&File::new("Cargo.lock", HOSTS[0])).len(), 1);
    }

    #[test]
    fn big_files_are_found_unless_they_are_lock_files() {
        let sized = |path: &str, bytes| File { bytes, ..File::new(path, "") };
        assert!(too_big(&sized("a.json", MAX_BYTES + 1)).is_some());
        assert!(too_big(&sized("a.json", MAX_BYTES)).is_none());
        assert!(too_big(&sized("x/package-lock.json", MAX_BYTES * 9)).is_none());
    }
}
