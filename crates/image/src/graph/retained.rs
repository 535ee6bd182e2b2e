//! The retained sizes of objects and of shapes.

use super::ShapeFigures;
use super::order::SearchOrder;
use crate::large::zeros;
use crate::lens::Lens;
use crate::shapes::Shapes;
use crate::survey::UnitIndex;
use rustc_hash::FxHashMap;

/// Sizes by number, in units. They take four bytes each; the few that need more are kept apart.
#[derive(Default)]
pub struct Sizes {
    small: Vec<u32>,
    large: FxHashMap<u32, u64>,
}

/// Marks a size that is kept apart.
const LARGE: u32 = u32::MAX;

impl Sizes {
    fn zeros(count: usize) -> Self {
        Self { small: zeros(count), large: FxHashMap::default() }
    }

    /// The size of a number.
    #[inline]
    pub fn get(&self, number: u32) -> u64 {
        match self.small[number as usize] {
            LARGE => self.large.get(&number).copied().unwrap_or(LARGE.into()),
            small => small.into(),
        }
    }

    #[inline]
    fn add(&mut self, number: u32, size: u64) {
        let sum = self.get(number).saturating_add(size);
        if sum < LARGE.into() {
            self.small[number as usize] = sum as u32;
        } else {
            self.small[number as usize] = LARGE;
            self.large.insert(number, sum);
        }
    }
}

/// By number, the retained size of each object in units; by shape, its figures.
pub fn retained<L: Lens>(
    lens: &L,
    order: &SearchOrder,
    dominator: &[u32],
    shapes: &mut Shapes,
) -> (Sizes, Vec<ShapeFigures>) {
    let index = UnitIndex::of(lens);
    let count = order.len();
    let mut figures = vec![ShapeFigures::default(); shapes.len()];
    let mut retained = Sizes::zeros(count);
    for number in 1..count as u32 {
        let size = order.size(lens, index, number);
        retained.add(number, size);
        let shape = order.shape(lens, index, shapes, number).0 as usize;
        if shape >= figures.len() {
            figures.resize(shape + 1, ShapeFigures::default());
        }
        figures[shape].count += 1;
        figures[shape].bytes += size * L::SIZE_UNIT;
    }
    // Objects without references have the highest numbers. Of all others, a dominator has a lower number than the objects it dominates.
    for number in (1..count).rev() {
        retained.add(dominator[number], retained.get(number as u32));
    }
    let shape = |number: u32| order.shape(lens, index, shapes, number).0 as usize;
    add_by_shape(order, dominator, &retained, L::SIZE_UNIT, &mut figures, shape);
    (retained, figures)
}

/// Adds the retained sizes of its objects to each shape. Objects below another of the same shape are in the figure of that one already.
fn add_by_shape(
    order: &SearchOrder,
    dominator: &[u32],
    retained: &Sizes,
    unit: u64,
    figures: &mut [ShapeFigures],
    mut shape_of: impl FnMut(u32) -> usize,
) {
    let count = order.len();
    // Nothing dominates the roots, so 0 means none.
    let mut first: Vec<u32> = zeros(order.inner as usize + 1);
    let mut next: Vec<u32> = zeros(count);
    for number in (1..count).rev() {
        next[number] = std::mem::replace(&mut first[dominator[number] as usize], number as u32);
    }
    // The number of objects of each shape above the current one.
    let mut above = vec![0u32; figures.len()];
    let mut at = 0;
    loop {
        let below = first.get(at as usize).copied().filter(|child| *child != 0);
        if let Some(child) = below {
            // Each child is taken once; then `first` holds its next sibling.
            first[at as usize] = next[child as usize];
            let shape = shape_of(child);
            if above[shape] == 0 {
                figures[shape].retained_bytes += retained.get(child) * unit;
            }
            if child <= order.inner {
                above[shape] += 1;
                at = child;
            }
        } else if at == 0 {
            return;
        } else {
            above[shape_of(at)] -= 1;
            at = dominator[at as usize];
        }
    }
}
