//! Cache hints of results in the modern era.

use crate::json::Json;
use crate::object_writer::ObjectWriter;

/// Cache hints of a result. By default a result is stale at once and private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHints {
    /// The lifetime in milliseconds.
    pub ttl_ms: u64,
    /// The callers that may share the result.
    pub scope: CacheScope,
}

/// The callers that may share a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// The same for all callers.
    Public,
    /// Only for the caller's credentials.
    Private,
}

impl Default for CacheHints {
    fn default() -> Self {
        CacheHints { ttl_ms: 0, scope: CacheScope::Private }
    }
}

impl CacheHints {
    /// Reads the hints of a result.
    pub fn from_result(result: Json<'_>) -> CacheHints {
        let [ttl, scope] = result.pick(["ttlMs", "cacheScope"]);
        CacheHints::read(ttl, scope)
    }

    /// Reads the hints. A negative time counts as zero, and an unknown scope as private.
    pub(crate) fn read(ttl: Option<Json<'_>>, scope: Option<Json<'_>>) -> CacheHints {
        let ttl_ms = ttl.and_then(Json::as_f64).map_or(0, |ms| ms as u64);
        let scope = match scope.and_then(Json::as_str).as_deref() {
            Some("public") => CacheScope::Public,
            _ => CacheScope::Private,
        };
        CacheHints { ttl_ms, scope }
    }

    /// Returns the hints for a result made of two: the shorter time, and private if either is private.
    pub fn combine(self, other: CacheHints) -> CacheHints {
        let scope = match (self.scope, other.scope) {
            (CacheScope::Public, CacheScope::Public) => CacheScope::Public,
            _ => CacheScope::Private,
        };
        CacheHints { ttl_ms: self.ttl_ms.min(other.ttl_ms), scope }
    }

    /// Adds the hints to a result.
    pub fn write(self, writer: ObjectWriter) -> ObjectWriter {
        writer
            .integer("ttlMs", i64::try_from(self.ttl_ms).unwrap_or(i64::MAX))
            .string("cacheScope", self.scope.as_str())
    }
}

impl CacheScope {
    /// Returns the text in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheScope::Public => "public",
            CacheScope::Private => "private",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CacheScope::{Private, Public};

    #[test]
    fn invalid_cache_hints_count_as_private_and_stale() {
        for (ttl, scope, expected) in [
            (Some("500"), Some("\"public\""), CacheHints { ttl_ms: 500, scope: Public }),
            (Some("-5"), Some("\"private\""), CacheHints { ttl_ms: 0, scope: Private }),
            (Some("\"5\""), Some("\"shared\""), CacheHints { ttl_ms: 0, scope: Private }),
            (None, None, CacheHints::default()),
        ] {
            assert_eq!(
                CacheHints::read(ttl.map(Json::from_trusted), scope.map(Json::from_trusted)),
                expected
            );
        }
    }

    #[test]
    fn combined_hints_use_the_shorter_ttl_and_the_stricter_scope() {
        let public = CacheHints { ttl_ms: 9, scope: Public };
        assert_eq!(
            public.combine(CacheHints { ttl_ms: 5, scope: Public }),
            CacheHints { ttl_ms: 5, scope: Public }
        );
        assert_eq!(
            public.combine(CacheHints { ttl_ms: 50, scope: Private }),
            CacheHints { ttl_ms: 9, scope: Private }
        );
    }
}
