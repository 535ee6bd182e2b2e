//! The contents of the largest blocks.

use crate::print::bytes::bytes;
use crate::print::colour::Style;
use crate::print::hex::{hex, hex_lines};
use crate::print::table::{Align, Cell, Table};
use highwater_collector::contents::Contents;
use highwater_model::groups::{Keep, sites};
use highwater_model::{Block, Snapshot, StackId};
use serde_json::{Value, json};
use std::collections::HashSet;

/// The number of blocks shown.
const SHOWN: usize = 10;

/// The largest blocks of a snapshot, with their contents.
pub struct LargestBlocks<'a> {
    blocks: Vec<(u64, Block, Option<&'a [u8]>)>,
}

/// The contents of a block, as far as they were read; `None` if they could not be.
pub fn contents_of<'a>(snapshot: &Snapshot, contents: &'a Contents, block: &Block) -> Option<&'a [u8]> {
    let known = contents.get(&snapshot.address_of(block))?;
    Some(&known[..known.len().min(usize::try_from(block.size).unwrap_or(usize::MAX))])
}

impl<'a> LargestBlocks<'a> {
    /// The largest blocks among those whose sites pass the filter.
    pub fn new(snapshot: &Snapshot, keep: Keep<'_>, contents: &'a Contents) -> Self {
        let wanted: Option<HashSet<StackId>> = keep.map(|_| sites(snapshot, keep).map(|(stack, _)| stack).collect());
        let is_wanted = |block: &Block| wanted.as_ref().is_none_or(|wanted| wanted.contains(&block.stack));
        let mut blocks: Vec<Block> = snapshot.accounts.blocks().filter(is_wanted).collect();
        blocks.sort_unstable_by_key(|block| (std::cmp::Reverse(block.size), block.address));
        blocks.truncate(SHOWN);
        let with_contents =
            |block: Block| (snapshot.address_of(&block), block, contents_of(snapshot, contents, &block));
        Self { blocks: blocks.into_iter().map(with_contents).collect() }
    }

    /// As a table for people.
    pub fn table(&self) -> Table {
        let mut table = Table::default()
            .column(Align::Right, "address")
            .column(Align::Right, "size")
            .column(Align::Left, "contents");
        for (address, block, contents) in &self.blocks {
            let figures: Vec<Cell> = vec![format!("{address:#x}").into(), bytes(block.size).into()];
            let mut lines = contents.map(hex_lines).unwrap_or_default().into_iter();
            let first = lines.next().map_or_else(|| Cell::new(Style::Dim, "(not known)"), Cell::from);
            table.row(figures.into_iter().chain([first]).collect());
            lines.for_each(|line| table.continuation(line.into()));
        }
        table
    }

    /// For a JSON document.
    pub fn to_json(&self) -> Value {
        let block = |(address, block, contents): &(u64, Block, Option<&[u8]>)| json!({"address": format!("{address:#x}"), "size": block.size, "contents": contents.map(hex)});
        self.blocks.iter().map(block).collect()
    }
}
