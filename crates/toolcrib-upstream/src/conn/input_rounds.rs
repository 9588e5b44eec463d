//! Multi round-trip calls of the modern era: the server asks for input, and the call is repeated with it.

use futures_util::future::join_all;
use tokio::time::Instant;
use toolcrib_wire::view::{InputRequest, InputRequired};
use toolcrib_wire::{Body, Id, Message, ObjectWriter, Packet, RawJson, RpcError, build, method};

use super::peer::{BadResponse, CallOptions, PeerCallError, RequestHandler, ServerRequest};
use super::session::Session;
use super::setup::SessionClient;

/// Limit of input rounds for one call.
const MAX_ROUNDS: u32 = 16;

pub(super) async fn call_with_input(
    session: &Session,
    method: &str,
    params: RawJson,
    options: CallOptions,
    client: Option<&SessionClient>,
) -> Result<Body, PeerCallError> {
    let handler = &client.unwrap_or(&session.setup().client).handler;
    let mut params = params;
    let mut options = options;
    for _ in 0..MAX_ROUNDS {
        let started_at = Instant::now();
        let answer =
            session.send_modern_request(method, params.clone(), options.clone(), client).await?;
        let Some(required) = input_required(method, &answer)? else {
            return Ok(answer);
        };
        // Deducted before the handler runs, so that the user's response time does not count.
        options.timeouts.max = options.timeouts.minus_elapsed(started_at.elapsed()).max;
        let responses = respond_to_all(&**handler, &required).await?;
        params = retry_params(&params, &required, responses);
    }
    Err(PeerCallError::TooManyRounds(MAX_ROUNDS))
}

fn input_required(method: &str, answer: &Body) -> Result<Option<InputRequired>, PeerCallError> {
    let wants_input = answer.result_type().as_deref() == Some("input_required");
    let Some(raw) = answer.raw().filter(|_| wants_input && method::may_require_input(method))
    else {
        return Ok(None);
    };
    let read = InputRequired::read(raw).map_err(BadResponse::Input);
    read.map(Some).map_err(PeerCallError::Malformed)
}

/// Responds to all input requests of one round concurrently.
async fn respond_to_all(
    handler: &dyn RequestHandler,
    required: &InputRequired,
) -> Result<Option<RawJson>, PeerCallError> {
    let requests = required.requests();
    if requests.is_empty() {
        return Ok(None);
    }
    let requests: Result<Vec<_>, _> = requests.into_iter().collect();
    let requests =
        requests.map_err(|(_, flaw)| PeerCallError::Malformed(BadResponse::Input(flaw)))?;
    let responses = join_all(requests.iter().map(|request| respond(handler, request))).await;
    let mut written = ObjectWriter::new();
    for (request, answer) in requests.iter().zip(responses) {
        written = written.json(&request.key, answer?.json());
    }
    Ok(Some(written.finish()))
}

async fn respond(
    handler: &dyn RequestHandler,
    request: &InputRequest,
) -> Result<RawJson, PeerCallError> {
    let unanswered = |cause| PeerCallError::Unanswered { method: request.method.clone(), cause };
    let unknown = || unanswered(RpcError::method_not_found(&request.method));
    let request = as_server_request(request).ok_or_else(unknown)?;
    handler.handle(request).ok_or_else(unknown)?.await.map_err(unanswered)
}

/// Wraps an input request as a server request of the legacy era.
fn as_server_request(request: &InputRequest) -> Option<ServerRequest> {
    let params = request.params.as_ref().map(RawJson::json);
    let message = build::request(&Id::Number(0), &request.method, params);
    let packet =
        toolcrib_wire::parse(message.as_bytes(), &toolcrib_wire::MessageLimits::default()).ok()?;
    match packet {
        Packet::One(Message::Request(request)) => Some(ServerRequest::from_input_request(request)),
        _ => None,
    }
}

/// Params for the next round: the new responses and state replace those of the previous round.
fn retry_params(params: &RawJson, required: &InputRequired, responses: Option<RawJson>) -> RawJson {
    params
        .with_members([("inputResponses", responses), ("requestState", required.state().cloned())])
}
