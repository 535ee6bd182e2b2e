//! Which stack a call leads to: asked for every frame of every backtrace, so it is answered quickly.

use highwater_model::{FrameId, StackId, StackTable};

/// Two whom a stack called lately, and the stacks that this makes. The frames are one more than their numbers; 0 where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    frames: [u32; 2],
    stacks: [u32; 2],
}

impl Latest {
    /// Remembers another call in place of the older one.
    fn remember(&mut self, frame: u32, stack: u32) {
        self.frames = [frame, self.frames[0]];
        self.stacks = [stack, self.stacks[0]];
    }
}

/// The frame of which nothing is known: nobody called it.
pub const NONE: FrameId = FrameId(u32::MAX);

/// An index of all calls that were met, over those of a [`StackTable`].
#[derive(Clone, Debug)]
pub struct Children {
    /// By caller. Programs mostly do what they did before, and what calls itself has another caller each time.
    latest: Vec<Latest>,
    /// Open addressing: caller and frame, with the frame one more than its number; 0 where nothing is.
    keys: Vec<u64>,
    stacks: Vec<u32>,
    count: usize,
}

impl Default for Children {
    fn default() -> Self {
        Self { latest: Vec::new(), keys: vec![0; 1024], stacks: vec![0; 1024], count: 0 }
    }
}

impl Children {
    /// The stack that is `caller` with one more frame, if it was met.
    #[inline(always)]
    pub fn find(&mut self, caller: StackId, frame: FrameId) -> Option<StackId> {
        let wanted = frame.0.wrapping_add(1);
        if let Some(latest) = self.latest.get(caller.0 as usize) {
            // By a branch each: where it is foretold, nobody has to wait for what was compared.
            if latest.frames[0] == wanted && wanted != 0 {
                return Some(StackId(latest.stacks[0]));
            }
            if latest.frames[1] == wanted && wanted != 0 {
                return Some(StackId(latest.stacks[1]));
            }
        }
        self.look_up(caller, frame)
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.keys.len().trailing_zeros())) as usize
    }

    #[inline(never)]
    fn look_up(&mut self, caller: StackId, frame: FrameId) -> Option<StackId> {
        if frame == NONE {
            return None;
        }
        let key = key(caller, frame);
        let mut at = self.home(key);
        loop {
            match self.keys[at] {
                0 => return None,
                found if found == key => break,
                _ => at = (at + 1) & (self.keys.len() - 1),
            }
        }
        let stack = self.stacks[at];
        self.latest[caller.0 as usize].remember(frame.0 + 1, stack);
        Some(StackId(stack))
    }

    /// The stack that is `caller` with one more frame, which was not met before.
    #[cold]
    pub fn add(&mut self, caller: StackId, frame: FrameId, stacks: &mut StackTable) -> StackId {
        let stack = stacks.intern_child(caller, frame);
        if self.count * 2 >= self.keys.len() {
            self.grow();
        }
        self.count += 1;
        self.place(key(caller, frame), stack.0);
        let last = stack.0.max(caller.0) as usize;
        if last >= self.latest.len() {
            self.latest.resize(last + 1, Latest::default());
        }
        self.latest[caller.0 as usize].remember(frame.0 + 1, stack.0);
        stack
    }

    fn place(&mut self, key: u64, stack: u32) {
        let mut at = self.home(key);
        while self.keys[at] != 0 {
            at = (at + 1) & (self.keys.len() - 1);
        }
        (self.keys[at], self.stacks[at]) = (key, stack);
    }

    fn grow(&mut self) {
        let length = self.keys.len() * 2;
        let keys = std::mem::replace(&mut self.keys, vec![0; length]);
        let stacks = std::mem::replace(&mut self.stacks, vec![0; length]);
        for (key, stack) in keys.into_iter().zip(stacks).filter(|(key, _)| *key != 0) {
            self.place(key, stack);
        }
    }
}

#[inline]
fn key(caller: StackId, frame: FrameId) -> u64 {
    u64::from(caller.0) << 32 | u64::from(frame.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::Frame;

    #[test]
    fn every_call_leads_to_its_own_stack_and_always_to_the_same() {
        let (mut children, mut stacks) = (Children::default(), StackTable::default());
        let frames: Vec<FrameId> =
            (0..50).map(|address| stacks.push_frame(Frame { address, ..Frame::default() })).collect();
        let mut made = Vec::new();
        for caller in 0..100 {
            for &frame in &frames {
                assert_eq!(children.find(StackId(caller), frame), None);
                made.push((StackId(caller), frame, children.add(StackId(caller), frame, &mut stacks)));
            }
        }
        for &(caller, frame, stack) in &made {
            assert_eq!(children.find(caller, frame), Some(stack));
            let node = stacks.nodes()[stack.0 as usize];
            assert_eq!((node.parent, node.frame), (caller, frame));
        }
    }
}
