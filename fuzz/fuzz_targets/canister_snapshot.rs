//! Any bytes as the parts of a canister's snapshot: its metadata, the table of regions in its stable memory, its module's globals.
#![no_main]

use highwater_image::WasmModule;
use highwater_image::canister::{RegionTable, SnapshotMetadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = RegionTable::parse(bytes);
    let half = bytes.len() / 2;
    let Ok(document) = serde_json::from_slice(&bytes[..half]) else { return };
    if let Ok(metadata) = SnapshotMetadata::from_json(&document) {
        let again = SnapshotMetadata::from_json(&metadata.to_json());
        assert!(again.is_ok(), "what is written can be read");
        if let Ok(module) = WasmModule::parse(&bytes[half..]) {
            let _ = metadata.globals_of(&module);
        }
    }
});
