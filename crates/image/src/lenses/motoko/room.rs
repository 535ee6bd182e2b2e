//! Room for new objects at the end of a heap.

use super::heap::Motoko;
use crate::edit::{ImageEdit, Patch};

/// Memory grows by pages of this size.
const PAGE: u64 = 64 << 10;

/// Where the next object of a heap lies, or why that is not known.
#[derive(Clone, Debug)]
pub(super) enum Room {
    /// After the last object of a partition, whose size the heap states in a word.
    Partition {
        /// The address of the word.
        size_at: u64,
        /// The size of the partition's objects.
        size: u64,
        /// The address after its last object.
        end: u64,
        /// The address that objects cannot reach.
        limit: u64,
    },
    /// At an address that a global of the module holds.
    Pointer {
        /// The number of the global.
        global: u32,
        /// The address after the last object.
        end: u64,
        /// How much less the global holds.
        skew: u64,
        /// The address that objects cannot reach.
        limit: u64,
    },
    /// It is not known; the reason.
    Unknown(&'static str),
}

/// New objects, one after the other, at the end of a heap.
pub(super) struct NewObjects<'h, 'a, const WIDE: bool> {
    heap: &'h Motoko<'a, WIDE>,
    bytes: Vec<u8>,
}

impl<'h, 'a, const WIDE: bool> NewObjects<'h, 'a, WIDE> {
    pub fn in_heap(heap: &'h Motoko<'a, WIDE>) -> Self {
        Self { heap, bytes: Vec::new() }
    }

    /// Adds an object, whose body may be padded to whole words; returns the reference to it.
    pub fn add(&mut self, tag: u64, body: &[u8]) -> Result<u64, String> {
        let (start, limit) = match &self.heap.room {
            Room::Partition { end, limit, .. } | Room::Pointer { end, limit, .. } => (*end, *limit),
            Room::Unknown(why) => return Err(format!("it needs a new object, and {why}")),
        };
        let word = Motoko::<WIDE>::WORD;
        let reference = (start + self.bytes.len() as u64).wrapping_sub(1);
        let length = (self.heap.header + (body.len() as u64).div_ceil(word)) * word;
        let left = limit.saturating_sub(reference.wrapping_add(1));
        if length > left {
            return Err(format!("it needs {length} bytes, and the heap has room for {left}"));
        }
        let mut push = |value: u64| self.bytes.extend(&value.to_le_bytes()[..word as usize]);
        push(tag);
        if self.heap.header == 2 {
            push(reference);
        }
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(word as usize), 0);
        Ok(reference)
    }

    /// Adds the objects to a change.
    pub fn finish(self, edit: &mut ImageEdit) {
        if self.bytes.is_empty() {
            return;
        }
        let added = self.bytes.len() as u64;
        let at = match self.heap.room {
            Room::Partition { size_at, size, end, .. } => {
                edit.patches.push(Patch { at: size_at, bytes: (size + added).to_le_bytes().to_vec() });
                end
            }
            Room::Pointer { global, end, skew, .. } => {
                edit.globals.push((global, end + added - skew));
                end
            }
            Room::Unknown(_) => return,
        };
        let end = (at + added).next_multiple_of(PAGE);
        if at + added > self.heap.image.len() {
            edit.new_length = Some(end);
        }
        edit.patches.push(Patch { at, bytes: self.bytes });
    }
}
