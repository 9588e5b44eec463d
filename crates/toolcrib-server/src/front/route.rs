//! Which path leads where, and who is let in.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use toolcrib_config::Config;
use toolcrib_config::model::host::{Gateway, GatewayOAuth};
use toolcrib_config::model::security::Protection;
use tower::Service;

use super::crowd::Seen;
use super::headers::Headers;
use super::listen::{Origin, Peer};
use super::reply::{self, Reply};
use super::{Front, lapse, page, pipe};
use crate::api::Fail;
use crate::identity::gate::{self, Names};
use crate::identity::{Door, Metadata, Principal, Refused};
use crate::{api, gateway, metrics};

/// The paths that are answered over TCP even where the gateway's configuration is invalid.
const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";

/// Everything that is served.
pub(super) fn router(front: &Arc<Front>) -> Router {
    let known = Router::new()
        .merge(gateway::routes())
        .merge(pipe::routes())
        .merge(metrics::routes())
        .nest("/api/v1", api::routes())
        .layer(from_fn_with_state(Arc::clone(front), identify));
    let open = Router::new()
        .route("/", get(page::show))
        .route(HEALTHZ, get(alive))
        .route(READYZ, get(ready))
        .route("/.well-known/oauth-protected-resource", get(resource))
        .route("/.well-known/oauth-protected-resource/{*path}", get(resource));
    known.merge(open).with_state(Arc::clone(front))
}

/// Whatever is asked.
pub(super) async fn answer(
    front: &Arc<Front>,
    router: &Router,
    request: Request,
    origin: Origin,
) -> Reply {
    let said = authorization(request.headers());
    let expiry = request.extensions().get::<Arc<Seen>>().map(|seen| seen.expiry());
    if request.uri().path() == gateway::PATH {
        // The gateway needs nothing of the router.
        let asked = Asked::new(request.headers(), gateway::PATH, origin);
        return match admit(front, asked).await {
            Ok(who) => {
                note_admission(request.extensions());
                let reply = gateway::serve(front, &who, origin.0, request).await;
                lapse::bound(front, &said, origin.0, &who, expiry, reply)
            }
            Err(refused) => *refused,
        };
    }
    let mut reply = routed(front, router, request, origin).await;
    match reply.extensions_mut().remove::<Principal>() {
        Some(who) => lapse::bound(front, &said, origin.0, &who, expiry, reply),
        None => reply,
    }
}

/// What the router answers.
async fn routed(front: &Front, router: &Router, mut request: Request, origin: Origin) -> Reply {
    front.configured().await;
    let config = front.host.config();
    if !is_meant(&config.gateway, request.headers(), origin.0) {
        return not_meant();
    }
    let (door, peer) = origin;
    let is_closed = door != Door::Socket && config.security.protection == Protection::Invalid;
    if is_closed && !matches!(request.uri().path(), HEALTHZ | READYZ) {
        let asked = Asked::new(request.headers(), request.uri().path(), origin);
        return refuse(&config.gateway.oauth, &asked, &Refused::Closed);
    }
    request.extensions_mut().insert(door);
    request.extensions_mut().insert(peer);
    match router.clone().call(request).await {
        Ok(reply) => reply,
        Err(never) => match never {},
    }
}

/// All that is needed of a head when its request has gone.
fn authorization(headers: &HeaderMap) -> HeaderMap {
    let said = headers.get(header::AUTHORIZATION).cloned();
    said.map(|said| (header::AUTHORIZATION, said)).into_iter().collect()
}

/// Who asks the gateway something, or why nobody may.
pub(super) async fn admit(front: &Front, asked: Asked<'_>) -> Result<Principal, Box<Reply>> {
    front.configured().await;
    let config = front.host.config();
    match is_meant(&config.gateway, asked.headers, asked.door) {
        true => known(front, &config, asked).await,
        false => Err(Box::new(not_meant())),
    }
}

/// Pages of elsewhere are kept out, whoever shows them.
fn is_meant(gateway: &Gateway, headers: &dyn Headers, door: Door) -> bool {
    let address = match door {
        Door::Socket => return true,
        Door::Tcp => None,
        Door::Net(address) => Some(address),
    };
    let names = Names { address, hosts: &gateway.hosts, origins: &gateway.origins };
    gate::lets_in(names, headers)
}

fn not_meant() -> Reply {
    let reason =
        "this server answers only to its own names (gateway.hosts) and pages (gateway.origins)";
    reply::refuse(StatusCode::FORBIDDEN, reason)
}

/// From here on it is known who asks.
pub(crate) async fn identify(
    State(front): State<Arc<Front>>,
    mut request: Request,
    next: Next,
) -> Reply {
    match known(&front, &front.host.config(), Asked::of(&request)).await {
        Ok(principal) => {
            note_admission(request.extensions());
            request.extensions_mut().insert(principal.clone());
            let mut reply = next.run(request).await;
            reply.extensions_mut().insert(principal);
            reply
        }
        Err(refused) => *refused,
    }
}

/// What of a request says who asks.
pub(super) struct Asked<'a> {
    headers: &'a dyn Headers,
    path: &'a str,
    door: Door,
    peer: Option<IpAddr>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(headers: &'a dyn Headers, path: &'a str, (door, Peer(peer)): Origin) -> Self {
        Asked { headers, path, door, peer }
    }

    fn of(request: &'a Request) -> Self {
        let peer = request.extensions().get().copied().unwrap_or(Peer(None));
        let origin = (door(request.extensions()), peer);
        Asked::new(request.headers(), request.uri().path(), origin)
    }
}

async fn known(front: &Front, config: &Config, asked: Asked<'_>) -> Result<Principal, Box<Reply>> {
    let who = front.identity.who(config, asked.headers, asked.door, asked.peer).await;
    who.map_err(|refused| Box::new(refuse(&config.gateway.oauth, &asked, &refused)))
}

/// The connection of a request is not closed any more to make room for others.
fn note_admission(said: &Extensions) {
    if let Some(seen) = said.get::<Arc<Seen>>() {
        seen.admit();
    }
}

pub(crate) fn door(said: &Extensions) -> Door {
    let unknown = Door::Net(std::net::Ipv4Addr::UNSPECIFIED.into());
    said.get().copied().unwrap_or(unknown)
}

/// In the words of what was asked; with the way in, where there is one.
fn refuse(oauth: &GatewayOAuth, asked: &Asked<'_>, refused: &Refused) -> Reply {
    let is_api = asked.path.starts_with("/api/");
    let status = Fail::from(refused.clone()).status;
    let mut reply = match is_api {
        true => Fail::from(refused.clone()).into_response(),
        false => reply::refuse(status, &refused.to_string()),
    };
    let (name, value) = match refused {
        Refused::Closed => return reply,
        // Whoever may ask once in a second may ask again within one.
        Refused::TooFast { .. } => (header::RETRY_AFTER, "1".to_owned()),
        Refused::TooManyWrong(most) => {
            let seconds = 60_u32.div_ceil((*most).max(1));
            (header::RETRY_AFTER, seconds.to_string())
        }
        _ => {
            let host = asked.headers.text(header::HOST.as_str()).unwrap_or("localhost");
            (header::WWW_AUTHENTICATE, challenge(oauth, host, refused))
        }
    };
    if let Ok(value) = HeaderValue::from_str(&value) {
        reply.headers_mut().insert(name, value);
    }
    reply
}

fn challenge(oauth: &GatewayOAuth, host: &str, refused: &Refused) -> String {
    let mut challenge = "Bearer realm=\"toolcrib\"".to_owned();
    if *refused == Refused::BadToken {
        challenge += ", error=\"invalid_token\"";
    }
    if let Some(address) = Metadata::address(oauth, host) {
        challenge += &format!(", resource_metadata=\"{address}\"");
    }
    challenge
}

/// Whose tokens are taken.
async fn resource(State(front): State<Arc<Front>>, headers: HeaderMap) -> Reply {
    let host = headers.text(header::HOST.as_str()).unwrap_or("localhost");
    match Metadata::of(&front.host.config().gateway.oauth, host) {
        Some(metadata) => Json(metadata).into_response(),
        None => reply::empty(StatusCode::NOT_FOUND),
    }
}

async fn alive() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn ready(State(front): State<Arc<Front>>) -> StatusCode {
    match front.host.is_ready() {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}
