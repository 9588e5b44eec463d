//! Reading the lists of a server, page after page.

use toolcrib_config::model::policy::InvalidSchemas;
use toolcrib_wire::{ObjectWriter, Raw};

use super::catalog::{Ask, Catalog, Gathering, ListError, asks};
use super::failure::Failure;
use super::peer::{CallError, CallOptions, Patience, ProgressWish};
use super::schemas;
use super::session::Session;
use crate::schema::InvalidSchema;

/// Everything that the server offers and policy wants to know, to be used from now on.
pub(super) async fn read(session: &Session) -> Result<Catalog, Failure> {
    let spec = &session.setup().spec;
    let catalog = schemas::judge(gather(session).await?, spec).await;
    if spec.policy.discovery.invalid_schemas == InvalidSchemas::FailServer
        && let Some(InvalidSchema { tool, reason }) = catalog.invalid_schemas.first().cloned()
    {
        let server = spec.id.clone();
        return Err(Failure::from(&ListError::InvalidSchema { server, tool, reason }));
    }
    session.learn(&catalog);
    Ok(catalog)
}

/// The same, only to look at it.
pub(super) async fn gather(session: &Session) -> Result<Catalog, Failure> {
    let spec = &session.setup().spec;
    let policy = &spec.policy;
    let mut gathering = Gathering::new(&spec.id, &policy.limits);
    for ask in asks(&policy.discovery, &session.agreed().capabilities) {
        let mut cursor = None;
        loop {
            let answer = page(session, ask, cursor.as_deref()).await?;
            cursor = gathering.take(ask, answer).map_err(|error| Failure::from(&error))?;
            if cursor.is_none() {
                break;
            }
        }
    }
    let catalog = gathering.finish(&policy.discovery).map_err(|error| Failure::from(&error))?;
    let catalog = catalog.without_secrets(&session.peer().facts().mask);
    Ok(match session.has_param_headers() {
        true => catalog.without_impossible_headers(),
        false => catalog,
    })
}

async fn page(
    session: &Session,
    ask: Ask,
    cursor: Option<&str>,
) -> Result<Result<Raw, toolcrib_wire::RpcError>, Failure> {
    let timeouts = &session.setup().spec.policy.timeouts;
    let limit = |time: std::time::Duration| Some(time).filter(|time| !time.is_zero());
    let patience =
        Patience { request: limit(timeouts.request.0), max: limit(timeouts.request_max.0) };
    let options = CallOptions { patience, progress: ProgressWish::None, ..CallOptions::default() };
    let params = ObjectWriter::new().string_if("cursor", cursor).finish();
    match session.call(ask.list.method(), params, options, None).await {
        Ok(body) => Ok(Ok(body.raw().unwrap_or_else(|| ObjectWriter::new().finish()))),
        Err(CallError::Refused(error)) => Ok(Err(error)),
        Err(error) => Err(Failure::from(&error)),
    }
}
