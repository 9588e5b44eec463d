//! A scripted server without its transport: takes messages, does the steps, gives messages.

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
use toolcrib_wire::{Id, Limits, Message, Raw, Request, RpcError, build, parse};

use super::replies;
use super::script::{Script, Step};

/// How often a file that is waited for is looked for: nothing tells when it appears.
const POLL: Duration = Duration::from_millis(5);

/// Where a server's messages go. Each call is one message, or a piece of what is none.
pub trait Out: Send + Sync + 'static {
    fn message(&self, text: &str) -> io::Result<()>;

    /// Bytes outside of any framing, where the transport has such a place.
    fn raw(&self, bytes: &[u8]) -> io::Result<()>;

    /// From now on nothing is read.
    fn close_input(&self) -> io::Result<()>;
}

/// Clones share the server.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    script: Script,
    out: Box<dyn Out>,
    held: Mutex<Held>,
    released: Condvar,
    /// Who waits for the client's answer to which request.
    asked: Mutex<Asked>,
    counted: AtomicUsize,
    /// Tools that came later.
    offered: Mutex<Vec<String>>,
}

/// Messages that are held back until enough of them are; then the newest goes first.
#[derive(Default)]
struct Held {
    waiting: usize,
    /// The one whose turn it is, once there are enough.
    turn: usize,
}

#[derive(Default)]
struct Asked {
    last: i64,
    waiting: HashMap<i64, SyncSender<String>>,
}

/// What the steps of one message need to know.
struct Scene<'a> {
    request: Option<&'a Request>,
    /// The client's last answer.
    heard: Option<String>,
    /// Its place among those that were held.
    place: Option<usize>,
}

impl<'a> Scene<'a> {
    fn of(request: Option<&'a Request>) -> Self {
        Scene { request, heard: None, place: None }
    }
}

impl Server {
    pub fn new(script: Script, out: impl Out) -> Self {
        Server {
            inner: Arc::new(Inner {
                script,
                out: Box::new(out),
                held: Mutex::default(),
                released: Condvar::new(),
                asked: Mutex::default(),
                counted: AtomicUsize::new(0),
                offered: Mutex::default(),
            }),
        }
    }

    /// Does what comes before the first message.
    pub fn start(&self) -> io::Result<()> {
        let mut scene = Scene::of(None);
        self.inner.play(&self.inner.script.start, &mut scene)
    }

    /// Takes what one frame holds. Each message has its own thread, so that slow ones hold nothing up.
    pub fn take(&self, bytes: Vec<u8>) -> io::Result<()> {
        self.inner.note(&bytes)?;
        let Ok(packet) = parse(bytes, &Limits::default()) else {
            let error = RpcError::new(toolcrib_wire::code::PARSE_ERROR, "no message");
            return self.inner.out.message(build::error(None, &error).text());
        };
        for message in packet.into_messages().flatten() {
            // A read that is under way would still get the next message, so the reader itself must do this.
            if self.inner.closes_input(&message) {
                self.inner.message(message)?;
                continue;
            }
            let inner = Arc::clone(&self.inner);
            let play = move || {
                // Whoever no longer reads cannot be told.
                let _ = inner.message(message);
            };
            thread::Builder::new().name("step".to_owned()).spawn(play)?;
        }
        Ok(())
    }
}

impl Inner {
    fn closes_input(&self, message: &Message) -> bool {
        let Message::Request(request) = message else {
            return false;
        };
        let name = request.params.name();
        let steps = self.script.steps(&request.method, name.as_deref());
        steps.is_some_and(|steps| steps.contains(&Step::CloseStdin))
    }

    fn message(&self, message: Message) -> io::Result<()> {
        match message {
            Message::Request(request) => {
                let name = request.params.name();
                let steps = self.script.steps(&request.method, name.as_deref());
                let mut scene = Scene::of(Some(&request));
                self.play(steps.unwrap_or(&[Step::Answer]), &mut scene)
            }
            Message::Notification(notification) => {
                let mut scene = Scene::of(None);
                let steps = self.script.steps(&notification.method, None);
                self.play(steps.unwrap_or_default(), &mut scene)
            }
            Message::Response(response) => {
                if let Some(Id::Number(number)) = response.id
                    && let Some(waiting) = lock(&self.asked).waiting.remove(&number)
                {
                    // Its thread waits for exactly this.
                    let _ = waiting.send(response.raw().text().to_owned());
                }
                Ok(())
            }
        }
    }

    fn play(&self, steps: &[Step], scene: &mut Scene<'_>) -> io::Result<()> {
        let played = steps.iter().try_for_each(|step| self.step(step, scene));
        if let Some(place) = scene.place {
            self.release(place);
        }
        played
    }

    fn step(&self, step: &Step, scene: &mut Scene<'_>) -> io::Result<()> {
        match step {
            Step::Sleep(millis) => thread::sleep(Duration::from_millis(*millis)),
            Step::Until(path) => {
                while !path.exists() {
                    thread::sleep(POLL);
                }
            }
            Step::Answer => self.answer(scene)?,
            Step::Result(value) => self.send_result(scene, value)?,
            Step::Big(size) => self.send_result(scene, &replies::text(&"x".repeat(*size)))?,
            Step::Error { code, message } => {
                let id = scene.request.map(|request| &request.id);
                self.send(&build::error(id, &RpcError::new(*code, message)))?;
            }
            Step::Count => {
                let count = self.counted.fetch_add(1, Ordering::SeqCst) + 1;
                let told = json!({"pid": std::process::id(), "count": count});
                self.send_result(scene, &replies::text(&told.to_string()))?;
            }
            Step::Hold(count) => scene.place = Some(self.hold(*count)),
            Step::Message(text) => self.out.message(&filled(text, scene))?,
            Step::Raw(text) => self.out.raw(filled(text, scene).as_bytes())?,
            Step::Flood { byte, times } => self.flood(*byte, *times)?,
            Step::Notify { method, params, times } => self.notify(method, params, *times)?,
            Step::Progress { times, every } => self.progress(*times, *every, scene)?,
            Step::Ask { method, params } => {
                let params = filled(&params.to_string(), scene);
                scene.heard = self.ask(method, &serde_json::from_str(&params)?)?;
            }
            Step::Offer(name) => {
                lock(&self.offered).push(name.clone());
                self.notify("notifications/tools/list_changed", &json!({}), 1)?;
            }
            Step::Turns { count, turns } => {
                let turn = next_turn(count)?.min(turns.len().saturating_sub(1));
                let steps = turns.get(turn).map(Vec::as_slice).unwrap_or_default();
                steps.iter().try_for_each(|step| self.step(step, scene))?;
            }
            Step::Stderr(text) => io::stderr().write_all(text.as_bytes())?,
            Step::StderrFlood(size) => io::stderr().write_all(&vec![b'e'; *size])?,
            Step::CloseStdin => self.out.close_input()?,
            Step::Exit(code) => std::process::exit(*code),
            Step::Abort => std::process::abort(),
        }
        Ok(())
    }

    fn answer(&self, scene: &Scene<'_>) -> io::Result<()> {
        let Some(request) = scene.request else {
            return Ok(());
        };
        if let Some(heard) = &scene.heard {
            return self.send_result(scene, &replies::text(heard));
        }
        match replies::reply(&self.now(), request) {
            Ok(result) => self.send_result(scene, &result),
            Err(error) => self.send(&build::error(Some(&request.id), &error)),
        }
    }

    /// The script with the tools that there are by now.
    fn now(&self) -> Script {
        let mut script = self.script.clone();
        script.tools.extend(lock(&self.offered).iter().cloned());
        script
    }

    fn send_result(&self, scene: &Scene<'_>, result: &Value) -> io::Result<()> {
        let Some(request) = scene.request else {
            return Ok(());
        };
        let result = Raw::of(result).map_err(io::Error::other)?;
        self.send(&build::response(&request.id, result))
    }

    fn send(&self, message: &Raw) -> io::Result<()> {
        self.out.message(message.text())
    }

    fn flood(&self, byte: char, times: usize) -> io::Result<()> {
        let piece = byte.to_string().repeat(times.min(1 << 20));
        let mut left = times;
        while left > 0 {
            let now = left.min(piece.len());
            self.out.raw(&piece.as_bytes()[..now])?;
            left -= now;
        }
        Ok(())
    }

    fn notify(&self, method: &str, params: &Value, times: usize) -> io::Result<()> {
        let params = Raw::of(params).map_err(io::Error::other)?;
        let message = build::notification(method, Some(params.json()));
        (0..times).try_for_each(|_| self.send(&message))
    }

    fn progress(&self, times: usize, every: u64, scene: &Scene<'_>) -> io::Result<()> {
        for step in 1..=times {
            thread::sleep(Duration::from_millis(every));
            let params = json!({"progressToken": "$token", "progress": step, "total": times});
            let message =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            self.out
                .message(&filled(&message.to_string().replace("\"$token\"", "$token"), scene))?;
        }
        Ok(())
    }

    fn ask(&self, method: &str, params: &Value) -> io::Result<Option<String>> {
        let (number, answer): (i64, Receiver<String>) = {
            let mut asked = lock(&self.asked);
            asked.last += 1;
            let number = asked.last;
            let (sender, receiver) = sync_channel(1);
            asked.waiting.insert(number, sender);
            (number, receiver)
        };
        let params = Raw::of(params).map_err(io::Error::other)?;
        self.send(&build::request(&Id::Number(number), method, Some(params.json())))?;
        Ok(answer.recv().ok())
    }

    fn hold(&self, count: usize) -> usize {
        let mut held = lock(&self.held);
        held.waiting += 1;
        let place = held.waiting;
        if place == count {
            held.turn = count;
        }
        while held.turn != place {
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        place
    }

    /// The one that was held before this one goes on.
    fn release(&self, place: usize) {
        lock(&self.held).turn = place - 1;
        self.released.notify_all();
    }

    /// What came in, for tests to look at.
    fn note(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = &self.script.log else {
            return Ok(());
        };
        let mut line = bytes.to_vec();
        line.push(b'\n');
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(&line)
    }
}

/// The file grows by a byte each time; its length before is the count.
fn next_turn(count: &Path) -> io::Result<usize> {
    let mut file = OpenOptions::new().create(true).append(true).open(count)?;
    let turn = file.metadata()?.len();
    file.write_all(b".")?;
    Ok(usize::try_from(turn).unwrap_or(usize::MAX))
}

fn filled(text: &str, scene: &Scene<'_>) -> String {
    let id = scene.request.map(|request| request.id.to_string());
    let token = scene.request.and_then(|request| request.params.progress_token());
    text.replace("$id", id.as_deref().unwrap_or("null"))
        .replace("$token", token.map_or("null".to_owned(), |token| token.to_string()).as_str())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("script", &self.inner.script).finish_non_exhaustive()
    }
}
