//! The chunk store of a canister: parts of a module that is too large for one message.

use super::arguments::Argument;
use super::types::{done, reply};
use super::{Management, MethodResult};
use crate::candid::CandidValue;
use crate::ic::reject::{Reject, code};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest chunk, and the most chunks, as on the network.
pub const LONGEST_CHUNK: usize = 1 << 20;
const MOST_CHUNKS: usize = 100;

/// Chunks by their SHA-256.
pub type ChunkStore = BTreeMap<Vec<u8>, Arc<[u8]>>;

fn hash_value(hash: &[u8]) -> CandidValue {
    CandidValue::record([("hash", CandidValue::Blob(hash.to_vec()))])
}

/// Adds a chunk; returns its hash.
pub fn store(chunks: &mut ChunkStore, chunk: &[u8]) -> Result<Vec<u8>, Reject> {
    let refused =
        |line: String| Err(Reject::new(code::CONTRACT_VIOLATION, format!("Error from Wasm chunk store: {line}")));
    if chunk.len() > LONGEST_CHUNK {
        return refused(format!("a chunk of {} bytes is longer than {LONGEST_CHUNK}", chunk.len()));
    }
    let hash = Sha256::digest(chunk).to_vec();
    if chunks.len() >= MOST_CHUNKS && !chunks.contains_key(&hash) {
        return refused(format!("there are {MOST_CHUNKS} chunks already, which is the limit"));
    }
    chunks.entry(hash.clone()).or_insert_with(|| chunk.into());
    Ok(hash)
}

impl Management<'_> {
    pub(super) fn upload_chunk(&mut self, argument: &CandidValue) -> MethodResult {
        let chunk = argument.blob_of("chunk")?;
        let hash = store(&mut self.target(argument)?.chunks, chunk)?;
        reply("chunk_hash", hash_value(&hash))
    }

    pub(super) fn stored_chunks(&mut self, argument: &CandidValue) -> MethodResult {
        let hashes = self.target(argument)?.chunks.keys().map(|hash| hash_value(hash)).collect();
        reply("chunk_hashes", CandidValue::Vec(hashes))
    }

    pub(super) fn clear_chunk_store(&mut self, argument: &CandidValue) -> MethodResult {
        self.target(argument)?.chunks.clear();
        done()
    }

    /// The module that chunks make up, checked against its hash.
    pub(super) fn assemble(&mut self, argument: &CandidValue) -> Result<Vec<u8>, Reject> {
        let store = match argument.field("store_canister") {
            Some(store) => store.principal("store_canister")?,
            None => argument.principal_of("target_canister")?,
        };
        let caller = self.caller;
        let canister = self.canister(&store)?;
        canister.settings.check(&store, caller, "install_chunked_code")?;
        let mut module = Vec::new();
        for item in argument.need("chunk_hashes_list")?.items("chunk_hashes_list")? {
            // Older clients send the hash itself.
            let hash = item.as_blob().map_or_else(|| item.blob_of("hash"), Ok)?;
            let Some(chunk) = canister.chunks.get(hash) else {
                let hash = highwater_image::hexadecimal(hash);
                let line = format!("Error from Wasm chunk store: there is no chunk {hash}");
                return Err(Reject::new(code::CONTRACT_VIOLATION, line));
            };
            module.extend(&**chunk);
        }
        if Sha256::digest(&module)[..] != *argument.blob_of("wasm_module_hash")? {
            let line = "Error from Wasm chunk store: the chunks have another hash than wasm_module_hash";
            return Err(Reject::new(code::CONTRACT_VIOLATION, line));
        }
        Ok(module)
    }
}
