//! The stacks, tags and strings that a recording may refer to.

use super::catalog::MOST_ENTRIES_PER_BYTE;
use highwater_model::{Op, StackId, StringId, TagId};

/// Handles below these numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    /// Stacks.
    pub stacks: u32,
    /// Tags.
    pub tags: u32,
    /// Strings.
    pub strings: u32,
}

/// How far handles may exceed the catalog. Entries may be lost to damage, and their handles still distinguish blocks of one lost site from those of
/// another. A handle beyond this limit is forged.
const MOST_LOST: u32 = 1 << 18;

impl Handles {
    /// The handles that are accepted if these are known: the file must have had room for the lost entries.
    pub fn with_lost(self, file_bytes: u64) -> Self {
        let room = u32::try_from(file_bytes.saturating_mul(MOST_ENTRIES_PER_BYTE)).unwrap_or(u32::MAX);
        let with_lost = |known: u32| known.saturating_add(MOST_LOST).min(room).max(known);
        Self { stacks: with_lost(self.stacks), tags: with_lost(self.tags), strings: with_lost(self.strings) }
    }

    /// Extends the range to the handles in an operation.
    pub fn see(&mut self, op: &Op) {
        let (stack, tag, name) = match *op {
            Op::Allocate(place) => (place.stack, place.tag, StringId::EMPTY),
            Op::Reallocate { stack, tag, .. } => (stack, tag, StringId::EMPTY),
            Op::Promote { tag, .. } => (StackId::UNKNOWN, tag, StringId::EMPTY),
            Op::Mark { name } | Op::Gauge { name, .. } => (StackId::UNKNOWN, TagId::NONE, name),
            _ => return,
        };
        self.stacks = self.stacks.max(stack.0.saturating_add(1));
        self.tags = self.tags.max(tag.0.saturating_add(1));
        self.strings = self.strings.max(name.0.saturating_add(1));
    }
}
