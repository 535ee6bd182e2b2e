//! What is known of the live blocks of a type beyond their bytes.

use super::SiteTypes;
use crate::byte_sum::ByteSum;
use crate::heap::Heap;
use crate::naming::Naming;
use crate::snapshot::Snapshot;
use rustc_hash::FxHashMap;

/// What is known of the live blocks of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeDetails {
    /// The number of elements that they have room for; `None` if the size of an element is not known.
    pub elements: Option<u64>,
    /// The bytes that the allocator added to the requested ones; `None` if the source does not report them.
    pub slack_bytes: Option<u64>,
}

/// Adds up the elements of several sites: unknown as soon as one is.
#[derive(Clone, Copy, Debug, Default)]
pub struct ElementSum {
    sum: u64,
    is_unknown: bool,
}

impl ElementSum {
    /// Adds the elements of a site.
    pub fn add(&mut self, elements: Option<u64>) {
        self.sum = self.sum.saturating_add(elements.unwrap_or(0));
        self.is_unknown |= elements.is_none();
    }

    /// The sum.
    pub fn known(self) -> Option<u64> {
        (!self.is_unknown).then_some(self.sum)
    }
}

/// The details of all types that [stacks show](SiteTypes), by the name of the type.
pub fn type_details(snapshot: &Snapshot, naming: &Naming) -> FxHashMap<String, TypeDetails> {
    let catalog = &*snapshot.catalog;
    let mut types = SiteTypes::new(catalog, naming);
    let mut elements: FxHashMap<String, ElementSum> = FxHashMap::default();
    for (stack, figures) in snapshot.accounts.sites().iter().filter(|(_, figures)| figures.live_blocks() > 0) {
        let found = types.of(catalog, stack);
        let sum = elements.entry(found.name.clone()).or_default();
        sum.add(found.elements(figures.live_bytes(), figures.live_blocks()));
    }
    let mut slack: FxHashMap<String, ByteSum> = FxHashMap::default();
    let has_slack = snapshot.source.usable_sizes && !snapshot.source.aggregated;
    if has_slack {
        for block in snapshot.blocks_of(Heap::Malloc) {
            let more = block.usable_size().saturating_sub(block.size);
            *slack.entry(types.of(catalog, block.stack).name.clone()).or_default() += block.weight.amount(more);
        }
    }
    let details = |(name, elements): (String, ElementSum)| {
        let slack_bytes = has_slack.then(|| slack.get(&name).map_or(0, |slack| slack.rounded()));
        (name, TypeDetails { elements: elements.known(), slack_bytes })
    };
    elements.into_iter().map(details).collect()
}
