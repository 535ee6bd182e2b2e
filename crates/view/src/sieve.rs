//! Filters, compiled for one catalog: conditions on stacks and tags are evaluated once for each of them, not for each block.

use crate::filter::{Filter, Test};
use crate::owned::Owned;
use crate::query::label;
use highwater_model::{ByteSum, Catalog, Frame, Nanos, StackId, StringId, TagId, ThreadId};

/// A compiled filter: all filters of a request together.
pub struct Sieve {
    /// For each stack whether it passes; `None` without filters on stacks.
    stacks: Option<Vec<bool>>,
    /// The same for each tag.
    tags: Option<Vec<bool>>,
    /// The other filters, which are evaluated for each block.
    rest: Vec<Filter>,
    needs_blocks: bool,
    needs_deaths: bool,
}

/// The properties of a block that filters ask for. Each is computed only when it is needed.
pub trait Candidate {
    /// Its stack.
    fn stack(&self) -> StackId;
    /// Its tag.
    fn tag(&self) -> TagId;
    /// Its thread.
    fn thread(&self) -> ThreadId;
    /// When it was born.
    fn birth(&self) -> Nanos;
    /// Its size.
    fn size(&self) -> u64;
    /// The bytes and blocks that it counts as.
    fn amount(&self) -> (ByteSum, u64);
    /// The whole block.
    fn owned(&self) -> Owned;
}

/// The times of a block's birth and death.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// When it was born.
    pub birth: Nanos,
    /// When it died; `None` for never.
    pub death: Option<Nanos>,
}

impl Sieve {
    /// Compiles filters.
    pub fn new(filters: &[Filter], catalog: &Catalog) -> Self {
        let mut sieve = Self {
            stacks: None,
            tags: None,
            rest: Vec::new(),
            needs_blocks: filters.iter().any(|filter| !filter.is_about_stacks()),
            needs_deaths: filters.iter().any(Filter::is_about_deaths),
        };
        for filter in filters {
            match &filter.test {
                Test::Inside(name) => {
                    let frames: Vec<bool> = functions_that(catalog, |function| name.is_met_by(function));
                    sieve.pass_stacks(catalog, filter.is_negated, stacks_with(catalog, &frames));
                }
                Test::Module(name) => {
                    let frames: Vec<bool> = catalog
                        .stacks
                        .frames()
                        .iter()
                        .map(|frame| {
                            catalog.module_of(frame).is_some_and(|module| catalog.strings.get(module.path) == name)
                        })
                        .collect();
                    sieve.pass_stacks(catalog, filter.is_negated, stacks_with(catalog, &frames));
                }
                Test::Site(site) => {
                    let is_it = (0..catalog.stacks.nodes().len() as u32).map(|stack| stack == *site).collect();
                    sieve.pass_stacks(catalog, filter.is_negated, is_it);
                }
                Test::Type(name) => {
                    let is_it = catalog.tags().iter().map(|tag| catalog.strings.get(tag.type_name) == name);
                    sieve.pass_tags(catalog, filter.is_negated, is_it.collect());
                }
                Test::Heap(heap) => {
                    let is_it = catalog.tags().iter().map(|tag| tag.heap == *heap);
                    sieve.pass_tags(catalog, filter.is_negated, is_it.collect());
                }
                _ => sieve.rest.push(filter.clone()),
            }
        }
        sieve
    }

    fn pass_stacks(&mut self, catalog: &Catalog, is_negated: bool, is_it: Vec<bool>) {
        let stacks = self.stacks.get_or_insert_with(|| vec![true; catalog.stacks.nodes().len()]);
        stacks.iter_mut().zip(is_it).for_each(|(passes, is_it)| *passes &= is_it != is_negated);
    }

    fn pass_tags(&mut self, catalog: &Catalog, is_negated: bool, is_it: Vec<bool>) {
        let tags = self.tags.get_or_insert_with(|| vec![true; catalog.tags().len()]);
        tags.iter_mut().zip(is_it).for_each(|(passes, is_it)| *passes &= is_it != is_negated);
    }

    /// True if figures by stack are not enough to decide.
    pub fn needs_blocks(&self) -> bool {
        self.needs_blocks
    }

    /// True if the filters need to know when blocks died.
    pub fn needs_deaths(&self) -> bool {
        self.needs_deaths
    }

    /// True if everything passes.
    pub fn is_open(&self) -> bool {
        self.stacks.is_none() && self.tags.is_none() && self.rest.is_empty()
    }

    /// Whether a stack passes. A stack that the catalog lost passes only without filters on stacks.
    #[inline]
    pub fn passes_stack(&self, stack: StackId) -> bool {
        self.stacks.as_ref().is_none_or(|stacks| stacks.get(stack.0 as usize).copied().unwrap_or(false))
    }

    /// Whether a tag passes.
    #[inline]
    pub fn passes_tag(&self, tag: TagId) -> bool {
        self.tags.as_ref().is_none_or(|tags| tags.get(tag.0 as usize).copied().unwrap_or(false))
    }

    /// Whether a block passes the filters that can be decided while it lives.
    #[inline]
    pub fn passes(&self, block: &impl Candidate) -> bool {
        let passes = |filter: &Filter| match filter.test {
            Test::Thread(id) => (id == block.thread().0) != filter.is_negated,
            Test::Allocated(range) => range.has(block.birth().0) != filter.is_negated,
            Test::Size(range) => range.has(block.size()) != filter.is_negated,
            _ => true,
        };
        self.rest.iter().all(passes)
            && (self.stacks.is_none() || self.passes_stack(block.stack()))
            && (self.tags.is_none() || self.passes_tag(block.tag()))
    }

    /// Whether a block passes all filters; its death is known.
    #[inline]
    pub fn passes_with(&self, block: &impl Candidate, life: &Life) -> bool {
        self.passes_death(life) && self.passes(block)
    }

    /// Whether a block passes the filters on its death.
    #[inline]
    pub fn passes_death(&self, life: &Life) -> bool {
        let Life { birth, death } = *life;
        self.rest.iter().all(|filter| {
            let is_it = match filter.test {
                Test::Freed(range) => death.is_some_and(|death| range.has(death.0)),
                Test::FreedEver => death.is_some(),
                Test::LiveAt(time) => birth <= time && death.is_none_or(|death| death > time),
                Test::Lifetime(range) => death.is_some_and(|death| range.has(death.0.saturating_sub(birth.0))),
                _ => return true,
            };
            is_it != filter.is_negated
        })
    }
}

/// For each frame, whether its function is selected; each name is compared once. A frame without a function is compared by its label
/// instead: views offer filters by that name.
fn functions_that(catalog: &Catalog, is_meant: impl Fn(&str) -> bool) -> Vec<bool> {
    let mut known = rustc_hash::FxHashMap::default();
    let frames = catalog.stacks.frames().iter();
    let is_meant = |frame: &Frame| match frame.function {
        StringId::EMPTY => is_meant(&label(&catalog.frame_text(frame))),
        function => *known.entry(function).or_insert_with(|| is_meant(catalog.strings.get(function))),
    };
    frames.map(is_meant).collect()
}

/// For each stack, whether it contains one of these frames. A stack's caller has a smaller number.
fn stacks_with(catalog: &Catalog, frames: &[bool]) -> Vec<bool> {
    let table = &catalog.stacks;
    let mut has: Vec<bool> = Vec::with_capacity(table.nodes().len());
    for (at, node) in table.nodes().iter().enumerate() {
        let own = || table.frame_ids(node.frame).any(|frame| frames.get(frame as usize).copied().unwrap_or(false));
        has.push(at > 0 && (own() || has.get(node.parent.0 as usize).copied().unwrap_or(false)));
    }
    has
}
