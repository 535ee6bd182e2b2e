//! A file of each kind that can be viewed.

use super::{Place, in_the_kitchen};
use std::path::Path;

/// A file of another crate's tests, unpacked.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            let mut unpacked = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut unpacked).unwrap();
            unpacked
        }
        Some("zst") => zstd::decode_all(&bytes[..]).unwrap(),
        _ => bytes,
    }
}

/// A short object log, with one drop too many.
pub const LOG: &str = "@ ALLOCATE 10 a.rs:1 Node 1\n@ ALLOCATE 20 a.rs:2 Edge 2\n@ MARK half\n@ ALLOCATE 30 a.rs:1 Node 3\n\
                   @ RESIZE 40 Node 3\n@ DROP 10 Node 1\n@ DROP 10 Node 1\n";

/// A directory with a file of each kind.
pub fn all_kinds() -> Place {
    let place = in_the_kitchen();
    place.write("trace.ctf", fixture("formats/tests/fixtures/memtrace/steady.ctf.zst"));
    place.write("objects.log", LOG);
    place.write("motoko.img", fixture("image/tests/fixtures/motoko/ledger-1.img.zst"));
    place.write("later.img", fixture("image/tests/fixtures/motoko/ledger-2.img.zst"));
    place.write("ledger.wasm", fixture("image/tests/fixtures/motoko/ledger.wasm.zst"));
    for image in ["motoko", "later"] {
        place.write(&format!("{image}.img.json"), r#"{"version":1,"module":{"name":"ledger.wasm"}}"#);
    }
    place.write("rust.img", fixture("image/tests/fixtures/wasm/leaky_rs.mem1.gz"));
    place.write("rust-later.img", fixture("image/tests/fixtures/wasm/leaky_rs.mem3.gz"));
    place
}
