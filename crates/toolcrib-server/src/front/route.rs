//! Routes requests and authenticates their senders.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use toolcrib_config::Config;
use toolcrib_config::model::host::{GatewayOAuth, GatewaySettings};
use toolcrib_config::model::security::GatewayProtection;
use tower::Service;

use super::connection_limit::ConnectionState;
use super::headers::Headers;
use super::listen::{ConnectionOrigin, PeerAddress};
use super::response::{self, HttpResponse};
use super::{Front, index_page, pipe, token_expiry};
use crate::api::ApiError;
use crate::identity::origin_guard::{self, AllowedNames};
use crate::identity::{AccessDenied, EntryPoint, Principal, ResourceMetadata};
use crate::{api, gateway, metrics};

/// Health paths are served over TCP even if the gateway's configuration is invalid.
const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";

/// The router for all paths except the gateway.
pub(super) fn router(front: &Arc<Front>) -> Router {
    let guarded = Router::new()
        .merge(gateway::routes())
        .merge(pipe::routes())
        .merge(metrics::routes())
        .nest("/api/v1", api::routes())
        .layer(from_fn_with_state(Arc::clone(front), identify_principal));
    let open = Router::new()
        .route("/", get(index_page::serve_index))
        .route(HEALTHZ, get(healthz))
        .route(READYZ, get(readyz))
        .route("/.well-known/oauth-protected-resource", get(resource_metadata))
        .route("/.well-known/oauth-protected-resource/{*path}", get(resource_metadata));
    guarded.merge(open).with_state(Arc::clone(front))
}

/// Handles one HTTP request.
pub(super) async fn handle_request(
    front: &Arc<Front>,
    router: &Router,
    request: Request,
    origin: ConnectionOrigin,
) -> HttpResponse {
    let credentials = authorization_header(request.headers());
    let expiry =
        request.extensions().get::<Arc<ConnectionState>>().map(|state| state.expiry_sender());
    if request.uri().path() == gateway::PATH {
        // Requests to the gateway bypass the router.
        let input = AuthInput::new(request.headers(), gateway::PATH, origin);
        return match admit(front, input).await {
            Ok(principal) => {
                mark_connection_admitted(request.extensions());
                let response = gateway::serve(front, &principal, origin.0, request).await;
                token_expiry::expire_with_token(
                    front,
                    &credentials,
                    origin.0,
                    &principal,
                    expiry,
                    response,
                )
            }
            Err(refused) => *refused,
        };
    }
    let mut response = route_request(front, router, request, origin).await;
    match response.extensions_mut().remove::<Principal>() {
        Some(principal) => token_expiry::expire_with_token(
            front,
            &credentials,
            origin.0,
            &principal,
            expiry,
            response,
        ),
        None => response,
    }
}

/// Handles a request with the router.
async fn route_request(
    front: &Front,
    router: &Router,
    mut request: Request,
    origin: ConnectionOrigin,
) -> HttpResponse {
    front.wait_configured().await;
    let config = front.host.config();
    if !is_allowed_origin(&config.gateway, request.headers(), origin.0) {
        return origin_rejection();
    }
    let (entry_point, peer) = origin;
    let is_closed = entry_point != EntryPoint::OwnerSocket
        && config.security.protection == GatewayProtection::Invalid;
    if is_closed && !matches!(request.uri().path(), HEALTHZ | READYZ) {
        let input = AuthInput::new(request.headers(), request.uri().path(), origin);
        return auth_rejection(&config.gateway.oauth, &input, &AccessDenied::GatewayClosed);
    }
    request.extensions_mut().insert(entry_point);
    request.extensions_mut().insert(peer);
    match router.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Copies the authorization header, which is needed after the request is consumed.
fn authorization_header(headers: &HeaderMap) -> HeaderMap {
    let value = headers.get(header::AUTHORIZATION).cloned();
    value.map(|value| (header::AUTHORIZATION, value)).into_iter().collect()
}

/// Authenticates the sender of a request to the gateway.
pub(super) async fn admit(
    front: &Front,
    input: AuthInput<'_>,
) -> Result<Principal, Box<HttpResponse>> {
    front.wait_configured().await;
    let config = front.host.config();
    match is_allowed_origin(&config.gateway, input.headers, input.entry_point) {
        true => authenticate(front, &config, input).await,
        false => Err(Box::new(origin_rejection())),
    }
}

/// Returns whether the origin guard accepts a request. The owner's socket needs no guard.
fn is_allowed_origin(
    gateway: &GatewaySettings,
    headers: &dyn Headers,
    entry_point: EntryPoint,
) -> bool {
    let address = match entry_point {
        EntryPoint::OwnerSocket => return true,
        EntryPoint::Loopback => None,
        EntryPoint::Network(address) => Some(address),
    };
    let names = AllowedNames { address, hosts: &gateway.hosts, origins: &gateway.origins };
    origin_guard::is_allowed(names, headers)
}

fn origin_rejection() -> HttpResponse {
    let reason =
        "this host name or page origin is not allowed; add it to gateway.hosts or gateway.origins";
    response::error(StatusCode::FORBIDDEN, reason)
}

/// Middleware that authenticates the sender and adds the principal to the request.
pub(crate) async fn identify_principal(
    State(front): State<Arc<Front>>,
    mut request: Request,
    next: Next,
) -> HttpResponse {
    match authenticate(&front, &front.host.config(), AuthInput::from_request(&request)).await {
        Ok(principal) => {
            mark_connection_admitted(request.extensions());
            request.extensions_mut().insert(principal.clone());
            let mut response = next.run(request).await;
            response.extensions_mut().insert(principal);
            response
        }
        Err(refused) => *refused,
    }
}

/// The parts of a request that authentication needs.
pub(super) struct AuthInput<'a> {
    headers: &'a dyn Headers,
    path: &'a str,
    entry_point: EntryPoint,
    peer: Option<IpAddr>,
}

impl<'a> AuthInput<'a> {
    pub(super) fn new(
        headers: &'a dyn Headers,
        path: &'a str,
        (entry_point, PeerAddress(peer)): ConnectionOrigin,
    ) -> Self {
        AuthInput { headers, path, entry_point, peer }
    }

    fn from_request(request: &'a Request) -> Self {
        let peer = request.extensions().get().copied().unwrap_or(PeerAddress(None));
        let origin = (entry_point(request.extensions()), peer);
        AuthInput::new(request.headers(), request.uri().path(), origin)
    }
}

async fn authenticate(
    front: &Front,
    config: &Config,
    input: AuthInput<'_>,
) -> Result<Principal, Box<HttpResponse>> {
    let principal =
        front.identity.authenticate(config, input.headers, input.entry_point, input.peer).await;
    principal.map_err(|refused| Box::new(auth_rejection(&config.gateway.oauth, &input, &refused)))
}

/// Protects the connection from being closed to make room for others.
fn mark_connection_admitted(extensions: &Extensions) {
    if let Some(state) = extensions.get::<Arc<ConnectionState>>() {
        state.mark_admitted();
    }
}

pub(crate) fn entry_point(extensions: &Extensions) -> EntryPoint {
    let unknown = EntryPoint::Network(std::net::Ipv4Addr::UNSPECIFIED.into());
    extensions.get().copied().unwrap_or(unknown)
}

/// The error response in the format of the requested path, with `WWW-Authenticate` or `Retry-After`.
fn auth_rejection(
    oauth: &GatewayOAuth,
    input: &AuthInput<'_>,
    refused: &AccessDenied,
) -> HttpResponse {
    let is_api = input.path.starts_with("/api/");
    let status = ApiError::from(refused.clone()).status;
    let mut response = match is_api {
        true => ApiError::from(refused.clone()).into_response(),
        false => response::error(status, &refused.to_string()),
    };
    let (name, value) = match refused {
        AccessDenied::GatewayClosed => return response,
        // A rate of at least one per second allows a retry after one second.
        AccessDenied::RateLimited { .. } => (header::RETRY_AFTER, "1".to_owned()),
        AccessDenied::TooManyFailures(limit) => {
            let seconds = 60_u32.div_ceil((*limit).max(1));
            (header::RETRY_AFTER, seconds.to_string())
        }
        _ => {
            let host = input.headers.text(header::HOST.as_str()).unwrap_or("localhost");
            (header::WWW_AUTHENTICATE, challenge(oauth, host, refused))
        }
    };
    if let Ok(value) = HeaderValue::from_str(&value) {
        response.headers_mut().insert(name, value);
    }
    response
}

fn challenge(oauth: &GatewayOAuth, host: &str, refused: &AccessDenied) -> String {
    let mut challenge = "Bearer realm=\"toolcrib\"".to_owned();
    if *refused == AccessDenied::UnknownToken {
        challenge += ", error=\"invalid_token\"";
    }
    if let Some(address) = ResourceMetadata::metadata_url(oauth, host) {
        challenge += &format!(", resource_metadata=\"{address}\"");
    }
    challenge
}

/// Serves the OAuth metadata of this protected resource.
async fn resource_metadata(State(front): State<Arc<Front>>, headers: HeaderMap) -> HttpResponse {
    let host = headers.text(header::HOST.as_str()).unwrap_or("localhost");
    match ResourceMetadata::for_host(&front.host.config().gateway.oauth, host) {
        Some(metadata) => Json(metadata).into_response(),
        None => response::empty(StatusCode::NOT_FOUND),
    }
}

async fn healthz() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn readyz(State(front): State<Arc<Front>>) -> StatusCode {
    match front.host.is_ready() {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}
