//! The reminder of a lease in the result of the call that began it.

use serde_json::json;
use toolcrib::lease::Reminder;
use toolcrib_wire::{ObjectWriter, Raw};

/// The member of a result's `_meta`: a list as `GET dialogs/{id}/reminders` has it.
const REMINDERS: &str = "toolcrib/reminders";

/// The result with the reminder in its `_meta`; everything else stays as the server wrote it.
pub(super) fn with_reminder(result: &Raw, reminder: &Reminder) -> Raw {
    let list = json!([{"server": reminder.server, "text": reminder.text}]);
    let Ok(list) = Raw::of(&list) else { return result.clone() };
    let given = result.get("_meta").filter(|meta| meta.json().is_object());
    let meta = given.unwrap_or_else(|| ObjectWriter::new().finish());
    let meta = meta.with_members([(REMINDERS, Some(list))]);
    result.with_members([("_meta", Some(meta))])
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::Limits;

    use super::*;

    #[test]
    fn dom_62_a_reminder_joins_what_the_server_wrote() {
        let reminder = Reminder { server: "s".into(), text: "give it back".into() };
        let added = r#""toolcrib/reminders":[{"server":"s","text":"give it back"}]"#;
        for (result, expected) in [
            (r#"{"content":[]}"#, format!(r#"{{"_meta":{{{added}}},"content":[]}}"#)),
            (
                r#"{"_meta":{"a":1.0},"content":[]}"#,
                format!(r#"{{"_meta":{{{added},"a":1.0}},"content":[]}}"#),
            ),
        ] {
            let raw = Raw::parse(result, &Limits::default()).unwrap();
            assert_eq!(with_reminder(&raw, &reminder).text(), expected);
        }
    }
}
