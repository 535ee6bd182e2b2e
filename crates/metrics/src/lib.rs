//! The metrics endpoint of a collector: `/metrics` for Prometheus, and `/debug/pprof/heap` for `go tool pprof`.
//!
//! ```text
//!  Prometheus ── GET /metrics ──▶ MetricsEndpoint ─▶ Monitor ─▶ MetricsSource ─▶ the collector's socket
//!  go tool pprof ── GET /debug/pprof/heap?pid=N ──┘      └─▶ /proc: resident memory, limits, environment
//! ```
//!
//! # Design
//!
//! **A client like any other.** The endpoint asks the collector over its socket. The collector answers on its worker threads, so a scrape never holds up its main loop. The
//! command runs the endpoint in a process of its own: names come from debug files, which can be large or damaged, and the collector, which lives for months, reads
//! none. If the endpoint fails, the collector starts it again.
//!
//! **Old memory.** Totals cannot tell load from a leak: both rise. Bytes in blocks that have survived for half an hour can. To count them, the collector makes a cut and reads
//! the whole table (some nanoseconds a block), so the endpoint requests it at most once in [`MetricsOptions::scan_every`], and only when it is scraped.
//!
//! **Bounded cardinality.** Every series costs the user's Prometheus memory. Sites are off by default. With them, each site and each process keeps its series for a minute at least,
//! the rest of a process is one series (`site="other"`), and a host has at most [`MOST_SITE_SERIES`].
//!
//! **Hostile clients.** Every user of the machine can connect to a port. Connections, heads and times are bounded, and only `GET` and `HEAD` are answered. A page in a browser cannot read an answer,
//! nor cause work: requests that a page sends are refused, and so are names in `Host` that could be made to mean this machine.
#![forbid(unsafe_code)]

mod connections;
mod endpoint;
mod labels;
mod monitor;
mod negotiation;
mod page;
mod pprof;
mod series;
mod sites;
mod source;

pub use endpoint::MetricsEndpoint;
pub use labels::ProcessLabels;
pub use monitor::MetricsOptions;
pub use sites::MOST_SITE_SERIES;
pub use source::{MetricsSource, SiteBytes, SiteFunctions, SourceError};
