//! The retained sizes of objects and of shapes.

use super::ShapeFigures;
use super::order::SearchOrder;
use crate::large::zeros;
use crate::lens::Lens;
use crate::survey::UnitIndex;

/// By number, the retained size of each object in units; by shape, its figures.
pub fn retained<L: Lens>(
    lens: &L,
    order: &SearchOrder,
    dominator: &[u32],
    shapes: usize,
) -> (Vec<u32>, Vec<ShapeFigures>) {
    let index = UnitIndex::of(lens);
    let count = order.len();
    let mut figures = vec![ShapeFigures::default(); shapes];
    let mut retained: Vec<u32> = zeros(count);
    for number in 1..count {
        let size = order.size(lens, index, number as u32);
        retained[number] = size;
        let of_shape = &mut figures[usize::from(order.shape[number].0)];
        of_shape.count += 1;
        of_shape.bytes += u64::from(size) * L::UNIT;
    }
    // Objects without references have the highest numbers. Of all others, a dominator has a lower number than the objects it dominates.
    for number in (1..count).rev() {
        let own = retained[number];
        let above = &mut retained[dominator[number] as usize];
        *above = above.saturating_add(own);
    }
    add_by_shape(order, dominator, &retained, L::UNIT, &mut figures);
    (retained, figures)
}

/// Adds the retained sizes of its objects to each shape. Objects below another of the same shape are in the figure of that one already.
fn add_by_shape(order: &SearchOrder, dominator: &[u32], retained: &[u32], unit: u64, figures: &mut [ShapeFigures]) {
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
            let shape = usize::from(order.shape[child as usize].0);
            if above[shape] == 0 {
                figures[shape].retained_bytes += u64::from(retained[child as usize]) * unit;
            }
            if child <= order.inner {
                above[shape] += 1;
                at = child;
            }
        } else if at == 0 {
            return;
        } else {
            above[usize::from(order.shape[at as usize].0)] -= 1;
            at = dominator[at as usize];
        }
    }
}
