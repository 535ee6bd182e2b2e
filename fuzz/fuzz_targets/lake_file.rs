//! Any bytes, as a Parquet file of a lake.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_lake_file(bytes));
