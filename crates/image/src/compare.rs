//! The changes between images of one program.

use crate::examine::Examination;
use crate::graph::ShapeFigures;
use crate::heap::ImageHeap;
use crate::lens::Lens;
use crate::path::ObjectPath;
use crate::paths::first_paths;
use crate::shapes::ShapeId;
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
    if images.iter().any(|image| image.heap.lens().key() != first.heap.lens().key()) {
        return Err(DifferentHeaps);
    }
    let came = last.heap.unmatched_objects(last.examination, first.examination, top);
    let went = first.heap.unmatched_objects(first.examination, last.examination, 0);
    Ok(Comparison {
        shapes: shapes(images),
        roots: roots(images),
        came: (came.count, came.bytes),
        went: (went.count, went.bytes),
        new: came.by_shape,
    })
}

fn shapes(images: &[ComparedImage<'_, '_>]) -> Vec<ShapeChange> {
    let mut by_name: BTreeMap<&str, Vec<ShapeFigures>> = BTreeMap::new();
    for (at, image) in images.iter().enumerate() {
        for (id, figures) in image.examination.graph.figures.iter().enumerate() {
            let name = image.examination.graph.shapes.name(ShapeId(id as u16));
            by_name.entry(name).or_insert_with(|| vec![ShapeFigures::default(); images.len()])[at] = *figures;
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

fn roots(images: &[ComparedImage<'_, '_>]) -> Vec<RootChange> {
    let mut by_name: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (at, image) in images.iter().enumerate() {
        for (name, retained) in retained_by_variables(image) {
            by_name.entry(name).or_insert_with(|| vec![0; images.len()])[at] = retained;
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

/// The live objects of one image that another does not have. An object is the same if it is at the same address and has the same shape.
#[derive(Clone, Debug, Default)]
pub struct UnmatchedObjects {
    /// The number of all.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The shapes with most bytes.
    pub by_shape: Vec<NewObjects>,
}

pub(crate) fn unmatched_objects<L: Lens>(
    lens: &L,
    own: &Examination,
    other: &Examination,
    top: usize,
) -> UnmatchedObjects {
    let others = LiveShapes::of(other);
    // By shape of this image, the shape of the same name in the other one.
    let same: Vec<Option<ShapeId>> =
        own.graph.shapes.ids().map(|id| other.graph.shapes.find(own.graph.shapes.name(id))).collect();
    let mut all = UnmatchedObjects::default();
    let mut by_shape: BTreeMap<ShapeId, (u64, u64)> = BTreeMap::new();
    let mut is_unmatched = vec![false; own.graph.len() + 1];
    for node in own.graph.nodes() {
        let is_there = others.at(node.object).is_some_and(|shape| Some(shape) == same[usize::from(node.shape.0)]);
        if lens.is_in_heap(node.object) && !is_there {
            is_unmatched[node.number as usize] = true;
            let figures = by_shape.entry(node.shape).or_default();
            let bytes = lens.bytes(node.object);
            *figures = (figures.0 + 1, figures.1 + bytes);
            (all.count, all.bytes) = (all.count + 1, all.bytes + bytes);
        }
    }
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

/// The shapes of all live objects of an image, by address.
struct LiveShapes<'a> {
    examination: &'a Examination,
    /// By rank among the live objects.
    shapes: Vec<Option<ShapeId>>,
}

impl<'a> LiveShapes<'a> {
    fn of(examination: &'a Examination) -> Self {
        let mut all = Self { examination, shapes: vec![None; examination.survey.live.ones() as usize] };
        for node in examination.graph.nodes() {
            if let Some(rank) = all.rank(node.object) {
                all.shapes[rank] = Some(node.shape);
            }
        }
        all
    }

    fn rank(&self, object: u64) -> Option<usize> {
        let rank = self.examination.survey.live.rank(self.examination.graph.unit_of(object)?)?;
        Some(rank as usize)
    }

    /// The shape of the live object at an address.
    fn at(&self, object: u64) -> Option<ShapeId> {
        self.shapes[self.rank(object)?]
    }
}
