//! A catalog that a log and the snapshots of it share.

use super::quiet::quietly;
use highwater_model::Catalog;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A catalog that outlives its log as long as a snapshot needs it. Entries are only ever added, so a snapshot's handles keep their meaning.
#[derive(Clone, Default)]
pub struct SharedCatalog(Arc<RwLock<Catalog>>);

impl SharedCatalog {
    /// Reads the catalog. Events that the allocator records on this thread meanwhile are dropped.
    pub fn read<T>(&self, read: impl FnOnce(&Catalog) -> T) -> T {
        quietly(|| read(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Changes the catalog; see [`read`](Self::read).
    pub fn change<T>(&self, change: impl FnOnce(&mut Catalog) -> T) -> T {
        quietly(|| change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner)))
    }

    /// True for two handles of the same catalog.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Catalog> for SharedCatalog {
    fn from(catalog: Catalog) -> Self {
        Self(Arc::new(RwLock::new(catalog)))
    }
}

impl fmt::Debug for SharedCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedCatalog")
    }
}
