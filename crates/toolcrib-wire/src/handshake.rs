//! Opening of a session: `initialize` in the legacy era, `server/discover` in the modern era.

use std::borrow::Cow;

use crate::build;
use crate::json::{Json, JsonKind};
use crate::meta::{RequestMeta, SERVER_INFO};
use crate::method;
use crate::object_writer::ObjectWriter;
use crate::raw_json::RawJson;
use crate::version::Version;
use crate::view::{CacheHints, ClientCapabilities, FieldError, ServerCapabilities, field_error};

/// Name, version and title that a program gives for itself, as raw JSON. They are not verified and must not decide
/// anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Implementation(RawJson);

/// The params of `initialize`, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitializeParams {
    raw: RawJson,
    version: Version,
}

/// The result of `initialize`, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitializeResult {
    raw: RawJson,
    version: Version,
}

/// The result of `server/discover`, with all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoverResult {
    raw: RawJson,
    versions: Vec<Version>,
}

impl Implementation {
    /// Creates a description with name and version.
    pub fn new(name: &str, version: &str) -> Self {
        Implementation(ObjectWriter::new().string("name", name).string("version", version).finish())
    }

    /// Wraps a description from a peer.
    pub fn from_raw(raw: RawJson) -> Self {
        Implementation(raw)
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.0
    }

    /// Returns the name.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("name")?.as_str()
    }

    /// Returns the version.
    pub fn version(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("version")?.as_str()
    }

    /// Returns the title for people.
    pub fn title(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("title")?.as_str()
    }
}

impl InitializeParams {
    /// Builds the params.
    pub fn build(
        version: &Version,
        capabilities: &ClientCapabilities,
        client: &Implementation,
    ) -> RawJson {
        ObjectWriter::new()
            .string("protocolVersion", version.as_str())
            .json("capabilities", capabilities.raw().json())
            .json("clientInfo", client.raw().json())
            .finish()
    }

    /// Reads the params. Only the version is required.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        let version = read_version(&raw)?;
        Ok(InitializeParams { raw, version })
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the requested protocol version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the client's capabilities.
    pub fn capabilities(&self) -> ClientCapabilities {
        get_object(&self.raw, "capabilities").map(ClientCapabilities::new).unwrap_or_default()
    }

    /// Returns the client's description.
    pub fn client(&self) -> Option<Implementation> {
        get_object(&self.raw, "clientInfo").map(Implementation)
    }
}

/// Builds the notification that ends the handshake of the legacy era.
pub fn initialized_notification() -> RawJson {
    build::notification(method::INITIALIZED, None)
}

impl InitializeResult {
    /// Builds the result.
    pub fn build(
        version: &Version,
        capabilities: &ServerCapabilities,
        server: &Implementation,
        instructions: Option<&str>,
    ) -> RawJson {
        ObjectWriter::new()
            .string("protocolVersion", version.as_str())
            .json("capabilities", capabilities.raw().json())
            .json("serverInfo", server.raw().json())
            .string_if("instructions", instructions)
            .finish()
    }

    /// Reads a result. Only the version is required; a server without the other members is still usable.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        let version = read_version(&raw)?;
        Ok(InitializeResult { raw, version })
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the selected protocol version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the server's capabilities.
    pub fn capabilities(&self) -> ServerCapabilities {
        get_object(&self.raw, "capabilities").map(ServerCapabilities::new).unwrap_or_default()
    }

    /// Returns the server's description.
    pub fn server(&self) -> Option<Implementation> {
        get_object(&self.raw, "serverInfo").map(Implementation)
    }
}

/// Builds the params of `server/discover`.
pub fn discover_params(meta: &RequestMeta) -> RawJson {
    ObjectWriter::new().json("_meta", meta.to_raw(None).json()).finish()
}

impl DiscoverResult {
    /// Builds the result.
    pub fn build(
        versions: &[Version],
        capabilities: &ServerCapabilities,
        server: &Implementation,
        instructions: Option<&str>,
        cache: CacheHints,
    ) -> RawJson {
        let meta = ObjectWriter::new().json(SERVER_INFO, server.raw().json()).finish();
        let writer = ObjectWriter::new()
            .string("resultType", "complete")
            .strings("supportedVersions", versions.iter().map(Version::as_str))
            .json("capabilities", capabilities.raw().json())
            .string_if("instructions", instructions);
        cache.write(writer).json("_meta", meta.json()).finish()
    }

    /// Reads a result. The versions are required, because a server of the legacy era may answer an unknown method
    /// with anything.
    pub fn read(raw: RawJson) -> Result<Self, FieldError> {
        const FIELD: &str = "supportedVersions";
        let list = field_error::require_member(raw.json().get(FIELD), FIELD, JsonKind::Array)?;
        let versions: Vec<_> =
            list.items().filter_map(Json::as_str).map(|text| Version::from(&*text)).collect();
        if versions.is_empty() {
            return Err(FieldError::Empty { field: FIELD });
        }
        Ok(DiscoverResult { raw, versions })
    }

    /// Returns the raw JSON with all members.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the supported protocol versions.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns the newest known version of the modern era that the server supports.
    pub fn newest_modern(&self) -> Option<&Version> {
        let known = self.versions.iter().filter(|version| version.is_since(&Version::V2026_07_28));
        known.max_by_key(|version| version.as_str())
    }

    /// Returns the server's capabilities.
    pub fn capabilities(&self) -> ServerCapabilities {
        get_object(&self.raw, "capabilities").map(ServerCapabilities::new).unwrap_or_default()
    }

    /// Returns the server's description.
    pub fn server(&self) -> Option<Implementation> {
        get_object(&self.raw.get("_meta")?, SERVER_INFO).map(Implementation)
    }

    /// Returns the cache hints.
    pub fn cache(&self) -> CacheHints {
        CacheHints::from_result(self.raw.json())
    }
}

fn read_version(raw: &RawJson) -> Result<Version, FieldError> {
    const FIELD: &str = "protocolVersion";
    let version = field_error::require_text(raw.json().get(FIELD), FIELD)?;
    Ok(Version::from(version.as_str()))
}

fn get_object(raw: &RawJson, key: &str) -> Option<RawJson> {
    raw.get(key).filter(|value| value.json().is_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::raw;

    #[test]
    fn initialize_carries_version_capabilities_and_client() {
        // DIS-12: the fields of the params, and the newest legacy version.
        let client = Implementation::new("toolcrib", "1");
        let params = InitializeParams::build(
            &Version::NEWEST_LEGACY,
            &ClientCapabilities::default(),
            &client,
        );
        let expected = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolcrib","version":"1"}}"#;
        assert_eq!(params.text(), expected);
        let read = InitializeParams::read(params).unwrap();
        assert_eq!((read.version(), read.client()), (&Version::V2025_11_25, Some(client)));
    }

    #[test]
    fn initialize_result_needs_only_a_version() {
        let full = InitializeResult::build(
            &Version::V2025_06_18,
            &ServerCapabilities::new(raw(r#"{"tools":{}}"#)),
            &Implementation::new("s", "2"),
            Some("be kind"),
        );
        assert_eq!(full.json().get("instructions").map(Json::text), Some("\"be kind\""));
        let read = InitializeResult::read(full).unwrap();
        assert!(read.capabilities().tools());
        assert_eq!(read.server().unwrap().name().as_deref(), Some("s"));

        let minimal =
            InitializeResult::read(raw(r#"{"protocolVersion":"2024-10-07","serverInfo":"me"}"#))
                .unwrap();
        assert_eq!((minimal.version().as_str(), minimal.server()), ("2024-10-07", None));
        assert!(!minimal.capabilities().tools());
        assert_eq!(
            InitializeResult::read(raw("{}")),
            Err(FieldError::Missing { field: "protocolVersion" })
        );
    }

    #[test]
    fn discover_result_round_trips_and_requires_versions() {
        let built = DiscoverResult::build(
            &[Version::V2025_11_25, Version::V2026_07_28],
            &ServerCapabilities::default(),
            &Implementation::new("s", "2"),
            None,
            CacheHints { ttl_ms: 5, ..CacheHints::default() },
        );
        let read = DiscoverResult::read(built).unwrap();
        assert_eq!(read.newest_modern(), Some(&Version::V2026_07_28));
        assert_eq!(read.server().unwrap().version().as_deref(), Some("2"));
        assert_eq!(read.cache().ttl_ms, 5);
        for text in
            ["{}", "null", r#"{"supportedVersions":"2026-07-28"}"#, r#"{"supportedVersions":[]}"#]
        {
            assert!(DiscoverResult::read(raw(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn modern_request_meta_names_client_and_capabilities() {
        let meta = RequestMeta {
            version: Version::V2026_07_28,
            client: Some(Implementation::new("c", "1")),
            capabilities: ClientCapabilities::default(),
            log_level: None,
        };
        let expected = concat!(
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"#,
            r#""io.modelcontextprotocol/clientCapabilities":{}}}"#
        );
        assert_eq!(discover_params(&meta).text(), expected);
        assert_eq!(
            initialized_notification().text(),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
        );
    }
}
