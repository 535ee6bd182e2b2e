//! Encodes backtraces as the reference writer does: known frames take a few bits each.

use super::codec::BUCKETS;
use super::header::Verifier;
use highwater_model::{StackId, StackTable};

/// Limit for the bytes of a backtrace. Further frames are left out at its inner end.
const MOST_BYTES: usize = 4086;
/// Limit for the number of frames that one codeword predicts.
const MOST_PREDICTED: usize = 255;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    code: u64,
    next: u16,
    /// The time of last use, counted in allocations.
    used: u64,
}

/// Encoder state of the backtraces of one domain.
#[derive(Clone, Debug)]
pub struct BacktraceWriter {
    buckets: Vec<Bucket>,
    /// The stack of the last allocation and those of its callers, outermost first, as far as they were written.
    held: Vec<StackId>,
    new: Vec<StackId>,
    allocations: u64,
    /// The number of truncated stacks.
    pub cut: u64,
}

impl Default for BacktraceWriter {
    fn default() -> Self {
        let buckets = vec![Bucket::default(); BUCKETS];
        Self { buckets, held: Vec::new(), new: Vec::new(), allocations: 0, cut: 0 }
    }
}

/// The two buckets that a code may use.
fn homes(code: u64) -> [u16; 2] {
    // OCaml's integers have 63 bits, and are shifted here as if they had no sign.
    let product = |factor: u64| code.wrapping_mul(factor) & (u64::MAX >> 1);
    let bucket = |value: u64| (value & (BUCKETS as u64 - 1)) as u16;
    [bucket(product(0x498_3723) >> 11), bucket(product(0xFDE_A731) >> 21)]
}

/// The result of encoding a backtrace.
pub struct Coded {
    /// The number of frames shared with the previous backtrace, counted from the outermost.
    pub common: u64,
    /// The number of codewords.
    pub codewords: usize,
}

impl BacktraceWriter {
    /// The state of a bucket, with which a reader checks its own.
    pub fn verifier(&self, index: u16) -> Verifier {
        let bucket = &self.buckets[usize::from(index) % BUCKETS];
        Verifier { index, prediction: bucket.next, value: bucket.code }
    }

    /// Appends the codewords of the next allocation's stack. `depths` gives the depth of stacks, `code_of` the location code of a stack's innermost
    /// frame. Each code that gets a new bucket is passed to `missed`.
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

    /// Truncates the held stack to the frames shared with the new one, and lists the new frames, outermost first.
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

/// The number of frames of each stack, cached.
#[derive(Clone, Debug, Default)]
pub struct Depths(Vec<u32>);

impl Depths {
    /// The number of frames of a stack.
    pub fn of(&mut self, stack: StackId, stacks: &StackTable) -> usize {
        // A caller always has a smaller number than the stacks that it calls.
        for index in self.0.len()..stacks.nodes().len().min(stack.0 as usize + 1) {
            let parent = stacks.nodes()[index].parent.0 as usize;
            let depth = if index == 0 { 0 } else { self.0[parent] + 1 };
            self.0.push(depth);
        }
        self.0.get(stack.0 as usize).map_or(0, |depth| *depth as usize)
    }
}
