//! Reads the lists of a server page by page.

use toolcrib_config::model::policy::InvalidSchemas;
use toolcrib_wire::{ObjectWriter, RawJson};

use super::catalog::{Catalog, CatalogBuilder, CatalogError, ListRequest, list_requests};
use super::failure::Failure;
use super::peer::{CallOptions, CallTimeouts, PeerCallError, ProgressMode};
use super::session::Session;
use super::tool_schemas;
use crate::schema::InvalidSchema;

/// Reads all enabled lists and applies them to the session.
pub(super) async fn read_catalog(session: &Session) -> Result<Catalog, Failure> {
    let spec = &session.setup().spec;
    let catalog = tool_schemas::find_invalid_schemas(fetch_catalog(session).await?, spec).await;
    if spec.policy.discovery.invalid_schemas == InvalidSchemas::FailServer
        && let Some(InvalidSchema { tool, reason }) = catalog.invalid_schemas.first().cloned()
    {
        let server = spec.id.clone();
        return Err(Failure::from(&CatalogError::InvalidSchema { server, tool, reason }));
    }
    session.set_param_headers(&catalog);
    Ok(catalog)
}

/// Reads all enabled lists without applying them.
pub(super) async fn fetch_catalog(session: &Session) -> Result<Catalog, Failure> {
    let spec = &session.setup().spec;
    let policy = &spec.policy;
    let mut builder = CatalogBuilder::new(&spec.id, &policy.limits);
    for request in list_requests(&policy.discovery, &session.agreed().capabilities) {
        let mut cursor = None;
        loop {
            let answer = fetch_page(session, request, cursor.as_deref()).await?;
            cursor = builder.add_page(request, answer).map_err(|error| Failure::from(&error))?;
            if cursor.is_none() {
                break;
            }
        }
    }
    let catalog = builder.finish(&policy.discovery).map_err(|error| Failure::from(&error))?;
    let catalog = catalog.without_secrets(&session.peer().link_info().mask);
    Ok(match session.has_param_headers() {
        true => catalog.without_impossible_headers(),
        false => catalog,
    })
}

async fn fetch_page(
    session: &Session,
    request: ListRequest,
    cursor: Option<&str>,
) -> Result<Result<RawJson, toolcrib_wire::RpcError>, Failure> {
    let timeouts = &session.setup().spec.policy.timeouts;
    let limit = |time: std::time::Duration| Some(time).filter(|time| !time.is_zero());
    let timeouts =
        CallTimeouts { request: limit(timeouts.request.0), max: limit(timeouts.request_max.0) };
    let options = CallOptions { timeouts, progress: ProgressMode::None, ..CallOptions::default() };
    let params = ObjectWriter::new().string_if("cursor", cursor).finish();
    match session.call(request.list.method(), params, options, None).await {
        Ok(body) => Ok(Ok(body.raw().unwrap_or_else(|| ObjectWriter::new().finish()))),
        Err(PeerCallError::Refused(error)) => Ok(Err(error)),
        Err(error) => Err(Failure::from(&error)),
    }
}
