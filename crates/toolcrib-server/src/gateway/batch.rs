//! Several messages at once, as an early version of the protocol had it.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_wire::{Message, Packet, Raw, build};

use super::QUEUE;
use super::client::Client;
use super::respond::{Work, respond};
use super::stream::too_many;
use crate::front::reply::Answered;
use crate::lines::refusal;

/// What comes of them; nothing where nothing was asked.
pub(super) async fn together(
    client: &Arc<Client>,
    streams: bool,
    batch: Packet,
) -> Option<Answered> {
    let (out, queue) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    for message in batch.into_messages() {
        match message {
            Ok(Message::Request(request)) if !client.has_room() => {
                let (said, out) = (build::error(Some(&request.id), &too_many()), out.clone());
                tasks.spawn(async move { say(&out, Some(said)).await });
            }
            Ok(Message::Request(request)) => {
                let (answering, out) = (client.answering(request, out.clone().into()), out.clone());
                tasks.spawn(async move { say(&out, answering.await).await });
            }
            Ok(Message::Notification(told)) => client.heed(&told),
            // Nothing can be said to an answer that nobody waits for.
            Ok(Message::Response(response)) => {
                client.answered(response);
            }
            Err(malformed) => {
                let (said, out) = (refusal(&malformed), out.clone());
                tasks.spawn(async move { say(&out, said).await });
            }
        }
    }
    if tasks.is_empty() {
        return None;
    }
    drop(out);
    let answer = Box::pin(async move {
        while tasks.join_next().await.is_some() {}
        None
    });
    Some(
        respond(Work { answer, heard: queue.into(), streams, open: client.busy(), outlives: true })
            .await,
    )
}

async fn say(out: &mpsc::Sender<Raw>, message: Option<Raw>) {
    if let Some(message) = message {
        // A client that has gone ends this elsewhere.
        let _ = out.send(message).await;
    }
}
