//! A text that is shown repeatedly: in place on a terminal, one copy after the other elsewhere.

use crate::failure::Failure;
use crate::output::Output;
use std::io::IsTerminal;

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and switches back to the normal screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The displayed text.
pub struct Screen {
    in_place: bool,
    /// The text shown last, if any.
    last: Option<String>,
}

impl Screen {
    /// A screen that shows nothing yet.
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { in_place: std::io::stdout().is_terminal() && !dumb, last: None }
    }

    /// Shows a text.
    pub fn show(&mut self, text: String, output: &mut Output) -> Result<(), Failure> {
        if self.in_place {
            let enter = if self.last.is_none() { ENTER } else { "" };
            let lines = text.replace('\n', &format!("{CLEAR_LINE}\n"));
            self.last = Some(text);
            output.text(&format!("{enter}{HOME}{lines}{CLEAR_BELOW}"))?;
        } else {
            let gap = if self.last.is_none() { "" } else { "\n" };
            output.text(&format!("{gap}{text}"))?;
            self.last = Some(String::new());
        }
        output.flush()
    }

    /// Restores the terminal, and leaves the last text on it.
    pub fn leave(self, output: &mut Output) -> Result<(), Failure> {
        match self.last {
            Some(last) if self.in_place => output.text(&format!("{LEAVE}{last}")),
            _ => Ok(()),
        }
    }
}
