//! The stacks of a snapshot as a tree of calls, for formats with tables of frames and stacks.

use highwater_formats::folded;
use highwater_model::groups::{GroupBy, GroupKey, Keep, Metric, rows};
use highwater_model::{Figures, FrameId, FrameText, Snapshot, StackId, StackNumbers, Trie};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::io;

/// Each call once, and the sites that end in it. Stacks that read the same end in the same call.
///
/// The keys of calls are places in a table of frames that belongs to the format. Call 0 is the root; a caller has a smaller number than what it calls.
pub(crate) struct CallTree {
    calls: Trie,
    /// Sorted by the metric, the largest first.
    sites: Vec<(u32, Figures)>,
    ends: FxHashMap<StackId, u32>,
}

impl CallTree {
    /// `place` returns the place of a frame in the format's table.
    pub(crate) fn of(
        snapshot: &Snapshot,
        metric: Metric,
        keep: Keep<'_>,
        mut place: impl FnMut(&FrameText<'_>) -> u32,
    ) -> io::Result<Self> {
        let catalog = &snapshot.catalog;
        let (mut calls, mut sites, mut ends) = (Trie::default(), Vec::new(), FxHashMap::default());
        let mut numbers = StackNumbers::default();
        let mut places: FxHashMap<FrameId, u32> = FxHashMap::default();
        for row in rows(snapshot, GroupBy::Site, metric, keep) {
            let GroupKey::Site(stack) = row.key else { continue };
            let number = numbers.number(&catalog.stacks, stack, |caller, id| {
                let frame = *places.entry(id).or_insert_with(|| {
                    let frame = catalog.stacks.frame(id).copied().unwrap_or_default();
                    place(&catalog.frame_text(&frame))
                });
                calls.child(caller, frame)
            });
            let end = match number.map_err(io::Error::other)? {
                0 => calls.child(0, place(&FrameText::default())).map_err(io::Error::other)?,
                number => number,
            };
            sites.push((end, row.figures));
            ends.insert(stack, end);
        }
        Ok(Self { calls, sites, ends })
    }

    /// Caller and frame of every call, by number; those of the root have no meaning.
    pub(crate) fn calls(&self) -> &[(u32, u32)] {
        self.calls.nodes()
    }

    /// The call that a site ends in; `None` if the site was not selected.
    pub(crate) fn end_of(&self, stack: StackId) -> Option<u32> {
        self.ends.get(&stack).copied()
    }

    /// The sums over the sites that end in each call, by call.
    pub(crate) fn sums(&self, figure: impl Fn(&Figures) -> u64) -> Vec<u64> {
        let mut sums = vec![0u64; self.calls().len()];
        for (end, figures) in &self.sites {
            sums[*end as usize] = sums[*end as usize].saturating_add(figure(figures));
        }
        sums
    }

    /// The frames of the stack that ends in a call, innermost first.
    pub(crate) fn frames_of(&self, call: u32) -> impl Iterator<Item = u32> {
        let inner = std::iter::successors(Some(call), |call| Some(self.calls()[*call as usize].0));
        inner.take_while(|call| *call != 0).map(|call| self.calls()[call as usize].1)
    }

    /// All calls but the root, each directly followed by what it calls.
    pub(crate) fn depth_first(&self) -> Vec<u32> {
        let calls = self.calls();
        // Lists of siblings, linked: the first callee of each call, and the next callee of the same caller.
        let (mut first, mut next) = (vec![0u32; calls.len()], vec![0u32; calls.len()]);
        for call in (1..calls.len()).rev() {
            let caller = calls[call].0 as usize;
            next[call] = std::mem::replace(&mut first[caller], call as u32);
        }
        let mut order = Vec::with_capacity(calls.len());
        let mut waiting = vec![first[0]];
        while let Some(call) = waiting.pop() {
            if call != 0 {
                order.push(call);
                waiting.extend([next[call as usize], first[call as usize]]);
            }
        }
        order
    }
}

/// The name of a frame as people know it. Formats with quoting need no replacement of characters.
pub(crate) fn frame_name(frame: &FrameText<'_>) -> String {
    match frame.function.trim() {
        "" => folded::frame_name(frame),
        name => name.to_owned(),
    }
}

/// A table in which each value is stored once.
pub(crate) struct Interned<T> {
    values: Vec<T>,
    places: FxHashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { values: Vec::new(), places: FxHashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// The place of a value, added if it is new.
    pub(crate) fn place(&mut self, value: T) -> u32 {
        if let Some(place) = self.places.get(&value) {
            return *place;
        }
        let place = self.values.len() as u32;
        self.values.push(value.clone());
        self.places.insert(value, place);
        place
    }

    /// The values, by place.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::{Accounts, Catalog, Nanos, Source};
    use std::sync::Arc;

    fn snapshot(stacks: &[(&[&str], u64)]) -> Snapshot {
        let (mut catalog, mut accounts) = (Catalog::default(), Accounts::default().to_state());
        for (functions, bytes) in stacks {
            let frames: Vec<FrameText<'_>> =
                functions.iter().map(|function| FrameText { function, ..FrameText::default() }).collect();
            let stack = catalog.intern_stack(&frames);
            let figures = accounts.sites.at(stack);
            (figures.allocations, figures.allocated_bytes) = (1, *bytes);
        }
        let accounts = Accounts::from_state(accounts);
        Snapshot { source: Source::default(), at: Nanos(0), accounts, catalog: Arc::new(catalog) }
    }

    #[test]
    fn calls_come_before_what_they_call_and_siblings_by_size() {
        let stacks: &[(&[&str], u64)] =
            &[(&["small", "main"], 1), (&["large", "main"], 5), (&["inner", "large", "main"], 3), (&[], 2)];
        let snapshot = snapshot(stacks);
        let mut names = Interned::default();
        let tree = CallTree::of(&snapshot, Metric::Live, None, |frame| names.place(frame_name(frame))).unwrap();
        let sums = tree.sums(Figures::live_bytes);
        let text = |call: &u32| {
            let names: Vec<&str> = tree.frames_of(*call).map(|frame| names.values()[frame as usize].as_str()).collect();
            format!("{} {}", names.join("<"), sums[*call as usize])
        };
        let order: Vec<String> = tree.depth_first().iter().map(text).collect();
        assert_eq!(order, ["main 0", "large<main 5", "inner<large<main 3", "small<main 1", "[unknown] 2"]);
    }

    #[test]
    fn sites_that_are_not_selected_have_no_call() {
        let snapshot = snapshot(&[(&["parse"], 1), (&["print"], 2)]);
        let keep = |name: &str| name == "parse";
        let tree = CallTree::of(&snapshot, Metric::Live, Some(&keep), |_| 0).unwrap();
        assert_eq!((tree.end_of(StackId(1)), tree.end_of(StackId(2))), (Some(1), None));
    }
}
