//! A progress bar on standard error, shown at a terminal if the work takes more than a second.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Nothing is shown before this much time has passed.
const PATIENCE: Duration = Duration::from_secs(1);
/// The bar is redrawn at most this often.
const REDRAW: Duration = Duration::from_millis(100);
const WIDTH: usize = 30;

/// A bar that appears after a second and is erased at the end.
pub struct Progress {
    label: String,
    watched: bool,
    next_draw: Instant,
    drawn: bool,
}

impl Progress {
    /// A bar for the work that `label` names.
    pub fn new(label: &str) -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { label: label.to_owned(), watched, next_draw: Instant::now() + PATIENCE, drawn: false }
    }

    /// The same, for a new step of the work with its own label.
    pub fn update_as(&mut self, label: &str, done: f64) {
        if self.label != label {
            label.clone_into(&mut self.label);
        }
        self.update(done);
    }

    /// Sets the fraction that is done, from 0 to 1.
    pub fn update(&mut self, done: f64) {
        if !self.watched || Instant::now() < self.next_draw {
            return;
        }
        self.next_draw = Instant::now() + REDRAW;
        self.drawn = true;
        let _ = write!(std::io::stderr(), "\r{}\x1b[K", bar(&self.label, done));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(label: &str, done: f64) -> String {
    let done = if done.is_finite() { done.clamp(0.0, 1.0) } else { 0.0 };
    let filled = (done * WIDTH as f64) as usize;
    format!("{label} {}{} {:3.0}%", "━".repeat(filled), "╌".repeat(WIDTH - filled), done * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_keeps_its_width_whatever_it_is_told() {
        for done in [-1.0, 0.0, 0.5, 1.0, 7.0, f64::NAN] {
            assert_eq!(bar("reading", done).chars().count(), "reading ".len() + WIDTH + 5, "{done}");
        }
        assert!(bar("reading", 0.5).ends_with(" 50%"));
    }
}
