//! Memory images: a file with every byte of a program's memory, whose holes take no memory, and *lenses* that find the objects in it.
//!
//! * [`Image`] holds the bytes. [`Module`] and [`Sidecar`] add facts that the bytes do not contain: names, and start addresses.
//! * [`Heap::find`] finds the lens that fits, by content: a Motoko heap of 64 or 32 bits ([`motoko`]), or the heap of dlmalloc in the memory of a C or Rust
//!   module ([`dlmalloc`]).
//! * [`Examination`] analyses a heap: a [`survey()`] walks every byte and marks the live objects; the [`Graph`] holds their dominators and retained sizes.
//! * [`view()`] shows one object, [`compare()`] the changes between images, [`change()`] the bytes that must be written to change a value.
//! * [`ImageSnapshot`] makes a snapshot of a heap, for every other view and command.
//!
//! All functions give a result for any bytes: damage is located and counted as [`Damages`]. Memory use is the image's own data, some 24 bytes for each live
//! object, and two bits for each word of the heap. An image that is shortened or written to while it is read is an error.
//!
//! ```
//! use highwater_image::{Damages, Examination, Heap, Image, Sidecar};
//!
//! let image = Image::from_bytes(vec![0; 1 << 20]);
//! let mut damage = Damages::default();
//! match Heap::find(&image, None, &Sidecar::default(), &mut damage) {
//!     Ok(heap) => println!("{}: {} live objects", heap.name(), Examination::of(&heap, 10).live().0),
//!     Err(no_heap) => println!("{no_heap}"),
//! }
//! ```
//!
//! # Design
//!
//! ```text
//!  file ─▶ Image (read) ─▶ Heap::find ─▶ lens ─▶ survey ─▶ Graph ─▶ heap, show, diff, edit
//!                               │ motoko: wide, narrow          │ order, dominators, retained
//!           module, sidecar ────┘ dlmalloc                      └─▶ ImageSnapshot ─▶ every other command
//! ```
//!
//! A `Lens` walks a heap, knows its roots, and returns the references of an object one by one; all other code is generic and compiled for each lens. An
//! object is identified by its address; nothing is copied out of the image.
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

mod bitmap;
mod compare;
mod damage;
pub mod dlmalloc;
mod edit;
mod examine;
mod find;
mod graph;
mod guess;
mod image;
mod large;
mod lens;
mod module;
pub mod motoko;
mod path;
mod shapes;
mod sidecar;
mod snapshot;
mod survey;
mod view;
mod ways;

pub use bitmap::Bitmap;
pub use compare::{Comparison, Different, NewObjects, RootChange, ShapeChange, Side, compare};
pub use damage::Damages;
pub use edit::write_changed;
pub use examine::{Examination, Waste};
pub use find::{Heap, NoHeap};
pub use graph::{Graph, Node, ShapeFigures};
pub use guess::{Guess, guess};
pub use image::Image;
pub use lens::{Lens, Root, RootName, Stretch};
pub use module::{Module, NotAModule};
pub use path::{Path, PathStep};
pub use shapes::{ShapeId, Shapes};
pub use sidecar::Sidecar;
pub use snapshot::ImageSnapshot;
pub use survey::{KindFigures, Largest, Survey, survey};
pub use view::{Change, View, change, view};
pub use ways::{Referrer, Referrers};
