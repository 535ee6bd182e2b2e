//! What debug information says of types: their sizes, what single calls of `operator new` make, and where names of types cannot be trusted.
//!
//! Facts are found together with the names of frames, and kept for the same reason: the debug information may be gone when the recording is read.

use crate::ids::{FrameId, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

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
    doubtful: Vec<FrameId>,
    is_doubtful: FxHashSet<FrameId>,
    is_checked: bool,
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

    /// Marks a place in the program whose library call shows types that the program does not use there.
    pub fn add_doubtful(&mut self, frame: FrameId) {
        if self.is_doubtful.insert(frame) {
            self.doubtful.push(frame);
        }
    }

    /// Notes that all places were looked at.
    pub fn set_checked(&mut self) {
        self.is_checked = true;
    }

    /// True if places that are not marked are not doubtful.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// The places that are marked so, in the order in which they became known.
    pub fn doubtful(&self) -> &[FrameId] {
        &self.doubtful
    }

    /// True if a library function that is called here may be one for other types than its name says.
    pub fn is_doubtful(&self, frame: FrameId) -> bool {
        self.is_doubtful.contains(&frame)
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
