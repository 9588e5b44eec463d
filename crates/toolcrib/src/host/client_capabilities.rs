//! The client features that a dialog can answer, and their declaration to servers.

use std::sync::atomic::{AtomicU8, Ordering};

use toolcrib_config::model::policy::{ClientPolicy, FeatureAccess, Roots};
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Json, ObjectWriter, RawJson, RpcError, method};

/// The client features that a dialog can answer. The host declares no other features to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DialogCapabilities {
    /// Whether the client can show forms (elicitation).
    pub elicitation: bool,
    /// Whether the client can open URLs (elicitation by URL).
    pub elicitation_url: bool,
    /// Whether the client has a model (sampling).
    pub sampling: bool,
    /// Whether sampling supports tools.
    pub sampling_tools: bool,
    /// Whether sampling supports context from servers.
    pub sampling_context: bool,
    /// Whether the client has roots of its own. Without them, the dialog's folder is the root.
    pub roots: bool,
    /// Whether the client announces changes of its roots.
    pub roots_changes: bool,
}

impl DialogCapabilities {
    /// Every feature of a person and a model, without roots.
    pub const PERSON_AND_MODEL: DialogCapabilities = DialogCapabilities {
        elicitation: true,
        elicitation_url: true,
        sampling: true,
        sampling_tools: true,
        sampling_context: true,
        roots: false,
        roots_changes: false,
    };

    /// Reads the features from a client's declared capabilities.
    pub fn from_client(capabilities: &ClientCapabilities) -> Self {
        DialogCapabilities {
            elicitation: capabilities.elicitation_form(),
            elicitation_url: capabilities.elicitation_url(),
            sampling: capabilities.sampling(),
            sampling_tools: capabilities.sampling_tools(),
            sampling_context: capabilities.sampling_context(),
            roots: capabilities.roots(),
            roots_changes: capabilities.roots_changes(),
        }
    }

    /// Why the client cannot answer this request, or `None` if it can.
    pub fn refusal(self, called: &str, params: Json<'_>) -> Option<RpcError> {
        let (is_known, is_possible) = match called {
            method::ELICIT => {
                let mode = params.get("mode").and_then(Json::as_str);
                let is_url = mode.as_deref() == Some("url");
                let (form, url) = (self.elicitation, self.elicitation_url);
                (form || url, if is_url { url } else { form })
            }
            method::CREATE_MESSAGE => {
                let has_tools = params.get("tools").is_some_and(|tools| !tools.is_null());
                (self.sampling, self.sampling_tools || !has_tools)
            }
            method::ROOTS_LIST => (self.roots, true),
            _ => (false, false),
        };
        match (is_known, is_possible) {
            (true, true) => None,
            (true, false) => {
                Some(RpcError::invalid_params("the client does not support this kind of request"))
            }
            (false, _) => Some(RpcError::method_not_found(called)),
        }
    }

    fn flags_mut(&mut self) -> [&mut bool; 7] {
        [
            &mut self.elicitation,
            &mut self.elicitation_url,
            &mut self.sampling,
            &mut self.sampling_tools,
            &mut self.sampling_context,
            &mut self.roots,
            &mut self.roots_changes,
        ]
    }

    fn to_bits(mut self) -> u8 {
        let flags = self.flags_mut().into_iter().enumerate();
        flags.fold(0, |bits, (index, flag)| bits | u8::from(*flag) << index)
    }

    fn from_bits(bits: u8) -> Self {
        let mut capabilities = DialogCapabilities::default();
        for (index, flag) in capabilities.flags_mut().into_iter().enumerate() {
            *flag = bits >> index & 1 == 1;
        }
        capabilities
    }
}

/// The union of the capabilities of all requests of a dialog so far. Sessions of the legacy era
/// declare capabilities once, when they open. Each request of a server is still checked against the
/// capabilities of its own call.
#[derive(Debug)]
pub(super) struct DeclaredCapabilities(AtomicU8);

impl DeclaredCapabilities {
    pub(super) fn new(capabilities: DialogCapabilities) -> Self {
        DeclaredCapabilities(AtomicU8::new(capabilities.to_bits()))
    }

    pub(super) fn get(&self) -> DialogCapabilities {
        DialogCapabilities::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, capabilities: DialogCapabilities) {
        let bits = capabilities.to_bits();
        // Nearly always all bits are set already.
        if self.0.load(Ordering::Relaxed) & bits != bits {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

/// The capabilities to declare: only features that the client can answer and that the policy
/// allows.
pub(super) fn declared_capabilities(
    client: &ClientPolicy,
    capabilities: DialogCapabilities,
) -> ClientCapabilities {
    let mut declared = ObjectWriter::new();
    if client.roots == Roots::Cwd {
        let roots = match capabilities.roots_changes {
            true => ObjectWriter::new().bool("listChanged", true).finish(),
            false => ObjectWriter::new().finish(),
        };
        declared = declared.json("roots", roots.json());
    }
    if capabilities.sampling && client.sampling != FeatureAccess::Off {
        let ways =
            [("tools", capabilities.sampling_tools), ("context", capabilities.sampling_context)];
        declared = declared.json("sampling", enabled_members(ways).json());
    }
    if (capabilities.elicitation || capabilities.elicitation_url)
        && client.elicitation != FeatureAccess::Off
    {
        let ways = [("form", capabilities.elicitation), ("url", capabilities.elicitation_url)];
        declared = declared.json("elicitation", enabled_members(ways).json());
    }
    ClientCapabilities::new(declared.finish())
}

fn enabled_members<const N: usize>(ways: [(&str, bool); N]) -> RawJson {
    let can = ways.into_iter().filter(|(_, can)| *can);
    can.fold(ObjectWriter::new(), |all, (way, _)| all.json(way, Json::EMPTY)).finish()
}

/// The part of a caller's capabilities that the policy allows the server to see.
pub(super) fn allowed_capabilities(
    client: &ClientPolicy,
    own: &ClientCapabilities,
) -> ClientCapabilities {
    let off = [
        ("roots", client.roots == Roots::Off),
        ("sampling", client.sampling == FeatureAccess::Off),
        ("elicitation", client.elicitation == FeatureAccess::Off),
    ];
    let off = off.into_iter().filter(|(_, is_off)| *is_off).map(|(name, _)| (name, None));
    ClientCapabilities::new(own.raw().with_members(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::from_value(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
    }

    fn from_json(text: &str) -> DialogCapabilities {
        DialogCapabilities::from_client(&ClientCapabilities::new(raw(text)))
    }

    #[test]
    fn dis_42_only_answerable_capabilities_are_declared() {
        let mut client = ClientPolicy::default();
        let declared = declared_capabilities(&client, DialogCapabilities::default());
        assert_eq!(declared.raw().text(), r#"{"roots":{}}"#);
        (client.roots, client.sampling) = (Roots::Off, FeatureAccess::Off);
        client.elicitation = FeatureAccess::Off;
        assert_eq!(
            declared_capabilities(&client, DialogCapabilities::PERSON_AND_MODEL).raw().text(),
            "{}"
        );
    }

    #[test]
    fn declared_capabilities_follow_the_client() {
        for (client, told) in [
            (r#"{"elicitation":{}}"#, r#"{"roots":{},"elicitation":{"form":{}}}"#),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"roots":{},"elicitation":{"url":{}}}"#),
            (r#"{"sampling":{}}"#, r#"{"roots":{},"sampling":{}}"#),
            (
                r#"{"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true}}"#,
                r#"{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}}}"#,
            ),
        ] {
            let declared = declared_capabilities(&ClientPolicy::default(), from_json(client));
            assert_eq!(declared.raw().text(), told, "{client}");
        }
    }

    #[test]
    fn undeclared_request_kinds_are_refused() {
        let (unknown, impossible) = (Some(-32601), Some(-32602));
        let (form, url) = (r#"{"message":"?"}"#, r#"{"mode":"url","url":"https://a.test"}"#);
        for (client, method, params, code) in [
            ("{}", method::ELICIT, form, unknown),
            (r#"{"elicitation":{}}"#, method::ELICIT, form, None),
            (r#"{"elicitation":{}}"#, method::ELICIT, url, impossible),
            (r#"{"elicitation":{"url":{}}}"#, method::ELICIT, url, None),
            (r#"{"elicitation":{"url":{}}}"#, method::ELICIT, form, impossible),
            (r#"{"sampling":{}}"#, method::CREATE_MESSAGE, r#"{"messages":[]}"#, None),
            (r#"{"sampling":{}}"#, method::CREATE_MESSAGE, r#"{"tools":[]}"#, impossible),
            (r#"{"sampling":{"tools":{}}}"#, method::CREATE_MESSAGE, r#"{"tools":[]}"#, None),
            (r#"{"roots":{}}"#, method::ROOTS_LIST, "{}", None),
            (r#"{"sampling":{}}"#, method::ROOTS_LIST, "{}", unknown),
            (r#"{"sampling":{}}"#, "made/up", "{}", unknown),
        ] {
            let refused = from_json(client).refusal(method, raw(params).json());
            assert_eq!(refused.map(|it| it.code), code, "{client} {method} {params}");
        }
    }

    #[test]
    fn declared_capabilities_only_grow() {
        let form = from_json(r#"{"elicitation":{}}"#);
        let declared = DeclaredCapabilities::new(form);
        declared.add(DialogCapabilities::default());
        assert_eq!(declared.get(), form);
        declared.add(from_json(r#"{"sampling":{}}"#));
        assert_eq!(declared.get(), DialogCapabilities { sampling: true, ..form });
        let all = DialogCapabilities {
            roots: true,
            roots_changes: true,
            ..DialogCapabilities::PERSON_AND_MODEL
        };
        declared.add(all);
        assert_eq!(declared.get(), all);
    }
}
