//! Memories of C and Rust programs whose every block is known.

mod support;

use highwater_image::dlmalloc::{Dlmalloc, Kind};
use highwater_image::{Damages, Lens, Sidecar, survey};
use std::collections::BTreeMap;
use support::{json, memory, wasm_module};

#[test]
fn exactly_the_live_blocks_of_all_dumps_are_found() {
    let mut dumps = 0;
    for program in ["leaky_c", "clean_c", "leaky_rs", "clean_rs"] {
        let expected = json(&format!("wasm/{program}.expected.json"));
        for dump in expected["dumps"].as_array().expect("dumps") {
            let file = dump["file"].as_str().expect("a file");
            let image = memory(file);
            let live: BTreeMap<u64, u64> = dump["live"]
                .as_array()
                .expect("blocks")
                .iter()
                .map(|block| (block[0].as_u64().expect("address"), block[1].as_u64().expect("size")))
                .collect();
            for with_module in [true, false] {
                let module = with_module.then(|| wasm_module(program));
                let heap = Dlmalloc::find(&image, module.as_ref(), &Sidecar::default()).expect("a heap");
                let mut damage = Damages::default();
                let mut found = BTreeMap::new();
                let mut walked = 0;
                heap.walk(
                    |stretch| {
                        walked += stretch.bytes;
                        if stretch.kind == Kind::Chunk as u8 {
                            found.insert(stretch.at + 8, stretch.bytes - 4);
                        }
                    },
                    &mut damage,
                );
                assert!(damage.is_empty(), "{file}: {damage:?}");
                assert_eq!(found.keys().collect::<Vec<_>>(), live.keys().collect::<Vec<_>>(), "{file}");
                for (address, size) in &live {
                    let usable = found[address];
                    assert!((*size..size + 40).contains(&usable), "{file}: {usable} for {size}");
                }
                assert_eq!(heap.base() + walked, image.len(), "{file}: every byte is accounted for");
                assert_eq!(heap.alignment(), if program.ends_with("_c") { 16 } else { 8 }, "{file}");
                // Each program keeps a list of its blocks in static data.
                let survey = survey(&heap, 3);
                assert_eq!(survey.kinds[Kind::Chunk as usize].live_count, live.len() as u64, "{file}");
            }
            dumps += 1;
        }
    }
    assert_eq!(dumps, 12);
}
