//! How long a result may be kept and by whom, in the modern era.

use crate::json::Json;
use crate::object::ObjectWriter;

/// The hints of a cacheable result. Without any it is stale at once and nobody else's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    pub ttl_ms: u64,
    pub scope: CacheScope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// The same for everyone.
    Public,
    /// For the caller's own credentials only.
    Private,
}

impl Default for Cache {
    fn default() -> Self {
        Cache { ttl_ms: 0, scope: CacheScope::Private }
    }
}

impl Cache {
    /// The hints of a result.
    pub fn of(result: Json<'_>) -> Cache {
        let [ttl, scope] = result.pick(["ttlMs", "cacheScope"]);
        Cache::read(ttl, scope)
    }

    /// A negative time counts as none; a scope that is not known counts as private.
    pub(crate) fn read(ttl: Option<Json<'_>>, scope: Option<Json<'_>>) -> Cache {
        let ttl_ms = ttl.and_then(Json::as_f64).map_or(0, |ms| ms as u64);
        let scope = match scope.and_then(Json::as_str).as_deref() {
            Some("public") => CacheScope::Public,
            _ => CacheScope::Private,
        };
        Cache { ttl_ms, scope }
    }

    /// What holds for a result made of two: the shorter time, and private if either is.
    pub fn join(self, other: Cache) -> Cache {
        let scope = match (self.scope, other.scope) {
            (CacheScope::Public, CacheScope::Public) => CacheScope::Public,
            _ => CacheScope::Private,
        };
        Cache { ttl_ms: self.ttl_ms.min(other.ttl_ms), scope }
    }

    pub fn write(self, writer: ObjectWriter) -> ObjectWriter {
        writer
            .integer("ttlMs", i64::try_from(self.ttl_ms).unwrap_or(i64::MAX))
            .string("cacheScope", self.scope.as_str())
    }
}

impl CacheScope {
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
    fn hints_are_read_towards_the_safe_side() {
        for (ttl, scope, expected) in [
            (Some("500"), Some("\"public\""), Cache { ttl_ms: 500, scope: Public }),
            (Some("-5"), Some("\"private\""), Cache { ttl_ms: 0, scope: Private }),
            (Some("\"5\""), Some("\"shared\""), Cache { ttl_ms: 0, scope: Private }),
            (None, None, Cache::default()),
        ] {
            assert_eq!(Cache::read(ttl.map(Json::trusted), scope.map(Json::trusted)), expected);
        }
    }

    #[test]
    fn a_whole_is_as_fresh_as_its_stalest_part_and_as_private_as_its_most_private() {
        let public = Cache { ttl_ms: 9, scope: Public };
        assert_eq!(
            public.join(Cache { ttl_ms: 5, scope: Public }),
            Cache { ttl_ms: 5, scope: Public }
        );
        assert_eq!(
            public.join(Cache { ttl_ms: 50, scope: Private }),
            Cache { ttl_ms: 9, scope: Private }
        );
    }
}
