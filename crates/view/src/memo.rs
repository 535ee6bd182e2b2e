//! A cache of answers, limited in bytes. The least recently used entry is dropped first.

use std::sync::{Arc, Mutex, PoisonError};

/// A cache of values by key. A caller that asks for a value that another thread is making waits for it.
pub struct Memo<K, V> {
    kept: Mutex<Vec<Kept<K, V>>>,
    most_bytes: usize,
}

struct Kept<K, V> {
    key: K,
    slot: Arc<Slot<V>>,
    bytes: usize,
}

type Slot<V> = Mutex<Option<Arc<V>>>;

impl<K: PartialEq + Clone, V> Memo<K, V> {
    /// Keeps at most `most_bytes`, but always the latest value.
    pub fn new(most_bytes: usize) -> Self {
        Self { kept: Mutex::default(), most_bytes }
    }

    /// The value, made if it is not cached; `bytes` returns its size.
    pub fn get<E>(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<V, E>,
        bytes: impl FnOnce(&V) -> usize,
    ) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let mut value = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &*value {
            return Ok(Arc::clone(value));
        }
        match make() {
            Ok(made) => {
                self.set_bytes(key, bytes(&made));
                Ok(Arc::clone(value.insert(Arc::new(made))))
            }
            Err(problem) => {
                drop(value);
                self.forget_if_empty(key, &slot);
                Err(problem)
            }
        }
    }

    fn slot(&self, key: &K) -> Arc<Slot<V>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = match kept.iter().position(|one| one.key == *key) {
            Some(at) => kept.remove(at),
            None => Kept { key: key.clone(), slot: Arc::default(), bytes: 0 },
        };
        let slot = Arc::clone(&latest.slot);
        kept.push(latest);
        slot
    }

    fn set_bytes(&self, key: &K, bytes: usize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = kept.iter_mut().find(|one| one.key == *key) {
            one.bytes = bytes;
        }
        let mut sum: usize = kept.iter().map(|one| one.bytes).sum();
        while sum > self.most_bytes {
            // A value that is being made has no size yet, and stays.
            let Some(oldest) = kept.iter().position(|one| one.bytes > 0 && one.key != *key) else { break };
            sum -= kept.remove(oldest).bytes;
        }
    }

    fn forget_if_empty(&self, key: &K, slot: &Arc<Slot<V>>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| one.key != *key || one.bytes > 0 || !Arc::ptr_eq(&one.slot, slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_is_too_much_and_failures_are_not_kept() {
        let memo: Memo<u32, u32> = Memo::new(10);
        let mut made = 0;
        let mut get = |key: u32| {
            *memo
                .get::<()>(
                    &key,
                    || {
                        made += 1;
                        Ok(key * 2)
                    },
                    |_| 4,
                )
                .unwrap()
        };
        assert_eq!((get(1), get(2), get(1), get(3), get(1), get(2)), (2, 4, 2, 6, 2, 4));
        // 1, 2, 3, and 2 again, which was dropped for 3.
        assert_eq!(made, 4);
        assert_eq!(memo.get(&9, || Err("no"), |_| 1).unwrap_err(), "no");
        assert_eq!(*memo.get::<()>(&9, || Ok(5), |_| 1).unwrap(), 5);
    }
}
