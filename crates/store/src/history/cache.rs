//! A cache of values of any type, limited in bytes. The least recently used value is dropped first.

use rustc_hash::FxHashMap;
use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The least that a value counts as: its key, its slot and the entry itself take memory, too.
const LEAST_BYTES: usize = 4096;

/// A cache of values by type and key. A caller that asks for a value that another thread is making waits for it.
#[derive(Default)]
pub struct Cache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: FxHashMap<CacheKey, CacheEntry>,
    bytes: usize,
    /// Increases with each use.
    uses: u64,
}

type CacheKey = (TypeId, String);

struct CacheEntry {
    /// A `Slot<V>`.
    slot: Arc<dyn Any + Send + Sync>,
    /// 0 while the value is being made.
    bytes: usize,
    last_use: u64,
}

type Slot<V> = Mutex<Option<Arc<V>>>;

impl Cache {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of this type and key, made if it is not cached. `bytes` returns its size. All values together take at most `most_bytes`, but the
    /// latest is always kept.
    pub fn get<V: Any + Send + Sync, E>(
        &self,
        key: String,
        most_bytes: usize,
        make: impl FnOnce() -> Result<V, E>,
        bytes: impl FnOnce(&V) -> usize,
    ) -> Result<Arc<V>, E> {
        let key = (TypeId::of::<V>(), key);
        // The type is part of the key, so the slot has that type.
        let Ok(slot) = self.slot::<V>(&key).downcast::<Slot<V>>() else { return make().map(Arc::new) };
        let mut value = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &*value {
            return Ok(Arc::clone(value));
        }
        match make() {
            Ok(made) => {
                self.set_bytes(&key, bytes(&made).max(LEAST_BYTES), most_bytes);
                Ok(Arc::clone(value.insert(Arc::new(made))))
            }
            Err(error) => {
                let mut entries = self.entries();
                // A thread that waits for the slot makes the value itself.
                if entries.by_key.get(&key).is_some_and(|entry| entry.bytes == 0) {
                    entries.by_key.remove(&key);
                }
                Err(error)
            }
        }
    }

    fn slot<V: Any + Send + Sync>(&self, key: &CacheKey) -> Arc<dyn Any + Send + Sync> {
        let mut entries = self.entries();
        entries.uses += 1;
        let last_use = entries.uses;
        let new = || CacheEntry { slot: Arc::new(Slot::<V>::default()), bytes: 0, last_use };
        let entry = entries.by_key.entry(key.clone()).or_insert_with(new);
        entry.last_use = last_use;
        Arc::clone(&entry.slot)
    }

    fn set_bytes(&self, key: &CacheKey, bytes: usize, most_bytes: usize) {
        let mut entries = self.entries();
        if let Some(entry) = entries.by_key.get_mut(key) {
            entry.bytes = bytes;
            entries.bytes += bytes;
        }
        while entries.bytes > most_bytes {
            // A value that is being made has no size yet, and stays.
            let droppable = entries.by_key.iter().filter(|(other, entry)| entry.bytes > 0 && *other != key);
            let Some(oldest) = droppable.min_by_key(|(_, entry)| entry.last_use).map(|(other, _)| other.clone()) else {
                break;
            };
            entries.bytes -= entries.by_key.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_value_is_dropped_and_failures_are_not_kept() {
        let cache = Cache::default();
        let mut made = 0;
        let mut get = |key: u32| {
            let make = || {
                made += 1;
                Ok::<_, ()>(key * 2)
            };
            *cache.get(key.to_string(), 2 * LEAST_BYTES, make, |_| 4).unwrap()
        };
        assert_eq!((get(1), get(2), get(1), get(3), get(1), get(2)), (2, 4, 2, 6, 2, 4));
        // 1, 2, 3, and 2 again, which was dropped for 3.
        assert_eq!(made, 4);
        let failing = || Err::<u32, _>("no");
        assert_eq!(cache.get("9".to_owned(), 100_000, failing, |_| 1).unwrap_err(), "no");
        assert_eq!(*cache.get("9".to_owned(), 100_000, || Ok::<u32, ()>(5), |_| 1).unwrap(), 5);
        // Another type under the same key is another value.
        let text = cache.get("9".to_owned(), 100_000, || Ok::<_, ()>("five".to_owned()), String::len);
        assert_eq!(*text.unwrap(), "five");
    }
}
