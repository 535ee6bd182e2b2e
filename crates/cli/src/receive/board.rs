//! The progress of all streams, a line for each: in place on a terminal, every few seconds elsewhere.

use super::incoming::Fare;
use crate::output::say;
use crate::print::bytes::{bytes, count, counted};
use crate::print::text::{fitted, printable};
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(500);
const REPORT: Duration = Duration::from_secs(5);

/// A stream on the board.
#[derive(Debug)]
pub struct Line {
    from: String,
    fare: Mutex<(Fare, Instant)>,
}

impl Line {
    /// Stores the progress after data has arrived.
    pub fn update(&self, fare: Fare) {
        *self.fare.lock().unwrap_or_else(PoisonError::into_inner) = (fare, Instant::now());
    }
}

/// The progress lines of all streams.
pub struct Board {
    lines: Mutex<Vec<(Arc<Line>, u64)>>,
    is_terminal: bool,
    last: Mutex<Instant>,
    drawn: Mutex<usize>,
}

impl Board {
    /// A board without streams.
    pub fn new() -> Self {
        Self {
            lines: Mutex::default(),
            is_terminal: std::io::stderr().is_terminal(),
            last: Mutex::new(Instant::now()),
            drawn: Mutex::new(0),
        }
    }

    /// Adds a line for a new stream.
    pub fn add(&self, from: &str) -> Arc<Line> {
        let line = Arc::new(Line { from: from.to_owned(), fare: Mutex::new((Fare::default(), Instant::now())) });
        lock(&self.lines).push((Arc::clone(&line), 0));
        line
    }

    /// Removes the line of a stream that has ended.
    pub fn remove(&self, line: &Arc<Line>) {
        lock(&self.lines).retain(|(other, _)| !Arc::ptr_eq(other, line));
    }

    /// Prints a permanent line.
    pub fn say(&self, text: &str) {
        self.clear();
        say(text);
    }

    /// Shows the progress, if an update is due.
    pub fn show(&self) {
        let every = if self.is_terminal { REDRAW } else { REPORT };
        let since = {
            let mut last = lock(&self.last);
            let since = last.elapsed();
            if since < every {
                return;
            }
            *last = Instant::now();
            since
        };
        let mut texts = Vec::new();
        for (line, events_before) in lock(&self.lines).iter_mut() {
            let (fare, latest) = lock(&line.fare).clone();
            let rate = (fare.events - (*events_before).min(fare.events)) as f64 / since.as_secs_f64();
            *events_before = fare.events;
            texts.push(describe(&line.from, &fare, rate, latest.elapsed()));
        }
        if !self.is_terminal {
            return texts.iter().for_each(|text| say(text));
        }
        self.clear();
        let mut drawn = lock(&self.drawn);
        let mut error = std::io::stderr().lock();
        for text in &texts {
            let width =
                terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
            let text = fitted(&printable(text), width.saturating_sub(1));
            let _ = writeln!(error, "{text}\x1b[K");
        }
        *drawn = texts.len();
    }

    /// Removes the lines from the terminal.
    pub fn clear(&self) {
        let drawn = std::mem::take(&mut *lock(&self.drawn));
        if drawn > 0 {
            let _ = write!(std::io::stderr(), "\x1b[{drawn}A\x1b[J");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn describe(from: &str, fare: &Fare, rate: f64, lag: Duration) -> String {
    let file = fare.file.as_ref().map_or_else(|| from.to_owned(), |path| path.display().to_string());
    let about = if fare.is_estimate { "~" } else { "" };
    let dropped = match fare.dropped {
        0 => String::new(),
        dropped => format!(", {} dropped", count(dropped)),
    };
    format!(
        "{file}: {} ({}/s){dropped}, live {about}{}, peak {about}{}, lag {:.1} s",
        counted(fare.events, "event"),
        count(rate as u64),
        bytes(fare.live_bytes),
        bytes(fare.peak_bytes),
        lag.as_secs_f64()
    )
}
