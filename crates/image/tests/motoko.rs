//! Real images of Motoko programs: checks every figure that is known of them.

mod support;

use highwater_image::lenses::motoko::Motoko;
use highwater_image::{Damages, Examination, FieldValue, ImageHeap, Lens, ShapeId, Sidecar, Survey, find_heap, survey};
use highwater_model::{Accounts, Source};
use std::collections::{BTreeMap, BTreeSet};
use support::{expected, image, module};

/// Compares the result of a walk with the known figures.
fn compare<L: Lens>(name: &str, _: &L, survey: &Survey) {
    let expected = expected(name);
    let derived = &expected["derived"];
    for (all, list) in [(true, "all_by_kind"), (false, "reachable_by_kind")] {
        for (kind, figures) in L::KINDS.iter().zip(&survey.kinds) {
            let known = &derived[list][kind];
            let wanted = (known["count"].as_u64().unwrap_or(0), known["bytes"].as_u64().unwrap_or(0));
            let found = if all { (figures.count, figures.bytes) } else { (figures.live_count, figures.live_bytes) };
            assert_eq!(found, wanted, "{name}: {kind} in {list}");
        }
    }
    assert_eq!(survey.walked_bytes, derived["all_bytes"].as_u64().expect("bytes"), "{name}");
    assert!(survey.damage.is_empty(), "{name}: {:?}", survey.damage);
}

#[test]
fn all_figures_of_64_bit_images_are_found() {
    for name in ["ledger-1", "ledger-2", "ledger-3", "ropes-1", "ropes-2", "zoo-1"] {
        for with_module in [true, false] {
            let module = with_module.then(|| module(name));
            let image = image(name);
            let mut damage = Damages::default();
            let heap = Motoko::wide(&image, module.as_ref(), &mut damage);
            assert!(damage.is_empty(), "{damage:?}");
            let survey = survey(&heap, 5);
            compare(name, &heap, &survey);
            let stated = expected(name)["metadata"]["occupied_heap_size"].as_u64().expect("a size");
            assert_eq!((heap.stated_bytes(), heap.base() + survey.walked_bytes), (Some(survey.walked_bytes), stated));
        }
    }
}

#[test]
fn all_figures_of_32_bit_images_are_found() {
    for name in ["ledger32-1", "ledger32-2"] {
        for with_module in [true, false] {
            let module = with_module.then(|| module(name));
            let image = image(name);
            let mut damage = Damages::default();
            let heap = Motoko::narrow(&image, module.as_ref(), &Sidecar::default(), &mut damage).expect("a heap");
            assert!(damage.is_empty(), "{damage:?}");
            assert_eq!(heap.base(), expected(name)["metadata"]["heap_base"].as_u64().expect("a base"), "{name}");
            compare(name, &heap, &survey(&heap, 5));
        }
    }
}

/// Analyses the heap of an image.
fn examined<T>(name: &str, with_module: bool, look: impl FnOnce(&dyn ImageHeap, &Examination) -> T) -> T {
    let module = with_module.then(|| module(name));
    let image = image(name);
    let mut damage = Damages::default();
    let heap = find_heap(&image, module.as_ref(), &Sidecar::default(), &mut damage).expect("a heap");
    assert!(damage.is_empty(), "{damage:?}");
    look(&*heap, &heap.examine(5))
}

#[test]
fn records_and_variants_are_counted_by_their_labels() {
    for name in ["ledger-1", "ledger-2", "ledger-3", "ropes-1", "ropes-2", "zoo-1", "ledger32-1", "ledger32-2"] {
        let expected = expected(name);
        let derived = &expected["derived"];
        examined(name, true, |_, examination| {
            let mut shapes: BTreeMap<String, u64> = BTreeMap::new();
            for (id, figures) in examination.graph.figures.iter().enumerate() {
                shapes.insert(examination.graph.shapes.name(ShapeId(id as u32)).to_owned(), figures.count);
            }
            for (fields, count) in derived["reachable_records_by_field_set"].as_object().expect("records") {
                let shape = format!("{{{}}}", fields.replace(',', ", "));
                assert_eq!(shapes.get(&shape).copied(), count.as_u64(), "{name}: {shape}");
            }
            // In classical images some variants lie in static data, which the expected figures leave out.
            for (label, count) in derived["reachable_variants_by_label"].as_object().expect("variants") {
                let shape = format!("#{label}");
                assert!(shapes.get(&shape).copied() >= count.as_u64(), "{name}: {shape}");
            }
        });
    }
}

#[test]
fn variables_have_their_names_and_keep_what_the_program_says() {
    let names = |name| {
        examined(name, true, |heap, _| {
            let names = heap.roots().iter().filter(|root| root.is_variable).map(|root| root.name.to_string());
            names.filter(|name| !name.starts_with("static[")).collect::<BTreeSet<String>>()
        })
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let ledger = set(&["accountCount", "goldCount", "totalBalance", "tree"]);
    assert_eq!((names("ledger-2"), names("ledger32-2")), (ledger.clone(), ledger));
    assert_eq!(names("ropes-2"), set(&["archive", "chunks", "document", "title"]));
    assert_eq!(names("zoo-1"), set(&["cells", "length"]));
}

#[test]
fn an_image_is_a_snapshot_that_keeps_the_laws() {
    for name in ["ledger-3", "ropes-2", "zoo-1", "ledger32-2"] {
        let live = expected(name)["derived"]["reachable_bytes"].as_u64().expect("bytes");
        examined(name, true, |heap, examination| {
            let snapshot = heap.snapshot(examination, Source::default());
            let accounts = Accounts::from_state(snapshot.accounts);
            assert_eq!(highwater_model::laws::violations(&accounts), Vec::<String>::new());
            assert_eq!(accounts.totals().figures.live_bytes(), live, "{name}");
        });
    }
}

#[test]
fn the_module_of_another_program_is_noticed_and_not_believed() {
    for (name, other) in [("ledger-1", "ropes"), ("zoo-1", "ledger"), ("ledger-1", "ledger32")] {
        let (image, module) = (image(name), module(other));
        let mut damage = Damages::default();
        let heap = find_heap(&image, Some(&module), &Sidecar::default(), &mut damage).expect("a heap");
        assert!(damage.entries[0].what.starts_with("the module is not this image's"), "{damage:?}");
        let live = heap.examine(1).live().1;
        assert_eq!(Some(live), expected(name)["derived"]["reachable_bytes"].as_u64());
    }
}

#[test]
fn scripts_find_objects_fields_and_texts() {
    examined("ledger-2", true, |heap, examination| {
        let survey = &examination.survey;
        let by_kind = heap.addresses_by_kind();
        let of_kind = |name: &str| &by_kind[heap.kinds().iter().position(|kind| *kind == name).expect("a kind")];
        assert_eq!(["Object", "Variant", "Text", "WeakRef"].map(|kind| of_kind(kind).len()), [5134, 4736, 2589, 0]);
        let Ok(FieldValue::Object(account)) = heap.field(survey, of_kind("Object")[4], "account") else {
            panic!("no account")
        };
        assert_eq!(heap.field(survey, account, "owner"), Ok(FieldValue::Text("owner-1".to_owned())));
        assert_eq!(heap.field(survey, account, "balance"), Ok(FieldValue::Number("10".to_owned())));
        assert!(
            heap.field(survey, 3, "owner").is_err_and(|error| error.to_string().contains("no object begins at 0x3"))
        );
        let text = heap.text_at(survey, of_kind("Text")[3], 1000);
        assert_eq!(text.as_deref(), Some(&b"Async stabilization increment call failed"[..]));
        assert_eq!(heap.text_at(survey, account, 1000), None);
    });
}
