//! What names say of the frames and stacks of a history, found once for all questions.
//!
//! A compiler's recording has 180,000 sites of fifty frames each. They are made of ten thousand different frames, and of a trie with few more nodes than
//! sites. So names are compared once for each frame, and sums are made once for each node of the trie.

use crate::error::QueryError;
use crate::grouping::CallSums;
use crate::names::label;
use crate::query::Query;
use crate::stacks::MOST_FRAMES;
use highwater_model::groups::{FrameKey, GroupBy, GroupKey};
use highwater_model::{Catalog, FrameId, FrameRoles, Naming, SiteType, SiteTypes, StackId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// What names say of the frames and stacks of a history.
pub struct CallTrie {
    naming: Naming,
    /// The names of frames, each once.
    pub labels: Vec<String>,
    /// By frame: the number of its name, and whether it is seen only with the frames of libraries.
    frames: Vec<(u32, bool)>,
    /// By stack: the number of its frames, inlined ones included.
    depths: Vec<u32>,
    sites: Mutex<NamedSites>,
    groups: [OnceLock<FrameGroups>; 4],
    types: OnceLock<Mutex<NumberedTypes>>,
    /// Those of the latest measurement: its tables are asked for one after the other.
    sums: Mutex<Option<(String, Arc<CallSums>)>>,
}

/// The types that the stacks of sites show; their names are numbered in the order in which they are asked for.
pub struct NumberedTypes {
    types: SiteTypes,
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    /// By stack; `NO_NUMBER` where it was not asked for.
    by_stack: Vec<u32>,
}

const NO_NUMBER: u32 = u32::MAX;

impl NumberedTypes {
    /// The type that a stack shows.
    pub fn of(&mut self, catalog: &Catalog, stack: StackId) -> Arc<SiteType> {
        self.types.of(catalog, stack)
    }

    /// The number of the name of that type.
    pub fn number(&mut self, catalog: &Catalog, stack: StackId) -> u32 {
        let at = stack.0 as usize;
        if let Some(known) = self.by_stack.get(at).filter(|known| **known != NO_NUMBER) {
            return *known;
        }
        let found = self.types.of(catalog, stack);
        let next = self.names.len() as u32;
        let number = match self.numbers.get(&found.name) {
            Some(known) => *known,
            None => {
                self.names.push(found.name.clone());
                self.numbers.insert(found.name.clone(), next);
                next
            }
        };
        self.by_stack.resize(self.by_stack.len().max(at + 1), NO_NUMBER);
        self.by_stack[at] = number;
        number
    }

    /// The names, by their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// The number of passing frames of each stack, as far as it was asked for.
pub struct NamedSites {
    roles: FrameRoles,
    /// By stack; `NOT_KNOWN` where it was not asked for.
    passing: Vec<u16>,
}

const NOT_KNOWN: u16 = u16::MAX;

impl CallTrie {
    /// That of a query's history and naming.
    pub fn of(query: &Query) -> Result<Arc<Self>, QueryError> {
        let Naming { is_raw, allocators, learned } = &query.naming;
        let key = format!("{is_raw} {allocators:?} {:?}", learned.names());
        let catalog = query.history.catalog();
        let make = || Ok(Self::new(catalog, &query.naming));
        // The groups of four tables, the numbers of types and the sums of a measurement are made later.
        query.history.cached(key, make, |made| made.depths.len() * 128 + made.frames.len() * 512)
    }

    /// That of a catalog.
    pub fn new(catalog: &Catalog, naming: &Naming) -> Self {
        let mut roles = FrameRoles::default();
        let (mut labels, mut numbers) = (Vec::new(), FxHashMap::default());
        let frame = |(id, frame)| {
            let label = label(&catalog.frame_text(frame));
            let number = match numbers.get(&label) {
                Some(number) => *number,
                None => {
                    let next = labels.len() as u32;
                    labels.push(label.clone());
                    numbers.insert(label, next);
                    next
                }
            };
            (number, roles.is_background(catalog, naming, id))
        };
        let frames = (0..).map(FrameId).zip(catalog.stacks.frames()).map(frame).collect();
        let nodes = catalog.stacks.nodes();
        let mut depths = vec![0u32; nodes.len()];
        for (at, node) in nodes.iter().enumerate().skip(1) {
            // A stack ends where a frame was lost.
            if catalog.stacks.frame(node.frame).is_some() {
                let own = catalog.stacks.frame_ids(node.frame).len() as u32;
                depths[at] = depths[node.parent.0 as usize].saturating_add(own);
            }
        }
        let sites = NamedSites { roles, passing: vec![NOT_KNOWN; nodes.len()] };
        Self {
            naming: naming.clone(),
            labels,
            frames,
            depths,
            sites: Mutex::new(sites),
            groups: Default::default(),
            types: OnceLock::new(),
            sums: Mutex::default(),
        }
    }

    /// The number of a frame's name.
    pub fn label_of(&self, frame: FrameId) -> u32 {
        self.frames.get(frame.0 as usize).map_or(0, |frame| frame.0)
    }

    /// Whether a frame is one of a language's library, or runs before `main`.
    pub fn is_background(&self, frame: FrameId) -> bool {
        self.frames.get(frame.0 as usize).is_some_and(|frame| frame.1)
    }

    /// The number of frames of a stack, inlined ones included.
    pub fn depth(&self, stack: StackId) -> usize {
        self.depths.get(stack.0 as usize).map_or(0, |depth| *depth as usize)
    }

    /// The number of passing frames of sites: for many of them, this is asked for once.
    pub fn sites(&self) -> MutexGuard<'_, NamedSites> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The types that the stacks of sites show.
    pub fn site_types(&self, catalog: &Catalog) -> MutexGuard<'_, NumberedTypes> {
        let new = || {
            let types = SiteTypes::new(catalog, &self.naming);
            let by_stack = vec![NO_NUMBER; catalog.stacks.nodes().len()];
            Mutex::new(NumberedTypes { types, names: Vec::new(), numbers: FxHashMap::default(), by_stack })
        };
        let types = self.types.get_or_init(new);
        types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a table by function, file, module or line.
    pub fn groups(&self, catalog: &Catalog, by: GroupBy) -> &FrameGroups {
        let at = match by {
            GroupBy::File => 1,
            GroupBy::Module => 2,
            GroupBy::Line => 3,
            _ => 0,
        };
        self.groups[at].get_or_init(|| FrameGroups::new(catalog, by))
    }

    /// The sums of a measurement with this key, made if they are not those of the latest one.
    pub fn call_sums<E>(&self, key: &str, make: impl FnOnce() -> Result<CallSums, E>) -> Result<Arc<CallSums>, E> {
        let mut latest = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, sums)) = latest.as_ref().filter(|(known, _)| known == key) {
            return Ok(Arc::clone(sums));
        }
        let sums = Arc::new(make()?);
        *latest = Some((key.to_owned(), Arc::clone(&sums)));
        Ok(sums)
    }

    /// How many frames of a stack only pass memory on; the next one names the site.
    pub fn passing(&self, sites: &mut NamedSites, catalog: &Catalog, stack: StackId) -> usize {
        let NamedSites { roles, passing } = sites;
        let Some(known) = passing.get_mut(stack.0 as usize) else { return 0 };
        if *known == NOT_KNOWN {
            *known = roles.site(catalog, &self.naming, stack, MOST_FRAMES).passing as u16;
        }
        *known as usize
    }
}

/// The rows of a table by function, file, module or line: their keys, and the rows that each node of the trie counts for.
pub struct FrameGroups {
    /// The keys of the rows. The first row is that of unknown frames.
    pub keys: Vec<GroupKey>,
    /// By frame: its row.
    rows: Vec<u32>,
    /// Of each node, the rows that occur in it and in none of its callers: `outermost[starts[node]..starts[node + 1]]`.
    starts: Vec<u32>,
    outermost: Vec<u32>,
}

impl FrameGroups {
    fn new(catalog: &Catalog, by: GroupBy) -> Self {
        let mut numbers: BTreeMap<FrameKey<'_>, u32> = BTreeMap::from([(FrameKey::UNKNOWN, 0)]);
        let rows = catalog.stacks.frames().iter().map(|frame| {
            let next = numbers.len() as u32;
            *numbers.entry(catalog.frame_text(frame).key_by(by)).or_insert(next)
        });
        let rows: Vec<u32> = rows.collect();
        let mut keys = vec![GroupKey::Name(String::new()); numbers.len()];
        numbers.into_iter().for_each(|(key, number)| keys[number as usize] = key.into());
        let (starts, outermost) = outermost_rows(catalog, &rows, keys.len());
        Self { keys, rows, starts, outermost }
    }

    /// The row of a frame.
    pub fn row_of(&self, frame: FrameId) -> u32 {
        self.rows.get(frame.0 as usize).copied().unwrap_or(0)
    }

    /// The rows that occur in a node of the trie, and in none of its callers.
    pub fn outermost(&self, node: usize) -> &[u32] {
        &self.outermost[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

/// For each node of the trie, the rows that do not occur in its callers. A row counts a stack once, however often it occurs in it.
fn outermost_rows(catalog: &Catalog, rows: &[u32], count: usize) -> (Vec<u32>, Vec<u32>) {
    let nodes = catalog.stacks.nodes();
    let is_lost = |node: usize| catalog.stacks.frame(nodes[node].frame).is_none();
    // The nodes in the order of a walk from callers to callees: siblings are linked, and a node is left after its last callee.
    const NONE: u32 = u32::MAX;
    let (mut first_child, mut next_sibling) = (vec![NONE; nodes.len()], vec![NONE; nodes.len()]);
    let mut roots = Vec::new();
    for node in (1..nodes.len()).rev() {
        let parent = nodes[node].parent.0 as usize;
        if parent == 0 || is_lost(parent) {
            roots.push(node as u32);
        } else {
            next_sibling[node] = std::mem::replace(&mut first_child[parent], node as u32);
        }
    }
    let mut starts = vec![0u32; nodes.len() + 1];
    let mut of_node: Vec<(u32, u32)> = vec![(0, 0); nodes.len()];
    let (mut is_on_path, mut path, mut kept) = (vec![false; count], Vec::<u32>::new(), Vec::<u32>::new());
    for root in roots {
        path.push(root);
        let mut is_entering = true;
        while let Some(&node) = path.last() {
            let at = node as usize;
            if is_entering {
                let start = kept.len() as u32;
                if !is_lost(at) {
                    for frame in catalog.stacks.frame_ids(nodes[at].frame).rev() {
                        let row = rows[frame as usize];
                        if !std::mem::replace(&mut is_on_path[row as usize], true) {
                            kept.push(row);
                        }
                    }
                }
                of_node[at] = (start, kept.len() as u32);
                if first_child[at] != NONE {
                    path.push(first_child[at]);
                    continue;
                }
            }
            let (start, end) = of_node[at];
            kept[start as usize..end as usize].iter().for_each(|row| is_on_path[*row as usize] = false);
            path.pop();
            is_entering = next_sibling[at] != NONE;
            if is_entering {
                path.push(next_sibling[at]);
            }
        }
    }
    let mut outermost = Vec::with_capacity(kept.len());
    for node in 0..nodes.len() {
        let (start, end) = of_node[node];
        outermost.extend_from_slice(&kept[start as usize..end as usize]);
        starts[node + 1] = outermost.len() as u32;
    }
    (starts, outermost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_model::FrameText;
    use highwater_model::groups::StackKeys;

    #[test]
    fn the_rows_of_a_stack_are_those_of_its_nodes() {
        let mut catalog = Catalog::default();
        let frame = |function, file, line| FrameText { function, file, line, module: "app", ..FrameText::default() };
        let (main, walk, leaf) = (frame("main", "a.c", 1), frame("walk", "a.c", 2), frame("leaf", "b.c", 3));
        let stacks = [
            vec![leaf, walk, walk, main],
            vec![walk, leaf, walk, main],
            vec![leaf, main, leaf],
            vec![main],
            vec![leaf, walk, main],
            vec![frame("", "", 0), main],
        ];
        let ids: Vec<StackId> = stacks.iter().map(|stack| catalog.intern_stack(stack)).collect();
        for by in [GroupBy::Function, GroupBy::File, GroupBy::Module, GroupBy::Line] {
            let groups = FrameGroups::new(&catalog, by);
            for id in &ids {
                let frames: Vec<FrameText<'_>> = catalog.frame_texts(*id).collect();
                let keys = StackKeys::of(&frames, &Naming::default(), by);
                let mut expected: Vec<GroupKey> = keys.all.into_iter().map(GroupKey::from).collect();
                let mut found = Vec::new();
                let mut at = *id;
                while at != StackId::UNKNOWN {
                    let rows = groups.outermost(at.0 as usize).iter();
                    found.extend(rows.map(|row| groups.keys[*row as usize].clone()));
                    at = catalog.stacks.nodes()[at.0 as usize].parent;
                }
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "{by:?} {frames:?}");
            }
        }
    }
}
