//! The types of what the management canister answers, in Candid.

use crate::candid::{CandidValue, Interface, encode_values};
use crate::ic::reject::{Reject, code};
use std::sync::OnceLock;

/// As in the network's interface description.
const TYPES: &str = "
type created = record { canister_id : principal };
type snapshot = record { id : blob; taken_at_timestamp : nat64; total_size : nat64 };
type snapshots = vec snapshot;
type uploaded = record { snapshot_id : blob };
type chunk = record { chunk : blob };
type chunk_hash = record { hash : blob };
type chunk_hashes = vec chunk_hash;
type metadata = record {
    source : variant { taken_from_canister : reserved; metadata_upload : reserved };
    taken_at_timestamp : nat64;
    wasm_module_size : nat64;
    globals : vec variant { i32 : int32; i64 : int64; f32 : float32; f64 : float64; v128 : nat };
    wasm_memory_size : nat64;
    stable_memory_size : nat64;
    wasm_chunk_store : chunk_hashes;
    canister_version : nat64;
    certified_data : blob;
    global_timer : opt variant { inactive; active : nat64 };
    on_low_wasm_memory_hook_status : opt variant { condition_not_satisfied; ready; executed };
};
type visibility = variant { controllers; public; allowed_viewers : vec principal };
type settings = record {
    controllers : vec principal;
    compute_allocation : nat;
    memory_allocation : nat;
    freezing_threshold : nat;
    reserved_cycles_limit : nat;
    log_visibility : visibility;
    wasm_memory_limit : nat;
    wasm_memory_threshold : nat;
    log_memory_limit : nat;
    minimum_incoming_canister_call_cycles : nat;
    snapshot_visibility : visibility;
    status_visibility : visibility;
    environment_variables : vec record { name : text; value : text };
};
type status = record {
    status : variant { running; stopping; stopped };
    ready_for_migration : bool;
    version : nat64;
    settings : settings;
    module_hash : opt blob;
    memory_size : nat;
    memory_metrics : record {
        wasm_memory_size : nat;
        stable_memory_size : nat;
        global_memory_size : nat;
        wasm_binary_size : nat;
        custom_sections_size : nat;
        canister_history_size : nat;
        wasm_chunk_store_size : nat;
        log_memory_store_size : nat;
        snapshots_size : nat;
    };
    cycles : nat;
    reserved_cycles : nat;
    idle_cycles_burned_per_day : nat;
    query_stats : record {
        num_calls_total : nat;
        num_instructions_total : nat;
        request_payload_bytes_total : nat;
        response_payload_bytes_total : nat;
    };
};
type logs = record { canister_log_records : vec record { idx : nat64; timestamp_nanos : nat64; content : blob } };
";

fn interface() -> &'static Interface {
    static INTERFACE: OnceLock<Interface> = OnceLock::new();
    INTERFACE.get_or_init(|| Interface::parse(TYPES).unwrap_or_default())
}

/// The bytes of an answer of a named type.
pub fn reply(ty: &str, value: CandidValue) -> Result<Vec<u8>, Reject> {
    encode_values(&[value], &[ty], interface())
        .map_err(|error| Reject::new(code::INVALID_ARGUMENT, format!("The answer cannot be written: {error}")))
}

/// The bytes of an answer without values.
pub fn done() -> Result<Vec<u8>, Reject> {
    Ok(b"DIDL\x00\x00".to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_can_be_read() {
        Interface::parse(TYPES).unwrap();
        let bytes = reply("uploaded", CandidValue::record([("snapshot_id", CandidValue::Blob(vec![1, 2]))])).unwrap();
        assert_eq!(
            crate::candid::decode(&bytes, &["snapshot_id".to_owned()]).unwrap(),
            "(record { snapshot_id = blob \"\\01\\02\" })"
        );
    }
}
