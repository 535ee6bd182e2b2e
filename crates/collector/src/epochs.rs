//! The epochs that the records of a table have, and thereby the epochs that the next cut may use.

const EPOCHS: usize = 1 << 16;

/// A set of epochs.
#[derive(Debug)]
pub struct Epochs {
    seen: Box<[u64; EPOCHS / 64]>,
    /// All records were read since the set was empty.
    is_complete: bool,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { seen: Box::new([0; EPOCHS / 64]), is_complete: false }
    }
}

impl Epochs {
    /// Adds an epoch.
    #[inline(always)]
    pub fn see(&mut self, epoch: u16) {
        self.seen[usize::from(epoch) / 64] |= 1 << (epoch % 64);
    }

    /// Whether an epoch was added.
    pub fn has(&self, epoch: u16) -> bool {
        self.seen[usize::from(epoch) / 64] & 1 << (epoch % 64) != 0
    }

    /// Starts again with an empty, incomplete set.
    pub fn forget(&mut self) {
        self.seen.fill(0);
        self.is_complete = false;
    }

    /// Marks the set complete: all records were read.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Whether all records were read.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The number of epochs added.
    pub fn count(&self) -> u32 {
        self.seen.iter().map(|word| word.count_ones()).sum()
    }

    /// The next epoch after `last` that no record has; `None` if all are in use.
    pub fn next_after(&self, last: u16) -> Option<u16> {
        (1..EPOCHS as u32).map(|step| last.wrapping_add(step as u16)).find(|&epoch| epoch != 0 && !self.has(epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_epoch_is_free_and_never_0() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.next_after(0), Some(1));
        assert_eq!(epochs.next_after(u16::MAX), Some(1));
        epochs.see(1);
        epochs.see(2);
        assert_eq!(epochs.next_after(u16::MAX), Some(3));
        (1..=u16::MAX).for_each(|epoch| epochs.see(epoch));
        assert_eq!(epochs.next_after(7), None);
        epochs.forget();
        assert_eq!(epochs.next_after(7), Some(8));
    }
}
