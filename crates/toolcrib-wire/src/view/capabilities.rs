//! Capabilities of clients and servers.

use crate::json::Json;
use crate::raw_json::RawJson;

/// The capabilities of a client, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCapabilities(RawJson);

/// The capabilities of a server, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCapabilities(RawJson);

impl Default for ClientCapabilities {
    fn default() -> Self {
        ClientCapabilities(Json::EMPTY.into())
    }
}

impl ClientCapabilities {
    /// Wraps the raw capabilities.
    pub fn new(raw: RawJson) -> Self {
        ClientCapabilities(raw)
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Roots.
    pub fn roots(&self) -> bool {
        has(&self.0, &["roots"])
    }

    /// Sampling.
    pub fn sampling(&self) -> bool {
        has(&self.0, &["sampling"])
    }

    /// Sampling with tools.
    pub fn sampling_tools(&self) -> bool {
        has(&self.0, &["sampling", "tools"])
    }

    /// Sampling with context.
    pub fn sampling_context(&self) -> bool {
        has(&self.0, &["sampling", "context"])
    }

    /// Notifications about changed roots.
    pub fn roots_changes(&self) -> bool {
        is_true(&self.0, "roots", "listChanged")
    }

    /// Elicitation by form, by URL or by both.
    pub fn elicitation(&self) -> bool {
        has(&self.0, &["elicitation"])
    }

    /// Elicitation by form. It is included if `elicitation` names no mode.
    pub fn elicitation_form(&self) -> bool {
        self.elicitation() && (has(&self.0, &["elicitation", "form"]) || !self.elicitation_url())
    }

    /// Elicitation by URL.
    pub fn elicitation_url(&self) -> bool {
        has(&self.0, &["elicitation", "url"])
    }

    /// Returns the settings of an extension.
    pub fn extension(&self, name: &str) -> Option<RawJson> {
        self.0.get("extensions")?.get(name)
    }
}

impl Default for ServerCapabilities {
    fn default() -> Self {
        ServerCapabilities(Json::EMPTY.into())
    }
}

impl ServerCapabilities {
    /// Wraps the raw capabilities.
    pub fn new(raw: RawJson) -> Self {
        ServerCapabilities(raw)
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Tools.
    pub fn tools(&self) -> bool {
        has(&self.0, &["tools"])
    }

    /// Notifications about changed tools.
    pub fn tools_changes(&self) -> bool {
        is_true(&self.0, "tools", "listChanged")
    }

    /// Prompts.
    pub fn prompts(&self) -> bool {
        has(&self.0, &["prompts"])
    }

    /// Notifications about changed prompts.
    pub fn prompts_changes(&self) -> bool {
        is_true(&self.0, "prompts", "listChanged")
    }

    /// Resources.
    pub fn resources(&self) -> bool {
        has(&self.0, &["resources"])
    }

    /// Notifications about changed resources.
    pub fn resources_changes(&self) -> bool {
        is_true(&self.0, "resources", "listChanged")
    }

    /// Log messages.
    pub fn logging(&self) -> bool {
        has(&self.0, &["logging"])
    }

    /// Argument completion.
    pub fn completions(&self) -> bool {
        has(&self.0, &["completions"])
    }

    /// Returns the settings of an extension.
    pub fn extension(&self, name: &str) -> Option<RawJson> {
        self.0.get("extensions")?.get(name)
    }
}

/// A capability is present if its member is neither null nor false.
fn has(raw: &RawJson, path: &[&str]) -> bool {
    let found = path.iter().try_fold(raw.json(), |json, key| json.get(key));
    found.is_some_and(|json| !json.is_null() && json.as_bool() != Some(false))
}

fn is_true(raw: &RawJson, group: &str, flag: &str) -> bool {
    raw.json().get(group).and_then(|group| group.get(flag)).and_then(Json::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn elicitation_includes_forms_unless_only_url_is_named() {
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
    fn server_capabilities_reflect_their_members() {
        let server = ServerCapabilities::new(raw(
            r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"extensions":{"a/b":{"x":1}}}"#,
        ));
        assert!(server.tools() && server.tools_changes() && server.resources() && server.logging());
        assert!(!server.resources_changes());
        assert!(!server.prompts() && !server.prompts_changes() && !server.completions());
        assert_eq!(server.extension("a/b"), Some(raw(r#"{"x":1}"#)));
    }
}
