//! The formats Highwater reads and writes beside its own recording, one module each.
//!
//! | module | reads | writes | for |
//! |---|---|---|---|
//! | [`pprof`] | | ✓ | `go tool pprof` and everything else that takes a gzipped `profile.proto` |
//! | [`otlp`] | | ✓ | OpenTelemetry's profiles |
//! | [`pyroscope`] | | ✓ | what Pyroscope's clients push: pprof with labels |
//! | [`folded`] | | ✓ | collapsed stacks, the input of every flame-graph tool |
//! | [`flamegraph`] | | ✓ | an interactive SVG |
//! | [`json`] | | ✓ | the documents of `--json`, names stable under `"schema": 2` |
//! | [`events`] | ✓ | ✓ | JSON lines with which any program in any language can feed Highwater |
//! | [`memtrace`] | ✓ | ✓ | sampled allocation traces of OCaml programs and MirageOS unikernels |
//! | [`objlog`] | ✓ | | lines about objects on a console, as WASM modules can write them |
//!
//! A writer takes a [`Snapshot`](highwater_model::Snapshot) and does not depend on its source; a reader gives [`Event`](highwater_model::Event)s and
//! does not depend on their consumer. Every writer's output depends on its input alone: the same snapshot gives the same bytes.
//!
//! ```
//! use highwater_formats::{events, folded};
//! use highwater_model::groups::Metric;
//! use highwater_model::{AddressLedger, Catalog, Snapshot};
//! use std::sync::Arc;
//!
//! let input = r#"{"event":"allocate","address":"0x10","size":64,"stack":["parse","main"]}"#;
//! let (mut catalog, mut ledger) = (Catalog::default(), AddressLedger::default());
//! let mut reader = events::EventLinesReader::new(input.as_bytes());
//! while let Some(line) = reader.next(&mut catalog) {
//!     if let events::EventLine::Event(event) = line.unwrap() {
//!         ledger.record(&event, &mut ());
//!     }
//! }
//! let snapshot = Snapshot {
//!     source: reader.source().clone(),
//!     at: ledger.accounts().last_time(),
//!     accounts: ledger.into_accounts(),
//!     catalog: Arc::new(catalog),
//! };
//! assert_eq!(folded::lines(&snapshot, Metric::Live, None).unwrap(), ["main;parse 64"]);
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "views")]
mod code_location;
#[cfg(feature = "views")]
pub mod events;
#[cfg(feature = "views")]
pub mod flamegraph;
#[cfg(feature = "views")]
pub mod folded;
#[cfg(feature = "views")]
pub mod heap_profile;
#[cfg(feature = "views")]
pub mod json;
pub mod memtrace;
#[cfg(feature = "views")]
pub mod objlog;
#[cfg(feature = "views")]
pub mod otlp;
#[cfg(feature = "views")]
pub mod pprof;
#[cfg(feature = "views")]
pub mod protobuf;
#[cfg(feature = "views")]
pub mod pyroscope;
#[cfg(all(test, feature = "views"))]
mod scene;
