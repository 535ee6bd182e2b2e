//! Memtrace traces: real ones against what the reference reader says of them, and damaged ones.

mod damaged;
mod fixtures;
mod good;
mod tally;
mod written;
