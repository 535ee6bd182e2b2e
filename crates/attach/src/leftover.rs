//! What an earlier attach left in a process. Nothing of it is believed before magic, version and all numbers have been checked.

use crate::mappings::AddressSpace;
use crate::plain::{PlainWords, from_bytes};
use crate::target_memory::TargetMemory;
use highwater_shm::attach_v1::{
    AttachHeader, AttachPage, HEADER_MAGIC, Hook, IMAGE_MAGIC, ImageHead, MODE_OFF, MOST_HOOKS, MOST_ISLANDS,
    OBJECT_NAME, SLOT_PROBES, THREAD_SLOTS, THREADS, ThreadSlot, VERSION, slot_home,
};
use std::mem::offset_of;
use std::ops::Range;

// SAFETY: `repr(C)`, words only; the sizes are asserted where it is defined.
unsafe impl PlainWords for ImageHead {}
// SAFETY: the same; its arrays are of such structures.
unsafe impl PlainWords for AttachHeader {}

/// An image in the target.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub head: ImageHead,
    pub header: Box<AttachHeader>,
    /// Where the image is.
    pub image: u64,
}

impl Leftover {
    /// All images with a complete header.
    pub(crate) fn find_all(memory: &TargetMemory, space: &AddressSpace) -> Vec<Self> {
        let candidates = space.mappings.iter().filter(|mapping| {
            mapping.executable && !mapping.writable && !mapping.shared && mapping.inode == 0 && mapping.name.is_empty()
        });
        candidates.filter_map(|mapping| Self::read(memory, mapping.start)).collect()
    }

    fn read(memory: &TargetMemory, image: u64) -> Option<Self> {
        let head: ImageHead = from_bytes(&memory.read_vec(image, size_of::<ImageHead>()).ok()?)?;
        if head.magic != IMAGE_MAGIC
            || head.header >= 1 << 32
            || head.data >= 1 << 32
            || head.switch >= 1 << 32
            || head.end >= 1 << 32
        {
            return None;
        }
        let header: AttachHeader =
            from_bytes(&memory.read_vec(image.checked_add(head.header)?, size_of::<AttachHeader>()).ok()?)?;
        if header.magic != HEADER_MAGIC
            || header.image != image
            || header.hook_count > MOST_HOOKS as u64
            || header.island_count > MOST_ISLANDS as u64
        {
            return None;
        }
        let sound =
            |hook: &Hook| hook.length > 0 && hook.length <= 16 && hook.address >= 4096 && hook.address < 1 << 47;
        header.hooks[..header.hook_count as usize].iter().all(sound).then(|| Self {
            head,
            header: Box::new(header),
            image,
        })
    }

    /// The hooks that were written, or were about to be.
    pub(crate) fn hooks(&self) -> &[Hook] {
        &self.header.hooks[..self.header.hook_count as usize]
    }

    /// Whether everything is as this version leaves it.
    pub(crate) fn is_known(&self) -> bool {
        self.head.version == VERSION && self.header.version == VERSION
    }

    pub(crate) fn switch(&self) -> u64 {
        self.image + self.head.switch
    }

    /// The islands that the target executes.
    fn islands(&self) -> impl Iterator<Item = Range<u64>> {
        self.header.islands[..self.header.island_count as usize]
            .iter()
            .filter(|&&island| island > 4096 && island < 1 << 47)
            .map(|&island| island..island + 4096)
    }

    /// Where a thread must not be when this is unmapped.
    pub(crate) fn code(&self) -> Vec<Range<u64>> {
        std::iter::once(self.image..self.image + self.head.data).chain(self.islands()).collect()
    }

    /// The object's mapping, if the process has it: a forked child has not.
    pub(crate) fn object(&self, space: &AddressSpace) -> Option<Range<u64>> {
        let name = OBJECT_NAME.to_str().unwrap_or_default();
        let mapping = space.at(self.header.shared)?;
        let bytes = self.header.shared_bytes;
        let is_object = mapping.shared
            && mapping.name.starts_with("/memfd:")
            && mapping.name.contains(name)
            && mapping.start == self.header.shared;
        (is_object && mapping.end - mapping.start == bytes).then_some(mapping.start..mapping.end)
    }

    /// What can be unmapped once no thread is in its code: image, islands, object; only what is mapped as it was left.
    pub(crate) fn mapped(&self, space: &AddressSpace) -> Vec<Range<u64>> {
        let is_code = |range: &Range<u64>| {
            space
                .at(range.start)
                .is_some_and(|mapping| mapping.executable && mapping.inode == 0 && mapping.start == range.start)
        };
        let image = self.image..self.image + self.head.end;
        std::iter::once(image).chain(self.islands()).filter(is_code).chain(self.object(space)).collect()
    }

    /// Whether hooks record at this moment, as far as the switch says.
    pub(crate) fn is_active(&self, memory: &TargetMemory) -> bool {
        memory.read_u64(self.switch()).is_ok_and(|mode| mode != MODE_OFF)
    }

    /// Functions whose entries jump to us.
    pub(crate) fn hooked_now(&self, memory: &TargetMemory) -> usize {
        self.hooks().iter().filter(|hook| memory.holds(hook.address, &hook.patched[..hook.length as usize])).count()
    }

    /// Where the slots of threads are, if the process has the object.
    pub(crate) fn slots(&self, space: &AddressSpace) -> Option<u64> {
        let object = self.object(space)?;
        let slots = object.start.checked_add(THREADS)?;
        (slots + (THREAD_SLOTS * size_of::<ThreadSlot>()) as u64 <= object.end).then_some(slots)
    }

    /// Whether any of the threads with these thread pointers has a frame of a hook on its stack, or a thread without a slot has.
    pub(crate) fn any_inside(
        &self,
        memory: &TargetMemory,
        space: &AddressSpace,
        mut pointers: impl Iterator<Item = u64>,
    ) -> bool {
        let Some(object) = self.object(space) else { return false };
        let Some(slots) = self.slots(space) else { return true };
        let unslotted = memory.read_u64(object.start + offset_of!(AttachPage, unslotted_frames) as u64);
        unslotted.map_or(true, |frames| frames != 0)
            || pointers.any(|pointer| depth_of(memory, slots, pointer) != Some(0))
    }
}

/// [`ThreadSlot::depth`] of the thread with this thread pointer; 0 if it has no slot, `None` if the slots cannot be read. Reads the slots in which it can be, one after the
/// other: threads may be stopped, and all slots are a mebibyte.
pub(crate) fn depth_of(memory: &TargetMemory, slots: u64, pointer: u64) -> Option<u64> {
    const SLOT_BYTES: u64 = size_of::<ThreadSlot>() as u64;
    for distance in 0..SLOT_PROBES {
        let index = slot_home(pointer).wrapping_add(distance) & (THREAD_SLOTS - 1);
        let words = memory.read_vec(slots + index as u64 * SLOT_BYTES, offset_of!(ThreadSlot, calls)).ok()?;
        match crate::elf::u64_at(&words, offset_of!(ThreadSlot, pointer))? {
            0 => return Some(0),
            owner if owner == pointer => return crate::elf::u64_at(&words, offset_of!(ThreadSlot, depth)),
            _ => (),
        }
    }
    Some(0)
}
