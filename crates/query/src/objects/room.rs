//! The heap's room from images of the memory: how much of it is in use, and how much is free.

use crate::error::QueryError;
use highwater_formats::objlog::{HeapRoom, HeapRooms, ImageInstant, MemoryGrowth};
use highwater_input::image::{ExaminedHeap, ImageFile};
use std::path::PathBuf;

/// An image of the memory that a log is about.
#[derive(Clone, Debug)]
pub struct MemoryImage {
    /// The image's file.
    pub path: PathBuf,
    /// The heap in it.
    pub room: HeapRoom,
    /// When it was taken.
    pub instant: ImageInstant,
}

/// The room of the heap in an image.
pub fn heap_room(file: &ImageFile, examined: &ExaminedHeap<'_>) -> Result<HeapRoom, QueryError> {
    let unfit = |why: String| QueryError::Failed(format!("{}: {why}", file.path().display()));
    let only = "the heap's free room is known only of the memory of a WASM module with dlmalloc (Rust, C, C++)";
    let Some(image) = file.image() else {
        return Err(unfit(format!("a heap dump has no free room; {only}")));
    };
    let Some(figures) = examined.heap.chunk_figures() else {
        return Err(unfit(format!("its heap is that of {}; {only}", examined.heap.name())));
    };
    let (used_chunks, used_bytes) = figures.used();
    let free_chunks: u64 = figures.histogram.iter().map(|class| class.free).sum();
    Ok(HeapRoom {
        memory_bytes: image.len(),
        heap_bytes: examined.heap.stated_bytes().unwrap_or_default(),
        used_chunks,
        used_bytes,
        free_pieces: free_chunks + u64::from(figures.top_bytes > 0),
        free_bytes: figures.free_bytes + figures.top_bytes,
        largest_free: figures.largest_free.max(figures.top_bytes),
    })
}

/// Puts images in their places: one by the size of its memory, two in the order in which they are given.
pub fn place_images(rooms: Vec<(PathBuf, HeapRoom)>, growth: Option<&MemoryGrowth>) -> Vec<MemoryImage> {
    let is_pair = rooms.len() > 1;
    let instant = |number: usize, room: &HeapRoom| match (is_pair, number) {
        (true, 0) => ImageInstant::Start,
        (true, _) => ImageInstant::End,
        (false, _) => ImageInstant::of(room, growth),
    };
    let placed = rooms.into_iter().enumerate();
    placed.map(|(number, (path, room))| MemoryImage { instant: instant(number, &room), path, room }).collect()
}

/// The heap at both ends of the growth, as far as images show it.
pub(super) fn rooms(images: &[MemoryImage]) -> HeapRooms {
    let at = |instant| images.iter().find(|image| image.instant == instant).map(|image| image.room);
    HeapRooms { start: at(ImageInstant::Start), end: at(ImageInstant::End) }
}
