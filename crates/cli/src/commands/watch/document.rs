//! A look as a JSON document.

use super::Watch;
use super::changes::{Compared, Watched};
use highwater_formats::json::{self, DocumentStacks, StacksTooLarge};
use highwater_model::RssBreakdown;
use highwater_model::groups::GroupBy;
use serde_json::{Map, Value, json};

/// The maximum number of different calls in the stacks of one document. A document is a single line, so it is held in memory until it is printed.
const MOST_CALLS: usize = 1 << 20;

impl Watch {
    /// The document of a look.
    pub(super) fn document(&self, compared: &Compared<'_>) -> Result<Value, StacksTooLarge> {
        let (by, snapshot) = (compared.by, &compared.look.snapshot);
        let mut document: Value = json::head("watch", snapshot).into();
        let (growth_bytes, growth_blocks) = compared.growth();
        document["name"] = compared.process.name.as_str().into();
        document["pid"] = compared.process.pid.into();
        document["by"] = by.key().into();
        document["elapsed_ns"] = (compared.elapsed().as_nanos() as u64).into();
        document["totals"] = json::totals(snapshot);
        document["growth_bytes"] = number(growth_bytes);
        document["growth_blocks"] = number(growth_blocks);
        document["allocations_per_second"] = compared.rate().into();
        document["cut"] = compared.look.cut.to_json();
        if let Some(resident) = &compared.look.resident {
            document["rss"] = resident_rows(resident);
        }
        let chosen = self.chosen(compared);
        let mut stacks = DocumentStacks::with_most([&*snapshot.catalog], MOST_CALLS);
        json::sites_among(chosen.iter().map(|one| &one.row)).try_for_each(|stack| stacks.add(0, stack))?;
        let row = |Watched { row, growth, lately, .. }: &Watched| {
            let mut value = json::row(snapshot, by, row, &stacks);
            value["growth_bytes"] = number(*growth);
            value["growth_bytes_lately"] = number(*lately);
            value
        };
        document[by.list_key()] = chosen.iter().map(row).collect();
        if by == GroupBy::Site {
            let table = stacks.table();
            (document["frames"], document["stacks"]) = (json!(table.frames), json!(table.stacks));
        }
        Ok(document)
    }
}

/// The rows of the resident memory, by their keys.
fn resident_rows(breakdown: &RssBreakdown) -> Value {
    let rows: Map<String, Value> =
        breakdown.rows.iter().map(|row| (row.kind.key().to_owned(), row.resident.into())).collect();
    json!({
        "at_ns": breakdown.at.0,
        "rss_bytes": breakdown.process.rss,
        "sum_bytes": breakdown.sum(),
        "free_bytes": breakdown.knows_every_block.then(|| breakdown.free()),
        "rows": rows,
    })
}

fn number(number: i128) -> Value {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX }).into()
}
