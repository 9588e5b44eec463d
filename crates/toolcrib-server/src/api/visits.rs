//! Dialogs that were begun through the API: nobody holds them, so they end when nobody asks for them any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When each was last asked for, by its id.
#[derive(Debug, Default)]
pub(crate) struct Visits(Mutex<HashMap<String, Instant>>);

impl Visits {
    pub(super) fn began(&self, dialog: &str) {
        self.all().insert(dialog.to_owned(), Instant::now());
    }

    /// Somebody asks for it. Those that were not begun here are somebody else's to end.
    pub(super) fn came(&self, dialog: &str) {
        if let Some(last) = self.all().get_mut(dialog) {
            *last = Instant::now();
        }
    }

    pub(crate) fn is_recent(&self, dialog: &str, longest: Duration) -> bool {
        self.all().get(dialog).is_some_and(|last| last.elapsed() <= longest)
    }

    /// Takes out those that nobody has asked for, for which nothing is under way, and that nobody else has. Nothing is
    /// locked here while others are asked: whoever has a dialog asks here, too, with his own lock held.
    pub(crate) fn over(
        &self,
        longest: Duration,
        is_busy: impl Fn(&str) -> bool,
        is_held: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let known: Vec<String> = self.all().keys().cloned().collect();
        known.iter().filter(|dialog| is_busy(dialog)).for_each(|dialog| self.came(dialog));
        let late = |dialog: &String| !self.is_recent(dialog, longest) && !is_held(dialog);
        let late: Vec<String> = known.into_iter().filter(late).collect();
        let mut all = self.all();
        // Somebody may have come meanwhile.
        let mut ends = |dialog: &String| match all.get(dialog) {
            Some(last) if last.elapsed() > longest => all.remove(dialog).is_some(),
            _ => false,
        };
        late.into_iter().filter(|dialog| ends(dialog)).collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn what_nobody_uses_is_over_and_whoever_is_asked_about_it_may_ask_back() {
        let visits = Visits::default();
        ["idle", "busy", "held", "asked"].iter().for_each(|dialog| visits.began(dialog));
        tokio::time::advance(LONGEST * 2).await;
        visits.came("asked");
        let is = |dialog: &str, other: &str| {
            // As the gateway does, with its own lock held: it would wait for ever if ours were.
            visits.is_recent(dialog, LONGEST);
            dialog == other
        };
        let over = || visits.over(LONGEST, |it| is(it, "busy"), |it| is(it, "held"));
        assert_eq!(over(), ["idle"]);
        assert_eq!(over(), [] as [&str; 0], "once");
        tokio::time::advance(LONGEST / 2).await;
        assert!(visits.is_recent("busy", LONGEST), "what was busy was used");
    }
}
