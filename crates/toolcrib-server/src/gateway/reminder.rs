//! Adds the reminder of a new lease to the result of the call that acquired it.

use serde_json::json;
use toolcrib::Reminder;
use toolcrib_wire::{ObjectWriter, RawJson};

/// Key in the `_meta` of a result; the list has the format of `GET dialogs/{id}/reminders`.
const REMINDERS: &str = "toolcrib/reminders";

/// Adds the reminder to the `_meta` of a result and leaves everything else unchanged.
pub(super) fn with_reminder(result: &RawJson, reminder: &Reminder) -> RawJson {
    let list = json!([{"server": reminder.server, "text": reminder.text}]);
    let Ok(list) = RawJson::from_value(&list) else { return result.clone() };
    let given = result.get("_meta").filter(|meta| meta.json().is_object());
    let meta = given.unwrap_or_else(|| ObjectWriter::new().finish());
    let meta = meta.with_members([(REMINDERS, Some(list))]);
    result.with_members([("_meta", Some(meta))])
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::MessageLimits;

    use super::*;

    #[test]
    fn dom_62_reminder_is_added_to_the_server_meta() {
        let reminder = Reminder { server: "s".into(), text: "give it back".into() };
        let added = r#""toolcrib/reminders":[{"server":"s","text":"give it back"}]"#;
        for (result, expected) in [
            (r#"{"content":[]}"#, format!(r#"{{"_meta":{{{added}}},"content":[]}}"#)),
            (
                r#"{"_meta":{"a":1.0},"content":[]}"#,
                format!(r#"{{"_meta":{{{added},"a":1.0}},"content":[]}}"#),
            ),
        ] {
            let raw = RawJson::parse(result, &MessageLimits::default()).unwrap();
            assert_eq!(with_reminder(&raw, &reminder).text(), expected);
        }
    }
}
