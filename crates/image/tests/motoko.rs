//! Real images of Motoko programs: every figure that is known of them.

mod support;

use highwater_image::motoko::Motoko;
use highwater_image::{Damages, Image, Lens, Module, Sidecar, Survey, survey};
use serde_json::Value;
use support::{expected, image, module};

/// Compares what a walk found with what is known.
fn compare<L: Lens>(name: &str, lens: &L, survey: &Survey) {
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
    let _ = lens;
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

fn _unused(_: &Image, _: &Module, _: &Value) {}
