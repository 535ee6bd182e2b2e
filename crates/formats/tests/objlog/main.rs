//! Object logs: real ones whose truth is known, damaged ones, and what is no log at all.

mod fixtures;
mod growth;
mod hostile;
mod order;
