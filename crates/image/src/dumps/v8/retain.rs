//! Which edges keep their targets alive, by the rules of Chrome's developer tools, so that retained sizes are the same.

use super::graph::{V8Heap, retained};
use super::meta::{EdgeKind, kind};
use crate::bitmap::Bitmap;
use crate::lens::{Root, RootName};
use rustc_hash::FxHashMap;

/// The node of a snapshot from which all others are reached.
pub const ROOT: u32 = 0;

/// Whether a node is part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomState {
    /// It is no element, or the file does not say.
    Unknown,
    /// It is.
    Attached,
    /// It is not any more, and only the program refers to it.
    Detached,
}

impl DomState {
    /// The state with a number in a file.
    pub fn of(number: u64) -> Self {
        match number {
            1 => Self::Attached,
            2 => Self::Detached,
            _ => Self::Unknown,
        }
    }
}

/// Finds the edges that do not retain, the roots, and the detached elements.
pub fn finish_edges(heap: &mut V8Heap, states: &[(u32, DomState)]) {
    release_values_from_tables(heap);
    heap.reached = release_from_runtime(heap);
    heap.roots = find_roots(heap);
    mark_detached(heap, states);
}

/// A value in a weak map is alive as long as both its key and the map are. It counts as the key's, not as the table's: removing either is enough.
fn release_values_from_tables(heap: &mut V8Heap) {
    let mut tables: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for string in 0..heap.strings.len() as u32 {
        if let Some(table) = table_of_pair(heap.strings.raw(string)) {
            tables.entry(table).or_default().push(string);
        }
    }
    if tables.is_empty() {
        return;
    }
    for node in 0..heap.len() {
        let Some(names) = tables.get(&heap.id_of(node)) else { continue };
        for edge in heap.edges_of(node) {
            // The strings are in order.
            if heap.edge_kind(edge) == EdgeKind::Internal && names.binary_search(&heap.edge_name(edge)).is_ok() {
                heap.release(edge);
            }
        }
    }
}

/// The id of the table in the name of an edge to a value of a weak map: `6 / part of key (… @17) -> value (… @19) pair in WeakMap (table @21)`.
fn table_of_pair(name: &[u8]) -> Option<u32> {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = name.get(digits..).filter(|_| digits > 0)?.strip_prefix(b" / part of key (")?;
    let start = rest.iter().rposition(|byte| *byte == b'@')?;
    let (pair, table) = rest.split_at(start);
    let table = table.strip_prefix(b"@")?.strip_suffix(b")")?;
    let is_pair = pair.ends_with(b") pair in WeakMap (table ") && contains(pair, b") -> value (");
    std::str::from_utf8(table).ok().filter(|_| is_pair)?.parse().ok()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// What the program can reach counts as retained by the program, even if the runtime or a debugger refers to it, too. Returns the nodes that retaining edges
/// lead to.
fn release_from_runtime(heap: &mut V8Heap) -> Bitmap {
    let nodes = heap.len();
    let mut reached = Bitmap::new(nodes.into());
    let mut waiting = Vec::new();
    for edge in heap.edges_of(ROOT) {
        let to = heap.target(edge);
        let is_entry = match heap.edge_kind(edge) {
            EdgeKind::Shortcut => true,
            EdgeKind::Element => is_document_root(heap, to),
            _ => false,
        };
        if is_entry && to != ROOT && reached.set(to.into()) {
            waiting.push(to);
        }
    }
    // First along retaining edges; the other ways that are not weak lead to what the program owns, too.
    let mut others = reach(heap, waiting, &mut reached);
    let mut owned = reached.clone();
    while !others.is_empty() {
        let fresh = others.into_iter().filter(|node| *node != ROOT && owned.set(u64::from(*node))).collect();
        others = reach(heap, fresh, &mut owned);
    }
    for node in (1..nodes).filter(|node| !owned.get(u64::from(*node))) {
        for edge in heap.edges_of(node) {
            if owned.get(heap.target(edge).into()) {
                heap.release(edge);
            }
        }
    }
    let rest: Vec<u32> = heap.targets_of(ROOT).iter().filter_map(|target| retained(*target)).collect();
    let rest = rest.into_iter().filter(|node| reached.set(u64::from(*node))).collect();
    reach(heap, rest, &mut reached);
    reached
}

/// Marks all nodes to which retaining edges lead from some nodes. Returns the targets of other edges that are not weak.
fn reach(heap: &V8Heap, mut waiting: Vec<u32>, reached: &mut Bitmap) -> Vec<u32> {
    let mut others = Vec::new();
    while let Some(node) = waiting.pop() {
        for (&target, edge) in heap.targets_of(node).iter().zip(heap.edges_of(node)) {
            match retained(target) {
                Some(target) if reached.set(target.into()) => waiting.push(target),
                None if heap.edge_kind(edge) != EdgeKind::Weak => others.push(heap.target(edge)),
                _ => {}
            }
        }
    }
    others
}

fn is_document_root(heap: &V8Heap, node: u32) -> bool {
    heap.kind_of(node) == kind::SYNTHETIC && heap.strings.raw(heap.name_of(node)) == b"(Document DOM trees)"
}

/// The objects to which the first node refers: those of the program, then those of the runtime.
fn find_roots(heap: &V8Heap) -> Vec<Root> {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut roots = Vec::new();
    for &target in heap.targets_of(ROOT) {
        if let Some(node) = retained(target).filter(|node| *node != ROOT && seen.insert(*node)) {
            let name = RootName::Named(heap.strings.preview(heap.name_of(node), super::LONGEST_NAME));
            let is_variable = heap.kind_of(node) != kind::SYNTHETIC || is_document_root(heap, node);
            roots.push(Root { object: node.into(), name, is_variable });
        }
    }
    roots.sort_by_key(|root| !root.is_variable);
    roots
}

/// Marks the elements that are detached. The file says it of those that the program refers to; what is below them is the same.
fn mark_detached(heap: &mut V8Heap, states: &[(u32, DomState)]) {
    if !states.iter().any(|(_, state)| *state == DomState::Detached) {
        return;
    }
    let mut visited = Bitmap::new(heap.len().into());
    let (mut attached, mut detached) = (Vec::new(), Vec::new());
    for &(node, state) in states {
        if visited.set(node.into()) && heap.kind_of(node) == kind::NATIVE {
            match state {
                DomState::Detached => detached.push(node),
                _ => attached.push(node),
            }
        }
    }
    detached.iter().for_each(|node| heap.set_detached(*node));
    // Attached elements first: what is below one of them is attached, whatever else refers to it.
    for (mut waiting, is_detached) in [(attached, false), (detached, true)] {
        while let Some(node) = waiting.pop() {
            for edge in heap.edges_of(node) {
                let to = heap.target(edge);
                let is_link = matches!(heap.edge_kind(edge), EdgeKind::Hidden | EdgeKind::Weak);
                if is_link || !visited.set(to.into()) || heap.kind_of(to) != kind::NATIVE {
                    continue;
                }
                if is_detached {
                    heap.set_detached(to);
                }
                waiting.push(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::table_of_pair;

    #[test]
    fn the_table_is_read_from_the_name_of_an_edge() {
        let name = b"600 / part of key (Account @76177) -> value (Object @77873) pair in WeakMap (table @77867)";
        assert_eq!(table_of_pair(name), Some(77867));
        for other in [
            "",
            "6 / part of key",
            "part of key (a @1) -> value (b @2) pair in WeakMap (table @3)",
            "6 / part of key (a @1) pair in WeakMap (table @3)",
        ] {
            assert_eq!(table_of_pair(other.as_bytes()), None);
        }
    }
}
