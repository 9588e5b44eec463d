//! How a server comes to its place: taken in, put beside the one before it, or kept waiting for its end.

use std::path::Path;
use std::sync::Arc;

use toolcrib_config::model::policy::{Connect, Replace, Scope as Sight};
use toolcrib_config::{Action, ServerSpec};
use toolcrib_upstream::conn;
use toolcrib_upstream::supervise::Terms;

use super::catalogs;
use super::desk::Desk;
use super::meters::Meter;
use super::serving::Serving;
use super::slot::{Slot, must_prove_itself, recalls};
use super::steward::{Steward, slots, slots_mut};
use crate::registry::Scope;

impl Steward {
    /// One step for one server. The server that is to be watched until it has settled comes along.
    pub(super) async fn change(
        &mut self,
        action: Action,
        before: Option<Slot>,
        now: Option<Arc<ServerSpec>>,
        path: &Path,
    ) -> (Option<Slot>, Option<Arc<Serving>>) {
        match (action, before, now) {
            (Action::Keep, Some(mut slot), Some(spec)) => {
                slot.spec = spec;
                let retried = slot.retry().await.cloned();
                let starting = retried.or_else(|| slot.starting().cloned());
                (Some(slot), starting)
            }
            (Action::KeepLastGood, Some(slot), _) => {
                let retried = slot.retry().await.cloned();
                (Some(slot), retried)
            }
            (Action::Replace, Some(slot), Some(spec)) => self.replace(slot, spec, path).await,
            (_, Some(slot), None) => {
                self.dismiss(slot);
                (None, None)
            }
            (_, None, Some(spec)) => {
                let slot = self.begin(spec, path).await;
                let serving = Arc::clone(&slot.serving);
                (Some(slot), Some(serving))
            }
            (_, slot, _) => (slot, None),
        }
    }

    async fn begin(&mut self, spec: Arc<ServerSpec>, path: &Path) -> Slot {
        let serving = self.start(&self.effective(&spec), path, Arc::default()).await;
        let scope = match spec.policy.scope {
            Sight::Cwd => Scope::Cwd(path.to_owned()),
            Sight::Global => Scope::Global,
        };
        let mut slot = Slot::new(scope, Arc::clone(&spec), serving);
        if recalls(&spec) {
            slot.remember(catalogs::recall(&self.core.store, &spec).await);
        }
        slot
    }

    async fn replace(
        &mut self,
        mut slot: Slot,
        spec: Arc<ServerSpec>,
        path: &Path,
    ) -> (Option<Slot>, Option<Arc<Serving>>) {
        self.leaving.extend(slot.coming.take());
        slot.spec = Arc::clone(&spec);
        let served = slot.serving.spec();
        let is_served = served.hash == spec.hash && served.is_withheld() == spec.is_withheld();
        if slot.waits_for_end || is_served {
            // It begins with what is written then, or it is what is written again.
            let retried = slot.retry().await.cloned();
            return (Some(slot), retried);
        }
        if spec.policy.replace == Replace::StopFirst {
            slot.waits_for_end = true;
            let (supervisor, old) = (self.core.supervisor.clone(), Arc::clone(&slot.serving));
            old.retire_leases();
            let key = Arc::clone(&slot.key);
            self.waiting.spawn(async move {
                supervisor.retire_and_wait(&old.server).await;
                Some(key)
            });
            return (Some(slot), None);
        }
        let waits = must_prove_itself(&slot.serving, &spec);
        let meter = Arc::clone(&slot.serving.meter);
        let serving = self.start(&self.effective(&spec), path, meter).await;
        slot.coming = Some(Arc::clone(&serving));
        if waits {
            serving.server.main().tell(conn::Event::Connect).await;
        } else {
            self.leaving.extend(slot.take_over());
        }
        (Some(slot), Some(serving))
    }

    /// Enabled or not as somebody said, whatever the file says.
    pub(super) fn effective(&self, spec: &Arc<ServerSpec>) -> Arc<ServerSpec> {
        match self.core.overrides.load().get(&spec.key()) {
            Some(over) => Arc::new(spec.overridden(over.enabled, &over.who)),
            None => Arc::clone(spec),
        }
    }

    pub(super) async fn start(
        &self,
        spec: &Arc<ServerSpec>,
        path: &Path,
        meter: Arc<Meter>,
    ) -> Arc<Serving> {
        let core = &self.core;
        let desk = Desk::new(Arc::clone(spec), path.to_owned());
        let terms = Terms {
            cwd: path.to_owned(),
            drain_kill: self.root().config.host.reload.drain_kill,
            caller: desk.caller(core.answers),
        };
        let server = core.supervisor.take(Arc::clone(spec), terms).await;
        core.take_in(server, desk, meter)
    }

    /// Lets servers try again that were refused because too many were connected, as far as there is room now, in the
    /// order of the files.
    pub(super) fn use_room(&self) {
        let room = self.core.world.connections.room();
        let all = slots(&self.folders, &self.added);
        for serving in all.flat_map(Slot::refused_by_limit).take(room) {
            let event = match serving.spec().policy.lifecycle.connect {
                Connect::Eager | Connect::Background => conn::Event::Connect,
                // It connects when it is wanted.
                Connect::OnFirstList | Connect::OnFirstCall => conn::Event::Release,
            };
            // One that is too busy to hear it is asked again when it has changed.
            serving.server.main().nudge(event);
        }
    }

    /// What a slot waited for the end of has ended.
    pub(super) fn has_ended(&mut self, key: Option<Arc<str>>) {
        let all = slots_mut(&mut self.folders, &mut self.added);
        all.filter(|slot| Some(&slot.key) == key.as_ref()).for_each(|slot| slot.has_ended = true);
    }

    /// Starts what waited for the end of what was before it.
    pub(super) async fn fill_vacancies(&mut self) {
        while let Some((folder, place)) = self.vacancy() {
            let Some(folder) = self.folders.get(folder) else { return };
            let Some(slot) = folder.slots.get(place) else { return };
            let (key, scope) = (Arc::clone(&slot.key), slot.scope.clone());
            let (spec, meter) = (self.effective(&slot.spec), Arc::clone(&slot.serving.meter));
            let path = folder.path.clone();
            let serving = self.start(&spec, &path, meter).await;
            let mut all = slots_mut(&mut self.folders, &mut self.added);
            let Some(slot) = all.find(|slot| slot.key == key && slot.scope == scope) else {
                return;
            };
            (slot.waits_for_end, slot.has_ended) = (false, false);
            slot.coming = Some(serving);
            self.leaving.extend(slot.take_over());
        }
    }

    /// A slot whose server may begin now.
    fn vacancy(&self) -> Option<(usize, usize)> {
        let folders = self.folders.iter().enumerate();
        folders
            .filter_map(|(number, folder)| {
                Some((number, folder.slots.iter().position(Slot::is_vacant)?))
            })
            .next()
    }
}
