//! Tracks the use of dialogs that the control API created, so that idle ones can end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time of the last use of each dialog, by dialog id.
#[derive(Debug, Default)]
pub(crate) struct DialogActivity(Mutex<HashMap<String, Instant>>);

impl DialogActivity {
    pub(super) fn track(&self, dialog: &str) {
        self.lock().insert(dialog.to_owned(), Instant::now());
    }

    /// Records a use. Dialogs that the API did not create are not tracked.
    pub(super) fn touch(&self, dialog: &str) {
        if let Some(last) = self.lock().get_mut(dialog) {
            *last = Instant::now();
        }
    }

    pub(crate) fn is_recent(&self, dialog: &str, max_idle: Duration) -> bool {
        self.lock().get(dialog).is_some_and(|last| last.elapsed() <= max_idle)
    }

    /// Removes and returns dialogs that are idle, not busy, and not held elsewhere. Calls `is_busy` and `is_held`
    /// without the lock, because a holder calls back in here under its own lock.
    pub(crate) fn remove_idle(
        &self,
        max_idle: Duration,
        is_busy: impl Fn(&str) -> bool,
        is_held: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let known: Vec<String> = self.lock().keys().cloned().collect();
        known.iter().filter(|dialog| is_busy(dialog)).for_each(|dialog| self.touch(dialog));
        let expired = |dialog: &String| !self.is_recent(dialog, max_idle) && !is_held(dialog);
        let expired: Vec<String> = known.into_iter().filter(expired).collect();
        let mut all = self.lock();
        // The dialog may have been used since the check.
        let mut ends = |dialog: &String| match all.get(dialog) {
            Some(last) if last.elapsed() > max_idle => all.remove(dialog).is_some(),
            _ => false,
        };
        expired.into_iter().filter(|dialog| ends(dialog)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_IDLE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn unused_dialog_is_removed_without_holding_the_lock() {
        let activity = DialogActivity::default();
        ["idle", "busy", "held", "asked"].iter().for_each(|dialog| activity.track(dialog));
        tokio::time::advance(MAX_IDLE * 2).await;
        activity.touch("asked");
        let is = |dialog: &str, other: &str| {
            // Calls back like the gateway does under its own lock. This would deadlock if `remove_idle` held the lock.
            activity.is_recent(dialog, MAX_IDLE);
            dialog == other
        };
        let over = || activity.remove_idle(MAX_IDLE, |it| is(it, "busy"), |it| is(it, "held"));
        assert_eq!(over(), ["idle"]);
        assert_eq!(over(), [] as [&str; 0], "once");
        tokio::time::advance(MAX_IDLE / 2).await;
        assert!(activity.is_recent("busy", MAX_IDLE), "a busy dialog counts as used");
    }
}
