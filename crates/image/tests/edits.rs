//! Random changes of a real image: the heap stays sound, the value is the new one, and all else is as it was.

mod support;

use highwater_image::{Damages, Examination, Image, ImageHeap, Sidecar, WasmModule, find_heap};
use proptest::prelude::*;
use std::sync::OnceLock;
use support::{image_bytes, module};

/// The number of nodes that are looked at: those along the right edge of the tree.
const NODES: usize = 8;

fn node(depth: usize) -> String {
    format!("tree#node{}", ".right#node".repeat(depth))
}

fn ledger() -> &'static (Vec<u8>, WasmModule) {
    static LEDGER: OnceLock<(Vec<u8>, WasmModule)> = OnceLock::new();
    LEDGER.get_or_init(|| (image_bytes("ledger-2"), module("ledger-2")))
}

/// Looks at the heap of an image, which must be sound.
#[track_caller]
fn look<T>(bytes: Vec<u8>, look: impl FnOnce(&dyn ImageHeap, &Examination) -> T) -> T {
    let image = Image::from_bytes(bytes);
    let mut damage = Damages::default();
    let heap = find_heap(&image, Some(&ledger().1), &Sidecar::default(), &mut damage).expect("a heap");
    let examination = heap.examine(0);
    damage.append(examination.damage().clone());
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(heap.stated_bytes(), Some(examination.survey.walked_bytes));
    look(&*heap, &examination)
}

/// The image with a change.
fn edited(bytes: &[u8], path: &str, value: &str) -> Vec<u8> {
    let edit = look(bytes.to_vec(), |heap, examination| heap.edit(&examination.survey, path, value)).expect("a change");
    let mut bytes = bytes.to_vec();
    bytes.resize(edit.new_length.map_or(bytes.len(), |length| length as usize), 0);
    for patch in edit.patches {
        bytes[patch.at as usize..][..patch.bytes.len()].copy_from_slice(&patch.bytes);
    }
    bytes
}

/// The values of the first accounts, and of the variables, but for one.
fn shown(heap: &dyn ImageHeap, examination: &Examination, but: &str) -> Vec<(String, Option<String>)> {
    let mut paths: Vec<String> = ["accountCount", "goldCount", "totalBalance"].map(str::to_owned).into();
    for depth in 0..NODES {
        paths.extend(["owner", "balance"].map(|field| format!("{}.account.{field}", node(depth))));
    }
    let value = |path: &str| heap.view(examination, path, 2).ok().and_then(|view| view.value);
    paths.into_iter().filter(|path| path != but).map(|path| (path.clone(), value(&path))).collect()
}

/// A path in the ledger, and a new value for it, as it is written and shown.
fn change() -> impl Strategy<Value = (String, String)> {
    let node = (0..NODES).prop_map(node);
    let text = "[a-z \\\\\"\u{e9}\u{1f30a}\n]{0,200}".prop_map(|text| format!("{text:?}"));
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.unsigned_abs().to_string()),
        (0..1000u32).prop_map(|number| number.to_string()),
        "[1-9][0-9]{20,300}",
    ];
    prop_oneof![
        (node.clone(), text).prop_map(|(node, text)| (format!("{node}.account.owner"), text)),
        (node, number.clone()).prop_map(|(node, number)| (format!("{node}.account.balance"), number)),
        (prop_oneof![Just("totalBalance"), Just("goldCount")], number)
            .prop_map(|(name, number)| (name.to_owned(), number)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_leave_a_sound_heap_and_all_else_as_it_was(changes in proptest::collection::vec(change(), 1..6)) {
        let mut bytes = ledger().0.clone();
        for (path, value) in changes {
            let before = look(bytes.clone(), |heap, examination| shown(heap, examination, &path));
            bytes = edited(&bytes, &path, &value);
            look(bytes.clone(), |heap, examination| {
                let now = heap.view(examination, &path, 1).expect("a view");
                // A text is shown only in part if it is long.
                let text = heap.text_at(&examination.survey, now.object, 10_000);
                let text = text.map(|text| format!("{:?}", String::from_utf8(text).expect("a text")));
                assert_eq!(text.or(now.value), Some(value), "{path}");
                assert_eq!(shown(heap, examination, &path), before);
            });
        }
    }

    #[test]
    fn no_change_is_a_panic(path in "(tree|totalBalance|0x5[0-9a-f]{5}|static\\[[0-9]{1,2}\\])([.#?\\[é][a-z0-9é\\]]{0,6}){0,3}", value in ".{0,40}") {
        let (bytes, _) = ledger();
        look(bytes.clone(), |heap, examination| {
            let _ = heap.edit(&examination.survey, &path, &value);
            let _ = heap.view(examination, &path, 4);
        });
    }

    #[test]
    fn changes_of_a_damaged_image_stay_within_it(
        words in proptest::collection::vec((prop_oneof![0x48_0000usize..0x48_1e00, 0x50_0000usize..0x52_0000], any::<u64>(), 0u32..64), 1..20),
        (path, value) in change(),
    ) {
        let mut bytes = ledger().0.clone();
        for (at, word, shift) in words {
            bytes[at & !7..][..8].copy_from_slice(&(word >> shift).to_le_bytes());
        }
        let image = Image::from_bytes(bytes);
        let mut damage = Damages::default();
        if let Ok(heap) = find_heap(&image, Some(&ledger().1), &Sidecar::default(), &mut damage) {
            let survey = heap.examine(0).survey;
            for path in [path.as_str(), "static[20]", "totalBalance", "tree"] {
                let Ok(edit) = heap.edit(&survey, path, &value) else { continue };
                let length = edit.new_length.unwrap_or(image.len());
                assert!(length <= image.len() + (64 << 20));
                assert!(edit.patches.iter().all(|patch| patch.at + patch.bytes.len() as u64 <= length));
            }
        }
    }
}
