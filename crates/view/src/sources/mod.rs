//! The sources that the viewer shows: files, traces, live processes. Each kind becomes a [`Loaded`], and endpoints read only that.

mod file;
mod files;
mod fleet;
mod image;
mod list;
mod live;
mod loaded;
mod processes;
mod special;
mod stamp;
mod walked;

pub use file::{FileKind, OpenedFile, Opener};
pub use files::Files;
pub use fleet::{LakeOpener, ViewedFleet};
pub use list::{Sources, ViewedSource};
pub use live::{LiveProcess, LiveProcesses, LiveSnapshot, LiveTimeline, OwnSnapshot, ProcessKey, TakenLook};
pub use loaded::Loaded;
pub use special::{Plain, Special};
