//! One file per command: its arguments, its help, what it does.

pub mod check;
pub mod completions;
pub mod diff;
pub mod export;
pub mod import;
pub mod info;
pub mod leaks;
pub mod man;
pub mod record;
pub mod report;
pub mod symbolize;
pub mod timeline;
