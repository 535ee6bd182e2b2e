//! How backtraces are coded: buckets that hold locations, and for each the bucket that came after it the last time.
//!
//! A program uses few of the many buckets. Those that are used get *slots*, one behind the other, so that what is asked for with every frame lies
//! close together.

use super::known_stacks::FrameKey;
use highwater_model::FrameId;

/// How many buckets there are.
pub const BUCKETS: usize = 1 << 14;

/// A bucket that is used. The first slot is that of bucket 0, which every backtrace starts from.
pub type Slot = u16;

/// What is asked of a slot with every frame.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The key of its frame; 0 where that was not yet asked for.
    key: FrameKey,
    /// Its frame.
    frame: FrameId,
    /// The slot that followed this one the last time.
    next: Slot,
}

/// What is seldom asked of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Aside {
    code: u64,
    bucket: u16,
    /// When the code was put there, in losses of packets.
    code_age: u16,
    /// When what follows was put there.
    next_age: u16,
}

/// The buckets of a domain.
#[derive(Clone, Debug)]
pub struct Codec {
    /// By bucket; 0 where it has none, and for bucket 0.
    slots: Box<[Slot; BUCKETS]>,
    links: Vec<Link>,
    aside: Vec<Aside>,
}

impl Default for Codec {
    fn default() -> Self {
        let slots = vec![0; BUCKETS].into_boxed_slice();
        Self {
            slots: slots.try_into().unwrap_or_else(|_| unreachable!("it is as long as it was made")),
            links: vec![Link::default()],
            aside: vec![Aside::default()],
        }
    }
}

impl Codec {
    /// The slot of a bucket, made if it has none.
    #[inline(always)]
    pub fn slot(&mut self, bucket: u16) -> Slot {
        let slot = self.slots[usize::from(bucket) % BUCKETS];
        if slot == 0 && bucket != 0 { self.new_slot(bucket) } else { slot }
    }

    #[cold]
    fn new_slot(&mut self, bucket: u16) -> Slot {
        let slot = self.links.len() as Slot;
        self.links.push(Link::default());
        self.aside.push(Aside { bucket, ..Aside::default() });
        self.slots[usize::from(bucket) % BUCKETS] = slot;
        slot
    }

    /// The slot that followed this one the last time.
    #[inline(always)]
    pub fn next(&self, slot: Slot) -> Slot {
        self.links[usize::from(slot)].next
    }

    /// Says what follows a slot.
    #[inline(always)]
    pub fn set_next(&mut self, slot: Slot, next: Slot) {
        self.links[usize::from(slot)].next = next;
    }

    /// A slot's frame and its key; the key is 0 where it was not yet asked for.
    #[inline(always)]
    pub fn frame(&self, slot: Slot) -> (FrameKey, FrameId) {
        let link = &self.links[usize::from(slot)];
        (link.key, link.frame)
    }

    /// Says which frame a slot's code is.
    pub fn set_frame(&mut self, slot: Slot, key: FrameKey, frame: FrameId) {
        let link = &mut self.links[usize::from(slot)];
        (link.key, link.frame) = (key, frame);
    }

    /// The code in a slot; 0 where it is empty.
    pub fn code(&self, slot: Slot) -> u64 {
        self.aside[usize::from(slot)].code
    }

    /// Puts a code into a slot.
    pub fn set_code(&mut self, slot: Slot, code: u64, age: u16) {
        self.links[usize::from(slot)].key = 0;
        let aside = &mut self.aside[usize::from(slot)];
        (aside.code, aside.code_age) = (code, age);
    }

    /// When the code was put into a slot.
    pub fn code_age(&self, slot: Slot) -> u16 {
        self.aside[usize::from(slot)].code_age
    }

    /// When what follows a slot was said.
    pub fn next_age(&self, slot: Slot) -> u16 {
        self.aside[usize::from(slot)].next_age
    }

    /// Says when what follows a slot was said.
    pub fn set_next_age(&mut self, slot: Slot, age: u16) {
        self.aside[usize::from(slot)].next_age = age;
    }

    /// The bucket that followed a bucket the last time, and the code in it; 0 where it is empty.
    pub fn state(&self, bucket: u16) -> (u16, u64) {
        let slot = self.slots[usize::from(bucket) % BUCKETS];
        if slot == 0 && bucket != 0 {
            return (0, 0);
        }
        (self.aside[usize::from(self.next(slot))].bucket, self.code(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_empty_until_they_are_filled() {
        let mut codec = Codec::default();
        assert_eq!((codec.state(16_383), codec.state(0), codec.slot(0)), ((0, 0), (0, 0), 0));
        let (slot, last) = (codec.slot(300), codec.slot(16_383));
        codec.set_code(slot, 7, 2);
        codec.set_next(last, slot);
        codec.set_next_age(last, 3);
        codec.set_frame(slot, 99, FrameId(5));
        assert_eq!((codec.state(300), codec.state(301), codec.state(16_383)), ((0, 7), (0, 0), (300, 0)));
        assert_eq!((codec.code_age(slot), codec.next_age(last), codec.frame(slot)), (2, 3, (99, FrameId(5))));
        // Another code is another frame.
        codec.set_code(slot, 8, 2);
        assert_eq!((codec.frame(slot).0, codec.slot(300)), (0, slot));
        for bucket in 0..BUCKETS as u16 {
            let slot = codec.slot(bucket);
            codec.set_code(slot, u64::from(bucket) + 1, 0);
        }
        assert!((0..BUCKETS as u16).all(|bucket| codec.state(bucket).1 == u64::from(bucket) + 1));
        assert_eq!(codec.links.len(), BUCKETS);
    }
}
