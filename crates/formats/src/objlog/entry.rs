//! What is kept of an object whose birth and drop have not met yet: sixteen bytes.

/// What is known of an object so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// How large it is, or was when dropped.
    pub bytes: u64,
    /// Its site, or the type that its drop named while its birth is not known; and what was seen of it. See [`flags`].
    packed: u32,
    /// In which iteration it was born.
    pub iteration: u32,
}

/// What was seen of an object.
pub(super) mod flags {
    /// Its birth.
    pub const BORN: u8 = 1;
    /// Its drop.
    pub const DROPPED: u8 = 2;
    /// That its size changed: birth and drop need not agree on it.
    pub const RESIZED: u8 = 4;
    /// Something that cannot be, such as a second birth.
    pub const DOUBTFUL: u8 = 8;
}

/// Sites and types have numbers below this.
pub(super) const MOST_OWNERS: usize = 1 << 24;

impl Entry {
    /// An entry of which something was seen.
    pub fn new(bytes: u64, owner: u32, iteration: u32, seen: u8) -> Self {
        Self { bytes, packed: owner << 8 | u32::from(seen), iteration }
    }

    /// The site if its birth was seen, else the type that its drop named.
    #[inline]
    pub fn owner(&self) -> u32 {
        self.packed >> 8
    }

    /// True if all of `flags` were seen.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.packed as u8 & flags == flags
    }

    /// The entry with more of it seen.
    pub fn and(mut self, flags: u8) -> Self {
        self.packed |= u32::from(flags);
        self
    }

    /// The entry with another size.
    pub fn of_size(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// True where nothing is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packed as u8 == 0
    }
}

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was never seen.
    New,
    /// Something is still to come.
    Open(Entry),
    /// Birth and drop have met.
    Settled,
}

/// What is to be known of an id from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The same.
    Same,
    /// Something is still to come.
    Open(Entry),
    /// Birth and drop have met.
    Settled,
}
