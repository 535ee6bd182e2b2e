//! The whole content of a snapshot, down to the single live block.

use super::{
    DocumentStacks, DocumentWriter, anomalies, head, hex, known_text, row, sites_among, threads, totals, types,
};
use highwater_model::groups::{GroupBy, GroupKey, Keep, Metric, rows};
use highwater_model::{Block, Heap, Snapshot, StackId, StringId};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes the whole snapshot: its head, `totals`, `anomalies`, `threads`, `types`, `frames` and `stacks`, all `sites`, and all live `blocks`, by
/// number, each with `site`, its index in `sites`. Sites and blocks are filtered by `keep`. One JSON element is in memory at a time. If only figures
/// are known, `blocks` is `null`.
pub fn write_full(command: &str, snapshot: &Snapshot, keep: Keep<'_>, out: impl Write) -> io::Result<()> {
    write_full_with(command, snapshot, keep, |_, _| {}, out)
}

/// The same; `more` is called for every block and may add members to its JSON object.
pub fn write_full_with(
    command: &str,
    snapshot: &Snapshot,
    keep: Keep<'_>,
    more: impl Fn(&Block, &mut Value),
    out: impl Write,
) -> io::Result<()> {
    let sites = rows(snapshot, GroupBy::Site, Metric::Live, keep);
    let site_indices: HashMap<StackId, usize> = sites
        .iter()
        .enumerate()
        .filter_map(|(index, row)| match row.key {
            GroupKey::Site(stack) => Some((stack, index)),
            _ => None,
        })
        .collect();
    let mut blocks: Vec<Block> =
        snapshot.accounts.blocks().filter(|block| site_indices.contains_key(&block.stack)).collect();
    blocks.sort_unstable_by_key(|block| block.id);

    let stacks = DocumentStacks::of(&snapshot.catalog, sites_among(&sites))?;
    let mut writer = DocumentWriter::begin(out)?;
    writer.members(&head(command, snapshot))?;
    writer.member("totals", &totals(snapshot))?;
    writer.member("anomalies", &anomalies(snapshot.accounts.anomalies()))?;
    writer.member("threads", &threads(snapshot))?;
    writer.member("types", &types(snapshot))?;
    writer.stacks(&stacks)?;
    writer.list("sites", sites.iter().map(|site| row(snapshot, GroupBy::Site, site, &stacks)))?;
    if snapshot.source.aggregated {
        writer.member("blocks", &Value::Null)?;
        return writer.end().map(drop);
    }
    writer.list(
        "blocks",
        blocks.iter().map(|each| {
            let mut value = block(snapshot, each);
            value["site"] = site_indices.get(&each.stack).copied().into();
            more(each, &mut value);
            value
        }),
    )?;
    writer.end().map(drop)
}

/// A live block: `number, address, size, time_ns, thread, type, variable, heap`; also `task` if it belongs to one, `usable_size` if the source knows it, and `weight` if figures
/// are estimates.
pub fn block(snapshot: &Snapshot, block: &Block) -> Value {
    let tag = snapshot.catalog.tag(block.tag);
    let mut value = json!({
        "number": block.id.0,
        "address": hex(snapshot.address_of(block)),
        "size": block.size,
        "time_ns": block.time.0,
        "thread": snapshot.accounts.threads().get(block.thread as usize).map(|thread| thread.id.0),
        "type": known_text(snapshot.catalog.strings.get(tag.type_name)),
        "variable": known_text(snapshot.catalog.strings.get(tag.variable)),
        "heap": tag.heap.name(),
    });
    if tag.task != StringId::EMPTY {
        value["task"] = snapshot.catalog.strings.get(tag.task).into();
    }
    if snapshot.source.usable_sizes && tag.heap == Heap::Malloc {
        value["usable_size"] = block.usable_size().into();
    }
    if snapshot.is_estimate() {
        value["weight"] = block.weight.value().into();
        if block.weight.counted().is_some() {
            value["samples"] = block.weight.samples().into();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{any_snapshot, parser};
    use proptest::prelude::*;

    fn full(snapshot: &Snapshot) -> Value {
        let mut out = Vec::new();
        write_full("export", snapshot, None, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_part_is_there_and_blocks_point_to_their_sites() {
        let mut scene = parser();
        scene.allocate_typed(0x5000, 16, "cache", "Vec<u8>");
        let document = full(&scene.snapshot());
        for name in [
            "schema",
            "command",
            "source",
            "at_ns",
            "totals",
            "anomalies",
            "threads",
            "frames",
            "stacks",
            "sites",
            "types",
        ] {
            assert!(!document[name].is_null(), "{name}");
        }
        let blocks = document["blocks"].as_array().unwrap();
        let expected = json!({
            "number": 3, "address": "0x5000", "size": 16, "time_ns": 60, "thread": 1, "site": 1,
            "type": "Vec<u8>", "variable": "cache", "heap": "malloc",
        });
        assert_eq!(blocks[2], expected);
        assert_eq!((&blocks[0]["number"], &blocks[0]["site"]), (&json!(0), &json!(0)));
        let stack = &document["stacks"][document["sites"][0]["stack"].as_u64().unwrap() as usize];
        assert_eq!(document["frames"][stack[1].as_u64().unwrap() as usize]["function"], "grow");
    }

    #[test]
    fn more_can_be_told_of_every_block() {
        let mut out = Vec::new();
        let more = |block: &Block, value: &mut Value| value["twice"] = (block.size * 2).into();
        write_full_with("snapshot", &parser().snapshot(), None, more, &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["command"], "snapshot");
        assert!(
            document["blocks"]
                .as_array()
                .unwrap()
                .iter()
                .all(|block| block["twice"] == block["size"].as_u64().unwrap() * 2)
        );
    }

    #[test]
    fn blocks_that_are_not_known_are_null() {
        let snapshot = parser().aggregated();
        let document = full(&snapshot);
        assert_eq!((&document["blocks"], &document["totals"]["live_blocks"]), (&Value::Null, &json!(2)));
        assert_eq!(document["sites"], full(&parser().snapshot())["sites"]);
    }

    proptest! {
        #[test]
        fn the_blocks_of_a_site_sum_to_its_live_bytes(snapshot in any_snapshot()) {
            let document = full(&snapshot);
            let sites = document["sites"].as_array().unwrap();
            let mut live = vec![0; sites.len()];
            for block in document["blocks"].as_array().unwrap() {
                live[block["site"].as_u64().unwrap() as usize] += block["size"].as_u64().unwrap();
            }
            for (site, live) in sites.iter().zip(live) {
                prop_assert_eq!(site["live_bytes"].as_u64(), Some(live));
            }
        }
    }
}
