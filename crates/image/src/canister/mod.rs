//! Snapshots of canisters as the Internet Computer's own tools keep them: a folder that `icp canister snapshot download` and `dfx canister snapshot download`
//! write, and that both can upload.
//!
//! ```text
//!  D/metadata.json          sizes, globals, time, certified data, timer: SnapshotMetadata
//!  D/wasm_module.bin        the module as it is installed, often compressed with gzip
//!  D/wasm_memory.bin        the main memory: the image
//!  D/stable_memory.bin      the stable memory; dfx leaves it out if there is none
//!  D/wasm_chunk_store/      chunks of modules, by their hashes
//! ```

mod folder;
mod metadata;
mod regions;

pub use folder::{FolderError, METADATA, SnapshotFolder, WrittenFolder};
pub use metadata::{GlobalValue, MetadataError, SnapshotMetadata};
pub use regions::{RegionBlocks, RegionTable};

/// The size of a page of WASM memory and of stable memory.
pub const WASM_PAGE: u64 = 64 << 10;
