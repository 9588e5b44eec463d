//! A scripted server without its transport: receives messages, runs the steps, sends messages.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_wire::{Id, Message, MessageLimits, RawJson, Request, RpcError, build, parse};

use super::default_results;
use super::script::{Script, Step};

/// Interval of polling for a file; no event reports its creation.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Destination of a server's messages. Each call sends one message or a piece of raw output.
pub trait MessageSink: Send + Sync + 'static {
    fn send_message(&self, text: &str) -> io::Result<()>;

    /// Sends bytes outside of any framing, if the transport allows that.
    fn send_raw(&self, bytes: &[u8]) -> io::Result<()>;

    /// Stops reading the input.
    fn close_input(&self) -> io::Result<()>;
}

/// A scripted server. Clones share the server.
#[derive(Clone)]
pub struct ScriptedServer {
    state: Arc<ServerState>,
}

struct ServerState {
    script: Script,
    out: Box<dyn MessageSink>,
    barrier: Mutex<BarrierState>,
    released: Condvar,
    /// Requests to the client that wait for a response.
    client_requests: Mutex<PendingClientRequests>,
    call_count: AtomicUsize,
    /// Tools added by `Step::AddTool`.
    added_tools: Mutex<Vec<String>>,
}

/// Messages that wait until enough of them have arrived; then the newest continues first.
#[derive(Default)]
struct BarrierState {
    waiting: usize,
    /// Position of the message that may continue, once enough have arrived.
    turn: usize,
}

#[derive(Default)]
struct PendingClientRequests {
    last: i64,
    waiting: HashMap<i64, SyncSender<String>>,
}

/// State that the steps of one message share.
struct StepContext<'a> {
    request: Option<&'a Request>,
    /// The client's last response.
    client_response: Option<String>,
    /// Position of the message at the barrier.
    barrier_position: Option<usize>,
}

impl<'a> StepContext<'a> {
    fn for_request(request: Option<&'a Request>) -> Self {
        StepContext { request, client_response: None, barrier_position: None }
    }
}

impl ScriptedServer {
    pub fn new(script: Script, out: impl MessageSink) -> Self {
        ScriptedServer {
            state: Arc::new(ServerState {
                script,
                out: Box::new(out),
                barrier: Mutex::default(),
                released: Condvar::new(),
                client_requests: Mutex::default(),
                call_count: AtomicUsize::new(0),
                added_tools: Mutex::default(),
            }),
        }
    }

    /// Runs the steps before the first message.
    pub fn start(&self) -> io::Result<()> {
        let mut context = StepContext::for_request(None);
        self.state.run_steps(&self.state.script.start, &mut context)
    }

    /// Handles the messages of one frame. Each message has its own thread, so that slow messages do not block
    /// others.
    pub fn handle_frame(&self, bytes: Vec<u8>) -> io::Result<()> {
        self.state.log_input(&bytes)?;
        let Ok(packet) = parse(bytes, &MessageLimits::default()) else {
            let error = RpcError::new(toolcrib_wire::code::PARSE_ERROR, "no message");
            return self.state.out.send_message(build::error(None, &error).text());
        };
        for message in packet.into_messages().flatten() {
            // The reader itself must close the input, because a pending read would still receive the next
            // message.
            if self.state.closes_input(&message) {
                self.state.handle_message(message)?;
                continue;
            }
            let state = Arc::clone(&self.state);
            let run = move || {
                // A write error means that the client has stopped reading.
                let _ = state.handle_message(message);
            };
            thread::Builder::new().name("step".to_owned()).spawn(run)?;
        }
        Ok(())
    }
}

impl ServerState {
    fn closes_input(&self, message: &Message) -> bool {
        let Message::Request(request) = message else {
            return false;
        };
        let name = request.params.name();
        let steps = self.script.steps(&request.method, name.as_deref());
        steps.is_some_and(|steps| steps.contains(&Step::CloseStdin))
    }

    fn handle_message(&self, message: Message) -> io::Result<()> {
        match message {
            Message::Request(request) => {
                let name = request.params.name();
                let steps = self.script.steps(&request.method, name.as_deref());
                let mut context = StepContext::for_request(Some(&request));
                self.run_steps(steps.unwrap_or(&[Step::Respond]), &mut context)
            }
            Message::Notification(notification) => {
                let mut context = StepContext::for_request(None);
                let steps = self.script.steps(&notification.method, None);
                self.run_steps(steps.unwrap_or_default(), &mut context)
            }
            Message::Response(response) => {
                if let Some(Id::Number(number)) = response.id
                    && let Some(waiting) = lock(&self.client_requests).waiting.remove(&number)
                {
                    // The thread of the request waits for this response.
                    let _ = waiting.send(response.raw().text().to_owned());
                }
                Ok(())
            }
        }
    }

    fn run_steps(&self, steps: &[Step], context: &mut StepContext<'_>) -> io::Result<()> {
        let result = steps.iter().try_for_each(|step| self.run_step(step, context));
        if let Some(barrier_position) = context.barrier_position {
            self.release_previous(barrier_position);
        }
        result
    }

    fn run_step(&self, step: &Step, context: &mut StepContext<'_>) -> io::Result<()> {
        match step {
            Step::Sleep(millis) => thread::sleep(Duration::from_millis(*millis)),
            Step::WaitForFile(path) => {
                while !path.exists() {
                    thread::sleep(POLL_INTERVAL);
                }
            }
            Step::Respond => self.respond(context)?,
            Step::Result(value) => self.send_result(context, value)?,
            Step::LargeResult(size) => {
                self.send_result(context, &default_results::text_result(&"x".repeat(*size)))?
            }
            Step::Error { code, message } => {
                let id = context.request.map(|request| &request.id);
                self.send(&build::error(id, &RpcError::new(*code, message)))?;
            }
            Step::CountCalls => {
                let count = self.call_count.fetch_add(1, Ordering::SeqCst) + 1;
                let report = json!({"pid": std::process::id(), "count": count});
                self.send_result(context, &default_results::text_result(&report.to_string()))?;
            }
            Step::Barrier(count) => context.barrier_position = Some(self.wait_at_barrier(*count)),
            Step::Message(text) => self.out.send_message(&fill_placeholders(text, context))?,
            Step::Raw(text) => self.out.send_raw(fill_placeholders(text, context).as_bytes())?,
            Step::Flood { byte, times } => self.send_flood(*byte, *times)?,
            Step::Notify { method, params, times } => {
                self.send_notifications(method, params, *times)?
            }
            Step::Progress { times, every } => self.send_progress(*times, *every, context)?,
            Step::SendRequest { method, params } => {
                let params = fill_placeholders(&params.to_string(), context);
                context.client_response =
                    self.send_request(method, &serde_json::from_str(&params)?)?;
            }
            Step::AddTool(name) => {
                lock(&self.added_tools).push(name.clone());
                self.send_notifications("notifications/tools/list_changed", &json!({}), 1)?;
            }
            Step::Sequence { count, turns } => {
                let turn = next_turn(count)?.min(turns.len().saturating_sub(1));
                let steps = turns.get(turn).map(Vec::as_slice).unwrap_or_default();
                steps.iter().try_for_each(|step| self.run_step(step, context))?;
            }
            Step::Stderr(text) => io::stderr().write_all(text.as_bytes())?,
            Step::StderrFlood(size) => io::stderr().write_all(&vec![b'e'; *size])?,
            Step::CloseStdin => self.out.close_input()?,
            Step::Exit(code) => std::process::exit(*code),
            Step::Abort => std::process::abort(),
        }
        Ok(())
    }

    fn respond(&self, context: &StepContext<'_>) -> io::Result<()> {
        let Some(request) = context.request else {
            return Ok(());
        };
        if let Some(client_response) = &context.client_response {
            return self.send_result(context, &default_results::text_result(client_response));
        }
        match default_results::default_result(&self.current_script(), request) {
            Ok(result) => self.send_result(context, &result),
            Err(error) => self.send(&build::error(Some(&request.id), &error)),
        }
    }

    /// Returns the script with the tools added so far.
    fn current_script(&self) -> Script {
        let mut script = self.script.clone();
        script.tools.extend(lock(&self.added_tools).iter().cloned());
        script
    }

    fn send_result(&self, context: &StepContext<'_>, result: &Value) -> io::Result<()> {
        let Some(request) = context.request else {
            return Ok(());
        };
        let result = RawJson::from_value(result).map_err(io::Error::other)?;
        self.send(&build::response(&request.id, result))
    }

    fn send(&self, message: &RawJson) -> io::Result<()> {
        self.out.send_message(message.text())
    }

    fn send_flood(&self, byte: char, times: usize) -> io::Result<()> {
        let piece = byte.to_string().repeat(times.min(1 << 20));
        let mut left = times;
        while left > 0 {
            let now = left.min(piece.len());
            self.out.send_raw(&piece.as_bytes()[..now])?;
            left -= now;
        }
        Ok(())
    }

    fn send_notifications(&self, method: &str, params: &Value, times: usize) -> io::Result<()> {
        let params = RawJson::from_value(params).map_err(io::Error::other)?;
        let message = build::notification(method, Some(params.json()));
        (0..times).try_for_each(|_| self.send(&message))
    }

    fn send_progress(&self, times: usize, every: u64, context: &StepContext<'_>) -> io::Result<()> {
        for step in 1..=times {
            thread::sleep(Duration::from_millis(every));
            let params = json!({"progressToken": "$token", "progress": step, "total": times});
            let message =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            self.out.send_message(&fill_placeholders(
                &message.to_string().replace("\"$token\"", "$token"),
                context,
            ))?;
        }
        Ok(())
    }

    fn send_request(&self, method: &str, params: &Value) -> io::Result<Option<String>> {
        let (number, answer): (i64, Receiver<String>) = {
            let mut client_requests = lock(&self.client_requests);
            client_requests.last += 1;
            let number = client_requests.last;
            let (sender, receiver) = sync_channel(1);
            client_requests.waiting.insert(number, sender);
            (number, receiver)
        };
        let params = RawJson::from_value(params).map_err(io::Error::other)?;
        self.send(&build::request(&Id::Number(number), method, Some(params.json())))?;
        Ok(answer.recv().ok())
    }

    fn wait_at_barrier(&self, count: usize) -> usize {
        let mut barrier = lock(&self.barrier);
        barrier.waiting += 1;
        let barrier_position = barrier.waiting;
        if barrier_position == count {
            barrier.turn = count;
        }
        while barrier.turn != barrier_position {
            barrier = self.released.wait(barrier).unwrap_or_else(PoisonError::into_inner);
        }
        barrier_position
    }

    /// Lets the message that arrived before this one continue.
    fn release_previous(&self, barrier_position: usize) {
        lock(&self.barrier).turn = barrier_position - 1;
        self.released.notify_all();
    }

    /// Appends the input to the log file.
    fn log_input(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = &self.script.log else {
            return Ok(());
        };
        let mut line = bytes.to_vec();
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&line)
    }
}

/// Returns the number of earlier calls. Each call appends a byte, so the file's length is the count.
fn next_turn(count: &Path) -> io::Result<usize> {
    let mut file = OpenOptions::new().create(true).append(true).open(count)?;
    let turn = file.metadata()?.len();
    file.write_all(b".")?;
    Ok(usize::try_from(turn).unwrap_or(usize::MAX))
}

fn fill_placeholders(text: &str, context: &StepContext<'_>) -> String {
    let id = context.request.map(|request| request.id.to_string());
    let token = context.request.and_then(|request| request.params.progress_token());
    text.replace("$id", id.as_deref().unwrap_or("null"))
        .replace("$token", token.map_or("null".to_owned(), |token| token.to_string()).as_str())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for ScriptedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("script", &self.state.script).finish_non_exhaustive()
    }
}
