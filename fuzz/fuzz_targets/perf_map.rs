//! Any bytes as a map that a runtime writes for `perf`, in pieces.
#![no_main]

use highwater_symbols::perf_map::{JitName, PerfMap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&length, text)) = bytes.split_first() else { return };
    let (mut whole, mut in_pieces) = (PerfMap::default(), PerfMap::default());
    whole.add(text);
    whole.finish();
    text.chunks(usize::from(length).max(1)).for_each(|piece| in_pieces.add(piece));
    in_pieces.finish();
    assert_eq!((whole.used(), whole.ignored()), (in_pieces.used(), in_pieces.ignored()));
    for line in text.split(|&byte| byte == b'\n') {
        let start = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        let digits = String::from_utf8_lossy(start);
        let Ok(address) = u64::from_str_radix(digits.trim_start_matches("0x"), 16) else { continue };
        assert_eq!(whole.lookup(address), in_pieces.lookup(address));
        if let Some(name) = whole.lookup(address) {
            assert!(!name.chars().any(char::is_control));
            JitName::read(name);
        }
    }
});
