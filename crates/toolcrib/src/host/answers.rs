//! What somebody behind a dialog can be asked, and what servers are told of it.

use std::sync::atomic::{AtomicU8, Ordering};

use toolcrib_config::model::policy::{Client, Offer, Roots};
use toolcrib_wire::view::ClientCapabilities;
use toolcrib_wire::{Json, ObjectWriter, Raw, RpcError, method};

/// What somebody behind a dialog can answer. Nothing else is declared to servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Answers {
    /// There is a person who can fill in forms.
    pub elicitation: bool,
    /// There is a person who can open addresses.
    pub elicitation_url: bool,
    /// There is a model.
    pub sampling: bool,
    /// It can be given tools.
    pub sampling_tools: bool,
    /// It can be given what is known from servers.
    pub sampling_context: bool,
    /// It has folders of its own; the dialog's folder counts where it has none.
    pub roots: bool,
    /// It tells when they change.
    pub roots_changes: bool,
}

impl Answers {
    /// A person and a model, for whatever they can be asked.
    pub const PERSON_AND_MODEL: Answers = Answers {
        elicitation: true,
        elicitation_url: true,
        sampling: true,
        sampling_tools: true,
        sampling_context: true,
        roots: false,
        roots_changes: false,
    };

    /// What a client says of itself.
    pub fn of(capabilities: &ClientCapabilities) -> Self {
        Answers {
            elicitation: capabilities.elicitation_form(),
            elicitation_url: capabilities.elicitation_url(),
            sampling: capabilities.sampling(),
            sampling_tools: capabilities.sampling_tools(),
            sampling_context: capabilities.sampling_context(),
            roots: capabilities.roots(),
            roots_changes: capabilities.roots_changes(),
        }
    }

    /// Why it cannot be asked this; nothing where it can.
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
            (true, false) => Some(RpcError::invalid_params("the client cannot be asked this way")),
            (false, _) => Some(RpcError::method_not_found(called)),
        }
    }

    fn flags(&mut self) -> [&mut bool; 7] {
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
        let flags = self.flags().into_iter().enumerate();
        flags.fold(0, |bits, (place, flag)| bits | u8::from(*flag) << place)
    }

    fn of_bits(bits: u8) -> Self {
        let mut answers = Answers::default();
        for (place, flag) in answers.flags().into_iter().enumerate() {
            *flag = bits >> place & 1 == 1;
        }
        answers
    }
}

/// What any request of a dialog could be asked so far: sessions of the legacy era are told it once, when they open.
/// Who is asked something is still judged by his own request.
#[derive(Debug)]
pub(super) struct Declared(AtomicU8);

impl Declared {
    pub(super) fn new(answers: Answers) -> Self {
        Declared(AtomicU8::new(answers.to_bits()))
    }

    pub(super) fn get(&self) -> Answers {
        Answers::of_bits(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, answers: Answers) {
        let bits = answers.to_bits();
        // Nearly always there is nothing new to write.
        if self.0.load(Ordering::Relaxed) & bits != bits {
            self.0.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

/// What is declared: only what can really be answered, each in the ways that it can be.
pub(super) fn capabilities(client: &Client, answers: Answers) -> ClientCapabilities {
    let mut declared = ObjectWriter::new();
    if client.roots == Roots::Cwd {
        let roots = match answers.roots_changes {
            true => ObjectWriter::new().bool("listChanged", true).finish(),
            false => ObjectWriter::new().finish(),
        };
        declared = declared.json("roots", roots.json());
    }
    if answers.sampling && client.sampling != Offer::Off {
        let ways = [("tools", answers.sampling_tools), ("context", answers.sampling_context)];
        declared = declared.json("sampling", those_of(ways).json());
    }
    if (answers.elicitation || answers.elicitation_url) && client.elicitation != Offer::Off {
        let ways = [("form", answers.elicitation), ("url", answers.elicitation_url)];
        declared = declared.json("elicitation", those_of(ways).json());
    }
    ClientCapabilities::new(declared.finish())
}

fn those_of<const N: usize>(ways: [(&str, bool); N]) -> Raw {
    let can = ways.into_iter().filter(|(_, can)| *can);
    can.fold(ObjectWriter::new(), |all, (way, _)| all.json(way, Json::EMPTY)).finish()
}

/// What of a caller's own capabilities the server may be told.
pub(super) fn allowed(client: &Client, own: &ClientCapabilities) -> ClientCapabilities {
    let off = [
        ("roots", client.roots == Roots::Off),
        ("sampling", client.sampling == Offer::Off),
        ("elicitation", client.elicitation == Offer::Off),
    ];
    let off = off.into_iter().filter(|(_, is_off)| *is_off).map(|(name, _)| (name, None));
    ClientCapabilities::new(own.raw().with_members(off))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::of(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
    }

    fn said(text: &str) -> Answers {
        Answers::of(&ClientCapabilities::new(raw(text)))
    }

    #[test]
    fn dis_42_only_what_can_be_answered_is_declared() {
        let mut client = Client::default();
        // DIS-42: what nobody can answer is not declared.
        let declared = capabilities(&client, Answers::default());
        assert_eq!(declared.raw().text(), r#"{"roots":{}}"#);
        (client.roots, client.sampling) = (Roots::Off, Offer::Off);
        client.elicitation = Offer::Off;
        assert_eq!(capabilities(&client, Answers::PERSON_AND_MODEL).raw().text(), "{}");
    }

    #[test]
    fn a_server_is_told_what_the_client_said_and_in_which_ways() {
        for (client, told) in [
            (r#"{"elicitation":{}}"#, r#"{"roots":{},"elicitation":{"form":{}}}"#),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"roots":{},"elicitation":{"url":{}}}"#),
            (r#"{"sampling":{}}"#, r#"{"roots":{},"sampling":{}}"#),
            (
                r#"{"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true}}"#,
                r#"{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}}}"#,
            ),
        ] {
            let declared = capabilities(&Client::default(), said(client));
            assert_eq!(declared.raw().text(), told, "{client}");
        }
    }

    #[test]
    fn nobody_is_asked_in_a_way_that_he_did_not_name() {
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
            let refused = said(client).refusal(method, raw(params).json());
            assert_eq!(refused.map(|it| it.code), code, "{client} {method} {params}");
        }
    }

    #[test]
    fn what_a_dialog_can_be_asked_only_grows() {
        let form = said(r#"{"elicitation":{}}"#);
        let declared = Declared::new(form);
        declared.add(Answers::default());
        assert_eq!(declared.get(), form);
        declared.add(said(r#"{"sampling":{}}"#));
        assert_eq!(declared.get(), Answers { sampling: true, ..form });
        let all = Answers { roots: true, roots_changes: true, ..Answers::PERSON_AND_MODEL };
        declared.add(all);
        assert_eq!(declared.get(), all);
    }
}
