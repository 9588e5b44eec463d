//! Answers requests of servers to a dialog: the host answers `roots/list`, the dialog's client
//! answers everything else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use toolcrib_config::ServerSpec;
use toolcrib_config::model::policy::{FeatureAccess, Roots};
use toolcrib_upstream::conn::SessionClient;
use toolcrib_upstream::conn::peer::{HandlerFuture, RequestHandler, ServerRequest};
use toolcrib_wire::{ObjectWriter, RawJson, RpcError, method};
use url::Url;

use super::client_capabilities::{DialogCapabilities, declared_capabilities};
use super::dialog::DialogState;
use super::events::HostEvent;
use super::pending_requests::{AddRequestError, PendingRequest};
use super::server_requests::ServerRequestRouter;

/// Time limit for the client's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// The dialog as a client of a server's session.
pub(super) fn dialog_client(
    dialog: &Arc<DialogState>,
    spec: &Arc<ServerSpec>,
    lookup: CauseLookup,
) -> SessionClient {
    let handler =
        DialogRequestHandler { dialog: Arc::clone(dialog), spec: Arc::clone(spec), lookup };
    SessionClient {
        capabilities: declared_capabilities(&spec.policy.client, dialog.capabilities.get()),
        handler: Arc::new(handler),
    }
}

/// The call that a request of a server belongs to.
pub(super) enum CauseLookup {
    Call(u64),
    /// The router finds the call among the active calls.
    Router(Arc<ServerRequestRouter>),
}

struct DialogRequestHandler {
    dialog: Arc<DialogState>,
    spec: Arc<ServerSpec>,
    lookup: CauseLookup,
}

impl RequestHandler for DialogRequestHandler {
    fn handle(&self, server_request: ServerRequest) -> Option<HandlerFuture> {
        let target = match &self.lookup {
            CauseLookup::Call(call) => {
                RequestTarget::for_call(&self.dialog, *call, self.dialog.capabilities.get())
            }
            CauseLookup::Router(router) => router.target_in_dialog(&self.dialog, &server_request),
        };
        answer_request(Some(target), &self.dialog.cwd, &self.spec, server_request)
    }
}

/// The dialog that answers a request of a server.
pub(super) struct RequestTarget<'a> {
    pub(super) dialog: &'a Arc<DialogState>,
    pub(super) cause: RequestCause,
    /// The call that delivers the request to its client.
    pub(super) carrier: Option<u64>,
    /// The capabilities of that client.
    pub(super) capabilities: DialogCapabilities,
}

/// The call that caused a request of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestCause {
    Call(u64),
    /// One of these calls, or a request without a call if the list is empty.
    OneOf(Vec<u64>),
    /// The call has ended.
    Ended,
}

impl<'a> RequestTarget<'a> {
    pub(super) fn for_call(
        dialog: &'a Arc<DialogState>,
        call: u64,
        capabilities: DialogCapabilities,
    ) -> Self {
        RequestTarget { dialog, cause: RequestCause::Call(call), carrier: Some(call), capabilities }
    }
}

/// Answers a request of a server. Without a target, only requests that no dialog has to answer are
/// answered.
pub(super) fn answer_request(
    target: Option<RequestTarget<'_>>,
    cwd: &Path,
    spec: &ServerSpec,
    server_request: ServerRequest,
) -> Option<HandlerFuture> {
    let client = &spec.policy.client;
    let has_own = target.as_ref().is_some_and(|it| it.capabilities.roots);
    if server_request.method == method::ROOTS_LIST && client.roots == Roots::Cwd && !has_own {
        let roots = roots_result(cwd);
        return Some(Box::pin(async move { Ok(roots) }));
    }
    let RequestTarget { dialog, cause, carrier, capabilities } = target?;
    let is_off = match server_request.method.as_str() {
        method::ELICIT => client.elicitation == FeatureAccess::Off,
        method::ROOTS_LIST => client.roots == Roots::Off,
        _ => client.sampling == FeatureAccess::Off,
    };
    if is_off {
        return None;
    }
    match capabilities.refusal(&server_request.method, server_request.params.json()) {
        Some(refusal) => Some(Box::pin(async { Err(refusal) })),
        None => Some(open_request(
            Arc::clone(dialog),
            Arc::from(spec.id.as_str()),
            (cause, carrier),
            server_request,
        )),
    }
}

/// Registers the request immediately instead of at the first poll, because the next request may
/// need another carrier.
fn open_request(
    dialog: Arc<DialogState>,
    server: Arc<str>,
    (cause, carrier): (RequestCause, Option<u64>),
    server_request: ServerRequest,
) -> HandlerFuture {
    let (call, calls) = match cause {
        RequestCause::Call(call) => (Some(call), vec![call]),
        RequestCause::OneOf(calls) => (None, calls),
        RequestCause::Ended => {
            return reject_request("the call that caused this request has ended");
        }
    };
    // Each of these calls may be the one that waits for the answer.
    let pause = server_request.pause(|tag| tag.is_some_and(|tag| calls.contains(&tag)));
    let params = server_request.params.raw().unwrap_or_else(|| ObjectWriter::new().finish());
    let ServerRequest { method, cancellation, .. } = server_request;
    let request =
        PendingRequest { id: 0, call, calls, carrier, server, method, params, cancellation };
    let (request, answer) = match dialog.requests.add(request) {
        Ok(added) => added,
        Err(AddRequestError::TooMany) => {
            return reject_request("too many pending requests in this dialog");
        }
        Err(AddRequestError::CallEnded) => {
            return reject_request("the call that caused this request has ended");
        }
    };
    let open = PendingRequestGuard { dialog: Arc::clone(&dialog), id: request.id };
    let id = Arc::clone(&dialog.id);
    dialog.events.publish(HostEvent::ClientRequest { dialog: id, request });
    Box::pin(async move {
        let answered = timeout(ANSWER_TIMEOUT, answer).await;
        drop((open, pause));
        match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(RpcError::internal("the dialog was closed")),
            Err(_) => Err(RpcError::internal("the client did not answer in time")),
        }
    })
}

fn reject_request(reason: &'static str) -> HandlerFuture {
    Box::pin(async move { Err(RpcError::internal(reason)) })
}

/// Removes the request from the dialog's pending requests when its future is dropped.
struct PendingRequestGuard {
    dialog: Arc<DialogState>,
    id: u64,
}

impl Drop for PendingRequestGuard {
    fn drop(&mut self) {
        self.dialog.requests.remove(self.id);
    }
}

fn roots_result(cwd: &Path) -> RawJson {
    let root = Url::from_file_path(cwd).ok().map(|uri| {
        let name = cwd.file_name().map(|name| name.to_string_lossy());
        ObjectWriter::new().string("uri", uri.as_str()).string_if("name", name.as_deref()).finish()
    });
    ObjectWriter::new().array("roots", root).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dis_40_root_is_the_folder_as_a_uri() {
        let roots = roots_result(Path::new("/tmp/a b"));
        assert_eq!(roots.text(), r#"{"roots":[{"uri":"file:///tmp/a%20b","name":"a b"}]}"#);
    }
}
