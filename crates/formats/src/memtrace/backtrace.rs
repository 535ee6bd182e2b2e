//! Backtraces: the frames that are as they were before, and codewords for those that are new.
//!
//! A codeword names a bucket and says how many frames more are those that followed it the last time:
//!
//! ```text
//!  bits 0–1  0 no more, 1 one more, 2 as many as the next byte says, 3 the bucket gets a new location, which follows
//!  bits 2–15 the bucket
//! ```

use super::bytes::Input;
use super::codec::{Bucket, Codec};
use super::codes::Codes;
use super::header::Verifier;
use highwater_model::{Catalog, StackId};

/// A writer spends no more bytes on a backtrace: where it took so many, it stopped within it.
const LONGEST: usize = 4087;

/// What all domains of a trace share.
pub struct Names<'a> {
    /// The codes.
    pub codes: &'a mut Codes,
    /// What events refer to.
    pub catalog: &'a mut Catalog,
    /// How many nodes all stacks together may have.
    pub most_nodes: usize,
}

/// The backtraces of one domain, each told as what is new since the one before.
#[derive(Clone, Debug, Default)]
pub struct Backtraces {
    codec: Codec,
    /// The stack of the last allocation and those of all its callers, outermost first.
    held: Vec<StackId>,
    /// What they all stand on: nothing, or the frame that says that they may be wrong.
    base: StackId,
    /// How many of the held stacks may be wrong, counted to the innermost of these.
    doubtful: usize,
    /// How often packets were lost.
    losses: u16,
    /// True while a backtrace is read that makes more nodes than there may be.
    is_too_much: bool,
    /// Stacks that were cut.
    pub cut: u64,
    /// Stacks that may be wrong.
    pub in_doubt: u64,
    /// True when a bucket was used that should have had a location in it.
    pub met_empty: bool,
}

impl Backtraces {
    /// The state was meant to be changed by packets that were lost: what comes from before may be wrong.
    pub fn lose(&mut self) {
        self.losses = self.losses.saturating_add(1);
        self.doubtful = self.held.len();
    }

    /// True if the state is what the writer says it is.
    pub fn agrees(&self, verifier: &Verifier) -> bool {
        let bucket = self.codec.get(verifier.index);
        usize::from(verifier.index) < super::codec::BUCKETS
            && (bucket.next, bucket.code)
                == (verifier.prediction, super::bytes::to_63_bits(verifier.value as i64) as u64)
    }

    /// Reads a backtrace that has so many outermost frames in common with the one before, and so many codewords. `None` if
    /// it is malformed.
    #[inline]
    pub fn read(
        &mut self,
        input: &mut Input<'_>,
        common: u64,
        codewords: usize,
        names: &mut Names<'_>,
    ) -> Option<StackId> {
        let start = input.at;
        if common <= self.held.len() as u64 && self.losses == 0 {
            self.held.truncate(common as usize);
            self.codewords::<true, false>(input, codewords, names)?;
        } else {
            self.read_unusual(input, common, codewords, names)?;
        }
        self.cut += u64::from(input.at - start >= LONGEST || self.is_too_much);
        self.is_too_much = false;
        Some(self.held.last().copied().unwrap_or(self.base))
    }

    #[cold]
    fn read_unusual(
        &mut self,
        input: &mut Input<'_>,
        common: u64,
        codewords: usize,
        names: &mut Names<'_>,
    ) -> Option<()> {
        if common > self.held.len() as u64 {
            // The writer compares with a stack that it had cut. What is new lies beyond what is known.
            self.codewords::<false, false>(input, codewords, names)?;
            self.cut += 1;
        } else {
            self.held.truncate(common as usize);
            self.doubtful = self.doubtful.min(self.held.len());
            self.codewords::<true, true>(input, codewords, names)?;
        }
        self.in_doubt += u64::from(self.doubtful > 0);
        let base = if self.doubtful > 0 { names.codes.doubt(names.catalog) } else { StackId::UNKNOWN };
        if base != self.base {
            self.rebase(base, names);
        }
        Some(())
    }

    /// Puts the held stack on another base.
    fn rebase(&mut self, base: StackId, names: &mut Names<'_>) {
        self.base = base;
        let mut caller = base;
        for stack in &mut self.held {
            let Some(node) = names.catalog.stacks.nodes().get(stack.0 as usize).copied() else { return };
            caller = names.catalog.stacks.intern_child(caller, node.frame);
            *stack = caller;
        }
    }

    #[inline]
    fn codewords<const KEEP: bool, const DOUBT: bool>(
        &mut self,
        input: &mut Input<'_>,
        count: usize,
        names: &mut Names<'_>,
    ) -> Option<()> {
        let losses = self.losses;
        let mut top = self.held.last().copied().unwrap_or(self.base);
        let mut previous = 0;
        for _ in 0..count {
            let word = input.u16()?;
            let number = word >> 2;
            let before = self.codec.get_mut(previous);
            (before.next, before.next_age) = (number, losses);
            let mut predicted = 0;
            match word & 3 {
                3 => {
                    let code = input.int63()? as u64;
                    let bucket = self.codec.get_mut(number);
                    *bucket = Bucket { code, code_age: losses, stack: StackId::UNKNOWN, ..*bucket };
                }
                2 => predicted = input.u8()?,
                few => predicted = few as u8,
            }
            if KEEP {
                top = self.enter::<DOUBT>(number, top, names);
            }
            previous = number;
            for _ in 0..predicted {
                let bucket = self.codec.get(previous);
                let is_sure = bucket.next_age == losses;
                previous = bucket.next;
                if KEEP {
                    top = self.enter::<DOUBT>(previous, top, names);
                    if DOUBT && !is_sure {
                        self.doubtful = self.held.len();
                    }
                }
            }
        }
        Some(())
    }

    /// Goes into the location in a bucket, called from `caller`.
    #[inline]
    fn enter<const DOUBT: bool>(&mut self, number: u16, caller: StackId, names: &mut Names<'_>) -> StackId {
        let bucket = self.codec.get(number);
        let is_sure = bucket.code_age == self.losses;
        let stack = if bucket.caller == caller && bucket.stack != StackId::UNKNOWN {
            bucket.stack
        } else {
            self.look_up(number, caller, names)
        };
        if stack != caller {
            self.held.push(stack);
        }
        if DOUBT && !is_sure {
            self.doubtful = self.held.len();
        }
        stack
    }

    #[inline(never)]
    fn look_up(&mut self, number: u16, caller: StackId, names: &mut Names<'_>) -> StackId {
        let bucket = self.codec.get_mut(number);
        self.met_empty |= bucket.code == 0;
        if names.catalog.stacks.nodes().len() >= names.most_nodes {
            self.is_too_much = true;
            return caller;
        }
        let frame = names.codes.frame(bucket.code, names.catalog);
        (bucket.caller, bucket.stack) = (caller, names.catalog.stacks.intern_child(caller, frame));
        bucket.stack
    }
}

/// Passes over the codewords of a backtrace.
pub fn skip(input: &mut Input<'_>, codewords: usize) -> Option<()> {
    for _ in 0..codewords {
        match input.u16()? & 3 {
            3 => input.skip(8)?,
            2 => input.skip(1)?,
            _ => {}
        }
    }
    Some(())
}
