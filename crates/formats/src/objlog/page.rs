//! What is known of some hundred ids in a row.
//!
//! Ids come from one sequence, so most pages fill up from front to back, are dropped from, and end with a few objects that
//! live long or leak. A page is therefore *dense* while much of it is open, an array that is indexed by id, and *compact* else: the open
//! ones alone, in order. That an id is settled is one bit; once all ids of a page were seen it is none, since what is not open is settled.

use super::entry::{Entry, Next, State};

/// Ids in a page.
pub(super) const IDS: usize = 512;

type Bits = [u64; IDS / 64];

/// What is known of the ids of a page.
#[derive(Debug)]
pub(super) struct Page {
    form: Form,
    /// Which ids are settled; `None` while that is known without.
    settled: Option<Box<Bits>>,
    /// How many ids are open.
    open: u16,
    /// How many ids were ever seen.
    seen: u16,
}

#[derive(Debug)]
enum Form {
    Dense(Box<[Entry; IDS]>),
    /// The open ids, in order.
    Compact(Vec<u16>, Vec<Entry>),
}

impl Default for Page {
    fn default() -> Self {
        Self { form: Form::Compact(Vec::new(), Vec::new()), settled: None, open: 0, seen: 0 }
    }
}

impl Page {
    /// True before the first id.
    pub fn is_untouched(&self) -> bool {
        self.seen == 0
    }

    pub fn is_dense(&self) -> bool {
        matches!(self.form, Form::Dense(_))
    }

    /// True if so few are open that an array of all would be a waste.
    pub fn is_thin(&self) -> bool {
        usize::from(self.open) * 2 < IDS
    }

    #[inline]
    fn is_settled(&self, at: usize) -> bool {
        match &self.settled {
            Some(bits) => bits[at / 64] >> (at % 64) & 1 != 0,
            // None is settled, or all are that are not open.
            None => usize::from(self.seen) == IDS,
        }
    }

    /// Looks an id up, and does with it what `change` says. How many more ids are open than before.
    #[inline]
    pub fn apply(&mut self, at: usize, change: impl FnOnce(State) -> Next) -> i32 {
        let (found, entry) = match &self.form {
            Form::Dense(entries) => (Ok(at), entries[at]),
            Form::Compact(ids, entries) => match ids.binary_search(&(at as u16)) {
                Ok(place) => (Ok(place), entries[place]),
                Err(place) => (Err(place), Entry::default()),
            },
        };
        let was_open = !entry.is_empty();
        let state = match was_open {
            true => State::Open(entry),
            false if self.is_settled(at) => State::Settled,
            false => State::New,
        };
        let next = match change(state) {
            Next::Same => return 0,
            Next::Open(entry) => entry,
            Next::Settled => Entry::default(),
        };
        if state == State::New {
            self.seen += 1;
        }
        if next.is_empty() && !(self.settled.is_none() && usize::from(self.seen) == IDS) {
            self.settled.get_or_insert_default()[at / 64] |= 1 << (at % 64);
        } else if !next.is_empty() && state == State::Settled {
            // Does not happen, and would be lost if a full page had no bits.
            return 0;
        }
        match (&mut self.form, found) {
            (Form::Dense(entries), _) => entries[at] = next,
            (Form::Compact(_, entries), Ok(place)) if !next.is_empty() => entries[place] = next,
            (Form::Compact(ids, entries), Ok(place)) => {
                ids.remove(place);
                entries.remove(place);
                give_back(ids);
                give_back(entries);
            }
            (Form::Compact(ids, entries), Err(place)) if !next.is_empty() => {
                make_room(ids);
                make_room(entries);
                ids.insert(place, at as u16);
                entries.insert(place, next);
            }
            (Form::Compact(..), Err(_)) => {}
        }
        let change = i32::from(!next.is_empty()) - i32::from(was_open);
        self.open = self.open.wrapping_add_signed(change as i16);
        if usize::from(self.seen) == IDS {
            // What is not open is settled.
            self.settled = None;
        }
        change
    }

    /// Makes it an array.
    pub fn spread(&mut self, mut spare: Box<[Entry; IDS]>) {
        if let Form::Compact(ids, entries) = &self.form {
            spare.fill(Entry::default());
            for (id, entry) in ids.iter().zip(entries) {
                spare[usize::from(*id)] = *entry;
            }
            self.form = Form::Dense(spare);
        }
    }

    /// Keeps the open ones alone; gives back the array.
    pub fn compact(&mut self) -> Option<Box<[Entry; IDS]>> {
        let Form::Dense(dense) = &self.form else { return None };
        let mut ids = Vec::with_capacity(usize::from(self.open));
        let mut entries = Vec::with_capacity(usize::from(self.open));
        for (at, entry) in dense.iter().enumerate().filter(|(_, entry)| !entry.is_empty()) {
            ids.push(at as u16);
            entries.push(*entry);
        }
        match std::mem::replace(&mut self.form, Form::Compact(ids, entries)) {
            Form::Dense(spare) => Some(spare),
            Form::Compact(..) => None,
        }
    }

    /// True if nothing is open and nothing will be: all ids are settled.
    pub fn is_done(&self) -> bool {
        self.open == 0 && usize::from(self.seen) == IDS
    }

    /// The open ids and what is known of them.
    pub fn for_each_open(&self, mut each: impl FnMut(usize, &Entry)) {
        match &self.form {
            Form::Dense(entries) => {
                for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_empty()) {
                    each(at, entry);
                }
            }
            Form::Compact(ids, entries) => {
                for (at, entry) in ids.iter().zip(entries) {
                    each(usize::from(*at), entry);
                }
            }
        }
    }
}

/// Room for a quarter more, so that lists stay close to what they hold.
fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 4 + 2);
    }
}

fn give_back<T>(list: &mut Vec<T>) {
    if list.capacity() > list.len() * 3 / 2 + 2 {
        list.shrink_to(list.len());
    }
}
