//! Two snapshots compared.

use super::{DocumentStacks, StacksTooLarge, anomalies, head, rows::identity, source, totals};
use highwater_model::diff::{Change, Delta};
use highwater_model::groups::{GroupBy, GroupKey};
use highwater_model::{Figures, Snapshot};
use serde_json::{Map, Value, json};

/// A document about two snapshots: the head is the later one's, `before` and `after` hold `source`, `at_ns`, `totals`
/// and `anomalies` of each. To be followed by the list named after `by`, which holds a [`delta`] for each row, and the stacks of sites.
pub fn comparison(command: &str, before: &Snapshot, after: &Snapshot) -> Value {
    let side = |snapshot: &Snapshot| {
        json!({
            "source": source(&snapshot.source),
            "at_ns": snapshot.at.0,
            "totals": totals(snapshot),
            "anomalies": anomalies(snapshot.accounts.anomalies()),
        })
    };
    let (old, new) = (&before.accounts.totals().figures, &after.accounts.totals().figures);
    let mut members = head(command, after);
    members.insert("before".to_owned(), side(before));
    members.insert("after".to_owned(), side(after));
    members.insert("live_bytes_delta".to_owned(), bytes_difference(old, new));
    members.insert("live_blocks_delta".to_owned(), difference(old.live_blocks(), new.live_blocks()));
    members.into()
}

/// The stacks of deltas: those of the later snapshot, and those of the earlier one for rows without anything left.
pub fn stacks_among<'a>(
    before: &'a Snapshot,
    after: &'a Snapshot,
    deltas: &[Delta],
) -> Result<DocumentStacks<'a>, StacksTooLarge> {
    let mut stacks = DocumentStacks::new([&*before.catalog, &*after.catalog]);
    for delta in deltas {
        match (&delta.after, &delta.before) {
            (Some((GroupKey::Site(stack), _)), _) => stacks.add(AFTER, *stack)?,
            (None, Some((GroupKey::Site(stack), _))) => stacks.add(BEFORE, *stack)?,
            _ => {}
        }
    }
    Ok(stacks)
}

/// Indexes of the two catalogs in [`DocumentStacks`].
const BEFORE: usize = 0;
const AFTER: usize = 1;

/// One row of a comparison: its key, its `change`, the live figures `before` and `after`, and their difference. Its stack must be one of
/// [`stacks_among`].
pub fn delta(before: &Snapshot, after: &Snapshot, by: GroupBy, delta: &Delta, stacks: &DocumentStacks<'_>) -> Value {
    let mut members = match (&delta.after, &delta.before) {
        (Some((key, _)), _) => identity(&after.catalog, key, (stacks, AFTER)),
        (None, Some((key, _))) => identity(&before.catalog, key, (stacks, BEFORE)),
        (None, None) => Map::new(),
    };
    // A type has the name `type` in every document.
    if by == GroupBy::Type
        && let Some(name) = members.remove("name")
    {
        members.insert("type".to_owned(), name);
    }
    let (old, new) = (&delta.before_figures(), &delta.after_figures());
    members.insert("change".to_owned(), change_name(delta.change()).into());
    members.insert("before".to_owned(), live(before, old));
    members.insert("after".to_owned(), live(after, new));
    members.insert("live_bytes_delta".to_owned(), bytes_difference(old, new));
    members.insert("live_blocks_delta".to_owned(), difference(old.live_blocks(), new.live_blocks()));
    members.into()
}

/// The difference of live bytes, rounded as the last step.
fn bytes_difference(old: &Figures, new: &Figures) -> Value {
    let change = new.live().rounded_difference(old.live());
    let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
    if change < 0 { difference(size, 0) } else { difference(0, size) }
}

fn live(snapshot: &Snapshot, figures: &Figures) -> Value {
    let mut live = json!({ "live_bytes": figures.live_bytes(), "live_blocks": figures.live_blocks() });
    if snapshot.is_estimate() {
        live["live_samples"] = figures.live_samples().into();
        if let Some(certainty) = snapshot.certainty() {
            let interval = figures.live_interval(&certainty);
            live["interval_95"] = json!({ "live_bytes": [interval.low, interval.high] });
        }
    }
    live
}

fn change_name(change: Change) -> &'static str {
    match change {
        Change::Came => "came",
        Change::Went => "went",
        Change::Grew => "grew",
        Change::Shrank => "shrank",
        Change::Same => "same",
    }
}

/// `after − before`. A difference too negative for 64 signed bits becomes the smallest that fits.
fn difference(before: u64, after: u64) -> Value {
    match after.checked_sub(before) {
        Some(rise) => rise.into(),
        None => 0i64.saturating_sub_unsigned(before - after).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::parser;
    use highwater_model::diff::diff_rows;

    #[test]
    fn a_row_says_how_it_changed() {
        let mut scene = parser();
        let before = scene.snapshot();
        let fresh = scene.stack(&["fresh", "main"]);
        scene.allocate(1, 0x9000, 70, fresh);
        scene.free(7, 0x4000);
        scene.reallocate(7, 0x3000, 0x3000, 100, highwater_model::StackId::UNKNOWN);
        let after = scene.snapshot();

        let deltas = diff_rows(&before, &after, GroupBy::Site, None).unwrap();
        let stacks = stacks_among(&before, &after, &deltas).unwrap();
        let sites: Vec<Value> =
            deltas.iter().map(|each| delta(&before, &after, GroupBy::Site, each, &stacks)).collect();
        let document = comparison("diff", &before, &after);
        assert_eq!(document["schema"], 2);
        assert_eq!(document["before"]["totals"]["live_bytes"], 308);
        assert_eq!(document["after"]["totals"]["live_bytes"], 170);
        assert_eq!(document["live_bytes_delta"], -138);
        assert_eq!(document["live_blocks_delta"], 0);

        let shown: Vec<(&str, i64, i64)> = sites
            .iter()
            .map(|row| {
                let delta = |name: &str| row[name].as_i64().unwrap();
                (row["change"].as_str().unwrap(), delta("live_bytes_delta"), delta("live_blocks_delta"))
            })
            .collect();
        assert_eq!(shown, [("shrank", -200, 0), ("came", 70, 1), ("went", -8, -1)]);
        let table = stacks.table();
        let (_, frame) = table.stacks[sites[1]["stack"].as_u64().unwrap() as usize];
        assert_eq!(table.frames[frame as usize].function.as_deref(), Some("fresh"));
        assert_eq!(sites[1]["before"], json!({"live_bytes": 0, "live_blocks": 0}));
        assert_eq!(sites[2]["stack"], Value::Null);
    }

    #[test]
    fn rows_are_named_by_what_they_are() {
        let scene = parser();
        let (before, after) = (crate::scene::Scene::default().snapshot(), scene.snapshot());
        let first = |by| {
            let deltas = diff_rows(&before, &after, by, None).unwrap();
            delta(&before, &after, by, &deltas[0], &DocumentStacks::new([]))
        };
        assert_eq!(first(GroupBy::Thread)["id"], 7);
        assert_eq!(first(GroupBy::Thread)["name"], "worker");
        assert_eq!(first(GroupBy::Function)["name"], "grow");
    }

    #[test]
    fn differences_do_not_wrap() {
        assert_eq!(difference(0, u64::MAX), json!(u64::MAX));
        assert_eq!(difference(u64::MAX, 0), json!(i64::MIN));
        assert_eq!(difference(3, 1), json!(-2));
    }
}
