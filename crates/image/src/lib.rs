//! Memory images: every byte of a program's memory in a file, of which holes take no memory, and *lenses* that find the objects in it.
//!
//! * [`Image`] is the bytes. [`Module`] and [`Sidecar`] are what is known besides: names, and where things begin.
//! * [`Heap::find`] finds the lens that fits, by content: a Motoko heap of 64 or 32 bits ([`motoko`]), or the heap that dlmalloc keeps in the memory of a
//!   C or Rust module ([`dlmalloc`]).
//! * [`Examination`] looks through a heap: a [`survey()`] walks every byte and marks what is live; the [`Graph`] says who keeps what.
//! * [`view()`] shows one object, [`compare()`] what changed between images, [`change()`] what must be written to change a value.
//! * [`ImageSnapshot`] makes a snapshot of it, for every view that there is.
//!
//! Whatever the bytes are, everything has an answer: what is wrong is located and counted as [`Damages`]. Memory is the image's own data, some 24 bytes for each live
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
