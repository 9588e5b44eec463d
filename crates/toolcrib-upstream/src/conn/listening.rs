//! Hearing of changes of the lists, where the era has to be asked for that.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::peer::CallError;
use super::session::Session;

/// Between two tries to listen: it doubles from the first to the second.
const LISTEN_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long the lists wait for the first subscription to stand. Where it takes longer they are read twice.
const PATIENCE: Duration = Duration::from_millis(500);

/// A subscription that is kept open as long as this lives.
pub(super) struct Listening {
    _task: JoinSet<()>,
    changed: mpsc::Receiver<()>,
}

impl Listening {
    /// What is read of the lists after this has been waited for is followed by word of every change.
    pub(super) async fn start(session: &Session) -> Self {
        let (tell, changed) = mpsc::channel(1);
        let mut task = JoinSet::new();
        if session.must_subscribe() {
            task.spawn(listen(session.clone(), tell));
        } else {
            // Whoever waits for a word sees at once that none will come.
            drop(tell);
        }
        let mut listening = Self { _task: task, changed };
        // A word that comes too late stays in the queue, and has the lists read again.
        let _ = timeout(PATIENCE, listening.changed()).await;
        listening
    }

    /// What was read of the lists may be old, though the server says nothing of it. None if nothing is subscribed.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.changed.recv().await
    }
}

/// What changes while no subscription stands, nobody tells: the lists are read anew when one stands again.
async fn listen(session: Session, changed: mpsc::Sender<()>) {
    let (mut pause, longest) = LISTEN_AGAIN;
    loop {
        let begun = Instant::now();
        if let Err(error) = session.listen(&changed).await {
            tracing::debug!(server = %session.setup().spec.id, %error, "listening for changes ended");
            // Whoever refuses once will do so again; whoever is gone does not come back.
            if let CallError::Refused(_) | CallError::Closed(_) | CallError::Unsent(_) = error {
                return;
            }
        }
        if begun.elapsed() > longest {
            (pause, _) = LISTEN_AGAIN;
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
        // Not every server acknowledges. A full queue says the same already.
        let _ = changed.try_send(());
    }
}
