//! The log on standard error: warnings and errors of a serving host, everything with `-v`.
//!
//! One thread writes, so that the host never waits for a terminal or for a client that does not read standard error.
//! Lines that find the queue full are dropped, and the next written line says how many.

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

use crate::output::Output;
use crate::terminal_text::printable;

/// Maximum number of lines in the queue.
const QUEUE_CAPACITY: usize = 4096;

/// Time limit for flushing the queue at exit.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The log writer, once logging has started.
static WRITER: OnceLock<Writer> = OnceLock::new();

/// Starts logging events of this level and above. Without a start nothing is logged.
pub(crate) fn start(level: Level) {
    let (queue, lines) = sync_channel(QUEUE_CAPACITY);
    let spawned = thread::Builder::new().name("log".to_owned()).spawn(move || write_jobs(&lines));
    if spawned.is_err() || WRITER.set(Writer { queue, dropped: AtomicU64::new(0) }).is_err() {
        return;
    }
    // An error means that another subscriber is already set.
    let _ =
        tracing::subscriber::set_global_default(LogSubscriber { level, spans: AtomicU64::new(1) });
}

/// Queues a line behind the log lines. Returns false if logging has not started.
pub(crate) fn queue_line(line: &str) -> bool {
    let writer = WRITER.get();
    writer.into_iter().for_each(|writer| writer.send(line.to_owned()));
    writer.is_some()
}

/// Waits until all queued lines are written, within a time limit.
pub(crate) fn flush() {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = sync_channel(1);
    if writer.queue.try_send(LogJob::Flush(done)).is_ok() {
        // An error means that the time limit passed or the writer ended.
        let _ = written.recv_timeout(FLUSH_TIMEOUT);
    }
}

struct Writer {
    queue: SyncSender<LogJob>,
    /// Lines dropped since the last queued line.
    dropped: AtomicU64,
}

enum LogJob {
    Line(String),
    /// Answered when all earlier lines are written.
    Flush(SyncSender<()>),
}

impl Writer {
    fn send(&self, line: String) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let notice = format!(
                "warn: the log dropped {dropped} lines because standard error was not read in time"
            );
            if self.queue.try_send(LogJob::Line(notice)).is_err() {
                self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
                return;
            }
        }
        if self.queue.try_send(LogJob::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_jobs(jobs: &Receiver<LogJob>) {
    for job in jobs {
        match job {
            LogJob::Line(line) => Output::write_log_line(&line),
            // The waiting thread may have given up.
            LogJob::Flush(done) => drop(done.send(())),
        }
    }
}

/// Logs only Toolcrib's own events. Other crates log request contents, which include secrets.
struct LogSubscriber {
    level: Level,
    spans: AtomicU64,
}

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("toolcrib") && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine::default();
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

/// The message and the fields of an event.
#[derive(Default)]
struct LogLine {
    message: String,
    fields: String,
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = printable(&format!("{value:?}"));
        match field.name() {
            "message" => self.message = value,
            // Writing to a `String` cannot fail.
            name => drop(write!(self.fields, " {name}={value}")),
        }
    }
}
