//! Questions about the memory of a fleet, as SQL over a [lake](highwater_lake).
//!
//! ```text
//!  question ─▶ questions, scope: one SQL text ─▶ protocol: request ─▶ an engine's program ─▶ answer
//!                                   schema: views ──┘   └── files of the lake, whose footers were read first
//! ```
//!
//! # Design
//!
//! Highwater is no database. A question is a text in `sql/`, in a plain subset of SQL that DuckDB, Spark and others read alike ([`questions`]). An engine is a program
//! of its own, a child that gets one JSON line and answers one ([`protocol`]): its crashes and its memory are not ours, and this crate needs no engine to be built.
#![forbid(unsafe_code)]

mod duckdb;
mod engine;
mod error;
mod fleet_lake;
mod fleet_timeline;
pub mod label_filter;
mod library;
mod literal;
mod local_files;
mod part;
mod profile;
pub mod protocol;
pub mod questions;
pub mod schema;
mod scope;
mod slot_choice;
mod spark;
mod time;

pub use duckdb::{DUCKDB_PROGRAM, DuckDbProgram};
pub use engine::{EngineLimits, FleetEngine};
pub use error::FleetError;
pub use fleet_lake::{FleetAnswer, FleetLake};
pub use fleet_timeline::{FleetBand, FleetLabels, FleetTimeline, fleet_timeline};
pub use library::{LIBRARY_PACKAGE, LibraryFile, check_library, installed_library};
pub use part::{FleetPart, PartProgress};
pub use profile::{OTHER_SITES, ProfileSlots, kept_sites_line, profile, service_frame};
pub use protocol::EngineAnswer;
pub use scope::FleetScope;
pub use spark::{PYTHON_VARIABLE, SparkEngine};
pub use time::{TIME_FORMS, parse_age, parse_time, slot_in_words};
