//! The words with which a request is called off.

use std::sync::{Arc, OnceLock};

use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{Id, ObjectWriter, Raw, build, method};

/// What is said when a request is called off, by whoever does so and has words of his own. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CallOff(Arc<Words>);

#[derive(Debug, Default)]
struct Words {
    said: OnceLock<Raw>,
    /// What ends with the request.
    also: OnceLock<CallOff>,
}

impl CallOff {
    /// The params of a `notifications/cancelled`, before the request is given up. The first word counts.
    pub fn say(&self, params: Raw) {
        if let Some(also) = self.0.also.get() {
            also.say(params.clone());
        }
        let _ = self.0.said.set(params);
    }

    /// From now on what is said here is said there, too.
    pub fn lead_to(&self, other: &CallOff) {
        let _ = self.0.also.set(other.clone());
    }

    /// The notification that ends a request: in the words that were said, or else with this reason.
    pub fn notification(&self, request: Id, otherwise: &str) -> Raw {
        let Some(said) = self.0.said.get() else {
            return Cancelled { request, reason: Some(otherwise.into()) }.build();
        };
        let own = ObjectWriter::new().id("requestId", &request).finish();
        let params = said.with_members([("requestId", own.get("requestId"))]);
        build::notification(method::CANCELLED, Some(params.json()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Raw {
        Raw::of(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
    }

    #[test]
    fn the_words_of_whoever_calls_off_reach_the_other_side_under_its_own_id() {
        let words = CallOff::default();
        let plain = words.notification(Id::Number(7), "timed out");
        assert_eq!(
            plain.text(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"timed out"}}"#
        );
        let later = CallOff::default();
        later.lead_to(&words);
        later.say(params(r#"{"reason":"not wanted","requestId":"abc","_meta":{"x":1}}"#));
        later.say(params(r#"{"reason":"too late","requestId":"abc"}"#));
        let told = words.notification(Id::Number(7), "timed out");
        for part in [r#""requestId":7"#, r#""reason":"not wanted""#, r#""_meta":{"x":1}"#] {
            assert!(told.text().contains(part), "{}", told.text());
        }
    }
}
