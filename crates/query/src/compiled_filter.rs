//! Filters, compiled for one catalog: conditions on stacks and tags are evaluated once for each of them, not for each block.

use crate::filter::{BlockTest, Filter};
use crate::names::{UNKNOWN, label};
use highwater_model::groups::{FrameKey, GroupBy, NO_TASK};
use highwater_model::{Catalog, Frame, Naming, SiteTypes, StackId, StringId, TagId};
use highwater_store::history::{BlockEventRow, BlockFacts, BlockLife, Cause, Owners};
use rustc_hash::FxHashMap;

/// All filters of a question, compiled.
pub struct CompiledFilter {
    /// For each stack whether it passes; `None` without filters on stacks.
    stacks: Option<Vec<bool>>,
    /// The same for each tag.
    tags: Option<Vec<bool>>,
    /// The other filters, which are evaluated for each block.
    rest: Vec<Filter>,
    needs_blocks: bool,
    needs_deaths: bool,
}

impl CompiledFilter {
    /// Compiles filters. `naming` is that of the rows whose names the filters have.
    pub fn new(filters: &[Filter], catalog: &Catalog, naming: &Naming) -> Self {
        let mut compiled = Self {
            stacks: None,
            tags: None,
            rest: Vec::new(),
            needs_blocks: filters.iter().any(|filter| !filter.is_about_stacks()),
            needs_deaths: filters.iter().any(Filter::is_about_deaths),
        };
        let frames_that =
            |is_meant: &dyn Fn(&Frame) -> bool| -> Vec<bool> { catalog.stacks.frames().iter().map(is_meant).collect() };
        for filter in filters {
            let is_it = match &filter.test {
                BlockTest::Inside(name) => {
                    stacks_with(catalog, &functions_that(catalog, |function| name.is_met_by(function)))
                }
                BlockTest::Module(name) => stacks_in_row(catalog, GroupBy::Module, name),
                BlockTest::File(name) => stacks_in_row(catalog, GroupBy::File, name),
                BlockTest::Line(name) => stacks_in_row(catalog, GroupBy::Line, name),
                BlockTest::Text(pattern) => stacks_with(
                    catalog,
                    &frames_that(&|frame| {
                        let text = catalog.frame_text(frame);
                        let is_code_meant =
                            || text.unnamed_code().is_some_and(|code| pattern.is_match(&code.to_string()));
                        [text.function, text.file, text.module].iter().any(|text| pattern.is_match(text))
                            || is_code_meant()
                    }),
                ),
                BlockTest::Site(site) => (0..catalog.stacks.nodes().len() as u32).map(|stack| stack == *site).collect(),
                BlockTest::Sites(sites) => {
                    (0..catalog.stacks.nodes().len() as u32).map(|stack| sites.binary_search(&stack).is_ok()).collect()
                }
                BlockTest::Type(name) if !catalog.has_named_types() => stacks_of_type(catalog, naming, name),
                BlockTest::Type(name) => {
                    let is_it = catalog.tags().iter().map(|tag| catalog.strings.get(tag.type_name) == name);
                    compiled.pass_tags(catalog, filter.is_negated, is_it.collect());
                    continue;
                }
                BlockTest::Task(name) => {
                    let task = |task| if task == StringId::EMPTY { NO_TASK } else { catalog.strings.get(task) };
                    let is_it = catalog.tags().iter().map(|tag| task(tag.task) == name);
                    compiled.pass_tags(catalog, filter.is_negated, is_it.collect());
                    continue;
                }
                BlockTest::Heap(heap) => {
                    let is_it = catalog.tags().iter().map(|tag| tag.heap == *heap);
                    compiled.pass_tags(catalog, filter.is_negated, is_it.collect());
                    continue;
                }
                _ => {
                    compiled.rest.push(filter.clone());
                    continue;
                }
            };
            compiled.pass_stacks(catalog, filter.is_negated, is_it);
        }
        compiled
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

    /// True if stacks, tags and threads are not enough to decide.
    pub fn needs_single_blocks(&self) -> bool {
        self.rest.iter().any(|filter| !matches!(filter.test, BlockTest::Thread(_)))
    }

    /// Whether the blocks of an owner pass, if [single blocks](Self::needs_single_blocks) are not needed.
    pub fn passes_owners(&self, owners: &Owners) -> bool {
        let passes = |filter: &Filter| match filter.test {
            BlockTest::Thread(id) => (id == owners.thread.0) != filter.is_negated,
            _ => true,
        };
        self.passes_stack(owners.stack) && self.passes_tag(owners.tag) && self.rest.iter().all(passes)
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
    pub fn passes(&self, block: &impl BlockFacts) -> bool {
        let passes = |filter: &Filter| match filter.test {
            BlockTest::Thread(id) => (id == block.thread().0) != filter.is_negated,
            BlockTest::Allocated(range) => range.has(block.birth().0) != filter.is_negated,
            BlockTest::Size(range) => range.has(block.size()) != filter.is_negated,
            _ => true,
        };
        self.rest.iter().all(passes)
            && (self.stacks.is_none() || self.passes_stack(block.stack()))
            && (self.tags.is_none() || self.passes_tag(block.tag()))
    }

    /// Whether the filters count a block event. A promotion counts only if the state on its other side does not pass.
    #[inline]
    pub fn counts(&self, event: &BlockEventRow<'_>) -> bool {
        let stays = || event.cause() == Cause::Promoted && self.passes_tag(event.other_tag());
        self.passes(event) && !stays()
    }

    /// Whether a block passes all filters; its death is known.
    #[inline]
    pub fn passes_with(&self, block: &impl BlockFacts, life: &BlockLife) -> bool {
        self.passes_death(life) && self.passes(block)
    }

    /// Whether a block passes the filters on its death.
    #[inline]
    pub fn passes_death(&self, life: &BlockLife) -> bool {
        let BlockLife { birth, death } = *life;
        self.rest.iter().all(|filter| {
            let is_it = match filter.test {
                BlockTest::Freed(range) => death.is_some_and(|death| range.has(death.0)),
                BlockTest::FreedEver => death.is_some(),
                BlockTest::LiveAt(time) => birth <= time && death.is_none_or(|death| death > time),
                BlockTest::Lifetime(range) => death.is_some_and(|death| range.has(death.0.saturating_sub(birth.0))),
                _ => return true,
            };
            is_it != filter.is_negated
        })
    }
}

/// For each frame, whether its function is selected; each name is compared once. A frame without a function is compared by its label
/// instead: views offer filters by that name.
fn functions_that(catalog: &Catalog, is_meant: impl Fn(&str) -> bool) -> Vec<bool> {
    let mut known = FxHashMap::default();
    let frames = catalog.stacks.frames().iter();
    let is_meant = |frame: &Frame| match frame.function {
        StringId::EMPTY => is_meant(&label(&catalog.frame_text(frame))),
        function => *known.entry(function).or_insert_with(|| is_meant(catalog.strings.get(function))),
    };
    frames.map(is_meant).collect()
}

/// For each stack, whether it counts for the row of this name in a table by file, module or line.
fn stacks_in_row(catalog: &Catalog, by: GroupBy, name: &str) -> Vec<bool> {
    let is_unknown = name == UNKNOWN;
    let line = name.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)));
    let is_it = |frame: &Frame| match catalog.frame_text(frame).key_by(by) {
        FrameKey::Name(key) => key == name || is_unknown && key.is_empty(),
        FrameKey::Line(file, number) => line == Some((file, number)),
        FrameKey::Code(_) => false,
    };
    let frames: Vec<bool> = catalog.stacks.frames().iter().map(is_it).collect();
    let mut stacks = stacks_with(catalog, &frames);
    // Tables count stacks without frames for the row of what is not known.
    stacks.iter_mut().take(1).for_each(|unknown| *unknown = is_unknown);
    stacks
}

/// For each stack, whether it shows this type.
fn stacks_of_type(catalog: &Catalog, naming: &Naming, name: &str) -> Vec<bool> {
    let mut types = SiteTypes::new(catalog, naming);
    let mut is_it = |stack: StackId| types.of(catalog, stack).name == name;
    (0..catalog.stacks.nodes().len() as u32).map(|stack| is_it(StackId(stack))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::FrameText;
    use std::sync::Arc;

    #[test]
    fn files_lines_and_modules_are_those_of_rows() {
        let mut catalog = Catalog::default();
        let frame = |file, line, module| FrameText { function: "f", file, line, module, ..FrameText::default() };
        let stacks = [
            vec![frame("a.c", 7, "app"), frame("b.c", 1, "app")],
            vec![frame("b.c", 17, "app"), frame("a.c", 0, "lib")],
            vec![frame("", 0, "app"), frame("b.c", 7, "app")],
        ];
        let mut ids = vec![StackId::UNKNOWN];
        ids.extend(stacks.iter().map(|stack| catalog.intern_stack(stack)));
        let passing = |text: &str| -> Vec<usize> {
            let filter = CompiledFilter::new(&[text.parse().unwrap()], &catalog, &Naming::default());
            (0..).zip(&ids).filter(|(_, stack)| filter.passes_stack(**stack)).map(|(at, _)| at).collect()
        };
        assert_eq!(passing("file:a.c"), [1, 2]);
        assert_eq!(passing("!file:a.c"), [0, 3]);
        assert_eq!(passing("line:a.c:7"), [1], "neither another line nor another file");
        assert_eq!(passing("line:b.c:7"), [3]);
        assert_eq!(passing("line:a.c"), [2], "a file of which the line is not known");
        assert_eq!(passing("line:c.c:7"), Vec::<usize>::new());
        assert_eq!((passing("file:[unknown]"), passing("line:[unknown]")), (vec![0, 3], vec![0, 3]));
        assert_eq!((passing("module:lib"), passing("module:[unknown]")), (vec![2], vec![0]));
    }

    #[test]
    fn a_type_is_called_as_in_the_rows_that_name_it() {
        let mut catalog = Catalog::default();
        let frames = ["malloc", "pool_take", "create", "main"];
        let frames = frames.map(|function| FrameText { function, module: "app", ..FrameText::default() });
        let stack = catalog.intern_stack(&frames);
        let allocators = Arc::new(["pool_take".parse().unwrap()].into_iter().collect());
        let naming = Naming { allocators, ..Naming::default() };
        let passes = |naming: &Naming, of: &Naming| {
            let name = SiteTypes::new(&catalog, of).of(&catalog, stack).name.clone();
            let filter = [format!("type:{name}").parse().unwrap()];
            CompiledFilter::new(&filter, &catalog, naming).passes_stack(stack)
        };
        let plain = Naming::default();
        assert!(passes(&plain, &plain) && passes(&naming, &naming));
        assert!(!passes(&plain, &naming) && !passes(&naming, &plain));
    }
}
