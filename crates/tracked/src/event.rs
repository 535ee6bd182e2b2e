//! Events of objects, as sinks receive them.

use std::panic::Location;

/// An event of an object or of the program.
#[derive(Clone, Copy, Debug)]
pub enum ObjectEvent<'a> {
    /// An object was created.
    Allocate {
        /// The object's id. Ids come from one sequence that starts at 0.
        id: u64,
        /// Its size, heap included.
        bytes: usize,
        /// Its type.
        type_name: &'static str,
        /// The source location that created it.
        location: &'static Location<'static>,
        /// The variable that holds it, if [`track!`](crate::track) named one.
        variable: Option<&'static str>,
    },
    /// An object was dropped.
    Drop {
        /// The object's id.
        id: u64,
        /// Its size now.
        bytes: usize,
        /// The size reported last, if it differs from `bytes`: the object has grown or shrunk since.
        reported: Option<usize>,
        /// Its type.
        type_name: &'static str,
        /// True if the thread that created the object drops it, and no other thread reported a resize. Then no event of another thread has to come
        /// before this one.
        same_thread: bool,
    },
    /// The size of an object has changed.
    Resize {
        /// The object's id.
        id: u64,
        /// Its size now.
        bytes: usize,
        /// Its type.
        type_name: &'static str,
    },
    /// The size of the program's memory as a whole.
    Memory {
        /// The size in bytes.
        bytes: u64,
        /// A name for this instant; often empty.
        label: &'a str,
    },
    /// The program names this instant.
    Mark {
        /// Its name.
        label: &'a str,
    },
}
