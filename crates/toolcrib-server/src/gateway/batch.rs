//! Handles JSON-RPC batches of early protocol versions.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use toolcrib_wire::{Message, Packet, RawJson, build};

use super::QUEUE_CAPACITY;
use super::client::Client;
use super::post_response::{PendingResponse, respond};
use super::stream_client::too_many_requests_error;
use crate::front::response::GatewayResponse;
use crate::message_stream::malformed_error;

/// Handles all messages of a batch. Returns `None` if it contains no request.
pub(super) async fn respond_to_batch(
    client: &Arc<Client>,
    accepts_events: bool,
    batch: Packet,
) -> Option<GatewayResponse> {
    let (out, queue) = mpsc::channel(QUEUE_CAPACITY);
    let mut tasks = JoinSet::new();
    for message in batch.into_messages() {
        match message {
            Ok(Message::Request(request)) if !client.has_capacity() => {
                let (error, out) =
                    (build::error(Some(&request.id), &too_many_requests_error()), out.clone());
                tasks.spawn(async move { send_if_some(&out, Some(error)).await });
            }
            Ok(Message::Request(request)) => {
                let (answering, out) =
                    (client.response_future(request, out.clone().into()), out.clone());
                tasks.spawn(async move { send_if_some(&out, answering.await).await });
            }
            Ok(Message::Notification(notification)) => client.handle_notification(&notification),
            // A response without a waiting request needs no error.
            Ok(Message::Response(response)) => {
                client.deliver_response(response);
            }
            Err(malformed) => {
                let (error, out) = (malformed_error(&malformed), out.clone());
                tasks.spawn(async move { send_if_some(&out, error).await });
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
        respond(PendingResponse {
            answer,
            notifications: queue.into(),
            accepts_events,
            activity: client.activity_guard(),
            continues_detached: true,
        })
        .await,
    )
}

async fn send_if_some(out: &mpsc::Sender<RawJson>, message: Option<RawJson>) {
    if let Some(message) = message {
        // A failure means that the client has disconnected, which ends this task elsewhere.
        let _ = out.send(message).await;
    }
}
