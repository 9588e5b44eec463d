//! Subscription to list changes in the modern era.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::peer::PeerCallError;
use super::session::Session;

/// First and maximum delay between subscription attempts. The delay doubles each time.
const RESUBSCRIBE_DELAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Time limit for the first acknowledgement. If it takes longer, the lists are read twice.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(500);

/// A subscription that stays open until this is dropped.
pub(super) struct ListSubscription {
    _task: JoinSet<()>,
    changed: mpsc::Receiver<()>,
}

impl ListSubscription {
    /// Starts the subscription and waits for its acknowledgement, so that changes after the first reading are
    /// reported.
    pub(super) async fn start(session: &Session) -> Self {
        let (sender, changed) = mpsc::channel(1);
        let mut task = JoinSet::new();
        if session.needs_list_subscription() {
            task.spawn(keep_subscribed(session.clone(), sender));
        } else {
            // Closes the channel, so that receivers do not wait.
            drop(sender);
        }
        let mut subscription = Self { _task: task, changed };
        // A late acknowledgement stays in the queue and triggers another reading.
        let _ = timeout(ACKNOWLEDGE_TIMEOUT, subscription.changed()).await;
        subscription
    }

    /// Waits until the lists may have changed. Returns `None` if there is no subscription.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.changed.recv().await
    }
}

/// Changes between two subscriptions are not reported, so the lists are read again after each new subscription.
async fn keep_subscribed(session: Session, changed: mpsc::Sender<()>) {
    let (mut delay, max_delay) = RESUBSCRIBE_DELAY;
    loop {
        let started_at = Instant::now();
        if let Err(error) = session.subscribe_lists(&changed).await {
            tracing::debug!(server = %session.setup().spec.id, %error, "subscription for changes ended");
            // A refused subscription will be refused again, and a closed link does not come back.
            if let PeerCallError::Refused(_) | PeerCallError::Closed(_) | PeerCallError::Unsent(_) =
                error
            {
                return;
            }
        }
        if started_at.elapsed() > max_delay {
            (delay, _) = RESUBSCRIBE_DELAY;
        }
        sleep(delay).await;
        delay = (delay * 2).min(max_delay);
        // Some servers do not acknowledge. A full queue already signals a change.
        let _ = changed.try_send(());
    }
}
