//! Modules, real and damaged: every fact of the real ones, and an error or an answer for the others.

mod support;

use highwater_image::wasm::GlobalType;
use highwater_image::{WasmError, WasmModule};
use support::{module, module_bytes, wasm_module};

#[test]
fn the_facts_of_real_modules_are_found() {
    let (wide, narrow) = (module("ledger"), module("ledger32"));
    assert_eq!((wide.is_wide(), narrow.is_wide()), (true, false));
    assert_eq!((wide.has_persistent_heap, narrow.has_persistent_heap), (true, false));
    for module in [&wide, &narrow] {
        assert!(module.is_canister && module.interface.as_deref().is_some_and(|text| text.contains("open")));
        assert!(module.labels.iter().any(|label| label == "account") && module.stable_types.contains("tree"));
        assert!(module.functions_in_table().count() > 10 && module.has_function("@get_actor_to_persist"));
        assert!(!module.changes_tables().expect("sound code"));
        assert_eq!(module.unique_global_names().len(), module.globals.len());
    }
    let base = narrow.global_returned_by("get_heap_base").expect("a global");
    assert_eq!(narrow.globals[base as usize].ty, GlobalType::I32);
    let rust = wasm_module("leaky_rs");
    assert!(!rust.is_canister && rust.data_end > 1 << 20);
    assert!(rust.exported_global("__heap_base").is_some_and(|global| global.bits() >= Some(rust.data_end)));
}

/// Everything that can be asked of a module.
fn ask(bytes: &[u8]) -> Result<(), WasmError> {
    let module = WasmModule::parse(bytes)?;
    for name in ["@get_actor_to_persist", "get_heap_base", "get_static_roots"] {
        let _ = (module.instructions_of(name), module.global_returned_by(name));
    }
    let _ = (module.unique_global_names(), module.functions_in_table().count(), module.exported_global("__heap_base"));
    module.changes_tables().map(drop)
}

#[test]
fn damaged_modules_are_typed_errors_with_offsets() {
    let whole = module_bytes("motoko/zoo.wasm.zst");
    assert_eq!(ask(&whole), Ok(()));
    assert_eq!(ask(b"\x7fELF"), Err(WasmError::NotWasm));
    for end in (8..whole.len()).step_by(whole.len() / 200) {
        match ask(&whole[..end]) {
            Ok(()) => {}
            Err(WasmError::CutOff { section }) => assert!(section < end),
            Err(other) => panic!("cut at {end}: {other}"),
        }
    }
    let mut errors = 0;
    for at in (8..whole.len()).step_by(whole.len() / 300) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        if let Err(WasmError::Malformed { offset, .. }) = ask(&bytes) {
            assert!(offset <= whole.len());
            errors += 1;
        }
    }
    assert!(errors > 10, "{errors}");
}

#[test]
fn hostile_numbers_are_not_believed() {
    let module = |section: &[u8]| [b"\0asm\x01\0\0\0", section].concat();
    // Four billion exports; a name that is longer than the file; code whose body claims too much.
    for section in [
        &b"\x07\x05\xff\xff\xff\xff\x0f"[..],
        b"\x07\x05\x01\xff\xff\xff\x0f",
        b"\x0a\x06\x01\xff\xff\xff\xff\x0f",
        b"\x05\x04\x01\x0f\x01\x01",
    ] {
        assert!(matches!(ask(&module(section)), Err(WasmError::Malformed { .. })), "{section:?}");
    }
    // Custom sections that cannot be read are left out.
    for section in [&b"\x00\x02\x09x"[..], b"\x00\x07\x04name\x01\x7f", b"\x00\x0a\x06motoko\x00\x7f"] {
        let _ = ask(&module(section));
    }
    // A page size of 2^63 bytes and more, and a global of -1.
    let odd = module(b"\x05\x05\x01\x08\x01\xff\x01\x06\x06\x01\x7e\x00\x42\x7f\x0b");
    let odd = WasmModule::parse(&odd).expect("read");
    assert_eq!((odd.memories[0].page_bytes, odd.globals[0].bits()), (u64::MAX, Some(u64::MAX)));
}
