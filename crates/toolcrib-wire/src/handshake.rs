//! How a conversation opens: `initialize` in the legacy era, `server/discover` in the modern.

use std::borrow::Cow;

use crate::build;
use crate::json::{Json, Kind};
use crate::meta::{RequestMeta, SERVER_INFO};
use crate::method;
use crate::object::ObjectWriter;
use crate::raw::Raw;
use crate::version::Version;
use crate::view::{Cache, ClientCapabilities, Flaw, ServerCapabilities, flaw};

/// What a program says about itself, whole. It is not verified and must not decide anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Implementation(Raw);

/// The params of `initialize`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initialize {
    raw: Raw,
    version: Version,
}

/// The result of `initialize`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitializeResult {
    raw: Raw,
    version: Version,
}

/// The result of `server/discover`, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoverResult {
    raw: Raw,
    versions: Vec<Version>,
}

impl Implementation {
    pub fn new(name: &str, version: &str) -> Self {
        Implementation(ObjectWriter::new().string("name", name).string("version", version).finish())
    }

    pub fn from_raw(raw: Raw) -> Self {
        Implementation(raw)
    }

    pub fn raw(&self) -> &Raw {
        &self.0
    }

    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("name")?.as_str()
    }

    pub fn version(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("version")?.as_str()
    }

    pub fn title(&self) -> Option<Cow<'_, str>> {
        self.0.json().get("title")?.as_str()
    }
}

impl Initialize {
    pub fn build(
        version: &Version,
        capabilities: &ClientCapabilities,
        client: &Implementation,
    ) -> Raw {
        ObjectWriter::new()
            .string("protocolVersion", version.as_str())
            .json("capabilities", capabilities.raw().json())
            .json("clientInfo", client.raw().json())
            .finish()
    }

    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        let version = read_version(&raw)?;
        Ok(Initialize { raw, version })
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    pub fn capabilities(&self) -> ClientCapabilities {
        object(&self.raw, "capabilities").map(ClientCapabilities::new).unwrap_or_default()
    }

    pub fn client(&self) -> Option<Implementation> {
        object(&self.raw, "clientInfo").map(Implementation)
    }
}

/// The notification that ends the handshake of the legacy era.
pub fn initialized() -> Raw {
    build::notification(method::INITIALIZED, None)
}

impl InitializeResult {
    pub fn build(
        version: &Version,
        capabilities: &ServerCapabilities,
        server: &Implementation,
        instructions: Option<&str>,
    ) -> Raw {
        ObjectWriter::new()
            .string("protocolVersion", version.as_str())
            .json("capabilities", capabilities.raw().json())
            .json("serverInfo", server.raw().json())
            .string_if("instructions", instructions)
            .finish()
    }

    /// Reads an answer. Only the version is needed; a server without the rest can still be used.
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        let version = read_version(&raw)?;
        Ok(InitializeResult { raw, version })
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    pub fn capabilities(&self) -> ServerCapabilities {
        object(&self.raw, "capabilities").map(ServerCapabilities::new).unwrap_or_default()
    }

    pub fn server(&self) -> Option<Implementation> {
        object(&self.raw, "serverInfo").map(Implementation)
    }

    pub fn instructions(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("instructions")?.as_str()
    }
}

/// The params of `server/discover`.
pub fn discover_params(meta: &RequestMeta) -> Raw {
    ObjectWriter::new().json("_meta", meta.to_raw(None).json()).finish()
}

impl DiscoverResult {
    pub fn build(
        versions: &[Version],
        capabilities: &ServerCapabilities,
        server: &Implementation,
        instructions: Option<&str>,
        cache: Cache,
    ) -> Raw {
        let meta = ObjectWriter::new().json(SERVER_INFO, server.raw().json()).finish();
        let writer = ObjectWriter::new()
            .string("resultType", "complete")
            .strings("supportedVersions", versions.iter().map(Version::as_str))
            .json("capabilities", capabilities.raw().json())
            .string_if("instructions", instructions);
        cache.write(writer).json("_meta", meta.json()).finish()
    }

    /// Reads an answer. Without versions it is not one: a server of the legacy era may answer anything
    /// to a method that it does not know.
    pub fn read(raw: Raw) -> Result<Self, Flaw> {
        const FIELD: &str = "supportedVersions";
        let list = flaw::required(raw.json().get(FIELD), FIELD, Kind::Array)?;
        let versions: Vec<_> =
            list.items().filter_map(Json::as_str).map(|text| Version::from(&*text)).collect();
        if versions.is_empty() {
            return Err(Flaw::Empty { field: FIELD });
        }
        Ok(DiscoverResult { raw, versions })
    }

    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The newest known version of the modern era that the server speaks.
    pub fn newest_modern(&self) -> Option<&Version> {
        let known = self.versions.iter().filter(|version| version.is_since(&Version::V2026_07_28));
        known.max_by_key(|version| version.as_str())
    }

    pub fn capabilities(&self) -> ServerCapabilities {
        object(&self.raw, "capabilities").map(ServerCapabilities::new).unwrap_or_default()
    }

    pub fn server(&self) -> Option<Implementation> {
        object(&self.raw.get("_meta")?, SERVER_INFO).map(Implementation)
    }

    pub fn instructions(&self) -> Option<Cow<'_, str>> {
        self.raw.json().get("instructions")?.as_str()
    }

    pub fn cache(&self) -> Cache {
        Cache::of(self.raw.json())
    }
}

fn read_version(raw: &Raw) -> Result<Version, Flaw> {
    const FIELD: &str = "protocolVersion";
    let version = flaw::required_text(raw.json().get(FIELD), FIELD)?;
    Ok(Version::from(version.as_str()))
}

fn object(raw: &Raw, key: &str) -> Option<Raw> {
    raw.get(key).filter(|value| value.json().is_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::raw;

    #[test]
    fn initialize_carries_version_capabilities_and_client() {
        // DIS-12: the fields of the params, and the version offered first.
        let client = Implementation::new("toolcrib", "1");
        let params =
            Initialize::build(&Version::NEWEST_LEGACY, &ClientCapabilities::default(), &client);
        let expected = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolcrib","version":"1"}}"#;
        assert_eq!(params.text(), expected);
        let read = Initialize::read(params).unwrap();
        assert_eq!((read.version(), read.client()), (&Version::V2025_11_25, Some(client)));
    }

    #[test]
    fn a_server_is_known_by_its_answer_however_little_it_says() {
        let full = InitializeResult::build(
            &Version::V2025_06_18,
            &ServerCapabilities::new(raw(r#"{"tools":{}}"#)),
            &Implementation::new("s", "2"),
            Some("be kind"),
        );
        let read = InitializeResult::read(full).unwrap();
        assert!(read.capabilities().tools());
        assert_eq!(read.server().unwrap().name().as_deref(), Some("s"));
        assert_eq!(read.instructions().as_deref(), Some("be kind"));

        let bare =
            InitializeResult::read(raw(r#"{"protocolVersion":"2024-10-07","serverInfo":"me"}"#))
                .unwrap();
        assert_eq!((bare.version().as_str(), bare.server()), ("2024-10-07", None));
        assert!(!bare.capabilities().tools());
        assert_eq!(
            InitializeResult::read(raw("{}")),
            Err(Flaw::Missing { field: "protocolVersion" })
        );
    }

    #[test]
    fn discovery_reads_back_and_an_answer_without_versions_is_none() {
        let built = DiscoverResult::build(
            &[Version::V2025_11_25, Version::V2026_07_28],
            &ServerCapabilities::default(),
            &Implementation::new("s", "2"),
            None,
            Cache { ttl_ms: 5, ..Cache::default() },
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
    fn each_request_of_the_modern_era_says_who_asks_and_what_it_can() {
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
            initialized().text(),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
        );
    }
}
