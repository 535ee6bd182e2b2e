//! The room of a heap, as images of the memory show it. A log says what leaked and how far the memory grew; an image adds what lies in the heap and how much of
//! it is free, so that objects in reused room are no longer a riddle.

use super::memory::MemoryGrowth;
use super::trust::Explanation;

/// The chunks of a heap at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapRoom {
    /// The size of the whole memory.
    pub memory_bytes: u64,
    /// The size of the heap in it.
    pub heap_bytes: u64,
    /// Chunks that the program uses.
    pub used_chunks: u64,
    /// Their bytes, headers included.
    pub used_bytes: u64,
    /// Free chunks, and the rest at the end.
    pub free_pieces: u64,
    /// Their bytes.
    pub free_bytes: u64,
    /// The bytes of the largest of them.
    pub largest_free: u64,
}

/// The instant of an image, in relation to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageInstant {
    /// The first `MEMORY` line.
    Start,
    /// The last `MEMORY` line, or later; where the log has none, its end.
    End,
    /// Neither: the memory is smaller than at the last `MEMORY` line, and not as large as at the first.
    Other,
}

impl ImageInstant {
    /// The instant of a single image, by the size of the memory: it never shrinks.
    pub fn of(room: &HeapRoom, growth: Option<&MemoryGrowth>) -> Self {
        match growth {
            Some(growth) if room.memory_bytes >= growth.last_bytes => Self::End,
            Some(growth) if room.memory_bytes == growth.first_bytes => Self::Start,
            Some(_) => Self::Other,
            None => Self::End,
        }
    }

    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::Other => "other",
        }
    }
}

/// The heap at the two ends of the growth, as far as there are images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapRooms {
    /// At the first `MEMORY` line.
    pub start: Option<HeapRoom>,
    /// At the last `MEMORY` line, or later.
    pub end: Option<HeapRoom>,
}

/// A value that is not on the heap itself (on the stack, in a static) counts in the log, but not in a chunk. This much is no contradiction.
const OUTSIDE_BYTES: u64 = 1 << 16;

impl HeapRooms {
    /// Judges again what the log alone could not decide. `never_dropped` are the bytes born during the growth, `live` all that are live at its end.
    pub fn judge(&self, alone: Explanation, never_dropped: u64, live: u64) -> Explanation {
        let beyond = self.end.map_or(0, |end| live.saturating_sub(end.used_bytes));
        if beyond > OUTSIDE_BYTES {
            return Explanation::MoreThanInUse { excess: beyond };
        }
        let in_use = self.in_use_growth();
        match (alone, in_use) {
            (Explanation::NeedsFreeRoom { room }, _) if self.end.is_some() => Explanation::ReusedFreeRoom { room },
            (Explanation::NeedsFreeRoom { room }, _) => match self.start {
                Some(start) if room <= start.free_bytes => Explanation::ReusedFreeRoom { room },
                _ => alone,
            },
            // The free part of the growth needs no explanation.
            (Explanation::MostlyElsewhere { .. } | Explanation::Explained { .. }, Some(in_use)) => {
                Explanation::of_growth(never_dropped, in_use)
            }
            _ => alone,
        }
    }

    /// How far the chunks in use grew, if both images are there.
    pub fn in_use_growth(&self) -> Option<i128> {
        Some(i128::from(self.end?.used_bytes) - i128::from(self.start?.used_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(used_bytes: u64, free_bytes: u64) -> Option<HeapRoom> {
        let heap_bytes = used_bytes + free_bytes;
        Some(HeapRoom { memory_bytes: heap_bytes + 1000, heap_bytes, used_bytes, free_bytes, ..HeapRoom::default() })
    }

    const NEEDS: Explanation = Explanation::NeedsFreeRoom { room: 400_000 };

    #[test]
    fn more_than_the_growth_is_right_where_the_heap_holds_it() {
        let end = |used, free| HeapRooms { start: None, end: room(used, free) };
        assert_eq!(end(600_000, 5000).judge(NEEDS, 500_000, 500_000), Explanation::ReusedFreeRoom { room: 400_000 });
        assert_eq!(
            end(300_000, 900_000).judge(NEEDS, 500_000, 500_000),
            Explanation::MoreThanInUse { excess: 200_000 },
            "free room cannot hold live objects"
        );
        // A few values outside of the heap contradict nothing.
        assert_eq!(end(499_000, 0).judge(NEEDS, 500_000, 500_000), Explanation::ReusedFreeRoom { room: 400_000 });
    }

    #[test]
    fn room_that_was_free_at_the_start_could_be_reused() {
        let start = |free| HeapRooms { start: room(100_000, free), end: None };
        assert_eq!(start(400_000).judge(NEEDS, 1, 1), Explanation::ReusedFreeRoom { room: 400_000 });
        assert_eq!(start(399_999).judge(NEEDS, 1, 1), NEEDS);
    }

    #[test]
    fn with_both_images_the_growth_of_what_is_in_use_is_explained() {
        let both = HeapRooms { start: room(100_000, 0), end: room(300_000, 800_000) };
        let alone = Explanation::MostlyElsewhere { percent: 19, unexplained: 800_000 };
        assert_eq!(both.judge(alone, 190_000, 190_000), Explanation::Explained { percent: 95, unexplained: 10_000 });
        let shrunk = HeapRooms { start: room(300_000, 0), end: room(300_000, 64_000) };
        assert_eq!(shrunk.judge(alone, 2000, 2000), Explanation::NoGrowth);
    }

    #[test]
    fn the_size_of_the_memory_shows_when_an_image_was_taken() {
        let growth =
            MemoryGrowth { first_bytes: 1000, last_bytes: 3000, from_iteration: 1, to_iteration: 2, page_bytes: 1 };
        let at = |memory_bytes| ImageInstant::of(&HeapRoom { memory_bytes, ..HeapRoom::default() }, Some(&growth));
        assert_eq!(
            [at(1000), at(2000), at(3000), at(4000)],
            [ImageInstant::Start, ImageInstant::Other, ImageInstant::End, ImageInstant::End]
        );
        assert_eq!(ImageInstant::of(&HeapRoom::default(), None), ImageInstant::End);
    }
}
