//! What happens to objects, as sinks are told.

use std::panic::Location;

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum ObjectEvent<'a> {
    /// An object was born.
    Allocate {
        /// Which one: ids come from one sequence, from 0 on.
        id: u64,
        /// Its size, heap included.
        bytes: usize,
        /// Its type.
        type_name: &'static str,
        /// The place that made it.
        place: &'static Location<'static>,
    },
    /// An object was dropped.
    Drop {
        /// Which one.
        id: u64,
        /// Its size now.
        bytes: usize,
        /// The size that was told last, if that is another: it grew or shrank since.
        told: Option<usize>,
        /// Its type.
        type_name: &'static str,
        /// True if the thread that made it drops it: nobody else need be heard before.
        same_thread: bool,
    },
    /// An object has another size.
    Resize {
        /// Which one.
        id: u64,
        /// Its size now.
        bytes: usize,
        /// Its type.
        type_name: &'static str,
    },
    /// What the program's memory is as a whole.
    Memory {
        /// How large.
        bytes: u64,
        /// What this instant is called; often nothing.
        label: &'a str,
    },
    /// The program names this instant.
    Mark {
        /// Its name.
        label: &'a str,
    },
}
