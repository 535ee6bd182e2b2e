//! Recording events.

mod event;
mod store;
mod tags;

pub use event::{MemoryEvent, MemoryEventType};
pub use highwater_store::{LogError as StoreError, Written};
pub(crate) use store::name_of;
pub use store::{EventStore, SharedEventStore};
