//! Routes the requests of a server's main connection to the dialogs that answer them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use toolcrib_config::ServerSpec;
use toolcrib_upstream::conn::SessionClient;
use toolcrib_upstream::conn::peer::{HandlerFuture, RequestHandler, RequestOrigin, ServerRequest};

use super::client_capabilities::{DialogCapabilities, declared_capabilities};
use super::client_requests::{self, RequestCause, RequestTarget};
use super::dialog::DialogState;
use super::pending_requests::CallEnd;

/// Routes the requests of a server's main connection: to the dialog that leases it, or to the only
/// dialog with a running call.
pub(super) struct ServerRequestRouter {
    spec: Arc<ServerSpec>,
    pub(super) cwd: PathBuf,
    active: Mutex<ActiveCalls>,
}

#[derive(Default)]
struct ActiveCalls {
    lessee: Option<Weak<DialogState>>,
    /// The running calls, oldest first.
    calls: BTreeMap<u64, ActiveCall>,
}

/// A running call.
struct ActiveCall {
    dialog: Arc<DialogState>,
}

/// A call to make.
#[derive(Clone, Copy)]
pub(super) struct OutgoingCall<'a> {
    pub(super) dialog: &'a Arc<DialogState>,
    pub(super) number: u64,
    /// The capabilities of the call's client. The default is the dialog's capabilities.
    pub(super) capabilities: Option<DialogCapabilities>,
}

/// Keeps the call active. While it lives, the call's dialog can be asked.
pub(super) struct ActiveCallGuard {
    router: Arc<ServerRequestRouter>,
    dialog: Arc<DialogState>,
    call: u64,
    end: CallEnd,
}

impl ActiveCallGuard {
    /// Marks the call as answered by the server.
    pub(super) fn mark_answered(&mut self) {
        self.end = CallEnd::Answered;
    }
}

impl ServerRequestRouter {
    pub(super) fn new(spec: Arc<ServerSpec>, cwd: PathBuf) -> Arc<Self> {
        Arc::new(ServerRequestRouter { spec, cwd, active: Mutex::default() })
    }

    /// The host as the client of the server's main connection.
    pub(super) fn build_client(
        self: &Arc<Self>,
        capabilities: DialogCapabilities,
    ) -> SessionClient {
        let capabilities = declared_capabilities(&self.spec.policy.client, capabilities);
        SessionClient { capabilities, handler: Arc::clone(self) as _ }
    }

    pub(super) fn set_lessee(&self, dialog: Option<&Arc<DialogState>>) {
        self.lock().lessee = dialog.map(Arc::downgrade);
    }

    pub(super) fn start_call(self: &Arc<Self>, call: OutgoingCall<'_>) -> ActiveCallGuard {
        let dialog = Arc::clone(call.dialog);
        self.lock().calls.insert(call.number, ActiveCall { dialog: Arc::clone(&dialog) });
        dialog.requests.open_call(call.number, call.capabilities);
        ActiveCallGuard {
            router: Arc::clone(self),
            dialog,
            call: call.number,
            end: CallEnd::Abandoned,
        }
    }

    /// The call of this dialog that caused a request, or the calls that may have.
    pub(super) fn target_in_dialog<'a>(
        &self,
        dialog: &'a Arc<DialogState>,
        server_request: &ServerRequest,
    ) -> RequestTarget<'a> {
        let cause = match server_request.origin {
            RequestOrigin::Call(Some(call)) => RequestCause::Call(call),
            // A request of the host caused it.
            RequestOrigin::Call(None) => RequestCause::OneOf(Vec::new()),
            RequestOrigin::Ended => RequestCause::Ended,
            RequestOrigin::Unknown => {
                let active = self.lock();
                let is_own = |call: &u64| {
                    active.calls.get(call).is_some_and(|call| Arc::ptr_eq(&call.dialog, dialog))
                };
                match server_request.calls().filter(is_own).collect::<Vec<u64>>()[..] {
                    [call] => RequestCause::Call(call),
                    ref calls => RequestCause::OneOf(calls.to_vec()),
                }
            }
        };
        let default = dialog.capabilities.get();
        let calls = match &cause {
            RequestCause::Call(call) => std::slice::from_ref(call),
            RequestCause::OneOf(calls) => calls,
            RequestCause::Ended => &[],
        };
        let can_ask = |capabilities: DialogCapabilities| {
            capabilities.refusal(&server_request.method, server_request.params.json()).is_none()
        };
        let carrier = dialog.requests.likeliest_call(calls, default, can_ask);
        let capabilities = carrier.map_or(default, |(_, capabilities)| capabilities);
        RequestTarget { dialog, carrier: carrier.map(|(call, _)| call), capabilities, cause }
    }

    /// The dialog that must answer; `None` if several dialogs may have caused the request.
    fn find_dialog(&self, server_request: &ServerRequest) -> Option<Arc<DialogState>> {
        let active = self.lock();
        match server_request.origin {
            RequestOrigin::Call(Some(call)) => {
                return active.calls.get(&call).map(|call| Arc::clone(&call.dialog));
            }
            // The call that caused the request has no dialog, or has ended.
            RequestOrigin::Call(None) | RequestOrigin::Ended => return None,
            RequestOrigin::Unknown => {}
        }
        if let Some(lessee) = active.lessee.as_ref().and_then(Weak::upgrade) {
            return Some(lessee);
        }
        let mut dialogs = active.calls.values().map(|call| &call.dialog);
        let first = dialogs.next()?;
        dialogs.all(|other| Arc::ptr_eq(first, other)).then(|| Arc::clone(first))
    }

    fn lock(&self) -> MutexGuard<'_, ActiveCalls> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveCallGuard {
    fn drop(&mut self) {
        // The last reference to a dialog must be dropped outside of the lock.
        let done = self.router.lock().calls.remove(&self.call);
        drop(done);
        self.dialog.requests.close_call(self.call, self.end, self.dialog.capabilities.get());
    }
}

impl RequestHandler for ServerRequestRouter {
    fn handle(&self, server_request: ServerRequest) -> Option<HandlerFuture> {
        let dialog = self.find_dialog(&server_request);
        let cwd = dialog.as_ref().map_or(&*self.cwd, |dialog| &dialog.cwd);
        let target = dialog.as_ref().map(|dialog| self.target_in_dialog(dialog, &server_request));
        client_requests::answer_request(target, cwd, &self.spec, server_request)
    }
}

impl std::fmt::Debug for ServerRequestRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerRequestRouter").field("server", &self.spec.id).finish_non_exhaustive()
    }
}
