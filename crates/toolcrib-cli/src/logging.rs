//! The log on standard error: warnings and errors while a host serves, everything with `-v`.
//!
//! One thread writes, so that nothing in the host waits for a terminal or a client that does not read its standard error.
//! Lines that find the queue full are dropped; the next line that is written says how many.

use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::out::Out;
use crate::shown::printable;

/// Lines that wait to be written.
const QUEUE: usize = 4096;

/// How long the end of the program waits for lines that are not written yet.
const FLUSH: Duration = Duration::from_secs(1);

/// The writer's queue, once logging has started.
static WRITER: OnceLock<Writer> = OnceLock::new();

/// Logs events of this level and more severe ones. Without it nothing is logged.
pub(crate) fn start(level: Level) {
    let (queue, lines) = sync_channel(QUEUE);
    let spawned = thread::Builder::new().name("log".to_owned()).spawn(move || write(&lines));
    if spawned.is_err() || WRITER.set(Writer { queue, dropped: AtomicU64::new(0) }).is_err() {
        return;
    }
    // An error means that a subscriber is set already, which goes on.
    let _ = tracing::subscriber::set_global_default(Log { level, spans: AtomicU64::new(1) });
}

/// Writes a line behind those of the log. False if nothing is logged, so that there is nothing to stand behind.
pub(crate) fn queue(line: &str) -> bool {
    let writer = WRITER.get();
    writer.into_iter().for_each(|writer| writer.send(line.to_owned()));
    writer.is_some()
}

/// Waits until every line that was logged is written, but not for ever.
pub(crate) fn flush() {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = sync_channel(1);
    if writer.queue.try_send(Job::Flush(done)).is_ok() {
        // An error means that the time is over or the writer has ended.
        let _ = written.recv_timeout(FLUSH);
    }
}

struct Writer {
    queue: SyncSender<Job>,
    /// Lines that found the queue full since the last one that did not.
    dropped: AtomicU64,
}

enum Job {
    Line(String),
    /// Answered when every line before it is written.
    Flush(SyncSender<()>),
}

impl Writer {
    fn send(&self, line: String) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let notice = format!("warn: the log lost {dropped} lines: they were not read in time");
            if self.queue.try_send(Job::Line(notice)).is_err() {
                self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
                return;
            }
        }
        if self.queue.try_send(Job::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Line(line) => Out::log(&line),
            // Whoever waited may have given up.
            Job::Flush(done) => drop(done.send(())),
        }
    }
}

/// Only our own events: other crates write what they send, and that holds secrets.
struct Log {
    level: Level,
    spans: AtomicU64,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("toolcrib") && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        if let Some(writer) = WRITER.get() {
            writer.send(format!("{level}: {}{}", line.message, line.fields));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A message and what belongs to it.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = printable(&format!("{value:?}"));
        match field.name() {
            "message" => self.message = value,
            // A string takes whatever it is given.
            name => drop(write!(self.fields, " {name}={value}")),
        }
    }
}
