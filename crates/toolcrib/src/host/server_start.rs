//! Starts, replaces and removes the servers of slots.

use std::path::Path;
use std::sync::Arc;

use toolcrib_config::model::policy::{Connect, Replace, ServerScope};
use toolcrib_config::{ChangeAction, ServerSpec};
use toolcrib_upstream::conn;
use toolcrib_upstream::supervise::ServerOptions;

use super::call_metrics::CallMetrics;
use super::catalog_store;
use super::reconciler::{Reconciler, slots, slots_mut};
use super::running_server::RunningServer;
use super::server_requests::ServerRequestRouter;
use super::slot::{ServerSlot, must_start_before_takeover, uses_stored_catalog};
use crate::registry::Scope;

impl Reconciler {
    /// Applies one step of a plan to one server. Returns the slot and the started server to wait
    /// for.
    pub(super) async fn apply_change(
        &mut self,
        action: ChangeAction,
        before: Option<ServerSlot>,
        now: Option<Arc<ServerSpec>>,
        path: &Path,
    ) -> (Option<ServerSlot>, Option<Arc<RunningServer>>) {
        match (action, before, now) {
            (ChangeAction::Keep, Some(mut slot), Some(spec)) => {
                slot.spec = spec;
                let retried = slot.retry_failed().await.cloned();
                let starting = retried.or_else(|| slot.starting_server().cloned());
                (Some(slot), starting)
            }
            (ChangeAction::KeepLastGood, Some(slot), _) => {
                let retried = slot.retry_failed().await.cloned();
                (Some(slot), retried)
            }
            (ChangeAction::Replace, Some(slot), Some(spec)) => {
                self.replace_server(slot, spec, path).await
            }
            (_, Some(slot), None) => {
                self.retire_slot(slot);
                (None, None)
            }
            (_, None, Some(spec)) => {
                let slot = self.create_slot(spec, path).await;
                let running = Arc::clone(&slot.running);
                (Some(slot), Some(running))
            }
            (_, slot, _) => (slot, None),
        }
    }

    async fn create_slot(&mut self, spec: Arc<ServerSpec>, path: &Path) -> ServerSlot {
        let running = self.start_server(&self.with_override(&spec), path, Arc::default()).await;
        let scope = match spec.policy.scope {
            ServerScope::Cwd => Scope::Cwd(path.to_owned()),
            ServerScope::Global => Scope::Global,
        };
        let mut slot = ServerSlot::new(scope, Arc::clone(&spec), running);
        if uses_stored_catalog(&spec) {
            slot.set_stored_catalog(catalog_store::load_catalog(&self.core.store, &spec).await);
        }
        slot
    }

    async fn replace_server(
        &mut self,
        mut slot: ServerSlot,
        spec: Arc<ServerSpec>,
        path: &Path,
    ) -> (Option<ServerSlot>, Option<Arc<RunningServer>>) {
        self.retiring.extend(slot.successor.take());
        slot.spec = Arc::clone(&spec);
        let current = slot.running.spec();
        let is_served = current.hash == spec.hash && current.is_withheld() == spec.is_withheld();
        if slot.waits_for_predecessor || is_served {
            // A waiting successor starts with the newest definition, and a running server with this
            // definition stays.
            let retried = slot.retry_failed().await.cloned();
            return (Some(slot), retried);
        }
        if spec.policy.replace == Replace::StopFirst {
            slot.waits_for_predecessor = true;
            let (supervisor, old) = (self.core.supervisor.clone(), Arc::clone(&slot.running));
            old.retire_leases();
            let key = Arc::clone(&slot.key);
            self.tasks.spawn(async move {
                supervisor.retire_and_wait(&old.server).await;
                Some(key)
            });
            return (Some(slot), None);
        }
        let waits = must_start_before_takeover(&slot.running, &spec);
        let metrics = Arc::clone(&slot.running.metrics);
        let running = self.start_server(&self.with_override(&spec), path, metrics).await;
        slot.successor = Some(Arc::clone(&running));
        if waits {
            running.server.main().send_event(conn::ConnEvent::Connect).await;
        } else {
            self.retiring.extend(slot.promote_successor());
        }
        (Some(slot), Some(running))
    }

    /// Applies the enable or disable override of a server to its definition.
    pub(super) fn with_override(&self, spec: &Arc<ServerSpec>) -> Arc<ServerSpec> {
        match self.core.overrides.load().get(&spec.key()) {
            Some(over) => Arc::new(spec.with_override(over.enabled, &over.set_by)),
            None => Arc::clone(spec),
        }
    }

    pub(super) async fn start_server(
        &self,
        spec: &Arc<ServerSpec>,
        path: &Path,
        metrics: Arc<CallMetrics>,
    ) -> Arc<RunningServer> {
        let core = &self.core;
        let router = ServerRequestRouter::new(Arc::clone(spec), path.to_owned());
        let options = ServerOptions {
            cwd: path.to_owned(),
            drain_kill: self.root_folder().config.host.reload.drain_kill,
            client: router.build_client(core.capabilities),
        };
        let server = core.supervisor.add_server(Arc::clone(spec), options).await;
        core.create_running_server(server, router, metrics)
    }

    /// Retries servers that were refused by `host.max_servers`, as far as there is room now, in the
    /// order of the files.
    pub(super) fn retry_limited_servers(&self) {
        let room = self.core.conn_context.server_limit.room();
        let all = slots(&self.folders, &self.added);
        for running in all.flat_map(ServerSlot::refused_by_limit).take(room) {
            let event = match running.spec().policy.lifecycle.connect {
                Connect::Eager | Connect::Background => conn::ConnEvent::Connect,
                // The server connects on demand.
                Connect::OnFirstList | Connect::OnFirstCall => conn::ConnEvent::Release,
            };
            // A server with a full inbox is retried after its next update.
            running.server.main().try_send_event(event);
        }
    }

    /// Marks the predecessor in the slot with this key as ended.
    pub(super) fn mark_predecessor_ended(&mut self, key: Option<Arc<str>>) {
        let all = slots_mut(&mut self.folders, &mut self.added);
        all.filter(|slot| Some(&slot.key) == key.as_ref())
            .for_each(|slot| slot.predecessor_ended = true);
    }

    /// Starts successors after their predecessors have ended.
    pub(super) async fn start_waiting_servers(&mut self) {
        while let Some((folder, index)) = self.next_vacant_slot() {
            let Some(folder) = self.folders.get(folder) else { return };
            let Some(slot) = folder.slots.get(index) else { return };
            let (key, scope) = (Arc::clone(&slot.key), slot.scope.clone());
            let (spec, metrics) =
                (self.with_override(&slot.spec), Arc::clone(&slot.running.metrics));
            let path = folder.path.clone();
            let running = self.start_server(&spec, &path, metrics).await;
            let mut all = slots_mut(&mut self.folders, &mut self.added);
            let Some(slot) = all.find(|slot| slot.key == key && slot.scope == scope) else {
                return;
            };
            (slot.waits_for_predecessor, slot.predecessor_ended) = (false, false);
            slot.successor = Some(running);
            self.retiring.extend(slot.promote_successor());
        }
    }

    /// The position of a slot with a successor that may start now.
    fn next_vacant_slot(&self) -> Option<(usize, usize)> {
        let folders = self.folders.iter().enumerate();
        folders
            .filter_map(|(number, folder)| {
                Some((number, folder.slots.iter().position(ServerSlot::is_vacant)?))
            })
            .next()
    }
}
