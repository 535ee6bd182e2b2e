//! Owners of shared values in a snapshot.

use super::types::{ActiveAllocation, MemorySnapshot};
use crate::event_name::Name;
use std::collections::BTreeMap;

/// The owners of the values of one type, in one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SharedOwners {
    /// The type of the owners: `alloc::sync::Arc<T>` or `alloc::rc::Rc<T>`.
    pub type_name: Name,
    /// The variable, if [`track!`](crate::track) named one.
    pub var_name: Option<Name>,
    /// How many owners are live.
    pub owners: usize,
}

fn is_owner(block: &ActiveAllocation) -> bool {
    let is_pointer = |name: &Name| name.starts_with("alloc::sync::Arc<") || name.starts_with("alloc::rc::Rc<");
    block.size == 0 && block.type_name.as_ref().is_some_and(is_pointer)
}

impl MemorySnapshot {
    /// The live owners of shared values ([`Shared`](crate::Shared)) by type and variable: most owners first. Each is a block without bytes, whose stack
    /// is the line that made it.
    ///
    /// ```
    /// use highwater::event_store::EventStore;
    /// use highwater::snapshot::SnapshotEngine;
    /// use highwater::{objects, track};
    /// use std::sync::Arc;
    ///
    /// let store = Arc::new(EventStore::new());
    /// objects::to_store(Arc::clone(&store));
    /// track!(let config = Arc::new(vec![0u8; 1000]));
    /// let worker = config.clone();
    /// objects::off();
    ///
    /// let snapshot = SnapshotEngine::new(store).build_snapshot();
    /// let owners = &snapshot.owners()[0];
    /// assert_eq!((owners.var_name.as_deref(), owners.owners), (Some("config"), 2));
    /// assert_eq!(snapshot.current_memory(), 16 + 24 + 1000); // the counters, the Vec and its bytes: once
    /// # drop(worker);
    /// ```
    pub fn owners(&self) -> Vec<SharedOwners> {
        let mut counts: BTreeMap<[&str; 2], SharedOwners> = BTreeMap::new();
        for block in self.active_allocations.values().filter(|block| is_owner(block)) {
            let Some(type_name) = &block.type_name else { continue };
            let key = [type_name, block.var_name.as_deref().unwrap_or_default()];
            let nothing = || SharedOwners { type_name: type_name.clone(), var_name: block.var_name.clone(), owners: 0 };
            counts.entry(key).or_insert_with(nothing).owners += 1;
        }
        let mut owners: Vec<SharedOwners> = counts.into_values().collect();
        owners.sort_by_key(|one| std::cmp::Reverse(one.owners));
        owners
    }
}
