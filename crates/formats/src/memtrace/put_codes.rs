//! The location codes of written frames.

use highwater_model::{Catalog, FrameId};
use rustc_hash::FxHashMap;

/// The first made-up code. No address is this large, and the code fits in 63 bits with room to spare.
const MADE_UP: u64 = 1 << 60;

/// A code for each frame: its address if no other frame has the same one, else a made-up code.
#[derive(Clone, Debug, Default)]
pub struct CodeNumbers {
    /// By frame; 0 if it has no code yet.
    codes: Vec<u64>,
    taken: FxHashMap<u64, FrameId>,
}

impl CodeNumbers {
    /// The code of a frame, which is never 0.
    #[inline]
    pub fn of(&mut self, frame: FrameId, catalog: &Catalog) -> u64 {
        match self.codes.get(frame.0 as usize) {
            Some(&code) if code != 0 => code,
            _ => self.give(frame, catalog),
        }
    }

    #[cold]
    fn give(&mut self, frame: FrameId, catalog: &Catalog) -> u64 {
        let address = catalog.stacks.frame(frame).map_or(0, |frame| frame.address);
        let is_free = address != 0 && address < MADE_UP && *self.taken.entry(address).or_insert(frame) == frame;
        let code = if is_free { address } else { MADE_UP | u64::from(frame.0) };
        // A lost frame has a number larger than all others.
        let index = frame.0 as usize;
        if index < catalog.stacks.frames().len() {
            if index >= self.codes.len() {
                self.codes.resize(catalog.stacks.frames().len(), 0);
            }
            self.codes[index] = code;
        }
        code
    }
}
