//! Finds the stack of a backtrace. Every allocation needs this, so it must be fast.
//!
//! A stack has a *key*, made of its caller's key and its frame. For a backtrace with new frames, each key is computed from the previous one with one
//! multiplication, and only the innermost stack is looked up by its key. Keys have 64 bits and a random seed for each trace. So an attacker cannot construct
//! a trace in which two stacks have the same key, and for a million stacks that happens by chance in one of 30 million traces.

use highwater_model::{FrameId, StackId};
use std::hash::{BuildHasher, RandomState};

/// The contribution of a frame to the keys of stacks; 0 stands for none.
pub type FrameHash = u64;

/// Any odd number with many zero bits and many one bits.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The key of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StackKey(u64);

impl StackKey {
    /// The key of this stack with one more frame.
    #[inline(always)]
    pub fn with(self, frame: FrameHash) -> Self {
        let product = u128::from(self.0 ^ frame) * u128::from(FACTOR);
        Self(product as u64 ^ (product >> 64) as u64)
    }
}

/// The known stacks, by key.
#[derive(Clone, Debug)]
pub struct KnownStacks {
    /// Open addressing; 0 marks an empty slot.
    keys: Vec<u64>,
    stacks: Vec<StackId>,
    count: usize,
    random: RandomState,
    /// The key of the empty stack.
    bottom: FrameHash,
}

impl Default for KnownStacks {
    fn default() -> Self {
        let (keys, stacks) = (vec![0; 1024], vec![StackId::UNKNOWN; 1024]);
        let random = RandomState::new();
        Self { keys, stacks, count: 0, bottom: random.hash_one("bottom"), random }
    }
}

impl KnownStacks {
    /// The key of a frame.
    pub fn key_of(&self, frame: FrameId) -> FrameHash {
        self.random.hash_one(frame.0) | 1
    }

    /// The key of a base of other stacks.
    pub fn key_of_base(&self, base: StackId) -> StackKey {
        StackKey(self.bottom).with(base.0.into())
    }

    /// The stack with this key, if it is known.
    #[inline]
    pub fn find(&self, key: StackKey) -> Option<StackId> {
        let key = key.0 | 1;
        let mut at = self.home(key);
        loop {
            match self.keys[at] {
                0 => return None,
                found if found == key => return Some(self.stacks[at]),
                _ => at = (at + 1) & (self.keys.len() - 1),
            }
        }
    }

    /// Adds a stack that is not known yet.
    #[cold]
    pub fn add(&mut self, key: StackKey, stack: StackId) {
        if self.count * 2 >= self.keys.len() {
            self.grow();
        }
        self.count += 1;
        self.place(key.0 | 1, stack);
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key >> (64 - self.keys.len().trailing_zeros())) as usize
    }

    fn place(&mut self, key: u64, stack: StackId) {
        let mut at = self.home(key);
        while self.keys[at] != 0 {
            at = (at + 1) & (self.keys.len() - 1);
        }
        (self.keys[at], self.stacks[at]) = (key, stack);
    }

    fn grow(&mut self) {
        let length = self.keys.len() * 2;
        let keys = std::mem::replace(&mut self.keys, vec![0; length]);
        let stacks = std::mem::replace(&mut self.stacks, vec![StackId::UNKNOWN; length]);
        for (key, stack) in keys.into_iter().zip(stacks).filter(|(key, _)| *key != 0) {
            self.place(key, stack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_has_a_key_of_its_own() {
        let mut known = KnownStacks::default();
        let frames: Vec<FrameHash> = (0..50).map(|frame| known.key_of(FrameId(frame))).collect();
        let mut level = vec![known.key_of_base(StackId::UNKNOWN), known.key_of_base(StackId(7))];
        let mut made = Vec::new();
        for _ in 0..2 {
            level = level.iter().flat_map(|caller| frames.iter().map(|&frame| caller.with(frame))).collect();
            for &key in &level {
                assert_eq!(known.find(key), None);
                let stack = StackId(made.len() as u32);
                known.add(key, stack);
                made.push((key, stack));
            }
        }
        assert!(made.iter().all(|&(key, stack)| known.find(key) == Some(stack)));
        // Keys depend on the order of frames and on how often they occur.
        let base = known.key_of_base(StackId::UNKNOWN);
        assert_ne!(base.with(frames[0]).with(frames[1]), base.with(frames[1]).with(frames[0]));
        assert_ne!(base.with(frames[0]), base.with(frames[0]).with(frames[0]));
    }
}
