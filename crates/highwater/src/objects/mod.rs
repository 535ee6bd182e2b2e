//! Objects that report their creation and their drop: find out which types leak, in native programs and in WASM modules.
//!
//! Each tracked object has an id. It reports its creation (size, type, source location) and its drop, and `highwater objects` matches them:
//!
//! ```
//! use highwater::Tracked;
//!
//! #[derive(Tracked)]
//! struct Proof {
//!     points: Vec<[u8; 32]>,
//! }
//!
//! impl Drop for Proof {
//!     fn drop(&mut self) {} // stays as it is
//! }
//!
//! fn prove() -> Tracked<Proof> {
//!     Proof { points: vec![[0; 32]; 40] }.tracked() // this line is the place that made it
//! }
//!
//! # let folder = std::env::temp_dir().join(format!("highwater-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("objects.log");
//! highwater::objects::to_file(&path)?;
//! highwater::objects::measure("start");
//! let kept = prove();
//! drop(prove());
//! highwater::objects::measure("after two proofs");
//! highwater::objects::off();
//! let log = std::fs::read_to_string(&path)?;
//! assert_eq!(log.lines().filter(|line| line.starts_with("@ ALLOCATE 1304 ")).count(), 2);
//! assert_eq!(log.lines().filter(|line| line.starts_with("@ DROP 1304 ")).count(), 1);
//! # drop(kept);
//! # std::fs::remove_dir_all(&folder)?;
//! # std::io::Result::Ok(())
//! ```
//!
//! Then run `highwater objects objects.log`. `docs/objects.md` is the guide, `docs/objlog.md` the format of the log.
//!
//! If lines are too slow, [`to_store`] records the same in an [`EventStore`](crate::event_store::EventStore): no text at all, and a `.hw` file that
//! every command reads.
//!
//! On `wasm32-unknown-unknown`, `to_console` writes to the JavaScript console: with the feature `wasm-bindgen` through the glue that wasm-bindgen makes, else
//! through the import `highwater.console(pointer, length)`, which the host provides. Several threads may share a memory.

#[cfg(not(target_family = "wasm"))]
mod store_sink;

pub use highwater_tracked::*;
#[cfg(not(target_family = "wasm"))]
pub use store_sink::to_store;
