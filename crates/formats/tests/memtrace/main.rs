//! Memtrace traces: real ones compared with the output of the reference reader, and damaged ones.

mod damaged;
mod fixtures;
mod good;
mod tally;
mod written;
