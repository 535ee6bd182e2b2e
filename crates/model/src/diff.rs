//! Comparing two snapshots: rows that are new, gone, larger or smaller.
//!
//! Rows are matched by what a person would call the same: the texts of a stack's frames (for code without a name, its offset in its module), a
//! thread's name or number, a type's name. Handles are not compared, so the snapshots may come from two files. Single allocations are matched by
//! number, which is meaningful only within one recording.

use crate::blocks::Block;
use crate::catalog::Catalog;
use crate::figures::Figures;
use crate::groups::{Addend, GroupBy, GroupKey, Keep, Metric, rows_named};
use crate::naming::Naming;
use crate::row_identity::{CatalogIdentities, RowIdentities, RowIdentity};
use crate::snapshot::Snapshot;
use crate::stack_numbers::TooManyCalls;
use rustc_hash::FxHashMap;

/// How a row changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing of it was live before.
    Came,
    /// Nothing of it is live now.
    Went,
    /// More bytes are live than before.
    Grew,
    /// Fewer bytes are live than before.
    Shrank,
    /// The live bytes are the same as before.
    Same,
}

/// A row of both sides of a comparison. At least one side is there.
#[derive(Clone, Debug)]
pub struct Delta<T = Figures> {
    /// The row on the earlier side.
    pub before: Option<(GroupKey, T)>,
    /// The row on the later side.
    pub after: Option<(GroupKey, T)>,
}

impl<T: Addend> Delta<T> {
    /// The amounts on both sides; zero where there is no such row.
    pub fn amounts(&self) -> [T; 2] {
        [&self.before, &self.after].map(|side| side.as_ref().map_or_else(T::default, |(_, amount)| *amount))
    }

    /// The key of the row, and the side whose catalog its handles refer to: the later one, if the row is there.
    pub fn key(&self) -> Option<(usize, &GroupKey)> {
        let side = |at: usize, side: &'_ Option<(GroupKey, T)>| side.as_ref().map(|_| at);
        let at = side(1, &self.after).or(side(0, &self.before))?;
        [&self.before, &self.after][at].as_ref().map(|(key, _)| (at, key))
    }
}

impl Delta {
    /// The figures before; zero where there was no such row.
    pub fn before_figures(&self) -> Figures {
        self.before.as_ref().map_or_else(Figures::default, |(_, figures)| *figures)
    }

    /// The figures after; zero where there is no such row.
    pub fn after_figures(&self) -> Figures {
        self.after.as_ref().map_or_else(Figures::default, |(_, figures)| *figures)
    }

    /// How many more bytes are live.
    pub fn live_bytes(&self) -> i128 {
        self.after_figures().live().rounded_difference(self.before_figures().live())
    }

    /// How many more blocks are live.
    pub fn live_blocks(&self) -> i128 {
        i128::from(self.after_figures().live_blocks()) - i128::from(self.before_figures().live_blocks())
    }

    /// How it changed.
    pub fn change(&self) -> Change {
        match (self.before_figures().live_blocks(), self.after_figures().live_blocks()) {
            (0, 0) => Change::Same,
            (0, _) => Change::Came,
            (_, 0) => Change::Went,
            _ if self.live_bytes() > 0 => Change::Grew,
            _ if self.live_bytes() < 0 => Change::Shrank,
            _ => Change::Same,
        }
    }
}

/// The rows of two snapshots, largest change first. Rows without any change in live bytes and blocks are left out.
///
/// Memory use is bounded by the rows, the names and the calls of both snapshots. Whole stacks are never stored.
pub fn diff_rows(before: &Snapshot, after: &Snapshot, by: GroupBy, keep: Keep<'_>) -> Result<Vec<Delta>, TooManyCalls> {
    diff_rows_named(before, after, by, keep, &Naming::default())
}

/// The same. `naming` decides to which function memory belongs.
pub fn diff_rows_named(
    before: &Snapshot,
    after: &Snapshot,
    by: GroupBy,
    keep: Keep<'_>,
    naming: &Naming,
) -> Result<Vec<Delta>, TooManyCalls> {
    let side =
        |snapshot| rows_named(snapshot, by, Metric::Live, keep, naming).into_iter().map(|row| (row.key, row.figures));
    let mut deltas = pair_rows([(&before.catalog, side(before)), (&after.catalog, side(after))])?;
    deltas.retain(|delta| delta.live_bytes() != 0 || delta.live_blocks() != 0);
    deltas.sort_by_key(|delta| std::cmp::Reverse((delta.live_bytes().abs(), delta.live_blocks().abs())));
    Ok(deltas)
}

/// Matches the rows of two sides.
pub fn pair_rows<T: Addend>(
    sides: [(&Catalog, impl IntoIterator<Item = (GroupKey, T)>); 2],
) -> Result<Vec<Delta<T>>, TooManyCalls> {
    let matched = match_rows(sides)?.into_iter();
    Ok(matched.map(|[before, after]| Delta { before, after }).collect())
}

/// A row on each of some sides; at least one of them has it.
pub type MatchedRow<T, const SIDES: usize> = [Option<(GroupKey, T)>; SIDES];

/// Matches the rows of some sides. Rows that people would call the same are one, also if they are on the same side: two stacks may have the same text
/// (different addresses in the same line).
pub fn match_rows<T: Addend, const SIDES: usize>(
    sides: [(&Catalog, impl IntoIterator<Item = (GroupKey, T)>); SIDES],
) -> Result<Vec<MatchedRow<T, SIDES>>, TooManyCalls> {
    let mut matched: Vec<MatchedRow<T, SIDES>> = Vec::new();
    let mut indexes: FxHashMap<RowIdentity, usize> = FxHashMap::default();
    let mut identities = RowIdentities::default();
    for (at, (catalog, rows)) in sides.into_iter().enumerate() {
        let mut known = CatalogIdentities::default();
        for (key, amount) in rows {
            let identity = identities.of(catalog, &mut known, &key)?;
            let index = *indexes.entry(identity).or_insert_with(|| {
                matched.push(std::array::from_fn(|_| None));
                matched.len() - 1
            });
            match &mut matched[index][at] {
                Some((_, sum)) => sum.add(&amount),
                side => *side = Some((key, amount)),
            }
        }
    }
    Ok(matched)
}

/// Single allocations of one recording at two instants.
#[derive(Clone, Debug, Default)]
pub struct BlockDiff {
    /// Live now, not before.
    pub appeared: Vec<Block>,
    /// Live before, not now.
    pub gone: Vec<Block>,
    /// Live at both instants, with different sizes: the block before, the block after.
    pub resized: Vec<(Block, Block)>,
}

/// Compares single allocations by number. Meaningful only if both snapshots are of one recording.
pub fn diff_blocks(before: &Snapshot, after: &Snapshot) -> BlockDiff {
    let sorted = |snapshot: &Snapshot| {
        let mut blocks: Vec<Block> = snapshot.accounts.blocks().collect();
        blocks.sort_unstable_by_key(|block| block.id);
        blocks
    };
    let (old, new) = (sorted(before), sorted(after));
    let mut diff = BlockDiff::default();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a.id == b.id => {
                if a.size != b.size {
                    diff.resized.push((*a, *b));
                }
                i += 1;
                j += 1;
            }
            (Some(a), b) if b.is_none_or(|b| a.id < b.id) => {
                diff.gone.push(*a);
                i += 1;
            }
            (_, Some(b)) => {
                diff.appeared.push(*b);
                j += 1;
            }
            (_, None) => break,
        }
    }
    diff
}
