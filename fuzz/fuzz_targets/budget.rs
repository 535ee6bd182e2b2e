//! Any text, as a file of budgets and as a file of suppressions.
#![no_main]

use highwater_fuzz::examine_budget;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| examine_budget(text));
