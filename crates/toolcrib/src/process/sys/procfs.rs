//! Reads the texts of `/proc`.

use crate::process::mark::{Mark, OWNER_VARIABLE};

/// The part of `/proc/<pid>/stat` that tells processes apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) group: u32,
    pub(crate) start: u64,
    pub(crate) zombie: bool,
}

/// `None` where the text is not what proc(5) describes.
pub(crate) fn stat(text: &[u8]) -> Option<Stat> {
    // The name may contain spaces and parentheses: the fields begin after the last one that closes.
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(&text[name_end + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(Stat {
        group,
        start,
        zombie: matches!(state, "Z" | "X" | "x"),
    })
}

/// The mark in a `/proc/<pid>/environ`, as `getenv` in that process would find it.
pub(crate) fn mark(environ: &[u8]) -> Option<Mark> {
    let value = environ.split(|byte| *byte == 0).find_map(|entry| {
        entry
            .strip_prefix(OWNER_VARIABLE.as_bytes())?
            .strip_prefix(b"=")
    })?;
    Mark::parse(str::from_utf8(value).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str =
        "1 4242 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 2523136 170 18446744073709551615";

    #[test]
    fn stat_is_read_whatever_the_name() {
        for name in ["sh", "a b", "x) Z 1 9 9", "((", ")", "\u{fffd}"] {
            let text = format!("17 ({name}) S {REST}\n");
            let wanted = Stat {
                group: 4242,
                start: 987_654,
                zombie: false,
            };
            assert_eq!(stat(text.as_bytes()), Some(wanted), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_not_text_is_no_obstacle() {
        let text = [b"17 (\xff\xfe) Z ", REST.as_bytes()].concat();
        assert_eq!(
            stat(&text),
            Some(Stat {
                group: 4242,
                start: 987_654,
                zombie: true
            })
        );
    }

    #[test]
    fn a_cut_or_strange_stat_is_nothing() {
        for text in [
            "",
            "17",
            "17 (sh)",
            "17 (sh) S 1 4242",
            "17 (sh) S 1 x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        ] {
            assert_eq!(stat(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_mark_is_the_variable_of_that_name_only() {
        let id = "0123456789abcdef0123456789abcdef";
        let found =
            |text: String| mark(text.replace('|', "\0").as_bytes()).map(|mark| mark.to_string());
        let wanted = Some(format!("{id}:3"));
        assert_eq!(found(format!("A=1|TOOLCRIB_OWNER={id}:3|B=2|")), wanted);
        assert_eq!(found(format!("TOOLCRIB_OWNER={id}:3")), wanted);
        assert_eq!(
            found(format!("TOOLCRIB_OWNER={id}:3|TOOLCRIB_OWNER={id}:4|")),
            wanted
        );
        for other in ["", "|", "TOOLCRIB_OWNER=", "TOOLCRIB_OWNER=nonsense|"] {
            assert_eq!(found(other.to_owned()), None, "{other}");
        }
        assert_eq!(
            found(format!(
                "XTOOLCRIB_OWNER={id}:3|TOOLCRIB_OWNERS={id}:3|A=TOOLCRIB_OWNER={id}:3"
            )),
            None
        );
    }
}
