//! The full-screen view of a terminal.
//!
//! * [`view`] is what the user chose and the rows that follow from it; [`keys`] is the table of the keys.
//! * [`picture`] makes lines of it: [`header`] the top, [`row_table`] the rows, [`row_cover`] the chosen row in full.
//! * [`terminal`] shows the lines and gives the terminal back; [`fetcher`] takes the looks.

mod fetcher;
mod header;
mod keys;
mod live_history;
mod picture;
mod row_cover;
mod row_table;
mod terminal;
mod view;

use super::Watch;
use super::looks::Looker;
use crate::failure::Failure;
use crate::output::Output;
use crate::print::text::line_limit;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use fetcher::Fetcher;
use highwater_collector::protocol::ProcessInfo;
use picture::{Canvas, picture};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terminal::FullScreen;
pub use terminal::is_possible;
use view::{KeyResult, WatchView};

/// How long a key is waited for before looks and signals are checked.
const NAP: Duration = Duration::from_millis(40);
/// After a look that failed, the next one is not sooner than this.
const BEFORE_ANOTHER_TRY: Duration = Duration::from_secs(1);

impl Watch {
    /// Shows looks until the user quits. What was seen last stays on the terminal, as plain lines.
    pub(super) fn fill_the_screen(
        &self,
        process: &ProcessInfo,
        looker: Looker,
        stop: &AtomicBool,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let mut view = WatchView::new(process.clone(), self.grouping.by, self.sort, self.interval);
        let screen = FullScreen::enter()?;
        let watched = self.follow(&mut view, screen, Fetcher::start(looker), stop, output);
        output.width = line_limit();
        if let Some(compared) = view.compared() {
            output.text(&self.text(&compared, output))?;
        }
        watched
    }

    fn follow(
        &self,
        view: &mut WatchView,
        mut screen: FullScreen,
        mut fetcher: Fetcher,
        stop: &AtomicBool,
        output: &Output,
    ) -> Result<(), Failure> {
        let mut looks = 0;
        let mut due = Instant::now();
        let mut is_stale = true;
        let mut message = None;
        let has_ended = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        while !has_ended(stop) && !has_ended(&screen.hung_up) {
            is_stale |= screen.follow_job_control()? || screen.is_resized();
            // A look that arrives during a pause is dropped: a pause is a pause.
            match fetcher.take().filter(|_| !view.is_paused) {
                Some(Ok(look)) => {
                    view.show(look)?;
                    looks += 1;
                    is_stale = true;
                }
                // Without a single look there is nothing to show.
                Some(Err(failure)) if looks == 0 => return Err(failure),
                Some(Err(failure)) => {
                    view.trouble = Some(failure.line().unwrap_or("the look failed").to_owned());
                    due = due.max(Instant::now() + BEFORE_ANOTHER_TRY);
                    is_stale = true;
                }
                None => {}
            }
            if !view.is_paused && !view.is_over() && !fetcher.is_asked() && Instant::now() >= due {
                due = Instant::now() + view.interval;
                fetcher.ask();
            }
            let latest = screen.messages.latest();
            if is_stale || latest != message {
                message = latest;
                let size = FullScreen::size();
                let canvas = Canvas { width: size.0, height: size.1, paint: output.paint };
                let picture = picture(view, canvas, message.as_deref());
                (view.page, view.scrolled) = (picture.page, view.scrolled.min(picture.last_scroll));
                screen.draw(picture.lines, size)?;
                is_stale = false;
            }
            if self.count == Some(looks) {
                break;
            }
            if let Some(Event::Key(key)) = screen.event(NAP)?.filter(|event| !matches!(event, Event::Resize(..))) {
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                is_stale = true;
                let interval = view.interval;
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                let result = match key.code {
                    KeyCode::Char('c') if control => break,
                    KeyCode::Char('z') if control => {
                        screen.suspend();
                        KeyResult::Shown
                    }
                    KeyCode::Char('l') if control => {
                        screen.forget();
                        KeyResult::Shown
                    }
                    KeyCode::Char('u') if control => {
                        view.clear_typed();
                        KeyResult::Shown
                    }
                    KeyCode::Char(_) if control => KeyResult::Shown,
                    code => view.press(code)?,
                };
                if result == KeyResult::Quit {
                    break;
                }
                if view.interval < interval {
                    due = due.min(Instant::now() + view.interval);
                }
            }
        }
        Ok(())
    }
}
