//! One endpoint: its path, who may use it, and what it takes and answers. Routes, rights and OpenAPI are all of it.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use toolcrib::shape::ErrorKind;

use super::asked::bodiless;
use super::fail::{Fail, Kind};
use crate::front::Front;
use crate::identity::Principal;

/// Who may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Whoever was let in; what others have is hidden inside.
    Anybody,
    Owner,
}

/// What tells the shape of something.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// One endpoint below `/api/v1`.
pub(super) struct Endpoint {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) right: Right,
    /// What it does, in a sentence.
    pub(super) about: &'static str,
    pub(super) query: Option<Shape>,
    pub(super) body: Option<Shape>,
    pub(super) answer: Answer,
    pub(super) status: u16,
    handler: MethodRouter<Arc<Front>>,
}

/// What comes back where all is well.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    Nothing,
    Json(Shape),
    /// JSON, or events where the request accepts them.
    JsonOrEvents(Shape),
    Events,
}

impl Endpoint {
    pub(super) fn new<H, T>(
        method: MethodFilter,
        path: &'static str,
        about: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<Front>>,
        T: 'static,
    {
        Endpoint {
            method: name(method),
            path,
            right: Right::Anybody,
            about,
            query: None,
            body: None,
            answer: Answer::Nothing,
            status: 204,
            handler: on(method, handler),
        }
    }

    /// Only the owner may.
    pub(super) fn owner(mut self) -> Self {
        self.right = Right::Owner;
        self.handler = self.handler.route_layer(from_fn(owner_only));
        self
    }

    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Endpoint { query: Some(|shapes| T::json_schema(shapes)), ..self }
    }

    pub(super) fn body<T: JsonSchema>(self) -> Self {
        Endpoint { body: Some(|shapes| shapes.subschema_for::<T>()), ..self }
    }

    pub(super) fn answers<T: JsonSchema>(self, status: u16) -> Self {
        let answer = Answer::Json(|shapes| shapes.subschema_for::<T>());
        Endpoint { answer, status, ..self }
    }

    pub(super) fn answers_or_tells<T: JsonSchema>(self) -> Self {
        let answer = Answer::JsonOrEvents(|shapes| shapes.subschema_for::<T>());
        Endpoint { answer, status: 200, ..self }
    }

    pub(super) fn tells(self) -> Self {
        Endpoint { answer: Answer::Events, status: 200, ..self }
    }

    pub(super) fn add_to(self, router: Router<Arc<Front>>) -> Router<Arc<Front>> {
        let handler = match self.body {
            Some(_) => self.handler,
            None => self.handler.route_layer(from_fn(bodiless)),
        };
        router.route(self.path, handler)
    }
}

async fn owner_only(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>().is_some_and(|who| who.is_owner) {
        true => next.run(request).await,
        false => {
            let kind = Kind::Call(ErrorKind::Denied);
            Fail::new(kind, "denied.owner", "only the owner may do this").into_response()
        }
    }
}

fn name(filter: MethodFilter) -> Method {
    match filter {
        MethodFilter::GET => Method::GET,
        MethodFilter::POST => Method::POST,
        MethodFilter::PUT => Method::PUT,
        _ => Method::DELETE,
    }
}
