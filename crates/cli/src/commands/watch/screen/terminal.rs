//! The terminal while the view fills it: raw mode and the alternate screen, and the way back on every path: quit, error, panic, signal, suspension.

use crate::failure::{Failure, reason};
use crate::output::HeldLines;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{Command, event};
use rustix::io::{Errno, retry_on_intr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

/// True while the terminal is ours.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// The size of a terminal that does not report one.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Whether there is a terminal to fill, with keys.
pub fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let has_keys = || io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
    io::stdout().is_terminal() && !dumb && has_keys()
}

/// The terminal, filled by us. Dropping it gives it back.
pub struct FullScreen {
    drawn: Vec<String>,
    size: (usize, usize),
    suspended: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
    /// Set when the terminal is gone.
    pub hung_up: Arc<AtomicBool>,
    /// The lines for standard error.
    pub messages: HeldLines,
}

impl FullScreen {
    /// Takes the terminal.
    pub fn enter() -> Result<Self, Failure> {
        let flag = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            let registered = signal_hook::flag::register(signal, Arc::clone(&flag));
            registered.map(|_| flag).map_err(|error| Failure::fault(reason(&error)))
        };
        give_back_on_panic();
        let screen = Self {
            drawn: Vec::new(),
            size: (0, 0),
            suspended: flag(SIGTSTP)?,
            continued: flag(SIGCONT)?,
            hung_up: flag(SIGHUP)?,
            messages: HeldLines::new(),
        };
        take()?;
        Ok(screen)
    }

    /// Columns and lines.
    pub fn size() -> (usize, usize) {
        let known = terminal_size::terminal_size_of(io::stdout());
        known.map_or(USUAL_SIZE, |(width, height)| (width.0.into(), height.0.into()))
    }

    /// True if the size is not that of the last picture.
    pub fn is_resized(&self) -> bool {
        self.size != Self::size()
    }

    /// Shows these lines from the top on. Only lines that changed are written.
    pub fn draw(&mut self, mut lines: Vec<String>, size: (usize, usize)) -> Result<(), Failure> {
        let mut text = String::new();
        append(&mut text, BeginSynchronizedUpdate);
        if self.size != size {
            append(&mut text, Clear(ClearType::All));
            self.drawn.clear();
            self.size = size;
        }
        lines.resize(size.1, String::new());
        self.drawn.resize(size.1, String::new());
        let changed = lines.iter().zip(&self.drawn).enumerate().filter(|(_, (line, drawn))| line != drawn);
        for (at, (line, _)) in changed {
            // Cleared before it is written: at the right edge, clearing would take the last character.
            append(&mut text, MoveTo(0, at as u16));
            append(&mut text, Clear(ClearType::UntilNewLine));
            text.push_str(line);
        }
        append(&mut text, EndSynchronizedUpdate);
        self.drawn = lines;
        write(&text).map_err(failed)
    }

    /// Suspends the process if the user wants that (`Ctrl-Z`, SIGTSTP), and takes the terminal again when it goes on. True if everything must be drawn.
    pub fn follow_job_control(&mut self) -> Result<bool, Failure> {
        if self.suspended.swap(false, Ordering::Relaxed) {
            give_back();
            // What the signal does without our handler.
            let stopped = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            stopped.map_err(|error| Failure::fault(reason(&error)))?;
            self.continued.store(true, Ordering::Relaxed);
        }
        if !self.continued.swap(false, Ordering::Relaxed) {
            return Ok(false);
        }
        // After SIGSTOP the terminal may be in any state.
        give_back();
        take()?;
        self.size = (0, 0);
        Ok(true)
    }

    /// Asks for a suspension.
    pub fn suspend(&self) {
        self.suspended.store(true, Ordering::Relaxed);
    }

    /// Waits for an event of the terminal.
    pub fn event(&self, limit: Duration) -> Result<Option<event::Event>, Failure> {
        let wait = || if event::poll(limit)? { event::read().map(Some) } else { Ok(None) };
        wait().map_err(|error| Failure::fault(format_args!("cannot read from the terminal: {}", reason(&error))))
    }

    /// Draws everything anew with the next picture.
    pub fn forget(&mut self) {
        self.size = (0, 0);
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> Result<(), Failure> {
    enable_raw_mode().map_err(failed)?;
    IS_OURS.store(true, Ordering::SeqCst);
    let mut text = String::new();
    append(&mut text, EnterAlternateScreen);
    append(&mut text, Hide);
    // A character that is wider than we think must not shift the lines below.
    append(&mut text, DisableLineWrap);
    write(&text).map_err(failed)
}

/// Restores the terminal, if it is ours. Errors are ignored: it may be gone.
fn give_back() {
    if IS_OURS.swap(false, Ordering::SeqCst) {
        let mut text = String::new();
        append(&mut text, EnableLineWrap);
        append(&mut text, Show);
        append(&mut text, LeaveAlternateScreen);
        let _ = write(&text);
        let _ = disable_raw_mode();
    }
}

/// The message of a panic is readable only on the normal screen.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            previous(info);
        }));
    });
}

fn append(text: &mut String, command: impl Command) {
    // Writing to a string cannot fail.
    let _ = command.write_ansi(text);
}

/// Writes without the lock of standard output, which another thread may hold while this one panics.
fn write(text: &str) -> io::Result<()> {
    let mut bytes = text.as_bytes();
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(io::stdout(), bytes))? {
            0 => return Err(Errno::IO.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

fn failed(error: io::Error) -> Failure {
    Failure::writing("to the terminal", &error)
}
