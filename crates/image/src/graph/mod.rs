//! The graph of live objects: dominators and retained sizes.

mod dominators;
mod order;
mod retained;

use crate::lens::Lens;
use crate::path::ObjectPath;
use crate::paths::first_paths;
use crate::shapes::{ShapeId, Shapes};
use crate::survey::{Largest, Survey, UnitIndex};
use order::SearchOrder;
use retained::Sizes;
use rustc_hash::FxHashMap;

/// The live objects, each with its dominator and its retained size. It takes sixteen bytes for each.
///
/// Objects have numbers: 0 stands for all roots together. A dominator that is not a root has a lower number than the objects that it dominates, except
/// those that refer to nothing. See [`survey`](crate::survey()) for which objects are live.
pub struct Graph {
    /// By number: the object's offset in units.
    units: Vec<u32>,
    dominator: Vec<u32>,
    /// By number: the retained size, the object itself included, in units of sizes.
    retained: Sizes,
    shape: Vec<ShapeId>,
    /// All shapes.
    pub shapes: Shapes,
    /// Figures by shape.
    pub figures: Vec<ShapeFigures>,
    /// The numbers of the survey's largest objects, and paths to them.
    pub largest: Vec<(u32, ObjectPath)>,
    index: UnitIndex,
    size_unit: u64,
}

/// The shortest paths to the survey's largest objects, by their index.
fn shortest<L: Lens>(lens: &L, survey: &Survey) -> FxHashMap<usize, ObjectPath> {
    // The search would go on to the end for an object that no root leads to.
    let index = UnitIndex::of(lens);
    let is_reached = |one: &Largest| !survey.unreferred.get(index.unit(one.object));
    let largest = survey.largest.iter().enumerate().filter(|(_, one)| is_reached(one));
    let objects: FxHashMap<u64, usize> = largest.map(|(at, one)| (one.object, at)).collect();
    if !L::VARIABLES_FIRST || objects.is_empty() {
        return FxHashMap::default();
    }
    first_paths(lens, survey, objects.len(), |object| objects.get(&object).copied())
}

/// Figures of a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeFigures {
    /// The number of live objects with the shape.
    pub count: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// The bytes that would be freed if all of them were.
    pub retained_bytes: u64,
}

/// A live object of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Its number.
    pub number: u32,
    /// Its address.
    pub object: u64,
    /// The number of its dominator.
    pub dominator: u32,
    /// Its retained bytes, itself included.
    pub retained_bytes: u64,
    /// Its shape.
    pub shape: ShapeId,
}

impl Graph {
    /// The graph of the objects that a survey found to be live.
    pub fn of<L: Lens>(lens: &L, survey: &Survey) -> Self {
        let mut shapes = Shapes::default();
        // First, because this search takes memory, too.
        let shortest = shortest(lens, survey);
        let (mut order, mut largest) = SearchOrder::of(lens, survey, &mut shapes);
        for (at, path) in shortest {
            if let Some(entry) = largest.get_mut(at) {
                entry.1 = path;
            }
        }
        let dominator = dominators::dominators(&mut order);
        let (retained, figures) = retained::retained(lens, &order, &dominator, &mut shapes);
        let shape = if L::HAS_TABLES {
            let index = UnitIndex::of(lens);
            let numbers = 0..order.len() as u32;
            numbers
                .map(|number| if number == 0 { ShapeId(0) } else { order.shape(lens, index, &mut shapes, number) })
                .collect()
        } else {
            std::mem::take(&mut order.shape)
        };
        let SearchOrder { units, .. } = order;
        let (index, size_unit) = (UnitIndex::of(lens), L::SIZE_UNIT);
        Self { units, dominator, retained, shape, shapes, figures, largest, index, size_unit }
    }

    /// The number of live objects.
    pub fn len(&self) -> usize {
        self.units.len() - 1
    }

    /// True if no object is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, by number: of two objects that refer to others, a dominator comes first.
    pub fn nodes(&self) -> impl Iterator<Item = GraphNode> + '_ {
        (1..self.units.len() as u32).map(|number| self.node(number))
    }

    /// The object with a number.
    pub fn node(&self, number: u32) -> GraphNode {
        let at = number as usize;
        GraphNode {
            number,
            object: self.index.address(self.units[at]),
            dominator: self.dominator[at],
            retained_bytes: self.retained.get(number) * self.size_unit,
            shape: self.shape[at],
        }
    }

    /// The offset of an address in units, if an object could begin there.
    pub(crate) fn unit_of(&self, object: u64) -> Option<u64> {
        let unit = self.index.unit(object);
        u32::try_from(unit).ok().filter(|unit| self.index.address(*unit) == object).map(u64::from)
    }

    /// The live object at an address.
    pub fn find(&self, object: u64) -> Option<GraphNode> {
        self.nodes().find(|node| node.object == object)
    }
}
