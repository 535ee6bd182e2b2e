//! Memory images: a file with every byte of a program's memory, whose holes take no memory, and *lenses* that find the objects in it.
//!
//! * [`Image`] holds the bytes. [`WasmModule`] and [`Sidecar`] add facts that the bytes do not contain: names, and start addresses.
//! * [`find_heap`] tries all [`LENSES`] and returns an [`ImageHeap`]: a Motoko heap of 64 or 32 bits ([`motoko`](lenses::motoko)), or the heap of dlmalloc in
//!   the memory of a C or Rust module ([`dlmalloc`](lenses::dlmalloc)).
//! * [`ImageHeap::examine`] analyses a heap: a [`survey()`] walks every byte and marks the live objects; the [`Graph`] holds their dominators and retained
//!   sizes.
//! * [`ImageHeap::view`] shows one object, [`compare()`] the changes between images, [`HeapAbilities::edit`] the bytes to write to change a value.
//! * [`ImageHeap::snapshot`] makes a snapshot of a heap, for every other view and command.
//!
//! All functions give a result for any bytes: damage is located and counted as [`Damages`]. Memory use is the image's own data, some 24 bytes for each live
//! object, and two bits for each word of the heap. An image that is shortened or written to while it is read is an error.
//!
//! ```
//! use highwater_image::{Damages, Image, Sidecar, find_heap};
//!
//! let image = Image::from_bytes(vec![0; 1 << 20]);
//! let mut damage = Damages::default();
//! match find_heap(&image, None, &Sidecar::default(), &mut damage) {
//!     Ok(heap) => println!("{}: {} live objects", heap.name(), heap.examine(10).live().0),
//!     Err(no_heap) => println!("{no_heap}"),
//! }
//! ```
//!
//! # Design
//!
//! ```text
//!  file ─▶ Image (read) ─▶ find_heap ─▶ ImageHeap ─▶ survey ─▶ Graph ─▶ heap, show, diff, edit
//!                             │ LENSES: motoko64, motoko32, dlmalloc │ order, dominators, retained
//!           module, sidecar ──┘                                      └─▶ ImageSnapshot ─▶ every other command
//! ```
//!
//! A `Lens` walks a heap, knows its roots, and returns the references of an object one by one; code that visits objects is generic and compiled for each
//! lens. `ImageHeap` is implemented for every lens and hides which one it is: no code outside of a lens's folder names it. An object is identified by its
//! address; nothing is copied out of the image.
//!
//! * *The file is read, not mapped*: a file that is shortened meanwhile is an error, while with a mapping a signal would end the process. Holes are not
//!   read and take no memory; the walk visits all other bytes anyway.
//!
//! * *The walk is checked against the size that the heap itself states.* Bytes that are not an object are skipped up to the next sound object, and counted.
//!   So nothing is lost silently, and damage does not stop the walk.
//! * *Objects are found by a bitmap*, one bit per word, and numbered by counting bits: two and a half bits per word instead of a table from addresses to
//!   numbers.
//! * *Marking comes first, in no particular order* (last in, first out, which follows the order in which programs allocate; nearest first was three times
//!   as slow). Then a depth-first search numbers the live objects. Numbering while marking would need a number for every garbage object.
//! * *Objects without references get numbers from the other end.* They are half of all objects, and the dominator algorithm never sees them; their
//!   dominator is the common dominator of their referrers.
//! * *Dominators* are computed by semidominators and nearest common ancestors (semi-NCA), on arrays of 32-bit numbers, with edges re-read from the image.
//!   Jump pointers bound the step that is quadratic on graphs made for it. An object that a root refers to directly has no other dominator, so edges to it
//!   (most of a heap's edges: constants, names of fields) are not even stored.
//! * *The elements of the array of static variables are roots*, instead of objects that the array dominates: so each variable has its own retained size.
//! * *The retained size of a shape* leaves out objects below another object of the same shape, in one pass through the dominator tree.
//! * *Variables get their names from code*: the function that saves stable variables loads each one and stores it into a field whose name is known. Only a
//!   hundred bytes of WASM are read for it; no engine is needed. The hashes in this code are compared with those in the image: this detects the module of
//!   another program.
//! * *A dlmalloc heap is accepted only as a whole*: neighbours must agree on their flags, free chunks on their sizes, and all must lead to the top. This
//!   check is strong enough to find heaps without a module.
//!
//! Unsafe code is in `image.rs` (a prefetch) and `large.rs` (advice for large pages).
#![deny(unsafe_code)]

mod beside;
mod bitmap;
pub mod canister;
mod chunks;
mod compare;
mod damage;
pub mod dumps;
mod edit;
mod examine;
mod graph;
mod guess;
mod heap;
mod highlights;
mod image;
mod large;
mod lens;
pub mod lenses;
mod parts;
mod path;
mod paths;
mod shapes;
mod sidecar;
mod snapshot;
mod survey;
mod view;
pub mod wasm;

pub use beside::open_beside_with;
pub use bitmap::Bitmap;
pub use chunks::{ChunkFigures, ChunkSizeClass};
pub use compare::{
    ComparedImage, Comparison, DifferentHeaps, GrownObject, LiveObjects, NewObjects, RootChange, ShapeChange,
    UnmatchedObjects, compare,
};
pub use damage::Damages;
pub use dumps::{DUMPS, DumpError, DumpHeap, DumpKind, DumpSource, recognize_dump};
pub use edit::{ImageEdit, Patch, write_changed};
pub use examine::{Examination, Waste};
pub use graph::{Graph, GraphNode, ShapeFigures};
pub use guess::{Guess, guess};
pub use heap::{FieldValue, HeapAbilities, HeapError, ImageHeap, RegionObject};
pub use highlights::{Highlight, HighlightRow};
pub use image::Image;
pub use lens::{HeapArea, Lens, Located, Root, RootName};
pub use lenses::{LENSES, LensKind, NoHeap, find_heap};
pub use parts::ImageParts;
pub use path::{ObjectPath, PathStep};
pub use paths::{Referrer, Referrers};
pub use shapes::{ShapeId, Shapes};
pub use sidecar::{Sidecar, SidecarError, SidecarFault, SystemState, hexadecimal};
pub use snapshot::ImageSnapshot;
pub use survey::{KindFigures, Largest, Survey, survey};
pub use view::ObjectView;
pub use wasm::{WasmError, WasmModule};
