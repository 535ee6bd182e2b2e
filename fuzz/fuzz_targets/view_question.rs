//! Any path and parameters, as a question to the viewer about a small recording and a snapshot of it.
#![no_main]

use highwater_fuzz::examine_question;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|question: &str| examine_question(question));
