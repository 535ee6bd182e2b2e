//! Walks every byte of a heap.

use super::heap::Motoko;
use super::kind::MotokoKind;
use crate::damage::Damages;
use crate::lens::HeapArea;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The size of a partition of a classical heap with an incremental collector.
const NARROW_PARTITION: u64 = 32 << 20;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// Walks the heap in order: objects, free space, and gaps.
    pub(super) fn walk_ranges(&self, mut visit: impl FnMut(HeapArea), damage: &mut Damages) {
        for range in &self.ranges {
            self.walk_range(range, &mut visit, damage);
        }
    }

    fn walk_range(&self, range: &Range<u64>, visit: &mut impl FnMut(HeapArea), damage: &mut Damages) {
        let mut at = range.start;
        while at < range.end {
            let Some((kind, moved, bytes)) = self.object_at(at, range.end) else {
                at = self.walk_gap(at, range.end, visit, damage);
                continue;
            };
            if moved {
                self.has_moved.store(true, Ordering::Relaxed);
            }
            let shown = if moved { MotokoKind::Forwarded } else { kind };
            visit(HeapArea { at, bytes, kind: shown as u8, is_object: !kind.is_free() && !moved });
            at += bytes;
        }
    }

    /// The object at an address: its kind, whether it was moved elsewhere, and its length with padding.
    #[inline]
    fn object_at(&self, at: u64, end: u64) -> Option<(MotokoKind, bool, u64)> {
        let (kind, moved) = self.header_at(at)?;
        let bytes = self.words(at, kind)? * Self::WORD;
        if bytes > end - at {
            return None;
        }
        if WIDE && matches!(kind, MotokoKind::Nat64 | MotokoKind::Int64 | MotokoKind::Float) {
            return Some((kind, moved, bytes + self.padding(at + bytes, end)));
        }
        Some((kind, moved, bytes))
    }

    /// The padding after a box of 64 bits: compiled code allocates one word more than it needs, the collector does not.
    pub(super) fn padding(&self, after: u64, end: u64) -> u64 {
        if after >= end || self.header_at(after).is_some() { 0 } else { Self::WORD }
    }

    /// Skips bytes that are not an object, up to the next object.
    fn walk_gap(&self, at: u64, end: u64, visit: &mut impl FnMut(HeapArea), damage: &mut Damages) -> u64 {
        let mut next = at + Self::WORD;
        while next < end && !self.is_sound(next, end) {
            next += Self::WORD;
        }
        let bytes = next.min(end) - at;
        let kind = self.kind_of_gap(at, bytes, end);
        if kind == MotokoKind::Gap {
            damage.note(at, bytes, self.fault_at(at, bytes));
        }
        visit(HeapArea { at, bytes, kind: kind as u8, is_object: false });
        at + bytes
    }

    /// Whether a walk can continue here. If headers have only one word, the next two objects must be sound as well.
    fn is_sound(&self, at: u64, end: u64) -> bool {
        let after = |at: u64| self.object_at(at, end).map(|(_, _, bytes)| at + bytes);
        let Some(second) = after(at) else { return false };
        if self.header == 2 {
            return true;
        }
        let ends_or = |at: u64| if at >= end { Some(at) } else { after(at) };
        ends_or(second).and_then(ends_or).is_some()
    }

    fn kind_of_gap(&self, at: u64, bytes: u64, end: u64) -> MotokoKind {
        // The struct of the collector's mark stack overlies the first two words of a block of five.
        if WIDE && bytes == 40 && self.nth(at, 2) == 16 {
            return MotokoKind::MarkStack;
        }
        let to_end_of_partition = !WIDE && (at + bytes).is_multiple_of(NARROW_PARTITION) && at + bytes < end;
        if to_end_of_partition && self.header == 2 && self.image.slice(at, bytes).iter().all(|&byte| byte == 0) {
            return MotokoKind::Unused;
        }
        MotokoKind::Gap
    }

    fn fault_at(&self, at: u64, bytes: u64) -> String {
        let contents = self.image.slice(at, bytes);
        if contents.iter().all(|&byte| byte == 0) {
            return "zeros where objects should be".to_owned();
        }
        match self.header_at(at) {
            Some((kind, _)) => format!("an object ({}) that does not fit", kind.name()),
            None => "no object begins here".to_owned(),
        }
    }
}
