//! Tables of what only snapshots of V8 have: detached elements, strings by their text, functions by their place.

use super::graph::V8Heap;
use super::meta::kind;
use super::show::{captured, function, text_of};
use crate::examine::Examination;
use crate::graph::GraphNode;
use crate::highlights::{Highlight, HighlightRow};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// The most characters of a string in a table.
const TEXT: usize = 60;
/// The most captured variables in a row.
const VARIABLES: usize = 6;

/// The groups of one table.
struct Groups<K> {
    title: &'static str,
    by_key: FxHashMap<K, HighlightRow>,
    count: u64,
    bytes: u64,
}

impl<K: std::hash::Hash + Eq + Ord + Copy> Groups<K> {
    fn new(title: &'static str) -> Self {
        Self { title, by_key: FxHashMap::default(), count: 0, bytes: 0 }
    }

    fn add(&mut self, key: K, node: GraphNode, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
        let row = self.by_key.entry(key).or_insert(HighlightRow { object: node.object, ..HighlightRow::default() });
        row.count += 1;
        row.bytes += bytes;
        row.retained_bytes += node.retained_bytes;
    }

    /// The `top` groups of largest rank, with their names.
    fn table<R: Ord>(self, top: usize, rank: impl Fn(&HighlightRow) -> R, name: impl Fn(u32) -> String) -> Highlight {
        let mut rows: Vec<(K, HighlightRow)> = self.by_key.into_iter().collect();
        rows.sort_by_key(|(key, row)| (Reverse(rank(row)), *key));
        rows.truncate(top);
        let named = |(_, row): (K, HighlightRow)| HighlightRow { what: name(row.object as u32), ..row };
        Highlight {
            title: self.title,
            rows: rows.into_iter().map(named).collect(),
            count: self.count,
            bytes: self.bytes,
        }
    }
}

/// The tables, each with at most `top` rows; those without rows are left out.
pub fn highlights(heap: &V8Heap, examination: &Examination, top: usize) -> Vec<Highlight> {
    let mut detached = Groups::new("detached nodes");
    let mut strings = Texts { sums: vec![TextSum::default(); heap.strings.len()], count: 0, bytes: 0 };
    let mut functions = Groups::new("closures");
    for node in examination.graph.nodes() {
        let number = node.object as u32;
        match heap.kind_of(number) {
            kind::STRING | kind::SLICED | kind::CONCATENATED => strings.add(heap, node),
            // Functions are the same if they come from the same place in the program.
            kind::CLOSURE => {
                let at = heap.locations.binary_search_by_key(&number, |location| location.0);
                let place = at.map_or((0, 0), |at| (heap.locations[at].1, heap.locations[at].2));
                functions.add((heap.name_of(number), place), node, heap.size_of(number));
            }
            _ if heap.is_detached(number) => detached.add(node.shape.0, node, heap.size_of(number)),
            _ => {}
        }
    }
    let with_variables = |node: u32| {
        let mut variables = captured(heap, node);
        let more = if variables.len() > VARIABLES { ", …" } else { "" };
        variables.truncate(VARIABLES);
        let function = function(heap, node);
        if variables.is_empty() { function } else { format!("{function}, captures {}{more}", variables.join(", ")) }
    };
    let mut tables = vec![
        detached.table(top, |row| row.retained_bytes, |node| heap.class_name(node)),
        strings.table(heap, top),
        functions.table(top, |row| row.retained_bytes, with_variables),
    ];
    tables.retain(|table| table.count > 0);
    tables
}

/// Strings by their text. There may be millions of different ones, so they are counted in an array by the number of the text.
struct Texts {
    sums: Vec<TextSum>,
    count: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct TextSum {
    bytes: u64,
    retained: u64,
    count: u32,
    example: u32,
}

impl Texts {
    fn add(&mut self, heap: &V8Heap, node: GraphNode) {
        let number = node.object as u32;
        let bytes = heap.size_of(number);
        self.count += 1;
        self.bytes += bytes;
        // Concatenated strings have no text of their own: their parts have.
        if heap.kind_of(number) != kind::CONCATENATED
            && let Some(sum) = self.sums.get_mut(heap.name_of(number) as usize)
        {
            sum.count += 1;
            sum.bytes += bytes;
            sum.retained += node.retained_bytes;
            sum.example = number;
        }
    }

    fn table(self, heap: &V8Heap, top: usize) -> Highlight {
        let mut largest: Vec<(u64, usize)> = Vec::new();
        for (text, sum) in self.sums.iter().enumerate().filter(|(_, sum)| sum.count > 0) {
            largest.push((sum.bytes, text));
            if largest.len() >= top.saturating_mul(2).max(1024) {
                keep_largest(&mut largest, top);
            }
        }
        keep_largest(&mut largest, top);
        let row = |(_, text): (u64, usize)| {
            let sum = self.sums[text];
            HighlightRow {
                what: text_of(heap, sum.example, TEXT),
                object: sum.example.into(),
                count: sum.count.into(),
                bytes: sum.bytes,
                retained_bytes: sum.retained,
            }
        };
        let rows = largest.into_iter().map(row).collect();
        Highlight { title: "strings", rows, count: self.count, bytes: self.bytes }
    }
}

/// Sorts by size, the largest first, and keeps some.
fn keep_largest(largest: &mut Vec<(u64, usize)>, top: usize) {
    largest.sort_by_key(|(bytes, text)| (Reverse(*bytes), *text));
    largest.truncate(top);
}
