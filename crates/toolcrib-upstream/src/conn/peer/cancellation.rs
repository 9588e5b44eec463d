//! Params of `notifications/cancelled` for one request.

use std::sync::{Arc, OnceLock};

use toolcrib_wire::notification::Cancelled;
use toolcrib_wire::{Id, ObjectWriter, RawJson, build, method};

/// Shared cell for the params of a cancellation. The party that cancels may set its own params; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<CancellationCell>);

#[derive(Debug, Default)]
struct CancellationCell {
    params: OnceLock<RawJson>,
    /// Cancellation of a nested request, which gets the same params.
    forward: OnceLock<Cancellation>,
}

impl Cancellation {
    /// Sets the params of `notifications/cancelled`. Call it before the request is dropped. The first call wins.
    pub fn set_params(&self, params: RawJson) {
        if let Some(forward) = self.0.forward.get() {
            forward.set_params(params.clone());
        }
        let _ = self.0.params.set(params);
    }

    /// Forwards later params to `other` too.
    pub fn forward_to(&self, other: &Cancellation) {
        let _ = self.0.forward.set(other.clone());
    }

    /// Builds the notification: with the params that were set, or else with the reason `otherwise`.
    pub fn notification(&self, request: Id, otherwise: &str) -> RawJson {
        let Some(given) = self.0.params.get() else {
            return Cancelled { request, reason: Some(otherwise.into()) }.build();
        };
        let own = ObjectWriter::new().id("requestId", &request).finish();
        let params = given.with_members([("requestId", own.get("requestId"))]);
        build::notification(method::CANCELLED, Some(params.json()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> RawJson {
        RawJson::from_value(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
    }

    #[test]
    fn cancellation_params_keep_the_reason_and_get_the_own_request_id() {
        let outer = Cancellation::default();
        let default = outer.notification(Id::Number(7), "timed out");
        assert_eq!(
            default.text(),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"timed out"}}"#
        );
        let inner = Cancellation::default();
        inner.forward_to(&outer);
        inner.set_params(params(r#"{"reason":"not wanted","requestId":"abc","_meta":{"x":1}}"#));
        inner.set_params(params(r#"{"reason":"too late","requestId":"abc"}"#));
        let notification = outer.notification(Id::Number(7), "timed out");
        for part in [r#""requestId":7"#, r#""reason":"not wanted""#, r#""_meta":{"x":1}"#] {
            assert!(notification.text().contains(part), "{}", notification.text());
        }
    }
}
