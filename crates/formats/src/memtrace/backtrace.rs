//! Backtraces: the number of frames shared with the previous backtrace, then codewords for the new frames.
//!
//! A codeword names a bucket. It also gives the number of frames that follow as predicted, each the bucket that followed the one before it the last
//! time:
//!
//! ```text
//!  bits 0–1  0 no more, 1 one more, 2 the number in the next byte, 3 the bucket gets a new location, which follows
//!  bits 2–15 the bucket
//! ```

use super::bytes::PacketCursor;
use super::codec::{BUCKETS, BucketSlot, Codec};
use super::codes::Codes;
use super::header::Verifier;
use super::known_stacks::{FrameHash, KnownStacks, StackKey};
use highwater_model::{Catalog, FrameId, StackId};

/// The reference writer stops a backtrace once it has this number of bytes. A backtrace of this length or more was therefore truncated.
const LONGEST: usize = 4087;

/// Tables that all domains of a trace share.
pub struct TraceTables<'a> {
    /// Location codes and their frames.
    pub codes: &'a mut Codes,
    /// Known stacks, by key.
    pub stacks: &'a mut KnownStacks,
    /// The catalog that events refer to.
    pub catalog: &'a mut Catalog,
    /// Limit for the number of nodes of all stacks together.
    pub most_nodes: usize,
}

/// A frame of a backtrace, and the key of the stack that ends with it.
#[derive(Clone, Copy, Debug)]
struct Level {
    key: StackKey,
    frame: FrameId,
}

/// Decoder state of the backtraces of one domain. Each backtrace is coded as a difference from the previous one.
#[derive(Clone, Debug, Default)]
pub struct Backtraces {
    codec: Codec,
    /// The stack of the last allocation, outermost frame first.
    held: Vec<Level>,
    /// The base of all held stacks: the empty stack, or the frame that says that they may be wrong.
    base: StackId,
    /// The number of held levels, counted from the outermost, up to and including the innermost one that may be wrong.
    doubtful: usize,
    /// The number of times that packets were lost.
    losses: u16,
    /// True if the current backtrace exceeds `most_nodes`.
    is_too_much: bool,
    /// The number of truncated stacks.
    pub cut: u64,
    /// The number of stacks that may be wrong.
    pub in_doubt: u64,
    /// True if a backtrace used a bucket that is empty but should hold a location.
    pub met_empty: bool,
}

impl Backtraces {
    /// Call this after a loss of packets. Lost packets may have changed the state, so all older state may be wrong.
    pub fn lose(&mut self) {
        self.losses = self.losses.saturating_add(1);
        self.doubtful = self.held.len();
    }

    /// True if the state matches the writer's verifier.
    pub fn agrees(&self, verifier: &Verifier) -> bool {
        let code = super::bytes::to_63_bits(verifier.value as i64) as u64;
        usize::from(verifier.index) < BUCKETS && self.codec.state(verifier.index) == (verifier.prediction, code)
    }

    /// Reads a backtrace that shares `common` outermost frames with the previous one and has `codewords` codewords. `None` if it is malformed.
    #[inline]
    pub fn read(
        &mut self,
        input: &mut PacketCursor<'_>,
        common: u64,
        codewords: usize,
        tables: &mut TraceTables<'_>,
    ) -> Option<StackId> {
        let start = input.at;
        if common <= self.held.len() as u64 && self.losses == 0 {
            self.held.truncate(common as usize);
            self.usual_codewords(input, codewords, tables)?;
        } else {
            self.read_unusual(input, common, codewords, tables)?;
        }
        let stack = match self.held.last() {
            Some(innermost) => tables.stacks.find(innermost.key).unwrap_or_else(|| self.intern(tables)),
            None => self.base,
        };
        self.cut += u64::from(input.at - start >= LONGEST || self.is_too_much);
        self.is_too_much = false;
        Some(stack)
    }

    /// Interns the held stack, which is new, and all its callers that are new.
    #[cold]
    fn intern(&mut self, tables: &mut TraceTables<'_>) -> StackId {
        let depths = (1..=self.held.len()).rev();
        let met =
            depths.map(|depth| (tables.stacks.find(self.held[depth - 1].key), depth)).find(|(met, _)| met.is_some());
        let (met, depth) = met.unwrap_or_default();
        let mut stack = met.unwrap_or(self.base);
        for level in &self.held[depth..] {
            if tables.catalog.stacks.nodes().len() >= tables.most_nodes {
                self.is_too_much = true;
                break;
            }
            stack = tables.catalog.stacks.intern_child(stack, level.frame);
            tables.stacks.add(level.key, stack);
        }
        stack
    }

    /// The key of the held stack.
    #[inline]
    fn key(&self, tables: &TraceTables<'_>) -> StackKey {
        self.held.last().map_or_else(|| tables.stacks.key_of_base(self.base), |innermost| innermost.key)
    }

    #[cold]
    fn read_unusual(
        &mut self,
        input: &mut PacketCursor<'_>,
        common: u64,
        codewords: usize,
        tables: &mut TraceTables<'_>,
    ) -> Option<()> {
        if common > self.held.len() as u64 {
            // The writer compared with a stack that it had truncated. The new frames lie beyond the known ones.
            self.codewords::<false, false>(input, codewords, tables)?;
            self.cut += 1;
        } else {
            self.held.truncate(common as usize);
            self.doubtful = self.doubtful.min(self.held.len());
            self.codewords::<true, true>(input, codewords, tables)?;
        }
        self.in_doubt += u64::from(self.doubtful > 0);
        let base = if self.doubtful > 0 { tables.codes.doubt(tables.catalog) } else { StackId::UNKNOWN };
        if base != self.base {
            self.rebase(base, tables);
        }
        Some(())
    }

    /// Moves the held stack to another base.
    fn rebase(&mut self, base: StackId, tables: &mut TraceTables<'_>) {
        self.base = base;
        let mut key = tables.stacks.key_of_base(base);
        for level in &mut self.held {
            key = key.with(tables.stacks.key_of(level.frame));
            level.key = key;
        }
    }

    /// Reads codewords of a domain that never lost a packet. Decoding spends most of its time here. The number of frames that follow is
    /// unpredictable, so it is selected without branches as far as possible.
    #[inline]
    fn usual_codewords(
        &mut self,
        input: &mut PacketCursor<'_>,
        count: usize,
        tables: &mut TraceTables<'_>,
    ) -> Option<()> {
        let mut key = self.key(tables);
        let mut slot = 0;
        for _ in 0..count {
            let (word, byte) = input.codeword()?;
            let named = self.codec.slot(word >> 2);
            self.codec.set_next(slot, named);
            slot = named;
            let mut predicted = if word & 3 == 2 { byte } else { word as u8 & 1 };
            if word & 3 == 3 {
                self.codec.set_code(slot, input.int63()? as u64, 0);
                predicted = 0;
            }
            key = self.enter::<false>(slot, key, tables);
            for _ in 0..predicted {
                slot = self.codec.next(slot);
                key = self.enter::<false>(slot, key, tables);
            }
        }
        Some(())
    }

    #[inline(never)]
    fn codewords<const KEEP: bool, const DOUBT: bool>(
        &mut self,
        input: &mut PacketCursor<'_>,
        count: usize,
        tables: &mut TraceTables<'_>,
    ) -> Option<()> {
        let losses = self.losses;
        let mut key = self.key(tables);
        let mut previous = 0;
        for _ in 0..count {
            let word = input.u16()?;
            let slot = self.codec.slot(word >> 2);
            self.codec.set_next(previous, slot);
            self.codec.set_next_age(previous, losses);
            let mut predicted = 0;
            match word & 3 {
                3 => self.codec.set_code(slot, input.int63()? as u64, losses),
                2 => predicted = input.u8()?,
                few => predicted = few as u8,
            }
            if KEEP {
                key = self.enter::<DOUBT>(slot, key, tables);
            }
            previous = slot;
            for _ in 0..predicted {
                let next = self.codec.next(previous);
                if KEEP {
                    key = self.enter::<DOUBT>(next, key, tables);
                    if DOUBT && self.codec.next_age(previous) != losses {
                        self.doubtful = self.held.len();
                    }
                }
                previous = next;
            }
        }
        Some(())
    }

    /// Pushes the location in a slot onto the held stack.
    #[inline(always)]
    fn enter<const DOUBT: bool>(
        &mut self,
        slot: BucketSlot,
        caller: StackKey,
        tables: &mut TraceTables<'_>,
    ) -> StackKey {
        let (mut frame_key, mut frame) = self.codec.frame(slot);
        if frame_key == 0 {
            (frame_key, frame) = self.name(slot, tables);
        }
        if self.held.len() >= tables.most_nodes {
            self.is_too_much = true;
            return caller;
        }
        let key = caller.with(frame_key);
        self.held.push(Level { key, frame });
        if DOUBT && self.codec.code_age(slot) != self.losses {
            self.doubtful = self.held.len();
        }
        key
    }

    /// Finds the frame of a slot's code.
    #[cold]
    fn name(&mut self, slot: BucketSlot, tables: &mut TraceTables<'_>) -> (FrameHash, FrameId) {
        let code = self.codec.code(slot);
        self.met_empty |= code == 0;
        let frame = tables.codes.frame(code, tables.catalog);
        let key = tables.stacks.key_of(frame);
        self.codec.set_frame(slot, key, frame);
        (key, frame)
    }
}

/// Skips the codewords of a backtrace.
pub fn skip(input: &mut PacketCursor<'_>, codewords: usize) -> Option<()> {
    for _ in 0..codewords {
        match input.u16()? & 3 {
            3 => input.skip(8)?,
            2 => input.skip(1)?,
            _ => {}
        }
    }
    Some(())
}
