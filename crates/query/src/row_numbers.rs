//! The row of a table that the memory of each owner counts for, by number: for questions that add up many changes of many owners.

use crate::call_trie::CallTrie;
use crate::error::QueryError;
use crate::grouping::owner_key;
use crate::query::Query;
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Catalog, StackId, Tag, ThreadId};
use highwater_store::history::{Moment, Owners, Work};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of a grouping, numbered from 0. Memory that is in no row, as blocks without a type among types, has the number after the last one.
pub struct RowNumbers {
    keys: Vec<GroupKey>,
    rows: RowsBy,
}

enum RowsBy {
    /// By the number of a stack.
    Stack(Vec<u32>),
    /// By the number of a tag.
    Tag(Vec<u32>),
    Thread(FxHashMap<ThreadId, u32>),
}

/// Gives each key a number.
#[derive(Default)]
struct Numbering {
    keys: Vec<GroupKey>,
    numbers: BTreeMap<GroupKey, u32>,
}

/// No row.
const NONE: u32 = u32::MAX;

impl Numbering {
    fn of(&mut self, key: GroupKey) -> u32 {
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(key.clone()).or_insert(next);
        if number == next {
            self.keys.push(key);
        }
        number
    }

    /// Replaces other numbers of rows, of which not all are used, by those of their keys.
    fn renumbered(&mut self, mut rows: Vec<u32>, key: impl Fn(usize) -> GroupKey) -> Vec<u32> {
        let mut known: Vec<u32> = Vec::new();
        for row in rows.iter_mut().filter(|row| **row != NONE) {
            let at = *row as usize;
            known.resize(known.len().max(at + 1), NONE);
            if known[at] == NONE {
                known[at] = self.of(key(at));
            }
            *row = known[at];
        }
        rows
    }
}

impl RowNumbers {
    /// The rows of a whole history, named as the table names them.
    pub fn of(query: &Query, by: GroupBy, work: &Work<'_>) -> Result<Arc<Self>, QueryError> {
        let key = format!("{by:?} {:?}", query.naming);
        query.history.cached(
            key,
            || Self::new(query, by, work),
            |numbers| {
                let rows = match &numbers.rows {
                    RowsBy::Stack(rows) | RowsBy::Tag(rows) => rows.len() * 4,
                    RowsBy::Thread(rows) => rows.len() * 16,
                };
                rows + numbers.keys.len() * 80
            },
        )
    }

    fn new(query: &Query, by: GroupBy, work: &Work<'_>) -> Result<Self, QueryError> {
        let (history, catalog) = (&query.history, query.history.catalog());
        let end = history.figures(Moment::End)?;
        let mut numbering = Numbering::default();
        let stacks = end.accounts.sites().iter().map(|(stack, _)| stack);
        let rows = match by {
            GroupBy::Thread => {
                let threads = end.accounts.threads().iter().map(|thread| thread.id);
                RowsBy::Thread(threads.map(|id| (id, numbering.of(GroupKey::Thread(id)))).collect())
            }
            GroupBy::Type if query.has_site_types() => {
                let trie = CallTrie::of(query)?;
                let mut types = trie.site_types(catalog);
                let rows = by_stack(stacks, catalog, |stack| types.number(catalog, stack), work)?;
                RowsBy::Stack(numbering.renumbered(rows, |number| GroupKey::Name(types.names()[number].clone())))
            }
            GroupBy::Type | GroupBy::Heap | GroupBy::Task => {
                let mut row = |tag: &Tag| match owner_key(catalog, by, *tag) {
                    // Blocks without a type are not among the types. Where there are no tasks at all, no row says so.
                    GroupKey::Name(name) if by == GroupBy::Type && name.is_empty() => NONE,
                    _ if by == GroupBy::Task && !catalog.has_tasks() => NONE,
                    key => numbering.of(key),
                };
                RowsBy::Tag(catalog.tags().iter().map(&mut row).collect())
            }
            GroupBy::Site => {
                let rows = by_stack(stacks, catalog, |stack| stack.0, work)?;
                RowsBy::Stack(numbering.renumbered(rows, |stack| GroupKey::Site(StackId(stack as u32))))
            }
            GroupBy::Function | GroupBy::File | GroupBy::Module | GroupBy::Line => {
                let trie = CallTrie::of(query)?;
                let (groups, mut sites) = (trie.groups(catalog, by), trie.sites());
                let row = |stack| {
                    let passing = trie.passing(&mut sites, catalog, stack);
                    catalog.stacks.frame_ids_of(stack).nth(passing).map_or(0, |frame| groups.row_of(frame))
                };
                let rows = by_stack(stacks, catalog, row, work)?;
                RowsBy::Stack(numbering.renumbered(rows, |row| groups.keys[row].clone()))
            }
        };
        Ok(Self { keys: numbering.keys, rows })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys of the rows, by their numbers.
    pub fn keys(&self) -> &[GroupKey] {
        &self.keys
    }

    /// The row of an owner; [`len`](Self::len) for none.
    #[inline]
    pub fn row(&self, owners: &Owners) -> u32 {
        let row = match &self.rows {
            RowsBy::Stack(rows) => rows.get(owners.stack.0 as usize),
            RowsBy::Tag(rows) => rows.get(owners.tag.0 as usize),
            RowsBy::Thread(rows) => rows.get(&owners.thread),
        };
        row.map_or(self.keys.len() as u32, |row| (*row).min(self.keys.len() as u32))
    }
}

/// A number for each of some stacks, by the number of the stack.
fn by_stack(
    stacks: impl Iterator<Item = StackId>,
    catalog: &Catalog,
    mut number: impl FnMut(StackId) -> u32,
    work: &Work<'_>,
) -> Result<Vec<u32>, QueryError> {
    let mut rows = vec![NONE; catalog.stacks.nodes().len()];
    for stack in stacks {
        work.go_on()?;
        let at = stack.0 as usize;
        if at >= rows.len() {
            rows.resize(at + 1, NONE);
        }
        rows[at] = number(stack);
    }
    Ok(rows)
}
