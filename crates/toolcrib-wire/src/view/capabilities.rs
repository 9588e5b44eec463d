//! What each side says it can do.

use crate::json::Json;
use crate::raw::Raw;

/// The capabilities of a client, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCapabilities(Raw);

/// The capabilities of a server, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCapabilities(Raw);

impl Default for ClientCapabilities {
    fn default() -> Self {
        ClientCapabilities(Json::EMPTY.into())
    }
}

impl ClientCapabilities {
    pub fn new(raw: Raw) -> Self {
        ClientCapabilities(raw)
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn roots(&self) -> bool {
        has(&self.0, &["roots"])
    }

    pub fn sampling(&self) -> bool {
        has(&self.0, &["sampling"])
    }

    pub fn sampling_tools(&self) -> bool {
        has(&self.0, &["sampling", "tools"])
    }

    pub fn sampling_context(&self) -> bool {
        has(&self.0, &["sampling", "context"])
    }

    pub fn roots_changes(&self) -> bool {
        is_true(&self.0, "roots", "listChanged")
    }

    /// Forms, addresses or both.
    pub fn elicitation(&self) -> bool {
        has(&self.0, &["elicitation"])
    }

    /// Forms are meant too where elicitation says nothing more.
    pub fn elicitation_form(&self) -> bool {
        self.elicitation() && (has(&self.0, &["elicitation", "form"]) || !self.elicitation_url())
    }

    pub fn elicitation_url(&self) -> bool {
        has(&self.0, &["elicitation", "url"])
    }

    pub fn extension(&self, name: &str) -> Option<Raw> {
        self.0.get("extensions")?.get(name)
    }
}

impl Default for ServerCapabilities {
    fn default() -> Self {
        ServerCapabilities(Json::EMPTY.into())
    }
}

impl ServerCapabilities {
    pub fn new(raw: Raw) -> Self {
        ServerCapabilities(raw)
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn tools(&self) -> bool {
        has(&self.0, &["tools"])
    }

    pub fn tools_changes(&self) -> bool {
        is_true(&self.0, "tools", "listChanged")
    }

    pub fn prompts(&self) -> bool {
        has(&self.0, &["prompts"])
    }

    pub fn prompts_changes(&self) -> bool {
        is_true(&self.0, "prompts", "listChanged")
    }

    pub fn resources(&self) -> bool {
        has(&self.0, &["resources"])
    }

    pub fn resources_changes(&self) -> bool {
        is_true(&self.0, "resources", "listChanged")
    }

    pub fn resource_subscriptions(&self) -> bool {
        is_true(&self.0, "resources", "subscribe")
    }

    pub fn logging(&self) -> bool {
        has(&self.0, &["logging"])
    }

    pub fn completions(&self) -> bool {
        has(&self.0, &["completions"])
    }

    pub fn extension(&self, name: &str) -> Option<Raw> {
        self.0.get("extensions")?.get(name)
    }
}

/// A capability is had where its member is anything but null or false.
fn has(raw: &Raw, path: &[&str]) -> bool {
    let found = path.iter().try_fold(raw.json(), |json, key| json.get(key));
    found.is_some_and(|json| !json.is_null() && json.as_bool() != Some(false))
}

fn is_true(raw: &Raw, group: &str, flag: &str) -> bool {
    raw.json().get(group).and_then(|group| group.get(flag)).and_then(Json::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    #[test]
    fn elicitation_by_form_is_meant_unless_only_links_are_named() {
        for (text, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null}"#, false, false),
        ] {
            let client = ClientCapabilities::new(raw(text));
            assert_eq!(
                (client.elicitation_form(), client.elicitation_url()),
                (form, url),
                "{text}"
            );
        }
    }

    #[test]
    fn a_server_has_what_it_names_and_announces_what_it_says() {
        let server = ServerCapabilities::new(raw(
            r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"extensions":{"a/b":{"x":1}}}"#,
        ));
        assert!(server.tools() && server.tools_changes() && server.resources() && server.logging());
        assert!(server.resource_subscriptions() && !server.resources_changes());
        assert!(!server.prompts() && !server.prompts_changes() && !server.completions());
        assert_eq!(server.extension("a/b"), Some(raw(r#"{"x":1}"#)));
    }
}
