//! Calls of the modern era that the server answers with questions: asked, answered, and made again.

use futures_util::future::join_all;
use tokio::time::Instant;
use toolcrib_wire::view::{InputRequest, InputRequired};
use toolcrib_wire::{Body, Id, Message, ObjectWriter, Packet, Raw, RpcError, build, method};

use super::peer::{Asked, BadAnswer, CallError, CallOptions, Handler};
use super::session::Session;
use super::setup::Caller;

/// A server may ask again until it has what it needs, but not for ever.
const MOST_ROUNDS: u32 = 16;

pub(super) async fn call(
    session: &Session,
    called: &str,
    params: Raw,
    options: CallOptions,
    caller: Option<&Caller>,
) -> Result<Body, CallError> {
    let handler = &caller.unwrap_or(&session.setup().caller).handler;
    let mut params = params;
    let mut options = options;
    for _ in 0..MOST_ROUNDS {
        let begun = Instant::now();
        let answer = session.ask(called, params.clone(), options.clone(), caller).await?;
        let Some(required) = input_required(called, &answer)? else {
            return Ok(answer);
        };
        // The time in which a person is asked does not count, so it is taken off before.
        options.patience.max = options.patience.less(begun.elapsed()).max;
        let answers = answer_all(&**handler, &required).await?;
        params = again(&params, &required, answers);
    }
    Err(CallError::TooManyRounds(MOST_ROUNDS))
}

fn input_required(called: &str, answer: &Body) -> Result<Option<InputRequired>, CallError> {
    let asks = answer.result_type().as_deref() == Some("input_required");
    let Some(raw) = answer.raw().filter(|_| asks && method::may_require_input(called)) else {
        return Ok(None);
    };
    let read = InputRequired::read(raw).map_err(BadAnswer::Input);
    read.map(Some).map_err(CallError::Malformed)
}

/// All questions of one round, side by side.
async fn answer_all(
    handler: &dyn Handler,
    required: &InputRequired,
) -> Result<Option<Raw>, CallError> {
    let requests = required.requests();
    if requests.is_empty() {
        return Ok(None);
    }
    let requests: Result<Vec<_>, _> = requests.into_iter().collect();
    let requests = requests.map_err(|(_, flaw)| CallError::Malformed(BadAnswer::Input(flaw)))?;
    let answers = join_all(requests.iter().map(|request| answer(handler, request))).await;
    let mut written = ObjectWriter::new();
    for (request, answer) in requests.iter().zip(answers) {
        written = written.json(&request.key, answer?.json());
    }
    Ok(Some(written.finish()))
}

async fn answer(handler: &dyn Handler, request: &InputRequest) -> Result<Raw, CallError> {
    let unanswered = |cause| CallError::Unanswered { method: request.method.clone(), cause };
    let unknown = || unanswered(RpcError::method_not_found(&request.method));
    let asked = asked(request).ok_or_else(unknown)?;
    handler.take(asked).ok_or_else(unknown)?.await.map_err(unanswered)
}

/// The question as if it had been a request of its own, as it is in the legacy era.
fn asked(request: &InputRequest) -> Option<Asked> {
    let params = request.params.as_ref().map(Raw::json);
    let message = build::request(&Id::Number(0), &request.method, params);
    let packet =
        toolcrib_wire::parse(message.as_bytes(), &toolcrib_wire::Limits::default()).ok()?;
    match packet {
        Packet::One(Message::Request(request)) => Some(Asked::inside(request)),
        _ => None,
    }
}

/// The same call with the answers and the server's state, and without those of the round before.
fn again(params: &Raw, required: &InputRequired, answers: Option<Raw>) -> Raw {
    params.with_members([("inputResponses", answers), ("requestState", required.state().cloned())])
}
