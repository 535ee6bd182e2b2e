//! Memory images: the documents of `highwater image`, which the viewer shows, too.

mod diff;
mod heap;
mod show;
mod stable;
mod treemap;

pub use diff::diff_document;
pub use heap::{ImageShape, heap_document, image_snapshot, largest, shapes};
pub use show::show_document;
pub use stable::{RegionOwner, StableMemory, StableRegion, stable_memory};
pub use treemap::treemap_document;
