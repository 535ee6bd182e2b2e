//! What the user chose, and the rows that follow from it.

use super::super::changes::{Compared, SINCE_THE_BEGINNING, WatchOrder, Watched, WatchedFigures, rows_of, watched};
use super::super::looks::Look;
use super::keys::{KeyAction, action_of};
use super::live_history::LiveHistory;
use crate::failure::Failure;
use crossterm::event::KeyCode;
use highwater_collector::protocol::ProcessInfo;
use highwater_model::groups::{GroupBy, Row};
use highwater_model::{RowIdentities, RowIdentity, TooManyCalls};
use highwater_query::{Search, is_found};
use std::sync::Arc;
use std::time::Duration;

/// The intervals that keys choose, in milliseconds.
const INTERVALS: [u64; 12] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];
/// The most characters of a filter.
const LONGEST_FILTER: usize = 200;

/// A look, and its figures in the present grouping.
#[derive(Clone)]
struct Figured {
    look: Arc<Look>,
    figures: Arc<WatchedFigures>,
}

/// What covers the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// The list of keys.
    Help,
    /// The stack, or the callers, of the chosen row.
    Row,
}

/// A filter that is being typed.
#[derive(Debug, Default)]
pub struct Typed {
    pub text: String,
    /// Why it is no filter.
    pub error: Option<String>,
}

/// The state of the view.
pub struct WatchView {
    pub process: ProcessInfo,
    pub by: GroupBy,
    /// The grouping before that of threads.
    by_before: GroupBy,
    pub order: WatchOrder,
    pub interval: Duration,
    pub is_paused: bool,
    /// The filter in force, as it was typed.
    pub filter: String,
    search: Search,
    pub typed: Option<Typed>,
    pub cover: Option<Cover>,
    /// How far the cover is scrolled.
    pub scrolled: usize,
    pub history: LiveHistory,
    /// Otherwise it begins at the lowest value.
    pub is_chart_from_zero: bool,
    /// Why there was no look.
    pub trouble: Option<String>,
    identities: RowIdentities,
    first: Option<Figured>,
    since: &'static str,
    last: Option<Figured>,
    now: Option<Figured>,
    /// All rows, sorted.
    rows: Vec<Watched>,
    /// Those that the filter finds.
    found: Vec<usize>,
    /// The chosen row. `None` for the first one, whichever it is.
    chosen: Option<RowIdentity>,
    /// Its index among those found.
    pub cursor: usize,
    /// Rows on one page, as of the last picture.
    pub page: usize,
}

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyResult {
    /// Draw.
    Shown,
    /// End.
    Quit,
}

impl WatchView {
    /// Before the first look.
    pub fn new(process: ProcessInfo, by: GroupBy, order: WatchOrder, interval: Duration) -> Self {
        Self {
            process,
            by,
            by_before: if by == GroupBy::Thread { GroupBy::Site } else { by },
            order,
            interval,
            is_paused: false,
            filter: String::new(),
            search: Search::All,
            typed: None,
            cover: None,
            scrolled: 0,
            history: LiveHistory::default(),
            is_chart_from_zero: true,
            trouble: None,
            identities: RowIdentities::default(),
            first: None,
            since: SINCE_THE_BEGINNING,
            last: None,
            now: None,
            rows: Vec::new(),
            found: Vec::new(),
            chosen: None,
            cursor: 0,
            page: 1,
        }
    }

    /// The latest look, compared; `None` before the first one.
    pub fn compared(&self) -> Option<Compared<'_>> {
        let (now, first) = (self.now.as_ref()?, self.first.as_ref()?);
        let last = self.last.as_ref().map(|last| &*last.figures);
        Some(Compared {
            process: &self.process,
            by: self.by,
            look: &now.look,
            rows: &self.rows,
            seen: &now.figures,
            first: &first.figures,
            since: self.since,
            last,
        })
    }

    /// The number of rows that the filter finds, and of all.
    pub fn counts(&self) -> (usize, usize) {
        (self.found.len(), self.rows.len())
    }

    /// The rows that the filter finds, in order.
    pub fn found(&self) -> impl DoubleEndedIterator<Item = &Watched> + ExactSizeIterator {
        self.found.iter().map(|index| &self.rows[*index])
    }

    /// The chosen row.
    pub fn chosen(&self) -> Option<&Watched> {
        self.found.get(self.cursor).map(|index| &self.rows[*index])
    }

    /// True if the process has ended.
    pub fn is_over(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.look.cut.exited)
    }

    /// Shows a new look.
    pub fn show(&mut self, look: Look) -> Result<(), Failure> {
        self.trouble = None;
        self.history.push(look.at, look.snapshot.accounts.totals().figures.live_bytes());
        let look = Arc::new(look);
        let rows = match rows_of(&look, self.by, &mut self.identities) {
            Ok(rows) => rows,
            // Identities of stacks that are long gone fill the table: it begins anew with the looks that are compared.
            Err(TooManyCalls { .. }) => {
                self.last = self.now.take().or(self.last.take());
                self.figure_anew()?;
                rows_of(&look, self.by, &mut self.identities).map_err(Failure::fault)?
            }
        };
        let figured = Figured { figures: Arc::new(WatchedFigures::of(&look, &rows)), look };
        let before = self.now.replace(figured.clone());
        if self.first.is_none() {
            self.first = Some(figured);
        } else if before.is_some() {
            self.last = before;
        }
        self.compare(rows);
        Ok(())
    }

    /// The figures of the looks that are compared, in the present grouping.
    fn figure_anew(&mut self) -> Result<(), Failure> {
        (self.identities, self.chosen) = (RowIdentities::default(), None);
        for figured in [&mut self.first, &mut self.last, &mut self.now].into_iter().flatten() {
            let rows = rows_of(&figured.look, self.by, &mut self.identities).map_err(Failure::fault)?;
            figured.figures = Arc::new(WatchedFigures::of(&figured.look, &rows));
        }
        Ok(())
    }

    fn compare(&mut self, rows: Vec<(RowIdentity, Row)>) {
        // The first look has nothing to be compared with but itself.
        let figures = |figured: &Option<Figured>| figured.as_ref().map(|figured| Arc::clone(&figured.figures));
        self.rows = watched(rows, figures(&self.first).as_deref(), figures(&self.last).as_deref());
        self.arrange();
    }

    /// Compares the latest look anew.
    fn compare_again(&mut self) -> Result<(), Failure> {
        let Some(look) = self.now.as_ref().map(|now| Arc::clone(&now.look)) else { return Ok(()) };
        let rows = rows_of(&look, self.by, &mut self.identities).map_err(Failure::fault)?;
        self.compare(rows);
        Ok(())
    }

    /// Sorts and filters the rows. The chosen row stays chosen.
    fn arrange(&mut self) {
        let Some(now) = &self.now else { return };
        let look = &now.look;
        self.order.sort(&mut self.rows, look);
        let is_wanted = |row: &Watched| is_found(&look.naming, &look.snapshot.catalog, &row.row.key, &self.search);
        self.found = (0..self.rows.len()).filter(|index| is_wanted(&self.rows[*index])).collect();
        let is_chosen = |index: &usize| Some(self.rows[*index].identity) == self.chosen;
        let place = self.found.iter().position(is_chosen);
        self.cursor = match self.chosen {
            None => 0,
            Some(_) => place.unwrap_or(self.cursor.min(self.found.len().saturating_sub(1))),
        };
    }

    fn choose(&mut self, cursor: usize) {
        self.cursor = cursor.min(self.found.len().saturating_sub(1));
        self.chosen = if self.cursor == 0 { None } else { self.chosen().map(|row| row.identity) };
    }

    fn group_by(&mut self, by: GroupBy) -> Result<(), Failure> {
        if self.by != GroupBy::Thread {
            self.by_before = self.by;
        }
        self.by = by;
        (self.chosen, self.cursor, self.cover) = (None, 0, None);
        self.figure_anew()?;
        self.compare_again()
    }

    /// Does what a key says.
    pub fn press(&mut self, code: KeyCode) -> Result<KeyResult, Failure> {
        if self.typed.is_some() {
            self.edit(code);
            return Ok(KeyResult::Shown);
        }
        let Some(action) = action_of(code) else { return Ok(KeyResult::Shown) };
        if self.cover.is_some() && self.scroll(action) {
            return Ok(KeyResult::Shown);
        }
        match action {
            KeyAction::Up => self.choose(self.cursor.saturating_sub(1)),
            KeyAction::Down => self.choose(self.cursor + 1),
            KeyAction::PageUp => self.choose(self.cursor.saturating_sub(self.page)),
            KeyAction::PageDown => self.choose(self.cursor + self.page),
            KeyAction::Home => self.choose(0),
            KeyAction::End => self.choose(usize::MAX),
            KeyAction::Open if self.chosen().is_some() => self.cover_with(Cover::Row),
            KeyAction::Open => {}
            KeyAction::NextOrder => self.sort_by(next(&ORDERS, self.order)),
            KeyAction::Order(order) => self.sort_by(order),
            KeyAction::Filter => self.typed = Some(Typed { text: self.filter.clone(), error: None }),
            KeyAction::NextGrouping => self.group_by(next(&GroupBy::ALL, self.by))?,
            KeyAction::PreviousGrouping => {
                let mut reversed = GroupBy::ALL;
                reversed.reverse();
                self.group_by(next(&reversed, self.by))?;
            }
            KeyAction::Grouping => self.group_by(numbered(code).unwrap_or(self.by))?,
            KeyAction::Threads if self.by == GroupBy::Thread => self.group_by(self.by_before)?,
            KeyAction::Threads => self.group_by(GroupBy::Thread)?,
            KeyAction::FromNow => {
                (self.first, self.since) = (self.now.clone(), "since the instant that was chosen");
                self.compare_again()?;
            }
            KeyAction::Zoom => self.is_chart_from_zero = !self.is_chart_from_zero,
            KeyAction::Pause => self.is_paused = !self.is_paused,
            KeyAction::Faster => self.change_interval(|steps, now| steps.rev().find(|step| *step < now)),
            KeyAction::Slower => self.change_interval(|mut steps, now| steps.find(|step| *step > now)),
            KeyAction::Help => self.cover_with(Cover::Help),
            KeyAction::Back if !self.filter.is_empty() => {
                (self.filter, self.search) = (String::new(), Search::All);
                self.arrange();
            }
            KeyAction::Back | KeyAction::Quit => return Ok(KeyResult::Quit),
        }
        Ok(KeyResult::Shown)
    }

    fn sort_by(&mut self, order: WatchOrder) {
        self.order = order;
        self.arrange();
    }

    fn cover_with(&mut self, cover: Cover) {
        (self.cover, self.scrolled) = (Some(cover), 0);
    }

    fn change_interval(&mut self, other: impl Fn(Steps, Duration) -> Option<Duration>) {
        let steps: Steps = INTERVALS.into_iter().map(Duration::from_millis as fn(u64) -> Duration);
        self.interval = other(steps, self.interval).unwrap_or(self.interval);
    }

    /// Moves a cover, or removes it; false if the key means something else.
    fn scroll(&mut self, action: KeyAction) -> bool {
        let page = self.page.max(1);
        match action {
            KeyAction::Up => self.scrolled = self.scrolled.saturating_sub(1),
            KeyAction::Down => self.scrolled += 1,
            KeyAction::PageUp => self.scrolled = self.scrolled.saturating_sub(page),
            KeyAction::PageDown => self.scrolled += page,
            KeyAction::Home => self.scrolled = 0,
            KeyAction::End => self.scrolled = usize::MAX / 2,
            KeyAction::Back | KeyAction::Open => self.cover = None,
            KeyAction::Help if self.cover == Some(Cover::Help) => self.cover = None,
            KeyAction::Filter => {
                self.cover = None;
                return false;
            }
            _ => return false,
        }
        true
    }

    fn edit(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.typed else { return };
        typed.error = None;
        match code {
            KeyCode::Char(character) if typed.text.chars().count() < LONGEST_FILTER => typed.text.push(character),
            KeyCode::Backspace => _ = typed.text.pop(),
            KeyCode::Esc => self.typed = None,
            KeyCode::Enter => match Search::new(&typed.text) {
                Ok(search) => {
                    (self.search, self.filter) = (search, std::mem::take(&mut typed.text));
                    self.typed = None;
                    self.arrange();
                }
                Err(error) => {
                    let (error, told) = (error.to_string(), format!("search={}: ", typed.text));
                    typed.error = Some(error.strip_prefix(&told).unwrap_or(&error).to_owned());
                }
            },
            _ => {}
        }
    }

    /// Removes what was typed.
    pub fn clear_typed(&mut self) {
        if let Some(typed) = &mut self.typed {
            *typed = Typed::default();
        }
    }
}

type Steps = std::iter::Map<std::array::IntoIter<u64, 12>, fn(u64) -> Duration>;

const ORDERS: [WatchOrder; 5] =
    [WatchOrder::Live, WatchOrder::Growth, WatchOrder::Lately, WatchOrder::Blocks, WatchOrder::Name];

/// The element after another one, and after the last the first.
fn next<T: Copy + PartialEq>(all: &[T], present: T) -> T {
    let place = all.iter().position(|one| *one == present).map_or(0, |place| place + 1);
    all.get(place).or(all.first()).copied().unwrap_or(present)
}

fn numbered(code: KeyCode) -> Option<GroupBy> {
    let KeyCode::Char(digit) = code else { return None };
    GroupBy::ALL.get(usize::try_from(digit.to_digit(10)?.checked_sub(1)?).ok()?).copied()
}
