//! Definition of one control API endpoint, from which routes, permissions and OpenAPI are derived.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use toolcrib::ErrorKind;

use super::error::{ApiError, ApiErrorKind};
use super::extract::reject_body;
use crate::front::Front;
use crate::identity::Principal;

/// Principals that may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessLevel {
    /// Any authenticated principal; the handler hides what belongs to others.
    AnyPrincipal,
    Owner,
}

/// Generates the JSON schema of a type.
pub(super) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// One endpoint below `/api/v1`.
pub(super) struct Endpoint {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: AccessLevel,
    /// One-sentence summary for OpenAPI.
    pub(super) summary: &'static str,
    pub(super) query: Option<SchemaFn>,
    pub(super) body: Option<SchemaFn>,
    pub(super) response: ResponseKind,
    pub(super) status: u16,
    handler: MethodRouter<Arc<Front>>,
}

/// Body of a successful response.
#[derive(Clone, Copy)]
pub(super) enum ResponseKind {
    NoContent,
    Json(SchemaFn),
    /// JSON, or events if the request accepts them.
    JsonOrEvents(SchemaFn),
    Events,
}

impl Endpoint {
    pub(super) fn new<H, T>(
        method: MethodFilter,
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<Front>>,
        T: 'static,
    {
        Endpoint {
            method: method_of(method),
            path,
            access: AccessLevel::AnyPrincipal,
            summary,
            query: None,
            body: None,
            response: ResponseKind::NoContent,
            status: 204,
            handler: on(method, handler),
        }
    }

    /// Restricts the endpoint to the owner.
    pub(super) fn owner_only(mut self) -> Self {
        self.access = AccessLevel::Owner;
        self.handler = self.handler.route_layer(from_fn(require_owner));
        self
    }

    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Endpoint { query: Some(|schemas| T::json_schema(schemas)), ..self }
    }

    pub(super) fn body<T: JsonSchema>(self) -> Self {
        Endpoint { body: Some(|schemas| schemas.subschema_for::<T>()), ..self }
    }

    pub(super) fn returns_json<T: JsonSchema>(self, status: u16) -> Self {
        let response = ResponseKind::Json(|schemas| schemas.subschema_for::<T>());
        Endpoint { response, status, ..self }
    }

    pub(super) fn returns_json_or_events<T: JsonSchema>(self) -> Self {
        let response = ResponseKind::JsonOrEvents(|schemas| schemas.subschema_for::<T>());
        Endpoint { response, status: 200, ..self }
    }

    pub(super) fn returns_events(self) -> Self {
        Endpoint { response: ResponseKind::Events, status: 200, ..self }
    }

    pub(super) fn add_to(self, router: Router<Arc<Front>>) -> Router<Arc<Front>> {
        let handler = match self.body {
            Some(_) => self.handler,
            None => self.handler.route_layer(from_fn(reject_body)),
        };
        router.route(self.path, handler)
    }
}

async fn require_owner(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>().is_some_and(|principal| principal.is_owner) {
        true => next.run(request).await,
        false => {
            let kind = ApiErrorKind::Call(ErrorKind::Denied);
            ApiError::new(kind, "denied.owner", "only the owner may do this").into_response()
        }
    }
}

fn method_of(filter: MethodFilter) -> Method {
    match filter {
        MethodFilter::GET => Method::GET,
        MethodFilter::POST => Method::POST,
        MethodFilter::PUT => Method::PUT,
        _ => Method::DELETE,
    }
}
