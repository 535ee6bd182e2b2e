//! The states of 512 consecutive ids.
//!
//! Ids come from one sequence. So most pages fill up from front to back, lose objects by drops, and end with a few objects that live long or leak. A
//! page is therefore *dense* while many of its ids are open: it has an array that is indexed by id. Later the open ids are kept in the hash table. A
//! settled id takes one bit. Once all ids of a page were seen it takes none, since every id that is not open is settled.

use super::entry::{IdState, NextIdState, ObjectEntry};

/// The number of ids in a page.
pub(super) const IDS: usize = 512;

/// The array of a dense page.
pub(super) type PageEntries = Box<[ObjectEntry; IDS]>;

/// The states of the ids of a page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The open ids, unless they are in the hash table.
    entries: Option<PageEntries>,
    /// The settled ids; `None` if no id is settled, or if all ids were seen.
    settled: Option<Box<[u64; IDS / 64]>>,
    /// The number of open ids.
    open: u16,
    /// The number of ids seen.
    seen: u16,
}

impl Page {
    /// True if no id of the page was seen.
    pub fn is_untouched(&self) -> bool {
        self.seen == 0
    }

    #[inline]
    pub fn is_dense(&self) -> bool {
        self.entries.is_some()
    }

    /// True if fewer than half of the ids are open, so that an array wastes memory.
    pub fn is_thin(&self) -> bool {
        usize::from(self.open) * 2 < IDS
    }

    /// True if all ids are settled.
    pub fn is_done(&self) -> bool {
        self.open == 0 && usize::from(self.seen) == IDS
    }

    /// The state of an id that is not open.
    #[inline]
    pub fn state_if_not_open(&self, at: usize) -> IdState {
        let is_settled = match &self.settled {
            Some(bits) => bits[at / 64] >> (at % 64) & 1 != 0,
            // Without bits, no id is settled, or all ids that are not open are.
            None => usize::from(self.seen) == IDS,
        };
        if is_settled { IdState::Settled } else { IdState::New }
    }

    /// Looks up an id of a dense page and applies `change`. Returns the change of the number of open ids.
    #[inline]
    pub fn apply(&mut self, at: usize, change: impl FnOnce(IdState) -> NextIdState) -> i32 {
        let entry = self.entries.as_ref().map_or(ObjectEntry::default(), |entries| entries[at]);
        let state = if entry.is_empty() { self.state_if_not_open(at) } else { IdState::Open(entry) };
        let next = match change(state) {
            NextIdState::Same => return 0,
            NextIdState::Open(entry) => entry,
            NextIdState::Settled => ObjectEntry::default(),
        };
        if let Some(entries) = &mut self.entries {
            entries[at] = next;
        }
        self.note(at, state, !next.is_empty())
    }

    /// Records that an id was in state `before` and is now open or settled. Returns the change of the number of open ids.
    #[inline]
    pub fn note(&mut self, at: usize, before: IdState, is_open: bool) -> i32 {
        self.seen += u16::from(before == IdState::New);
        if usize::from(self.seen) == IDS {
            // All ids were seen: every id that is not open is settled.
            self.settled = None;
        } else if !is_open {
            self.settled.get_or_insert_default()[at / 64] |= 1 << (at % 64);
        }
        let change = i32::from(is_open) - i32::from(matches!(before, IdState::Open(_)));
        self.open = self.open.wrapping_add_signed(change as i16);
        change
    }

    /// Reads the entry of an id, to bring it into the cache. `None` if the page is not dense.
    #[inline]
    pub fn touch(&self, at: usize) -> Option<u64> {
        self.entries.as_ref().map(|entries| entries[at].bytes)
    }

    /// Makes the page dense, with this array.
    pub fn spread(&mut self, mut spare: PageEntries) {
        spare.fill(ObjectEntry::default());
        self.entries = Some(spare);
    }

    /// Removes the array, with the open ids in it.
    pub fn take(&mut self) -> Option<PageEntries> {
        self.entries.take()
    }

    /// The open ids of a dense page and their entries.
    pub fn open(&self) -> impl Iterator<Item = (usize, &ObjectEntry)> {
        open_in(self.entries.as_deref())
    }
}

/// The open ids in an array.
pub(super) fn open_in(entries: Option<&[ObjectEntry; IDS]>) -> impl Iterator<Item = (usize, &ObjectEntry)> {
    entries.into_iter().flatten().enumerate().filter(|(_, entry)| !entry.is_empty())
}
