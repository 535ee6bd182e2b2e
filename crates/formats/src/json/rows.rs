//! The rows of a report: `sites[]`, `functions[]`, `files[]`, `modules[]`, `threads[]`, `types[]`, `heaps[]`.

use super::{DocumentStacks, estimates, figures, hex, known_text};
use highwater_model::groups::{self, GroupBy, GroupKey, Metric, Row};
use highwater_model::{Catalog, CodeOffset, Figures, Snapshot, StackId, ThreadId};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

/// The rows, in the order given.
pub fn rows(snapshot: &Snapshot, by: GroupBy, rows: &[Row], stacks: &DocumentStacks<'_>) -> Value {
    rows.iter().map(|each| row(snapshot, by, each, stacks)).collect()
}

/// The stacks of the rows that are sites.
pub fn sites_among<'a>(rows: impl IntoIterator<Item = &'a Row>) -> impl Iterator<Item = StackId> {
    rows.into_iter().filter_map(|row| match row.key {
        GroupKey::Site(stack) => Some(stack),
        _ => None,
    })
}

/// One row. Its stack must be among `stacks`.
pub fn row(snapshot: &Snapshot, by: GroupBy, row: &Row, stacks: &DocumentStacks<'_>) -> Value {
    let identity = |key: &GroupKey| identity(&snapshot.catalog, key, (stacks, 0));
    match (by, &row.key) {
        (GroupBy::Type, GroupKey::Name(name)) => type_row(snapshot, name, &row.figures),
        (by, key) if by.has_callees() => {
            let mut members = identity(key);
            members.extend(figures(snapshot, &row.figures));
            members.insert("inclusive".to_owned(), figures(snapshot, &row.inclusive).into());
            members.into()
        }
        (_, key) => {
            let mut members = identity(key);
            members.extend(figures(snapshot, &row.figures));
            members.into()
        }
    }
}

/// The key of a row: a `stack`, a `name`, or a thread's `id` and `name`. `stacks` comes with the index of the catalog in it.
pub(super) fn identity(
    catalog: &Catalog,
    key: &GroupKey,
    (stacks, place): (&DocumentStacks<'_>, usize),
) -> Map<String, Value> {
    super::members(match key {
        GroupKey::Site(site) => json!({ "stack": stacks.number(place, *site) }),
        GroupKey::Name(name) => json!({ "name": known_text(name) }),
        GroupKey::Code { build_id, module, offset } => json!({
            "name": CodeOffset { build_id, module, offset: *offset }.to_string(),
            "module": module,
            "build_id": known_text(build_id),
            "offset": hex(*offset),
        }),
        GroupKey::Thread(thread) => thread_identity(catalog, *thread),
    })
}

fn thread_identity(catalog: &Catalog, thread: ThreadId) -> Value {
    json!({ "id": thread.0, "name": known_text(catalog.thread_name(thread)) })
}

/// A type's objects. A resized object is neither new nor dropped. An object whose type changed at a resize counts as an allocation of the new type
/// and as a drop of the old one, so that `allocations − drops` is the number of live objects.
fn type_row(snapshot: &Snapshot, name: &str, figures: &Figures) -> Value {
    let came = figures.reallocations.saturating_sub(figures.reallocated_away);
    let left = figures.reallocated_away.saturating_sub(figures.reallocations);
    let mut row = json!({
        "type": known_text(name),
        "allocations": figures.allocations + came,
        "allocated_bytes": figures.allocated_bytes,
        "drops": figures.frees + left,
        "dropped_bytes": figures.freed_bytes,
        "live_objects": figures.live_blocks(),
        "live_bytes": figures.live_bytes(),
    });
    if snapshot.is_estimate() {
        estimates(snapshot, figures).into_iter().for_each(|(name, value)| row[name.as_str()] = value);
    }
    row
}

/// `threads`: every thread seen, also those without allocations, most live bytes first.
pub fn threads(snapshot: &Snapshot) -> Value {
    let mut threads: Vec<_> = snapshot.accounts.threads().iter().collect();
    threads.sort_by_key(|thread| (Reverse(thread.figures.live_bytes()), thread.id));
    let value = |thread: &highwater_model::ThreadAccount| -> Value {
        let mut members = super::members(thread_identity(&snapshot.catalog, thread.id));
        members.extend(figures(snapshot, &thread.figures));
        members.into()
    };
    threads.into_iter().map(value).collect()
}

/// `types`: every type that the source names, most live bytes first; empty if it names none.
pub fn types(snapshot: &Snapshot) -> Value {
    if !snapshot.catalog.has_named_types() {
        return Value::Array(Vec::new());
    }
    let none = DocumentStacks::new([]);
    rows(snapshot, GroupBy::Type, &groups::rows(snapshot, GroupBy::Type, Metric::Live, None), &none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, parser};
    use highwater_model::{EventKind, Heap, Placement, Tag, mapped_address};

    fn shown(snapshot: &Snapshot, by: GroupBy) -> Value {
        let chosen = groups::rows(snapshot, by, Metric::Live, None);
        let stacks = DocumentStacks::of(&snapshot.catalog, sites_among(&chosen)).unwrap();
        rows(snapshot, by, &chosen, &stacks)
    }

    #[test]
    fn rows_of_every_kind_are_shown() {
        let snapshot = parser().snapshot();
        for by in GroupBy::ALL {
            let count = groups::rows(&snapshot, by, Metric::Live, None).len();
            assert_eq!(shown(&snapshot, by).as_array().unwrap().len(), count, "{by:?}");
        }
    }

    #[test]
    fn heaps_have_names_and_figures() {
        let mut scene = parser();
        let tag = scene.catalog.intern_tag(Tag { heap: Heap::Mapped, ..Tag::default() });
        let place = Placement { address: mapped_address(0x1000), size: 4096, tag, ..Placement::default() };
        scene.happen(1, EventKind::Allocate(place));
        let heaps = shown(&scene.snapshot(), GroupBy::Heap);
        let figures =
            |at: usize| (heaps[at]["name"].clone(), heaps[at]["live_bytes"].clone(), heaps[at]["frees"].clone());
        assert_eq!(figures(0), (json!("mmap"), json!(4096), json!(0)));
        assert_eq!(figures(1), (json!("malloc"), json!(308), json!(1)));
    }

    #[test]
    fn a_site_is_its_stack_and_its_figures() {
        let sites = shown(&parser().snapshot(), GroupBy::Site);
        let mut first = sites[0].clone();
        let stack = first.as_object_mut().unwrap().remove("stack").unwrap();
        assert_eq!(stack, 2, "grow, called by parse, called by main");
        let expected = json!({
            "allocations": 0, "frees": 0, "reallocations": 1, "reallocated_away": 0, "allocated_bytes": 300,
            "freed_bytes": 0, "live_blocks": 1, "live_bytes": 300, "peak_bytes": 300, "cross_thread_frees": 0,
            "temporary_allocations": 0,
        });
        assert_eq!(first, expected);
        assert_eq!(sites.as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_function_has_own_and_inclusive_figures_and_an_unknown_one_no_name() {
        let functions = shown(&parser().snapshot(), GroupBy::Function);
        let find = |name: Value| functions.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let main = find("main".into());
        assert_eq!((&main["live_bytes"], &main["inclusive"]["live_bytes"]), (&json!(0), &json!(300)));
        assert_eq!(find(Value::Null)["live_bytes"], 8);
    }

    #[test]
    fn threads_have_ids_and_names() {
        let threads = threads(&parser().snapshot());
        assert_eq!((&threads[0]["id"], &threads[0]["name"]), (&json!(7), &json!("worker")));
        assert_eq!((&threads[1]["id"], &threads[1]["name"]), (&json!(1), &Value::Null));
        assert_eq!(threads[0]["cross_thread_frees"], 1);
    }

    #[test]
    fn types_count_objects() {
        let mut scene = Scene::default();
        scene.allocate_typed(1, 10, "a", "Node");
        scene.allocate_typed(2, 10, "b", "Node");
        scene.allocate_typed(3, 40, "", "Edge");
        scene.free(1, 1);
        scene.reallocate(1, 2, 2, 20, StackId::UNKNOWN);
        let expected = json!([
            {"type": "Edge", "allocations": 1, "allocated_bytes": 40, "drops": 0, "dropped_bytes": 0,
             "live_objects": 1, "live_bytes": 40},
            {"type": "Node", "allocations": 2, "allocated_bytes": 40, "drops": 1, "dropped_bytes": 20,
             "live_objects": 1, "live_bytes": 20},
        ]);
        assert_eq!(types(&scene.snapshot()), expected);
    }

    #[test]
    fn an_object_resized_into_another_type_leaves_the_old_one() {
        let mut scene = Scene::default();
        scene.allocate_typed(1, 10, "", "Small");
        let type_name = scene.catalog.strings.intern("Large");
        let tag = scene.catalog.intern_tag(Tag { type_name, ..Tag::default() });
        let new = Placement { address: 1, size: 99, tag, ..Placement::default() };
        scene.happen(1, EventKind::Reallocate { old_address: 1, claimed_old_size: None, new });
        for row in types(&scene.snapshot()).as_array().unwrap() {
            let number = |name: &str| row[name].as_u64().unwrap();
            assert_eq!(number("allocations") - number("drops"), number("live_objects"), "{row}");
        }
    }
}
