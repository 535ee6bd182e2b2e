//! An image as a snapshot: live objects become blocks, their shapes become types, and their paths of dominators become stacks.

use crate::examine::Examination;
use crate::graph::Graph;
use crate::lens::{Lens, RootName};
use crate::shapes::ShapeId;
use highwater_model::{
    AccountsState, AllocId, Block, Blocks, Catalog, Figures, FrameText, Nanos, Source, StackId, StringId, Tag, TagId,
    ThreadAccount, ThreadId, Totals, Weight,
};
use rustc_hash::FxHashMap;

/// Blocks are kept up to this number of objects; for more, only figures.
const MOST_BLOCKS: usize = 4 << 20;
/// The most stacks. An object on a path beyond the limit gets the stack of its last frame within it.
const MOST_STACKS: usize = 1 << 20;
/// The most frames of a stack.
const DEEPEST: usize = 64;
/// Objects that no single root retains.
const SEVERAL: &str = "(several roots)";
/// Objects that compiler and runtime retain.
const RUNTIME: &str = "(constants and runtime)";
/// Objects that words outside of the heap retain. The names of these words are unknown.
const OUTSIDE: &str = "(data and stack)";
/// Objects to which nothing refers, in a heap without a garbage collector.
const LEAKED: &str = "(nothing refers to it)";

/// The content of a snapshot in a `.hw` file.
#[derive(Debug)]
pub struct ImageSnapshot {
    /// The process or file that the memory is of.
    pub source: Source,
    /// The catalog of names, shapes and stacks.
    pub catalog: Catalog,
    /// Figures and blocks.
    pub accounts: AccountsState,
}

/// Makes a snapshot of an analysed heap.
pub(crate) fn snapshot<L: Lens>(lens: &L, examination: &Examination, source: Source) -> ImageSnapshot {
    Builder::new(lens, examination).build(source)
}

struct Builder<'a, L: Lens> {
    lens: &'a L,
    examination: &'a Examination,
    catalog: Catalog,
    tags: Vec<Option<TagId>>,
    /// For each stack, the shape of its last frame (none for roots) and the number of its frames.
    ways: FxHashMap<StackId, (Option<ShapeId>, usize)>,
    children: FxHashMap<(StackId, ShapeId), StackId>,
    parents: FxHashMap<StackId, StackId>,
    state: AccountsState,
    keep_blocks: bool,
}

impl<'a, L: Lens> Builder<'a, L> {
    fn new(lens: &'a L, examination: &'a Examination) -> Self {
        Self {
            lens,
            examination,
            catalog: Catalog::default(),
            tags: vec![None; examination.graph.shapes.len()],
            ways: FxHashMap::default(),
            children: FxHashMap::default(),
            parents: FxHashMap::default(),
            state: AccountsState::default(),
            keep_blocks: examination.graph.len() <= MOST_BLOCKS,
        }
    }

    fn build(mut self, source: Source) -> ImageSnapshot {
        self.state.blocks = Blocks::default();
        let graph = &self.examination.graph;
        let names = self.root_names();
        let mut stacks = vec![StackId::UNKNOWN; graph.len() + 1];
        for node in graph.nodes() {
            let stack = match (node.dominator, names.get(&node.object)) {
                (0, Some((name, is_box))) => {
                    let root = self.root(name);
                    // A variable's box stands for the variable.
                    if *is_box { root } else { self.child(root, node.shape, graph) }
                }
                (0, None) => {
                    let unit = (node.object - self.lens.span().start) / L::UNIT;
                    let is_leaked = self.examination.survey.unreferred.get(unit);
                    let above = self.root(if is_leaked { LEAKED } else { SEVERAL });
                    self.child(above, node.shape, graph)
                }
                (dominator, _) => self.child(stacks[dominator as usize], node.shape, graph),
            };
            stacks[node.number as usize] = stack;
            if self.lens.is_in_heap(node.object) {
                let tag = self.tag_of(node.shape, graph.shapes.name(node.shape));
                self.add(node.object, stack, tag);
            }
        }
        self.finish(source)
    }

    /// The names of roots by object, and whether the object is a variable's box.
    fn root_names(&self) -> FxHashMap<u64, (String, bool)> {
        let mut names = FxHashMap::default();
        for root in self.lens.roots() {
            let name = match &root.name {
                RootName::At(_) => OUTSIDE.to_owned(),
                RootName::Named(name) if root.is_variable => name.clone(),
                RootName::Named(_) => RUNTIME.to_owned(),
            };
            names.entry(root.object).or_insert((name, root.is_variable && self.lens.is_variable_box(root.object)));
        }
        names
    }

    fn root(&mut self, name: &str) -> StackId {
        let stack = self.catalog.intern_stack(&[FrameText { function: name, ..FrameText::default() }]);
        self.ways.entry(stack).or_insert((None, 1));
        stack
    }

    /// The stack with a frame for `shape` appended. If the stack contains the shape already, it ends there: a list is one frame, however long it is.
    fn child(&mut self, parent: StackId, shape: ShapeId, graph: &Graph) -> StackId {
        let mut at = parent;
        while let Some((Some(above), _)) = self.ways.get(&at) {
            if *above == shape {
                return at;
            }
            at = self.parents.get(&at).copied().unwrap_or_default();
        }
        if let Some(&known) = self.children.get(&(parent, shape)) {
            return known;
        }
        let depth = self.ways.get(&parent).map_or(0, |(_, depth)| *depth);
        if depth >= DEEPEST || self.ways.len() >= MOST_STACKS {
            return parent;
        }
        let frame =
            self.catalog.intern_frame(&FrameText { function: graph.shapes.name(shape), ..FrameText::default() });
        let frame = self.catalog.stacks.intern_frame(frame);
        let stack = self.catalog.stacks.intern_child(parent, frame);
        self.ways.insert(stack, (Some(shape), depth + 1));
        self.parents.insert(stack, parent);
        self.children.insert((parent, shape), stack);
        stack
    }

    fn tag_of(&mut self, shape: ShapeId, name: &str) -> TagId {
        if let Some(tag) = self.tags[shape.0 as usize] {
            return tag;
        }
        let tag = self.tag_named(name);
        self.tags[shape.0 as usize] = Some(tag);
        tag
    }

    fn tag_named(&mut self, name: &str) -> TagId {
        let type_name = self.catalog.strings.intern(name);
        self.catalog.intern_tag(Tag { variable: StringId::EMPTY, type_name, ..Tag::default() })
    }

    fn add(&mut self, object: u64, stack: StackId, tag: TagId) {
        let size = self.lens.bytes(object);
        let one = Figures { allocations: 1, allocated_bytes: size, peak_bytes: size, ..Figures::default() };
        self.state.sites.at(stack).add(&one);
        row(&mut self.state.tags, tag.0).add(&one);
        self.state.totals.figures.add(&one);
        let id = AllocId(self.state.next_id);
        self.state.next_id += 1;
        if self.keep_blocks {
            let weight = Weight::default();
            let block = Block {
                id,
                address: self.lens.identity(object),
                size,
                time: Nanos(0),
                thread: 0,
                stack,
                tag,
                surplus: 0,
                weight,
            };
            self.state.blocks.push(block);
        }
    }

    fn finish(mut self, source: Source) -> ImageSnapshot {
        let figures = self.state.totals.figures;
        self.state.totals = Totals { peak_bytes_inside_reallocation: figures.peak_bytes, ..self.state.totals };
        self.state.totals.peak_blocks = figures.allocations;
        self.state.events = figures.allocations;
        if figures.allocations > 0 {
            self.state.threads = vec![ThreadAccount { id: ThreadId(0), figures, last_allocation: AllocId(u64::MAX) }];
            self.catalog.name_thread(ThreadId(0), "image");
        }
        let source = Source { snapshot: true, aggregated: !self.keep_blocks, ..source };
        ImageSnapshot { source, catalog: self.catalog, accounts: self.state }
    }
}

fn row(rows: &mut Vec<Figures>, index: u32) -> &mut Figures {
    let index = index as usize;
    if index >= rows.len() {
        rows.resize(index + 1, Figures::default());
    }
    &mut rows[index]
}
