//! Incoming streams: their formats, their files and their progress.

mod arrival;
mod board;
mod file_name;
mod incoming;
mod packets;
mod quota;
mod target;

pub use arrival::{Arrival, Interrupts, receive};
pub use board::Board;
pub use incoming::Incoming;
pub use quota::{Admission, Claim, Quota};
pub use target::Target;
