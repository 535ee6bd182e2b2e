//! One file per command, with its arguments and its help.

pub mod check;
pub mod collector;
pub mod completions;
pub mod connect;
pub mod diff;
pub mod export;
pub mod growth;
pub mod image;
pub mod import;
pub mod info;
pub mod leaks;
pub mod listen;
pub mod man;
pub mod objects;
pub mod ps;
pub mod record;
pub mod report;
mod report_window;
pub mod run;
pub mod set;
pub mod snapshot;
pub mod snapshots;
pub mod summary;
pub mod symbolize;
pub mod timeline;
pub mod view;
pub mod watch;
