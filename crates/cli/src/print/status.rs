//! A status line on standard error, at a terminal only.

use super::text::printable;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(250);

/// The status line; erased when it is dropped.
pub struct StatusLine {
    watched: bool,
    began: Instant,
    next_draw: Instant,
    drawn: bool,
}

impl StatusLine {
    /// A status line that shows nothing yet.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { watched: std::io::stderr().is_terminal(), began: now, next_draw: now + REDRAW * 2, drawn: false }
    }

    /// Shows the result of `text`, which gets the time since the beginning. Does nothing if the line was updated just before.
    pub fn update(&mut self, text: impl FnOnce(Duration) -> String) {
        let now = Instant::now();
        if self.watched && now >= self.next_draw {
            self.next_draw = now + REDRAW;
            self.show(&text(now - self.began));
        }
    }

    /// Shows a text.
    pub fn show(&mut self, text: &str) {
        if self.watched {
            self.drawn = true;
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", printable(text));
        }
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}
