//! What is known of some hundred ids in a row.
//!
//! Ids come from one sequence, so most pages fill up from front to back, are dropped from, and end with a few objects that
//! live long or leak. A page is therefore *dense* while much of it is open, an array that is indexed by id; later what is still open is kept
//! elsewhere. That an id is settled is one bit; once all ids of a page were seen it is none, since what is not open is settled.

use super::entry::{Entry, Next, State};

/// Ids in a page.
pub(super) const IDS: usize = 512;

/// Room for what is open of a page.
pub(super) type Entries = Box<[Entry; IDS]>;

/// What is known of the ids of a page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// What is open, unless it is kept elsewhere.
    entries: Option<Entries>,
    /// Which ids are settled; `None` while that is known without.
    settled: Option<Box<[u64; IDS / 64]>>,
    /// How many ids are open.
    open: u16,
    /// How many ids were ever seen.
    seen: u16,
}

impl Page {
    /// True before the first id.
    pub fn is_untouched(&self) -> bool {
        self.seen == 0
    }

    #[inline]
    pub fn is_dense(&self) -> bool {
        self.entries.is_some()
    }

    /// True if so few are open that an array of all is a waste.
    pub fn is_thin(&self) -> bool {
        usize::from(self.open) * 2 < IDS
    }

    /// True if nothing is open and nothing will be: all ids are settled.
    pub fn is_done(&self) -> bool {
        self.open == 0 && usize::from(self.seen) == IDS
    }

    /// The state of an id of which nothing is open.
    #[inline]
    pub fn state_if_not_open(&self, at: usize) -> State {
        let is_settled = match &self.settled {
            Some(bits) => bits[at / 64] >> (at % 64) & 1 != 0,
            // None is settled, or all are that are not open.
            None => usize::from(self.seen) == IDS,
        };
        if is_settled { State::Settled } else { State::New }
    }

    /// Looks an id of a dense page up, and does with it what `change` says. How many more ids are open than before.
    #[inline]
    pub fn apply(&mut self, at: usize, change: impl FnOnce(State) -> Next) -> i32 {
        let entry = self.entries.as_ref().map_or(Entry::default(), |entries| entries[at]);
        let state = if entry.is_empty() { self.state_if_not_open(at) } else { State::Open(entry) };
        let next = match change(state) {
            Next::Same => return 0,
            Next::Open(entry) => entry,
            Next::Settled => Entry::default(),
        };
        if let Some(entries) = &mut self.entries {
            entries[at] = next;
        }
        self.note(at, state, !next.is_empty())
    }

    /// Remembers that an id was in a state, and is open now or settled. How many more ids are open than before.
    #[inline]
    pub fn note(&mut self, at: usize, before: State, is_open: bool) -> i32 {
        self.seen += u16::from(before == State::New);
        if usize::from(self.seen) == IDS {
            // What is not open is settled.
            self.settled = None;
        } else if !is_open {
            self.settled.get_or_insert_default()[at / 64] |= 1 << (at % 64);
        }
        let change = i32::from(is_open) - i32::from(matches!(before, State::Open(_)));
        self.open = self.open.wrapping_add_signed(change as i16);
        change
    }

    /// Gives it an array.
    pub fn spread(&mut self, mut spare: Entries) {
        spare.fill(Entry::default());
        self.entries = Some(spare);
    }

    /// Takes the array away, with what is open.
    pub fn take(&mut self) -> Option<Entries> {
        self.entries.take()
    }

    /// The open ids of a dense page and what is known of them.
    pub fn open(&self) -> impl Iterator<Item = (usize, &Entry)> {
        open_in(self.entries.as_deref())
    }
}

/// What is open in an array.
pub(super) fn open_in(entries: Option<&[Entry; IDS]>) -> impl Iterator<Item = (usize, &Entry)> {
    entries.into_iter().flatten().enumerate().filter(|(_, entry)| !entry.is_empty())
}
