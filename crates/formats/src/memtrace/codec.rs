//! State of the backtrace coding: buckets that hold locations, and for each bucket the one that followed it the last time.
//!
//! A program uses few of the many buckets. Used buckets get consecutive *slots*, so that the data needed for every frame lies close together.

use super::known_stacks::FrameHash;
use highwater_model::FrameId;

/// The number of buckets.
pub const BUCKETS: usize = 1 << 14;

/// The index of a used bucket. The first slot is that of bucket 0, which every backtrace starts from.
pub type BucketSlot = u16;

/// Data of a slot that every frame needs.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The key of its frame; 0 if the frame was not looked up yet.
    key: FrameHash,
    /// The frame of its code; valid if `key` is not 0.
    frame: FrameId,
    /// The slot that followed this one the last time.
    next: BucketSlot,
}

/// Data of a slot that is seldom needed.
#[derive(Clone, Copy, Debug, Default)]
struct Aside {
    code: u64,
    bucket: u16,
    /// The number of losses of packets before the code was stored.
    code_age: u16,
    /// The number of losses of packets before `next` was stored.
    next_age: u16,
}

/// The buckets of a domain.
#[derive(Clone, Debug)]
pub struct Codec {
    /// By bucket; 0 if the bucket has no slot, and for bucket 0.
    slots: Box<[BucketSlot; BUCKETS]>,
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
    /// The slot of a bucket. Creates it if there is none.
    #[inline(always)]
    pub fn slot(&mut self, bucket: u16) -> BucketSlot {
        let slot = self.slots[usize::from(bucket) % BUCKETS];
        if slot == 0 && bucket != 0 { self.new_slot(bucket) } else { slot }
    }

    #[cold]
    fn new_slot(&mut self, bucket: u16) -> BucketSlot {
        let slot = self.links.len() as BucketSlot;
        self.links.push(Link::default());
        self.aside.push(Aside { bucket, ..Aside::default() });
        self.slots[usize::from(bucket) % BUCKETS] = slot;
        slot
    }

    /// The slot that followed this one the last time.
    #[inline(always)]
    pub fn next(&self, slot: BucketSlot) -> BucketSlot {
        self.links[usize::from(slot)].next
    }

    /// Sets the slot that follows a slot.
    #[inline(always)]
    pub fn set_next(&mut self, slot: BucketSlot, next: BucketSlot) {
        self.links[usize::from(slot)].next = next;
    }

    /// A slot's frame and its key; the key is 0 if the frame was not looked up yet.
    #[inline(always)]
    pub fn frame(&self, slot: BucketSlot) -> (FrameHash, FrameId) {
        let link = &self.links[usize::from(slot)];
        (link.key, link.frame)
    }

    /// Sets the frame of a slot's code.
    pub fn set_frame(&mut self, slot: BucketSlot, key: FrameHash, frame: FrameId) {
        let link = &mut self.links[usize::from(slot)];
        (link.key, link.frame) = (key, frame);
    }

    /// The code in a slot; 0 if it is empty.
    pub fn code(&self, slot: BucketSlot) -> u64 {
        self.aside[usize::from(slot)].code
    }

    /// Puts a code into a slot.
    pub fn set_code(&mut self, slot: BucketSlot, code: u64, age: u16) {
        self.links[usize::from(slot)].key = 0;
        let aside = &mut self.aside[usize::from(slot)];
        (aside.code, aside.code_age) = (code, age);
    }

    /// The number of losses before the code of a slot was stored.
    pub fn code_age(&self, slot: BucketSlot) -> u16 {
        self.aside[usize::from(slot)].code_age
    }

    /// The number of losses before the successor of a slot was stored.
    pub fn next_age(&self, slot: BucketSlot) -> u16 {
        self.aside[usize::from(slot)].next_age
    }

    /// Sets the number of losses before the successor of a slot was stored.
    pub fn set_next_age(&mut self, slot: BucketSlot, age: u16) {
        self.aside[usize::from(slot)].next_age = age;
    }

    /// The bucket that followed a bucket the last time, and the code in the bucket; 0 if it is empty.
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
        // A new code resets the frame.
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
