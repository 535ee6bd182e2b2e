//! Object logs: real ones with known results, damaged ones, and input that is not a log.

mod fixtures;
mod growth;
mod hostile;
mod order;
