//! Whatever an image is: every question has an answer, and memory stays in proportion to it.

use crate::heap::within_bytes;
use highwater_image::{ComparedImage, Damages, Image, Sidecar, WasmModule, compare, find_heap};
use highwater_model::{Accounts, Source, laws};
use std::io::Read;
use std::sync::OnceLock;

/// A real image with its module, unpacked once.
struct Real {
    image: Vec<u8>,
    module: WasmModule,
    /// Where changes are made: data and heap.
    changed: std::ops::Range<usize>,
}

fn real(image: &[u8], module: &[u8], changed: std::ops::Range<usize>) -> Real {
    let unpack = |bytes: &[u8]| match bytes {
        [0x1f, 0x8b, ..] => {
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut unpacked).expect("a fixture");
            unpacked
        }
        _ => zstd::decode_all(bytes).expect("a fixture"),
    };
    Real { image: unpack(image), module: WasmModule::parse(&unpack(module)).expect("a module"), changed }
}

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../crates/image/tests/fixtures/", $name))
    };
}

/// Changes real Motoko images, of 64 and of 32 bits, word by word.
pub fn examine_motoko(bytes: &[u8]) {
    static REAL: OnceLock<[Real; 2]> = OnceLock::new();
    let real = REAL.get_or_init(|| {
        [
            real(fixture!("motoko/zoo-1.img.zst"), fixture!("motoko/zoo.wasm.zst"), 0x48_0000..0x50_4700),
            real(fixture!("motoko/ledger32-1.img.zst"), fixture!("motoko/ledger32.wasm.zst"), 0x20_0000..0x21_7000),
        ]
    });
    examine_changed(real, bytes, if bytes.first().is_some_and(|first| first & 1 == 1) { 4 } else { 8 });
}

/// Changes a real memory of a Rust program, word by word.
pub fn examine_dlmalloc(bytes: &[u8]) {
    static REAL: OnceLock<[Real; 2]> = OnceLock::new();
    let real = REAL.get_or_init(|| {
        [
            real(fixture!("wasm/leaky_rs.mem1.gz"), fixture!("wasm/leaky_rs.wasm.zst"), 0x17_0000..0x19_0000),
            real(fixture!("wasm/leaky_c.mem1.gz"), fixture!("wasm/leaky_c.wasm.zst"), 0x7_2c50..0x8_0000),
        ]
    });
    examine_changed(real, bytes, 4);
}

/// The first byte chooses an image; then come changes of eleven bytes: three say where, eight what.
fn examine_changed(real: &[Real; 2], bytes: &[u8], word: usize) {
    let Some((&choice, changes)) = bytes.split_first() else { return };
    let real = &real[usize::from(choice & 1)];
    let mut image = real.image.clone();
    if choice & 2 != 0 {
        // Cut somewhere.
        let end = changes.first_chunk::<3>().map_or(0, |end| u32::from_le_bytes([end[0], end[1], end[2], 0]) as usize);
        image.truncate(end);
    }
    let room = real.changed.len() / word;
    for change in changes.chunks_exact(11).take(256) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
        let at = real.changed.start + at % room * word;
        if let Some(target) = image.get_mut(at..at + word) {
            target.copy_from_slice(&change[3..3 + word]);
        }
    }
    let length = image.len();
    let image = Image::from_bytes(image);
    let module = (choice & 4 == 0).then_some(&real.module);
    // Shapes, roots and bitmaps: some for each byte, and tables that start out large.
    within_bytes(length * 16 + (64 << 20), || examine(&image, module));
}

/// Asks everything.
fn examine(image: &Image, module: Option<&WasmModule>) {
    let mut damage = Damages::default();
    let Ok(heap) = find_heap(image, module, &Sidecar::default(), &mut damage) else { return };
    let examination = heap.examine(5);
    let walked: u64 = examination.kinds.iter().map(|(_, figures)| figures.bytes).sum();
    assert_eq!(walked, examination.survey.walked_bytes);
    assert!(walked <= image.len());
    for (kind, figures) in &examination.kinds {
        assert!(figures.live_count <= figures.count && figures.live_bytes <= figures.bytes, "{kind}: {figures:?}");
    }
    assert!(damage.entries.len() as u64 <= damage.count);
    for place in [
        "cells",
        "cells.head.shape",
        "cells.tail.tail.head.who",
        "tree#node.account.owner",
        "static[20]",
        "0x500000",
        "totalBalance",
    ] {
        let _ = heap.view(&examination, place, 6);
        for value in ["7", "\"a text, or an array of texts\"", "[1, 2, 3]", "null : ?Nat", "7 : Nat64"] {
            let Ok(edit) = heap.edit(&examination.survey, place, value) else { continue };
            let length = edit.new_length.unwrap_or(image.len());
            assert!(edit.patches.iter().all(|patch| patch.at + patch.bytes.len() as u64 <= length), "{place}={value}");
        }
    }
    for (_, path) in &examination.graph.largest {
        let _ = heap.view(&examination, &path.to_string(), 2);
    }
    let side = || ComparedImage { heap: &*heap, examination: &examination };
    let same = compare(&[side(), side()], 5).expect("the same kind");
    assert_eq!((same.came.0, same.went.0), (0, 0));
    let snapshot = heap.snapshot(&examination, Source::default());
    let accounts = Accounts::from_state(snapshot.accounts);
    assert_eq!(laws::violations(&accounts), Vec::<String>::new());
}
