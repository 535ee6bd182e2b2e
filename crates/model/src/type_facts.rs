//! What debug information says of types: their sizes, and what single calls of `operator new` make.
//!
//! Facts are found together with the names of frames, and kept for the same reason: the debug information may be gone when the recording is read.

use crate::ids::{FrameId, StringId};
use rustc_hash::FxHashMap;

/// The size of a value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizeOfType {
    /// The type, as the debug information spells it.
    pub name: StringId,
    /// The size in bytes.
    pub size: u64,
}

/// What a call of `operator new` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MadeType {
    /// The frame that calls it: one that names were found for.
    pub frame: FrameId,
    /// The type; with `[]` at the end for an array.
    pub name: StringId,
}

/// The facts. Append-only; of two facts about one subject the later counts.
#[derive(Clone, Debug, Default)]
pub struct TypeFacts {
    sizes: Vec<SizeOfType>,
    known_sizes: FxHashMap<StringId, u64>,
    made: Vec<MadeType>,
    made_at: FxHashMap<FrameId, StringId>,
}

impl TypeFacts {
    /// Adds the size of a type, unless it is known already.
    pub fn add_size(&mut self, fact: SizeOfType) {
        if self.known_sizes.insert(fact.name, fact.size) != Some(fact.size) {
            self.sizes.push(fact);
        }
    }

    /// Adds what a call makes, unless it is known already.
    pub fn add_made(&mut self, fact: MadeType) {
        if self.made_at.insert(fact.frame, fact.name) != Some(fact.name) {
            self.made.push(fact);
        }
    }

    /// All sizes, in the order in which they became known.
    pub fn sizes(&self) -> &[SizeOfType] {
        &self.sizes
    }

    /// What calls make, in the order in which it became known.
    pub fn made(&self) -> &[MadeType] {
        &self.made
    }

    /// What the call of `operator new` in this frame makes.
    pub fn made_at(&self, frame: FrameId) -> Option<StringId> {
        self.made_at.get(&frame).copied()
    }
}
