//! The sources that the viewer shows: files, traces, live processes. Each kind becomes a [`Loaded`], and queries read only that.

mod file;
mod instants;
mod list;
mod live;
mod loaded;
mod made_once;
mod moment;
mod special;
mod stamp;

pub use file::{FileKind, OpenedFile, Opener};
pub use instants::Between;
pub use list::{Source, Sources};
pub use live::{Collector, LiveProcess};
pub use loaded::{LONG, Loaded};
pub use moment::Moment;
pub use special::{Plain, Special};
pub use stamp::Stamp;
