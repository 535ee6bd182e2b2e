//! Memory images: every byte of a program's memory in a file, mapped rather than loaded, and *lenses* that find the objects in it.
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
pub use damage::{Damage, Damages};
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
