//! Rules against machine paths, registry hosts and big files.

use super::{Finding, SourceFile, finding, findings_by_line};

const MAX_BYTES: usize = 100 * 1024;

// Cut in two, so that the rule does not find itself.
const MACHINE_FOLDERS: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/re", "search"),
    concat!("/tmp/ba", "sh_jobs"),
];
const HOME_FOLDERS: [&str; 2] = [concat!("/ho", "me/"), concat!("/Us", "ers/")];
const REGISTRY_HOSTS: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("debian", ".org"),
];

/// User names that documents and examples may use.
const SAMPLE_USERS: [&str; 8] = ["user", "me", "you", "alice", "bob", "ada", "dev", "username"];

/// Finds paths that exist only on one machine.
pub(super) fn check_machine_paths(file: &SourceFile) -> Vec<Finding> {
    findings_by_line("machine-path", file, |line| {
        let folder = MACHINE_FOLDERS.iter().find(|folder| starts_path(line, folder, |_| true));
        let home =
            HOME_FOLDERS.iter().find(|home| starts_path(line, home, |rest| !is_sample_user(rest)));
        folder.or(home).map(|found| format!("contains the machine path `{found}`"))
    })
}

/// Returns true if an absolute path in the line begins with `prefix`. A longer path that only contains it
/// does not count.
fn starts_path(line: &str, prefix: &str, counts: impl Fn(&str) -> bool) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let inside = before.is_some_and(|c| c.is_alphanumeric() || "._-~/}>)*".contains(c));
        !inside && counts(&line[at + prefix.len()..])
    })
}

fn is_sample_user(rest: &str) -> bool {
    let end =
        rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
    let name = &rest[..end];
    // An empty name is a placeholder such as `<you>` or `$USER`.
    name.is_empty() || SAMPLE_USERS.contains(&name)
}

/// Finds registry hosts. Packages come by name from the configured registry, and a host in a file would
/// bypass that.
pub(super) fn check_registry_hosts(file: &SourceFile) -> Vec<Finding> {
    let is_cargo_lock = file.name() == "Cargo.lock";
    findings_by_line("registry-host", file, |line| {
        // Cargo writes this line itself, identical on every machine.
        if is_cargo_lock && line.starts_with("source = \"registry+") {
            return None;
        }
        let line = line.to_ascii_lowercase();
        let host = REGISTRY_HOSTS.iter().find(|host| line.contains(**host))?;
        Some(format!("contains the registry host `{host}`"))
    })
}

/// Finds big files. They are usually data or output, and they make every clone larger forever.
pub(super) fn check_file_size(file: &SourceFile) -> Option<Finding> {
    let big = file.bytes > MAX_BYTES && !file.is_lock();
    big.then(|| finding("file-size", file, 1, format!("{} bytes, at most {MAX_BYTES}", file.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> SourceFile {
        SourceFile::new("notes.md", text)
    }

    #[test]
    fn machine_paths_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(
                check_machine_paths(&note(&format!("a\nsee `{folder}x`"))).len(),
                1,
                "{folder}"
            );
        }
        for home in HOME_FOLDERS {
            assert_eq!(check_machine_paths(&note(&format!("{home}jdoe/src"))).len(), 1, "{home}");
        }
    }

    #[test]
    fn sample_users_and_inner_folders_are_allowed() {
        for home in HOME_FOLDERS {
            for name in ["user/x", "me", "alice/.ssh", "<you>/x", "$USER/x", "${USER}"] {
                assert!(
                    check_machine_paths(&note(&format!("{home}{name}"))).is_empty(),
                    "{home}{name}"
                );
            }
        }
        for folder in MACHINE_FOLDERS {
            for before in ["src", ".", "~", "${x}"] {
                assert!(
                    check_machine_paths(&note(&format!("{before}{folder}a"))).is_empty(),
                    "{before}{folder}"
                );
            }
        }
    }

    #[test]
    fn registry_hosts_are_found_in_any_file_and_case() {
        for host in REGISTRY_HOSTS {
            assert_eq!(
                check_registry_hosts(&note(&format!("https://{host}/x"))).len(),
                1,
                "{host}"
            );
            assert_eq!(check_registry_hosts(&note(&host.to_uppercase())).len(), 1, "{host}");
            let lock = SourceFile::new(
                "tests/peers/package-lock.json",
                &format!("\"resolved\": \"https://x.{host}/a\""),
            );
            assert_eq!(check_registry_hosts(&lock).len(), 1, "{host}");
        }
    }

    #[test]
    fn cargo_lock_source_line_is_allowed() {
        let line = format!(
            "source = \"registry+https://github.com/rust-lang/{}-index\"\n",
            REGISTRY_HOSTS[0]
        );
        assert!(check_registry_hosts(&SourceFile::new("fuzz/Cargo.lock", &line)).is_empty());
        assert_eq!(check_registry_hosts(&note(&line)).len(), 1);
        assert_eq!(
            check_registry_hosts(&SourceFile::new("Cargo.lock", REGISTRY_HOSTS[0])).len(),
            1
        );
    }

    #[test]
    fn big_files_except_lock_files_are_found() {
        let sized = |path: &str, bytes| SourceFile { bytes, ..SourceFile::new(path, "") };
        assert!(check_file_size(&sized("a.json", MAX_BYTES + 1)).is_some());
        assert!(check_file_size(&sized("a.json", MAX_BYTES)).is_none());
        assert!(check_file_size(&sized("x/package-lock.json", MAX_BYTES * 9)).is_none());
    }
}
