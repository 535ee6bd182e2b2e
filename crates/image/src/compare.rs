//! The changes between images of one program.

use crate::bitmap::Bitmap;
use crate::examine::Examination;
use crate::graph::{GraphNode, ShapeFigures};
use crate::heap::ImageHeap;
use crate::lens::Lens;
use crate::path::ObjectPath;
use crate::paths::first_paths;
use crate::shapes::ShapeId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The most grown objects that are returned.
const MOST_GROWN: usize = 100;

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
    /// The objects in both images whose retained sizes grew most: where a leak collects what it leaks.
    pub grown: Vec<GrownObject>,
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
    /// Its objects that are in the last image only: their number and bytes.
    pub came: (u64, u64),
    /// Its objects that are in the first image only: their number and bytes.
    pub went: (u64, u64),
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
    pub path: Option<ObjectPath>,
}

/// An object that is in both images, and retains more in the last one.
#[derive(Clone, Debug)]
pub struct GrownObject {
    /// The object in the last image.
    pub object: u64,
    /// Its shape.
    pub shape: String,
    /// By how many bytes more its retained size grew than those of the grown objects below it.
    pub growth: u64,
    /// Its retained bytes in the first image.
    pub before: u64,
    /// Its retained bytes in the last one.
    pub after: u64,
    /// The shortest path to it.
    pub path: Option<ObjectPath>,
}

/// An image that is compared.
pub struct ComparedImage<'a, 'i> {
    /// Its heap.
    pub heap: &'a (dyn ImageHeap + 'i),
    /// The analysis of the heap.
    pub examination: &'a Examination,
}

/// Images that cannot be compared: their heaps are of different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifferentHeaps;

/// Compares images, oldest first. Of the new objects, the `top` shapes with most bytes are returned.
pub fn compare(images: &[ComparedImage<'_, '_>], top: usize) -> Result<Comparison, DifferentHeaps> {
    let (Some(first), Some(last)) = (images.first(), images.last()) else { return Ok(Comparison::default()) };
    if images.iter().any(|image| image.heap.key() != first.heap.key()) {
        return Err(DifferentHeaps);
    }
    let before = first.heap.live_objects(first.examination);
    let came = last.heap.unmatched_objects(last.examination, &before, top);
    let grown = last.heap.grown_objects(last.examination, &before, top);
    let is_by_identity = !before.by_identity.is_empty();
    drop(before);
    let went = first.heap.unmatched_objects(first.examination, &last.heap.live_objects(last.examination), 0);
    Ok(Comparison {
        shapes: shapes(images, &came.figures, &went.figures, is_by_identity),
        roots: roots(images),
        came: (came.count, came.bytes),
        went: (went.count, went.bytes),
        new: came.by_shape,
        grown,
    })
}

fn shapes(
    images: &[ComparedImage<'_, '_>],
    came: &FiguresByShape,
    went: &FiguresByShape,
    is_by_identity: bool,
) -> Vec<ShapeChange> {
    let mut by_name: BTreeMap<&str, Vec<ShapeFigures>> = BTreeMap::new();
    for (at, image) in images.iter().enumerate() {
        for (id, figures) in image.examination.graph.figures.iter().enumerate() {
            let name = image.examination.graph.shapes.name(ShapeId(id as u32));
            by_name.entry(name).or_insert_with(|| vec![ShapeFigures::default(); images.len()])[at] = *figures;
        }
    }
    let change = |(name, figures): (&str, Vec<ShapeFigures>)| {
        let keeps_growing = figures.is_sorted_by(|a, b| a.bytes < b.bytes);
        let of = |all: &FiguresByShape| all.get(name).copied().unwrap_or_default();
        ShapeChange { name: name.to_owned(), figures, keeps_growing, came: of(came), went: of(went) }
    };
    let mut changes: Vec<ShapeChange> = by_name.into_iter().map(change).collect();
    // Addresses change when objects are moved; identities change only if the objects are others.
    let has_others = |change: &ShapeChange| is_by_identity && change.came.0 + change.went.0 > 0;
    changes.retain(|change| has_others(change) || change.figures.windows(2).any(|pair| pair[0] != pair[1]));
    changes.sort_by_key(|change| (std::cmp::Reverse(change.bytes()), change.name.clone()));
    changes
}

fn roots(images: &[ComparedImage<'_, '_>]) -> Vec<RootChange> {
    let mut by_name: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (at, image) in images.iter().enumerate() {
        for (name, retained) in retained_by_variables(image) {
            // Several roots may have one name.
            by_name.entry(name).or_insert_with(|| vec![0; images.len()])[at] += retained;
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

fn retained_by_variables(image: &ComparedImage<'_, '_>) -> Vec<(String, u64)> {
    let variables = image.heap.roots().iter().filter(|root| root.is_variable);
    let variables: FxHashMap<u64, String> = variables.map(|root| (root.object, root.name.to_string())).collect();
    let nodes = image.examination.graph.nodes().filter(|node| node.dominator == 0);
    nodes.filter_map(|node| Some((variables.get(&node.object)?.clone(), node.retained_bytes))).collect()
}

/// The number of objects and their bytes, by the name of their shape.
type FiguresByShape = FxHashMap<String, (u64, u64)>;

/// The live objects of one image that another does not have. An object is the same if it is at the same address, or has the same identity, and has the same
/// shape.
#[derive(Clone, Debug, Default)]
pub struct UnmatchedObjects {
    /// The number of all.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number and bytes of those of each shape, by its name.
    pub figures: FxHashMap<String, (u64, u64)>,
    /// The shapes with most bytes.
    pub by_shape: Vec<NewObjects>,
}

pub(crate) fn unmatched_objects<L: Lens>(
    lens: &L,
    own: &Examination,
    other: &LiveObjects<'_>,
    top: usize,
) -> UnmatchedObjects {
    let mut all = UnmatchedObjects::default();
    let mut by_shape: BTreeMap<ShapeId, (u64, u64)> = BTreeMap::new();
    let mut is_unmatched = vec![false; own.graph.len() + 1];
    let same = other.same_shapes(own);
    for node in own.graph.nodes() {
        let is_there = other.find(lens, node, &same).is_some();
        let bytes = if is_there || !lens.is_in_heap(node.object) { 0 } else { lens.bytes(node.object) };
        // Nodes of a dump that stand for no memory are not new or gone.
        if bytes > 0 {
            is_unmatched[node.number as usize] = true;
            let figures = by_shape.entry(node.shape).or_default();
            *figures = (figures.0 + 1, figures.1 + bytes);
            (all.count, all.bytes) = (all.count + 1, all.bytes + bytes);
        }
    }
    let named = |(shape, figures): (&ShapeId, &(u64, u64))| (own.graph.shapes.name(*shape).to_owned(), *figures);
    all.figures = by_shape.iter().map(named).collect();
    let mut groups: Vec<(ShapeId, (u64, u64))> = by_shape.into_iter().collect();
    groups.sort_by_key(|(shape, (_, bytes))| (std::cmp::Reverse(*bytes), *shape));
    groups.truncate(top);
    if groups.is_empty() {
        return all;
    }
    let index_of: FxHashMap<ShapeId, usize> = groups.iter().enumerate().map(|(at, (shape, _))| (*shape, at)).collect();
    let mut examples = vec![0; groups.len()];
    let mut group_of: FxHashMap<u64, usize> = FxHashMap::default();
    for node in own.graph.nodes().filter(|node| is_unmatched[node.number as usize]) {
        if let Some(&group) = index_of.get(&node.shape) {
            examples[group] = node.object;
            group_of.insert(node.object, group);
        }
    }
    let mut paths = first_paths(lens, &own.survey, groups.len(), |object| group_of.get(&object).copied());
    let new = |(at, (shape, (count, bytes))): (usize, (ShapeId, (u64, u64)))| NewObjects {
        shape: own.graph.shapes.name(shape).to_owned(),
        count,
        bytes,
        example: examples[at],
        path: paths.remove(&at),
    };
    all.by_shape = groups.into_iter().enumerate().map(new).collect();
    all
}

/// The objects in both images whose retained sizes grew most. The growth of an object that is below another grown one counts only for the lower one: so the
/// first is the container to which things were added, and not the root above it.
pub(crate) fn grown_objects<L: Lens>(
    lens: &L,
    own: &Examination,
    before: &LiveObjects<'_>,
    top: usize,
) -> Vec<GrownObject> {
    let graph = &own.graph;
    let same = before.same_shapes(own);
    let mut retained_before: Vec<u64> = vec![0; graph.len() + 1];
    let mut is_matched = Bitmap::new(graph.len() as u64 + 1);
    for node in graph.nodes() {
        if let Some(number) = before.find(lens, node, &same) {
            retained_before[node.number as usize] = before.examination.graph.node(number).retained_bytes;
            is_matched.set(node.number.into());
        }
    }
    let growth_of = |node: &GraphNode| {
        let known = is_matched.get(node.number.into());
        if known { node.retained_bytes.saturating_sub(retained_before[node.number as usize]) } else { 0 }
    };
    let mut below: FxHashMap<u32, u64> = FxHashMap::default();
    for node in graph.nodes().filter(|node| growth_of(node) > 0) {
        // The nearest dominator that is in both images.
        let mut above = node.dominator;
        while above != 0 && !is_matched.get(above.into()) {
            above = graph.node(above).dominator;
        }
        *below.entry(above).or_default() += growth_of(&node);
    }
    let mut grown: Vec<(u64, GraphNode)> = graph
        .nodes()
        .map(|node| (growth_of(&node).saturating_sub(below.get(&node.number).copied().unwrap_or(0)), node))
        .filter(|(growth, _)| *growth > 0)
        .collect();
    grown.sort_by_key(|(growth, node)| (std::cmp::Reverse(*growth), node.number));
    grown.truncate(top.min(MOST_GROWN));
    let index_of: FxHashMap<u64, usize> = grown.iter().enumerate().map(|(at, (_, node))| (node.object, at)).collect();
    let mut paths = first_paths(lens, &own.survey, grown.len(), |object| index_of.get(&object).copied());
    let object = |(at, (growth, node)): (usize, (u64, GraphNode))| GrownObject {
        object: node.object,
        shape: graph.shapes.name(node.shape).to_owned(),
        growth,
        before: retained_before[node.number as usize],
        after: node.retained_bytes,
        path: paths.remove(&at),
    };
    grown.into_iter().enumerate().map(object).collect()
}

/// The live objects of an image, found by their addresses or identities.
pub struct LiveObjects<'e> {
    examination: &'e Examination,
    /// By rank among the live objects: the number of the object, if objects are addressed.
    by_rank: Vec<u32>,
    /// Identities and numbers, sorted, if they are not.
    by_identity: Vec<(u64, u32)>,
}

impl<'e> LiveObjects<'e> {
    pub(crate) fn of<L: Lens>(lens: &L, examination: &'e Examination) -> Self {
        let mut all = Self { examination, by_rank: Vec::new(), by_identity: Vec::new() };
        let nodes = examination.graph.nodes();
        if L::IS_ADDRESSED {
            all.by_rank = vec![0; examination.survey.live.ones() as usize];
            for node in nodes {
                if let Some(rank) = all.rank(node.object) {
                    all.by_rank[rank] = node.number;
                }
            }
        } else {
            all.by_identity = nodes.map(|node| (lens.identity(node.object), node.number)).collect();
            all.by_identity.sort_unstable();
        }
        all
    }

    fn rank(&self, object: u64) -> Option<usize> {
        let rank = self.examination.survey.live.rank(self.examination.graph.unit_of(object)?)?;
        Some(rank as usize)
    }

    /// By shape of another image, the shape of the same name in this one.
    fn same_shapes(&self, other: &Examination) -> Vec<Option<ShapeId>> {
        let shapes = &other.graph.shapes;
        shapes.ids().map(|id| self.examination.graph.shapes.find(shapes.name(id))).collect()
    }

    /// The number of the object that is the same as one of another image, whose shapes are `same` here.
    fn find<L: Lens>(&self, lens: &L, node: GraphNode, same: &[Option<ShapeId>]) -> Option<u32> {
        let number = if L::IS_ADDRESSED {
            self.by_rank[self.rank(node.object)?]
        } else {
            let identity = lens.identity(node.object);
            self.by_identity[self.by_identity.binary_search_by_key(&identity, |entry| entry.0).ok()?].1
        };
        let shape = self.examination.graph.node(number).shape;
        (number != 0 && Some(shape) == same[node.shape.0 as usize]).then_some(number)
    }
}
