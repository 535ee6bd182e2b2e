//! Coding backtraces, as the reference writer does it: what was seen before takes a few bits a frame.

use super::codec::BUCKETS;
use super::header::Verifier;
use highwater_model::{StackId, StackTable};

/// No more bytes are spent on a backtrace; frames beyond are left out at its inner end.
const MOST_BYTES: usize = 4086;
/// The most frames that one codeword predicts.
const MOST_PREDICTED: usize = 255;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    code: u64,
    next: u16,
    /// When it was used last, in allocations.
    used: u64,
}

/// The state of a domain's backtraces, on the side of the writer.
#[derive(Clone, Debug)]
pub struct BacktraceWriter {
    buckets: Vec<Bucket>,
    /// The stack of the last allocation and those of its callers, outermost first, as far as a reader knows them.
    held: Vec<StackId>,
    new: Vec<StackId>,
    allocations: u64,
    /// Stacks that had to be cut.
    pub cut: u64,
}

impl Default for BacktraceWriter {
    fn default() -> Self {
        let buckets = vec![Bucket::default(); BUCKETS];
        Self { buckets, held: Vec::new(), new: Vec::new(), allocations: 0, cut: 0 }
    }
}

/// Two places for a code.
fn homes(code: u64) -> [u16; 2] {
    // OCaml's integers have 63 bits, and are shifted as if they had no sign.
    let product = |factor: u64| code.wrapping_mul(factor) & (u64::MAX >> 1);
    let bucket = |value: u64| (value & (BUCKETS as u64 - 1)) as u16;
    [bucket(product(0x498_3723) >> 11), bucket(product(0xFDE_A731) >> 21)]
}

/// What was written of a backtrace.
pub struct Coded {
    /// Frames that it has in common with the one before, counted from the outermost.
    pub common: u64,
    /// How many codewords there are.
    pub codewords: usize,
}

impl BacktraceWriter {
    /// What must be true of the state, for a reader to look at.
    pub fn verifier(&self, index: u16) -> Verifier {
        let bucket = &self.buckets[usize::from(index) % BUCKETS];
        Verifier { index, prediction: bucket.next, value: bucket.code }
    }

    /// Appends the codewords of the next allocation's stack. `depths` knows how deep stacks are, `code_of` what stands for their innermost
    /// frames; codes that get a bucket are given to `missed`.
    pub fn put(
        &mut self,
        stack: StackId,
        stacks: &StackTable,
        depths: &mut Depths,
        mut code_of: impl FnMut(StackId) -> u64,
        mut missed: impl FnMut(StackId, u64),
        out: &mut Vec<u8>,
    ) -> Coded {
        self.find_new(stack, stacks, depths);
        self.allocations += 1;
        let now = self.allocations;
        let start = out.len();
        let mut codewords = 0;
        let mut previous = 0;
        let mut at = 0;
        while at < self.new.len() {
            if out.len() - start > MOST_BYTES {
                self.cut += 1;
                self.new.truncate(at);
                break;
            }
            let node = self.new[at];
            let code = code_of(node);
            let [first, second] = homes(code);
            let hit = [first, second].into_iter().find(|&home| self.buckets[usize::from(home)].code == code);
            let number = hit.unwrap_or_else(|| {
                let used = |home: u16| self.buckets[usize::from(home)].used;
                if used(first) < used(second) { first } else { second }
            });
            self.buckets[usize::from(previous)].next = number;
            self.buckets[usize::from(number)].used = now;
            codewords += 1;
            at += 1;
            if hit.is_none() {
                self.buckets[usize::from(number)].code = code;
                out.extend_from_slice(&(number << 2 | 3).to_le_bytes());
                out.extend_from_slice(&code.to_le_bytes());
                missed(node, code);
                previous = number;
                continue;
            }
            let mut current = number;
            let mut predicted = 0;
            while predicted < MOST_PREDICTED && at < self.new.len() {
                let next = self.buckets[usize::from(current)].next;
                let bucket = &mut self.buckets[usize::from(next)];
                if bucket.code != code_of(self.new[at]) {
                    break;
                }
                bucket.used = now;
                current = next;
                predicted += 1;
                at += 1;
            }
            let tag = predicted.min(2) as u16;
            out.extend_from_slice(&(number << 2 | tag).to_le_bytes());
            if tag == 2 {
                out.push(predicted as u8);
            }
            previous = current;
        }
        let common = self.held.len() as u64;
        self.held.extend_from_slice(&self.new);
        Coded { common, codewords }
    }

    /// Leaves of the held stack what the new one has in common with it, and lists what it has not, outermost first.
    fn find_new(&mut self, stack: StackId, stacks: &StackTable, depths: &mut Depths) {
        self.new.clear();
        let mut node = stack;
        let mut depth = depths.of(stack, stacks);
        while depth > 0 && self.held.get(depth - 1) != Some(&node) {
            self.new.push(node);
            node = stacks.nodes()[node.0 as usize].parent;
            depth -= 1;
        }
        self.held.truncate(depth);
        self.new.reverse();
    }
}

/// How many frames stacks have, remembered.
#[derive(Clone, Debug, Default)]
pub struct Depths(Vec<u32>);

impl Depths {
    /// How many frames a stack has.
    pub fn of(&mut self, stack: StackId, stacks: &StackTable) -> usize {
        // A caller has a smaller number than what it calls.
        for index in self.0.len()..stacks.nodes().len().min(stack.0 as usize + 1) {
            let parent = stacks.nodes()[index].parent.0 as usize;
            let depth = if index == 0 { 0 } else { self.0[parent] + 1 };
            self.0.push(depth);
        }
        self.0.get(stack.0 as usize).map_or(0, |depth| *depth as usize)
    }
}
