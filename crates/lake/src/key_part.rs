//! Sets of keys with a bounded number of them in memory: what does not fit is for another pass over the files.

use std::hash::{BuildHasher, Hash, RandomState};

/// A part of all keys, by their hash. One that has too many is halved; the other half waits for a pass of its own.
#[derive(Clone, Debug)]
pub struct KeyPart {
    hasher: RandomState,
    mask: u64,
    bits: u64,
    most: usize,
}

/// Runs passes until each key was in the part of one of them. A pass may be given a part that it halves, and must then drop the keys that the part no longer has.
pub fn in_parts<E>(
    most: usize,
    mut pass: impl FnMut(&mut KeyPart, &mut Vec<KeyPart>) -> Result<(), E>,
) -> Result<(), E> {
    let mut waiting = vec![KeyPart { hasher: RandomState::new(), mask: 0, bits: 0, most: most.max(1) }];
    while let Some(mut part) = waiting.pop() {
        pass(&mut part, &mut waiting)?;
    }
    Ok(())
}

impl KeyPart {
    /// True if nothing was split off it: the first pass, as long as all keys fit.
    pub fn is_whole(&self) -> bool {
        self.mask == 0
    }

    /// The hash of a key of the part; `None` for one of another part.
    pub fn hash(&self, key: &impl Hash) -> Option<u64> {
        let hash = self.hasher.hash_one(key);
        (hash & self.mask == self.bits).then_some(hash)
    }

    /// Whether it has a key.
    pub fn has(&self, key: &impl Hash) -> bool {
        self.hash(key).is_some()
    }

    /// Whether it has a key with this hash.
    pub fn has_hash(&self, hash: u64) -> bool {
        hash & self.mask == self.bits
    }

    /// Halves the part if that many keys are too many. True if the keys of the other half are to be dropped.
    pub fn halve_if(&mut self, keys: usize, waiting: &mut Vec<Self>) -> bool {
        // With all bits in the mask a part has one hash, and its keys are the same.
        if keys <= self.most || self.mask == u64::MAX {
            return false;
        }
        let bit = self.mask.wrapping_add(1);
        let mask = self.mask | bit;
        waiting.push(Self { mask, bits: self.bits | bit, ..self.clone() });
        self.mask = mask;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_key_is_in_one_pass_and_none_has_more_than_fit() {
        for most in [1, 7, 100, 5000] {
            let (mut seen, mut passes) = (Vec::new(), 0);
            in_parts(most, |part, waiting| {
                let mut keys = HashSet::new();
                // Twice, as two tables have the same keys.
                for key in (0..1000u32).chain(0..1000) {
                    if part.has(&key) {
                        keys.insert(key);
                    }
                    while part.halve_if(keys.len(), waiting) {
                        keys.retain(|key| part.has(key));
                    }
                    assert!(keys.len() <= most);
                }
                passes += 1;
                seen.extend(keys);
                Ok::<(), ()>(())
            })
            .unwrap();
            seen.sort_unstable();
            assert_eq!(seen, (0..1000).collect::<Vec<u32>>(), "{most}");
            assert_eq!(passes == 1, most >= 1000, "{most}: {passes}");
        }
    }
}
