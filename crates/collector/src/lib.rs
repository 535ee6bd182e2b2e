//! The collector: a daemon that live processes register with, and that takes snapshots of them at any time.
pub mod protocol;
