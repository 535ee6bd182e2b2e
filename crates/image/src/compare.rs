//! The changes between images of one program.

use crate::examine::Examination;
use crate::find::Heap;
use crate::graph::ShapeFigures;
use crate::lens::Lens;
use crate::path::Path;
use crate::shapes::{ShapeId, Shapes};
use crate::ways::first_paths;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The changes between the first image and the last.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// By shape, the largest growth first; unchanged shapes are left out.
    pub shapes: Vec<ShapeChange>,
    /// The retained sizes of the program's variables, the largest growth first.
    pub roots: Vec<RootChange>,
    /// Objects that are in the last image only: their number and bytes.
    pub came: (u64, u64),
    /// Objects that are in the first image only: their number and bytes.
    pub went: (u64, u64),
    /// The new objects by shape, with the path to one of them.
    pub new: Vec<NewObjects>,
}

/// Figures of a shape in each image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeChange {
    /// The shape.
    pub name: String,
    /// Its figures, image by image.
    pub figures: Vec<ShapeFigures>,
    /// True when its bytes grew each time.
    pub keeps_growing: bool,
}

impl ShapeChange {
    /// By how many bytes it grew.
    pub fn bytes(&self) -> i128 {
        let at = |at: Option<&ShapeFigures>| i128::from(at.map_or(0, |figures| figures.bytes));
        at(self.figures.last()) - at(self.figures.first())
    }

    /// By how many objects it grew.
    pub fn count(&self) -> i128 {
        let at = |at: Option<&ShapeFigures>| i128::from(at.map_or(0, |figures| figures.count));
        at(self.figures.last()) - at(self.figures.first())
    }
}

/// The retained size of a variable in each image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootChange {
    /// Its name.
    pub name: String,
    /// Its retained bytes, image by image.
    pub retained_bytes: Vec<u64>,
    /// True when that grew each time.
    pub keeps_growing: bool,
}

impl RootChange {
    /// By how many bytes it grew.
    pub fn bytes(&self) -> i128 {
        let at = |at: Option<&u64>| i128::from(at.copied().unwrap_or(0));
        at(self.retained_bytes.last()) - at(self.retained_bytes.first())
    }
}

/// Objects of a shape that are in the last image only.
#[derive(Clone, Debug)]
pub struct NewObjects {
    /// Their shape.
    pub shape: String,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// One of them.
    pub example: u64,
    /// The shortest path to one of them; none if nothing refers to any.
    pub path: Option<Path>,
}

/// An image that is compared.
pub struct Side<'a, 'i> {
    /// Its heap.
    pub heap: &'a Heap<'i>,
    /// The analysis of the heap.
    pub examination: &'a Examination,
}

/// Images that cannot be compared: their heaps are of different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Different;

/// Compares images, oldest first. Of the new objects, the `top` shapes with most bytes are returned.
pub fn compare(sides: &[Side<'_, '_>], top: usize) -> Result<Comparison, Different> {
    let (Some(first), Some(last)) = (sides.first(), sides.last()) else { return Ok(Comparison::default()) };
    if sides.iter().any(|side| side.heap.key() != first.heap.key()) {
        return Err(Different);
    }
    let mut comparison = match (first.heap, last.heap) {
        (Heap::Wide(a), Heap::Wide(b)) => objects(a, b, first.examination, last.examination, top),
        (Heap::Narrow(a), Heap::Narrow(b)) => objects(a, b, first.examination, last.examination, top),
        (Heap::Dlmalloc(a), Heap::Dlmalloc(b)) => objects(a, b, first.examination, last.examination, top),
        _ => return Err(Different),
    };
    comparison.shapes = shapes(sides);
    comparison.roots = roots(sides);
    Ok(comparison)
}

fn shapes(sides: &[Side<'_, '_>]) -> Vec<ShapeChange> {
    let mut by_name: BTreeMap<&str, Vec<ShapeFigures>> = BTreeMap::new();
    for (at, side) in sides.iter().enumerate() {
        for (id, figures) in side.examination.graph.figures.iter().enumerate() {
            let name = side.examination.graph.shapes.name(ShapeId(id as u16));
            by_name.entry(name).or_insert_with(|| vec![ShapeFigures::default(); sides.len()])[at] = *figures;
        }
    }
    let change = |(name, figures): (&str, Vec<ShapeFigures>)| {
        let keeps_growing = figures.is_sorted_by(|a, b| a.bytes < b.bytes);
        ShapeChange { name: name.to_owned(), figures, keeps_growing }
    };
    let mut changes: Vec<ShapeChange> = by_name.into_iter().map(change).collect();
    changes.retain(|change| change.figures.windows(2).any(|pair| pair[0] != pair[1]));
    changes.sort_by_key(|change| (std::cmp::Reverse(change.bytes()), change.name.clone()));
    changes
}

fn roots(sides: &[Side<'_, '_>]) -> Vec<RootChange> {
    let mut by_name: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (at, side) in sides.iter().enumerate() {
        for (name, retained) in retained_by_variables(side) {
            by_name.entry(name).or_insert_with(|| vec![0; sides.len()])[at] = retained;
        }
    }
    let change = |(name, retained_bytes): (String, Vec<u64>)| {
        let keeps_growing = retained_bytes.is_sorted_by(|a, b| a < b);
        RootChange { name, retained_bytes, keeps_growing }
    };
    let mut changes: Vec<RootChange> = by_name.into_iter().map(change).collect();
    changes.retain(|change| change.bytes() != 0);
    changes.sort_by_key(|change| (std::cmp::Reverse(change.bytes()), change.name.clone()));
    changes
}

fn retained_by_variables(side: &Side<'_, '_>) -> Vec<(String, u64)> {
    crate::find::with_lens!(side.heap, lens => {
        let variables: FxHashMap<u64, String> = lens
            .roots()
            .iter()
            .filter(|root| root.is_variable)
            .map(|root| (root.object, root.name.to_string()))
            .collect();
        let nodes = side.examination.graph.nodes().filter(|node| node.dominator == 0);
        nodes.filter_map(|node| Some((variables.get(&node.object)?.clone(), node.retained_bytes))).collect()
    })
}

/// The objects that are new or gone. An object is the same if it is at the same address and has the same shape.
fn objects<L: Lens>(first: &L, last: &L, before: &Examination, after: &Examination, top: usize) -> Comparison {
    let mut then = Objects { lens: first, examination: before, shapes: Shapes::default() };
    let mut now = Objects { lens: last, examination: after, shapes: Shapes::default() };
    let mut came: BTreeMap<ShapeId, (u64, u64)> = BTreeMap::new();
    let mut comparison = Comparison::default();
    let mut is_new = vec![false; after.graph.len() + 1];
    for node in after.graph.nodes() {
        if last.is_in_heap(node.object) && !then.has(node.object, after.graph.shapes.name(node.shape)) {
            is_new[node.number as usize] = true;
            let figures = came.entry(node.shape).or_default();
            let bytes = last.bytes(node.object);
            *figures = (figures.0 + 1, figures.1 + bytes);
            comparison.came = (comparison.came.0 + 1, comparison.came.1 + bytes);
        }
    }
    for node in before.graph.nodes() {
        if first.is_in_heap(node.object) && !now.has(node.object, before.graph.shapes.name(node.shape)) {
            comparison.went = (comparison.went.0 + 1, comparison.went.1 + first.bytes(node.object));
        }
    }
    let mut groups: Vec<(ShapeId, (u64, u64))> = came.into_iter().collect();
    groups.sort_by_key(|(shape, (_, bytes))| (std::cmp::Reverse(*bytes), *shape));
    groups.truncate(top);
    let place_of: FxHashMap<ShapeId, usize> = groups.iter().enumerate().map(|(at, (shape, _))| (*shape, at)).collect();
    let mut examples = vec![0; groups.len()];
    let mut group_of: FxHashMap<u64, usize> = FxHashMap::default();
    for node in after.graph.nodes().filter(|node| is_new[node.number as usize]) {
        if let Some(&group) = place_of.get(&node.shape) {
            examples[group] = node.object;
            group_of.insert(node.object, group);
        }
    }
    let mut paths = first_paths(last, &after.survey, groups.len(), |object| group_of.get(&object).copied());
    let new = |(at, (shape, (count, bytes))): (usize, (ShapeId, (u64, u64)))| NewObjects {
        shape: after.graph.shapes.name(shape).to_owned(),
        count,
        bytes,
        example: examples[at],
        path: paths.remove(&at),
    };
    comparison.new = groups.into_iter().enumerate().map(new).collect();
    comparison
}

/// The live objects of an image.
struct Objects<'a, L: Lens> {
    lens: &'a L,
    examination: &'a Examination,
    shapes: Shapes,
}

impl<L: Lens> Objects<'_, L> {
    /// True when an object of that shape is live at an address.
    fn has(&mut self, object: u64, shape: &str) -> bool {
        let start = self.lens.span().start;
        if object < start || !self.examination.survey.live.bits().get((object - start) / L::UNIT) {
            return false;
        }
        let there = self.shapes.of(self.lens, object);
        self.shapes.name(there) == shape
    }
}
