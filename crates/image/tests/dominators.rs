//! Dominators and retained sizes, compared with the simplest method: remove an object, and see which objects cannot be reached any more.

use highwater_image::{Bitmap, Damages, Graph, HeapArea, Lens, Root, RootName, survey};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const UNIT: u64 = 8;

/// A synthetic heap: object `i` lies at `i * 64`, has `8 * (1 + i % 5)` bytes and refers to others.
#[derive(Debug)]
struct MadeUp {
    references: Vec<Vec<usize>>,
    roots: Vec<Root>,
}

impl MadeUp {
    fn new(references: Vec<Vec<usize>>, roots: &[usize]) -> Self {
        let root = |&object: &usize| Root { object: object as u64 * 64, name: RootName::At(0), is_variable: true };
        Self { references, roots: roots.iter().map(root).collect() }
    }

    fn size(object: usize) -> u64 {
        UNIT * (1 + object as u64 % 5)
    }

    /// The objects that can be reached without passing through one object.
    fn reachable_without(&self, left_out: Option<usize>) -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<usize> = self.roots.iter().map(|root| root.object as usize / 64).collect();
        while let Some(object) = waiting.pop() {
            if Some(object) != left_out && seen.insert(object) {
                waiting.extend(&self.references[object]);
            }
        }
        seen
    }
}

impl Lens for MadeUp {
    const UNIT: u64 = UNIT;
    const KINDS: &'static [&'static str] = &["thing"];

    fn span(&self) -> Range<u64> {
        0..self.references.len() as u64 * 64
    }

    fn walk(&self, mut visit: impl FnMut(HeapArea), _: &mut Damages) {
        for object in 0..self.references.len() {
            visit(HeapArea { at: object as u64 * 64, bytes: Self::size(object), kind: 0, is_object: true });
        }
    }

    fn is_object(&self, address: u64, found: &Bitmap) -> bool {
        found.get(address / UNIT)
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    fn next_reference(&self, object: u64, slot: u32, _: &Bitmap) -> Option<(u64, u32)> {
        let target = self.references[object as usize / 64].get(slot as usize)?;
        Some((*target as u64 * 64, slot + 1))
    }

    fn kind(&self, _: u64) -> u8 {
        0
    }

    fn bytes(&self, object: u64) -> u64 {
        Self::size(object as usize / 64)
    }

    fn is_in_heap(&self, _: u64) -> bool {
        true
    }

    fn shape_key(&self, object: u64) -> u64 {
        object / 64 % 3
    }

    fn shape_name(&self, object: u64) -> String {
        self.shape_key(object).to_string()
    }

    fn step(&self, _: u64, slot: u32) -> String {
        format!("[{slot}]")
    }
}

/// Checks every figure of a graph by removing objects.
fn check(heap: &MadeUp) {
    let survey = survey(heap, 2);
    let graph = Graph::of(heap, &survey);
    let all = heap.reachable_without(None);
    assert_eq!(graph.nodes().map(|node| node.object as usize / 64).collect::<BTreeSet<_>>(), all);
    let kept_by: BTreeMap<usize, BTreeSet<usize>> = all
        .iter()
        .map(|&object| (object, all.difference(&heap.reachable_without(Some(object))).copied().collect()))
        .collect();
    let mut by_shape: BTreeMap<String, u64> = BTreeMap::new();
    for node in graph.nodes() {
        let object = node.object as usize / 64;
        let retained: u64 = kept_by[&object].iter().map(|&object| MadeUp::size(object)).sum();
        assert_eq!(node.retained_bytes, retained, "what {object} keeps");
        // The nearest dominator is dominated by all other dominators.
        let dominating: Vec<usize> =
            all.iter().copied().filter(|&other| other != object && kept_by[&other].contains(&object)).collect();
        let nearest = dominating
            .iter()
            .copied()
            .max_by_key(|other| dominating.iter().filter(|above| kept_by[above].contains(other)).count());
        let found = (node.dominator != 0).then(|| graph.node(node.dominator).object as usize / 64);
        assert_eq!(found, nearest, "the dominator of {object}");
        let shape = |object: usize| object % 3;
        if !dominating.iter().any(|&other| shape(other) == shape(object)) {
            *by_shape.entry(shape(object).to_string()).or_default() += retained;
        }
    }
    for (id, figures) in graph.figures.iter().enumerate() {
        let name = graph.shapes.name(highwater_image::ShapeId(id as u32));
        assert_eq!(figures.retained_bytes, by_shape.get(name).copied().unwrap_or(0), "shape {name}");
    }
}

fn graphs() -> impl Strategy<Value = MadeUp> {
    (1usize..24).prop_flat_map(|count| {
        let references = prop::collection::vec(prop::collection::vec(0..count, 0..4), count);
        let roots = prop::collection::vec(0..count, 1..3);
        (references, roots).prop_map(|(references, roots)| MadeUp::new(references, &roots))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn dominators_are_what_cannot_be_left_out(heap in graphs()) {
        check(&heap);
    }
}

#[test]
fn a_ladder_that_is_hard_for_simple_algorithms_is_right() {
    // Two chains with rungs in both directions.
    let count = 40usize;
    let references = (0..count)
        .map(|object| [object + 2, object ^ 1, object.saturating_sub(2)].into_iter().filter(|to| *to < count).collect())
        .collect();
    check(&MadeUp::new(references, &[0]));
}

#[test]
fn a_list_of_a_million_cells_needs_no_recursion() {
    let count = 1_000_000;
    let references = (0..count).map(|object| Vec::from_iter(Some(object + 1).filter(|next| *next < count))).collect();
    let heap = MadeUp::new(references, &[0]);
    let survey = survey(&heap, 1);
    let graph = Graph::of(&heap, &survey);
    let whole: u64 = (0..count).map(MadeUp::size).sum();
    assert_eq!(graph.find(0).map(|node| node.retained_bytes), Some(whole));
}
