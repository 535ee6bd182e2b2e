//! An object whose birth and drop are not matched yet, in sixteen bytes.

/// Known facts about an unmatched object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectEntry {
    /// Its size: the latest one, or the one at the drop.
    pub bytes: u64,
    /// Its site, or the type in its drop while the birth is unknown; and the lines seen. See [`flags`].
    packed: u32,
    /// The iteration in which it was born.
    pub iteration: u32,
}

/// The kinds of lines seen for an object.
pub(super) mod flags {
    /// Its birth.
    pub const BORN: u8 = 1;
    /// Its drop.
    pub const DROPPED: u8 = 2;
    /// A change of size: the sizes at birth and drop may differ.
    pub const RESIZED: u8 = 4;
    /// A contradiction, such as a second birth.
    pub const DOUBTFUL: u8 = 8;
}

/// Limit for the numbers of sites and types.
pub(super) const MOST_OWNERS: usize = 1 << 24;

impl ObjectEntry {
    /// An entry with these flags.
    pub fn new(bytes: u64, owner: u32, iteration: u32, seen: u8) -> Self {
        Self { bytes, packed: owner << 8 | u32::from(seen), iteration }
    }

    /// The site if the birth was seen, else the type in the drop.
    #[inline]
    pub fn owner(&self) -> u32 {
        self.packed >> 8
    }

    /// True if all of `flags` are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.packed as u8 & flags == flags
    }

    /// The entry with more flags set.
    pub fn and(mut self, flags: u8) -> Self {
        self.packed |= u32::from(flags);
        self
    }

    /// The entry with another size.
    pub fn of_size(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// True if the entry is unused.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packed as u8 == 0
    }
}

/// The state of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdState {
    /// It was never seen.
    New,
    /// Birth, drop or both are missing.
    Open(ObjectEntry),
    /// Birth and drop are matched.
    Settled,
}

/// The state of an id after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextIdState {
    /// No change.
    Same,
    /// Birth, drop or both are missing.
    Open(ObjectEntry),
    /// Birth and drop are matched.
    Settled,
}
