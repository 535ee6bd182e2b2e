//! Damaged images: all sound parts are read, and the damage is reported.

mod support;

use highwater_image::{Damages, Image, Sidecar, WasmModule, find_heap};
use highwater_model::Damage;
use support::{expected, image_bytes, memory_bytes, module, wasm_module};

const BASE: usize = 0x50_0000;

/// The figures found in an image.
struct Found {
    damage: Damages,
    live: (u64, u64),
    walked: u64,
    stated: Option<u64>,
}

fn look(bytes: Vec<u8>, module: Option<&WasmModule>) -> Option<Found> {
    let image = Image::from_bytes(bytes);
    let mut damage = Damages::default();
    let heap = find_heap(&image, module, &Sidecar::default(), &mut damage).ok()?;
    let examination = heap.examine(3);
    damage.append(examination.damage().clone());
    // Views and changes must not panic, whatever the place.
    for place in
        ["tree", "tree#node.account", "0x500000", "0x500008", "static[20]", "nothing", "0x170000", "tree.x[3]?"]
    {
        let _ = heap.view(&examination, place, 5);
        for value in ["7", "\"seven\"", "[7]", "7 : Nat"] {
            let _ = heap.edit(&examination.survey, place, value);
        }
    }
    let walked = examination.survey.walked_bytes;
    Some(Found { damage, live: examination.live(), walked, stated: heap.stated_bytes() })
}

fn whole(name: &str) -> (u64, u64) {
    let derived = &expected(name)["derived"];
    (derived["reachable_objects"].as_u64().expect("objects"), derived["reachable_bytes"].as_u64().expect("bytes"))
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

#[test]
fn of_an_image_that_was_cut_everything_before_the_cut_is_found() {
    let module = module("ledger-2");
    for end in [BASE + 100_000, BASE + 4096, BASE + 8, BASE + 3] {
        let mut bytes = image_bytes("ledger-2");
        bytes.truncate(end);
        let found = look(bytes, Some(&module)).expect("a heap");
        assert!(found.damage.count > 0, "cut at {end:#x}");
        assert!(found.damage.entries[0].what.contains("the image ends here"), "{:?}", found.damage.entries[0]);
        assert!(found.walked <= (end - BASE) as u64 && found.walked + 64 > (end - BASE) as u64 & !7);
        assert!(found.live.0 < whole("ledger-2").0);
    }
    for end in [0, 1, BASE - 1, 0x48_0000, 0x48_0050] {
        let mut bytes = image_bytes("ledger-2");
        bytes.truncate(end);
        assert!(look(bytes, Some(&module)).is_none_or(|found| !found.damage.is_empty()), "cut at {end:#x}");
    }
}

#[test]
fn a_page_of_zeros_is_located_and_the_rest_is_read() {
    let mut bytes = image_bytes("ledger-3");
    let at = BASE + 0x10_0000;
    bytes[at..at + 4096].fill(0);
    let found = look(bytes, Some(&module("ledger-3"))).expect("a heap");
    let first = &found.damage.entries[0];
    assert!((at as u64 - 128..at as u64 + 128).contains(&first.offset), "{first:?}");
    assert!(first.length > 3500 && first.length < 4600, "{first:?}");
    assert_eq!(found.stated, Some(found.walked), "every byte is accounted for all the same");
    assert!(found.live.0 > whole("ledger-3").0 * 9 / 10);
}

#[test]
fn a_flipped_header_costs_one_object() {
    let name = "ledger-2";
    let mut bytes = image_bytes(name);
    // The first object after the static array.
    let array_words = u64::from_le_bytes(bytes[BASE + 16..BASE + 24].try_into().expect("eight")) as usize + 3;
    let second = BASE + array_words * 8;
    bytes[second + 8] ^= 0x40;
    let found = look(bytes, Some(&module(name))).expect("a heap");
    assert_eq!(found.damage.entries[0].offset, second as u64, "{:?}", found.damage);
    assert!(found.damage.entries[0].length < 128);
    // References to it are reported, too.
    assert!(
        found
            .damage
            .entries
            .iter()
            .any(|damage| damage.what.contains("where no object is") || damage.what.contains("refers to no object"))
    );
    assert!(found.live.0 + 2 >= whole(name).0);
    assert_eq!(found.stated, Some(found.walked));
}

#[test]
fn references_that_go_round_end() {
    // The tree's box refers to itself, through a record.
    let name = "ledger-1";
    let mut bytes = image_bytes(name);
    let variable = 0x50_08a0;
    put(&mut bytes, variable + 16, variable as u64 - 1);
    let found = look(bytes, Some(&module(name))).expect("a heap");
    assert!(found.damage.is_empty() && found.live.0 < whole(name).0);
    // A rope whose halves are the rope itself.
    let mut bytes = image_bytes("ropes-2");
    let rope = 0x50_aa20;
    put(&mut bytes, rope + 24, rope as u64 - 1);
    put(&mut bytes, rope + 32, rope as u64 - 1);
    let image = Image::from_bytes(bytes);
    let mut damage = Damages::default();
    let module = module("ropes-2");
    let heap = find_heap(&image, Some(&module), &Sidecar::default(), &mut damage).expect("a heap");
    let examination = heap.examine(3);
    let shown = heap.view(&examination, "document", 3).expect("a view");
    assert_eq!(shown.kind, "Concat");
}

#[test]
fn references_that_lead_outside_are_located() {
    let name = "ledger-1";
    for target in [0x7fff_ffff_ffff_ffff, 0x3_ffff, 0x50_0003, 0xffff_ffff_ffff_fff7] {
        let mut bytes = image_bytes(name);
        let variable = 0x50_08a0;
        put(&mut bytes, variable + 16, target);
        let found = look(bytes, Some(&module(name))).expect("a heap");
        assert_eq!(found.damage.count, 1, "{:?}", found.damage);
        assert_eq!(found.damage.entries[0].offset, variable as u64 + 16);
        assert!(found.damage.entries[0].what.contains("where no object is"));
    }
}

#[test]
fn metadata_that_claims_too_much_is_not_believed() {
    let name = "ledger-1";
    for (offset, word) in
        [(0xa8 + 32, u64::MAX), (0xa8 + 24, 1 << 40), (0x1ca8, 0x9999_9999), (0x1cf0, u64::MAX), (0x80, 7)]
    {
        let mut bytes = image_bytes(name);
        put(&mut bytes, 0x48_0000 + offset, word);
        let found = look(bytes, Some(&module(name))).expect("a heap");
        assert!(!found.damage.is_empty() || found.stated != Some(found.walked), "{offset:#x}");
    }
}

#[test]
fn lengths_that_claim_too_much_cost_one_object() {
    let name = "ledger-1";
    let mut bytes = image_bytes(name);
    // A text of the static pool gets the largest possible length.
    put(&mut bytes, 0x50_0460 + 16, u64::MAX >> 1);
    let found = look(bytes, Some(&module(name))).expect("a heap");
    assert_eq!(found.damage.entries[0].offset, 0x50_0460);
    assert!(found.damage.entries[0].what.contains("does not fit"), "{:?}", found.damage);
}

#[test]
fn a_classical_heap_with_a_hole_is_read_behind_it() {
    let name = "ledger32-2";
    let mut bytes = image_bytes(name);
    let base = expected(name)["metadata"]["heap_base"].as_u64().expect("a base") as usize;
    bytes[base + 0x8000..base + 0x9000].fill(0);
    let found = look(bytes, Some(&module(name))).expect("a heap");
    assert!(found.damage.count > 0);
    let all = expected(name)["derived"]["all_bytes"].as_u64().expect("bytes");
    assert_eq!(found.walked, all, "every byte is accounted for");
}

#[test]
fn damaged_chunks_are_located_and_those_behind_them_are_found() {
    let module = wasm_module("leaky_rs");
    let sound = look(memory_bytes("leaky_rs.mem3.gz"), Some(&module)).expect("a heap");
    assert!(sound.damage.is_empty());
    let mut bytes = memory_bytes("leaky_rs.mem3.gz");
    // The size of a chunk in the middle becomes invalid.
    let at = 0x18_ea90;
    bytes[at + 4..at + 8].copy_from_slice(&0xdead_beefu32.to_le_bytes());
    let found = look(bytes, Some(&module)).expect("a heap");
    assert_eq!((found.damage.count, found.damage.entries[0].offset), (1, at as u64), "{:?}", found.damage);
    assert!(found.live.0 + 4 >= sound.live.0, "{} of {}", found.live.0, sound.live.0);
    assert_eq!(found.walked, sound.walked, "every byte is accounted for");
    let mut bytes = memory_bytes("leaky_rs.mem3.gz");
    bytes.truncate(0x18_0000);
    let cut = look(bytes, Some(&module)).expect("a heap");
    let ends = |damage: &Damage| damage.what.contains("the image ends before the heap does");
    assert!(cut.damage.entries.iter().any(ends), "{:?}", cut.damage);
    assert!(cut.live.0 > 20 && cut.live.0 < sound.live.0);
}

#[test]
fn the_module_of_another_c_program_is_noticed() {
    let found = look(memory_bytes("leaky_rs.mem3.gz"), Some(&wasm_module("leaky_c"))).expect("found all the same");
    assert!(found.damage.entries[0].what.contains("the module is not this image's"), "{:?}", found.damage);
    assert_eq!(found.live.0, 293);
}

#[test]
fn what_is_no_image_has_no_heap() {
    let text = "It was a dark and stormy night; the rain fell in torrents.\n".repeat(10_000);
    for bytes in [Vec::new(), vec![0; 1 << 20], text.into_bytes(), vec![0xff; 1 << 20], b"\0asm\x01\0\0\0".to_vec()] {
        assert!(look(bytes, None).is_none());
    }
    let noise: Vec<u8> = (0..3_000_000u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as u8).collect();
    assert!(look(noise.clone(), None).is_none());
    assert!(look(noise, Some(&module("ledger32"))).is_none());
}
