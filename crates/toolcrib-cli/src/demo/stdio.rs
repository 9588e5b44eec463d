//! The demo server on its standard streams: one message a line, many requests at once.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcrib_server::lines::{Lines, write};
use toolcrib_wire::Raw;

use super::desk::Desk;
use super::hub::{Heard, Hub};
use super::{GRACE, LIMITS, QUEUE};

/// Speaks until the input ends or the hub closes. What is under way then is answered, as far as somebody reads.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (out, queue) = mpsc::channel(QUEUE);
    let mut writer = JoinSet::new();
    writer.spawn(write(queue, output));
    let desk = Arc::new(Desk::default());
    let mut talk = Talk { hub: Arc::clone(&hub), desk, out, tasks: JoinSet::new() };
    let outcome = tokio::select! {
        outcome = talk.read(input) => outcome,
        () = hub.closing() => Ok(()),
        // Nobody reads any more.
        _ = writer.join_next() => return Ok(()),
    };
    hub.close();
    let ending = async {
        while talk.tasks.join_next().await.is_some() {}
        drop(talk);
        writer.join_next().await
    };
    // Whoever does not read now will not.
    let _ = timeout(GRACE, ending).await;
    outcome
}

/// One conversation on a stream.
struct Talk {
    hub: Arc<Hub>,
    desk: Arc<Desk>,
    out: mpsc::Sender<Raw>,
    tasks: JoinSet<()>,
}

impl Talk {
    async fn read(&mut self, input: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut lines = Lines::new(input, LIMITS);
        while let Some(came) = lines.next().await? {
            match came {
                Ok(message) => self.answer(self.hub.hear(&self.desk, Ok(message))).await,
                Err(refusal) => self.say(refusal).await,
            }
            while self.tasks.try_join_next().is_some() {}
        }
        Ok(())
    }

    async fn answer(&mut self, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Say(message) => self.say(message).await,
            Heard::Do(id, work) => {
                let (hub, desk) = (Arc::clone(&self.hub), Arc::clone(&self.desk));
                let doing = hub.perform(desk, id.clone(), work, self.out.clone());
                let task = self.tasks.spawn(doing);
                self.desk.started(id, task);
            }
        }
    }

    async fn say(&self, message: Raw) {
        // The writer's end ends the conversation elsewhere.
        let _ = self.out.send(message).await;
    }
}
