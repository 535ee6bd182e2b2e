//! The figures of all sites.

use crate::figures::Figures;
use crate::ids::StackId;

/// Figures by stack, for stacks that allocate.
///
/// A stack's number is that of its innermost call among all calls of all stacks, so most numbers are not sites. A row of figures takes two cache
/// lines. One row per call would take ten times the memory that the sites need, and the recording of a compiler would spend more time on fresh pages
/// than on events.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// By stack: its row plus one; 0 for a stack that is not a site.
    rows: Vec<u32>,
    figures: Vec<Figures>,
}

impl Sites {
    /// The number of sites.
    pub fn len(&self) -> usize {
        self.figures.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// The figures of a stack, if it is a site.
    pub fn get(&self, stack: StackId) -> Option<&Figures> {
        self.figures.get(self.row(stack)?)
    }

    /// The figures of a stack, which becomes a site if it is not one yet.
    pub fn at(&mut self, stack: StackId) -> &mut Figures {
        let row = self.row(stack).unwrap_or_else(|| self.add(stack));
        &mut self.figures[row]
    }

    /// All sites, ordered by stack.
    pub fn iter(&self) -> impl Iterator<Item = (StackId, &Figures)> {
        let figures = |row: &u32| self.figures.get(row.checked_sub(1)? as usize);
        (0..).map(StackId).zip(&self.rows).filter_map(move |(stack, row)| Some((stack, figures(row)?)))
    }

    /// The figures of all sites, in the order in which the sites were added.
    pub fn figures(&self) -> &[Figures] {
        &self.figures
    }

    /// The same, mutable.
    pub fn figures_mut(&mut self) -> &mut [Figures] {
        &mut self.figures
    }

    /// The index of a site in [`figures`](Self::figures).
    #[inline(always)]
    pub fn row(&self, stack: StackId) -> Option<usize> {
        self.rows.get(stack.0 as usize).and_then(|row| row.checked_sub(1)).map(|row| row as usize)
    }

    /// Makes a stack a site, and returns its row. The stack must not be a site yet.
    #[cold]
    pub(crate) fn add(&mut self, stack: StackId) -> usize {
        let index = stack.0 as usize;
        if index >= self.rows.len() {
            self.rows.resize(index + 1, 0);
        }
        self.figures.push(Figures::default());
        self.rows[index] = self.figures.len() as u32;
        self.figures.len() - 1
    }
}

/// Compares by stack. Sites that never held anything make no difference, nor does the order in which they were added.
impl PartialEq for Sites {
    fn eq(&self, other: &Self) -> bool {
        let used = |(_, figures): &(StackId, &Figures)| !figures.is_empty();
        self.iter().filter(used).eq(other.iter().filter(used))
    }
}

impl Eq for Sites {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(stacks in prop::collection::vec(0u32..300, 0..100)) {
            let (mut sites, mut map) = (Sites::default(), BTreeMap::<StackId, Figures>::new());
            for (size, stack) in (0..).zip(stacks) {
                let one = Figures { allocations: 1, allocated_bytes: size, ..Figures::default() };
                sites.at(StackId(stack)).add(&one);
                map.entry(StackId(stack)).or_default().add(&one);
            }
            prop_assert!(sites.iter().eq(map.iter().map(|(stack, figures)| (*stack, figures))));
            prop_assert_eq!(sites.len(), map.len());
            for stack in (0..310).map(StackId) {
                prop_assert_eq!(sites.get(stack), map.get(&stack));
                prop_assert_eq!(sites.row(stack).map(|row| &sites.figures()[row]), map.get(&stack));
            }
            let mut backwards = Sites::default();
            map.iter().rev().for_each(|(stack, figures)| *backwards.at(*stack) = *figures);
            backwards.at(StackId(500));
            prop_assert_eq!(&sites, &backwards);
            sites.at(StackId(7)).frees += 1;
            prop_assert_ne!(sites, backwards);
        }
    }
}
