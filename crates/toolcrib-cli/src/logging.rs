//! What the library tells of its work, on standard error for whoever asked for it with `-v`.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::out::Out;
use crate::shown::printable;

/// Begins to tell. Without it nothing is told.
pub(crate) fn start() {
    // It is called once; were it called twice, the first would go on.
    let _ = tracing::subscriber::set_global_default(Log { spans: AtomicU64::new(1) });
}

/// Only our own: other crates write what they send, and that holds secrets.
struct Log {
    spans: AtomicU64,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("toolcrib") && *metadata.level() <= Level::DEBUG
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        Out::log(&format!("{level}: {}{}", line.message, line.fields));
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
