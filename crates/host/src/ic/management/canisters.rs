//! The life of canisters: creation, status, start, stop, deletion.

use super::arguments::Argument;
use super::types::{done, reply};
use super::{Management, MethodResult, snapshots};
use crate::candid::{CandidValue, principal_text};
use crate::hosted::HostedCanister;
use crate::ic::management::settings::CanisterSettings;
use crate::ic::principal::{canister_id, canister_number};
use crate::ic::reject::{Reject, code};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;

/// The most canisters of a host.
const MOST_CANISTERS: usize = 16;
/// The cycles of a canister that is made without a word about them.
const FIRST_CYCLES: u128 = 100_000_000_000_000;

impl Management<'_> {
    pub(super) fn create(&mut self, argument: &CandidValue) -> MethodResult {
        let canisters = &self.state.canisters;
        if canisters.len() >= MOST_CANISTERS {
            let line = format!("This host has {MOST_CANISTERS} canisters, which is its limit");
            return Err(Reject::new(code::TOO_MANY_CANISTERS, line));
        }
        let id = match argument.field("specified_id") {
            Some(id) => id.principal("specified_id")?,
            None => {
                let last = canisters.keys().filter_map(|id| canister_number(id)).max().unwrap_or(0);
                canister_id(last + 1)
            }
        };
        let name = principal_text(&id);
        if canister_number(&id).is_none() {
            return Err(Reject::new(code::REJECTED, format!("The specified_id {name} is not in this host's range")));
        }
        if canisters.contains_key(&id) {
            return Err(Reject::new(code::REJECTED, format!("The canister {name} exists already")));
        }
        let mut canister = HostedCanister::new(None);
        canister.settings = CanisterSettings::of(self.caller);
        if let Some(settings) = argument.field("settings") {
            canister.settings.update(settings)?;
        }
        let amount = argument.field("amount").and_then(CandidValue::as_number);
        canister.idle_cycles = amount.and_then(|amount| u128::try_from(amount).ok()).unwrap_or(FIRST_CYCLES);
        self.state.canisters.insert(id.clone(), canister);
        (self.log)(&format!("{name}: created"));
        reply("created", CandidValue::record([("canister_id", CandidValue::Principal(id))]))
    }

    pub(super) fn top_up(&mut self, argument: &CandidValue) -> MethodResult {
        let amount = argument.number_of("amount")?;
        let canister = self.target(argument)?;
        canister.set_cycles(canister.cycles().saturating_add(amount.into()));
        done()
    }

    pub(super) fn status(&mut self, argument: &CandidValue) -> MethodResult {
        let caller = self.caller;
        let canister = self.target(argument)?;
        let program = canister.program.as_ref();
        let machine = program.and_then(|program| Some(program.canister()?.machine()));
        let system = machine.map(|machine| machine.system_ref());
        let number = |number: u64| CandidValue::number(number);
        let zero = || CandidValue::number(0);
        let module_bytes = program.map_or(0, |program| program.module().installed.len() as u64);
        let hash = program.map(|program| Sha256::digest(&program.module().installed).to_vec());
        let memory = machine.map_or(0, |machine| machine.memory_bytes());
        let stable = system.map_or(0, |system| system.stable.pages() * (64 << 10));
        let chunks = canister.chunks.values().map(|chunk| chunk.len() as u64).sum();
        let stored = snapshots::total_bytes(canister);
        let state = if canister.is_stopped { "stopped" } else { "running" };
        let value = CandidValue::record([
            ("status", CandidValue::variant(state, CandidValue::Null)),
            ("ready_for_migration", CandidValue::Bool(canister.is_stopped)),
            ("version", number(system.map_or(0, |system| system.version))),
            ("settings", canister.settings.value(caller)),
            ("module_hash", CandidValue::opt(hash.map(CandidValue::Blob))),
            ("memory_size", number(memory + stable + module_bytes + chunks + stored)),
            (
                "memory_metrics",
                CandidValue::record([
                    ("wasm_memory_size", number(memory)),
                    ("stable_memory_size", number(stable)),
                    ("global_memory_size", zero()),
                    ("wasm_binary_size", number(module_bytes)),
                    ("custom_sections_size", zero()),
                    ("canister_history_size", zero()),
                    ("wasm_chunk_store_size", number(chunks)),
                    ("log_memory_store_size", zero()),
                    ("snapshots_size", number(stored)),
                ]),
            ),
            ("cycles", CandidValue::number(i128::try_from(canister.cycles()).unwrap_or(i128::MAX))),
            ("reserved_cycles", zero()),
            ("idle_cycles_burned_per_day", zero()),
            (
                "query_stats",
                CandidValue::record([
                    ("num_calls_total", zero()),
                    ("num_instructions_total", zero()),
                    ("request_payload_bytes_total", zero()),
                    ("response_payload_bytes_total", zero()),
                ]),
            ),
        ]);
        reply("status", value)
    }

    pub(super) fn start(&mut self, argument: &CandidValue) -> MethodResult {
        self.target(argument)?.is_stopped = false;
        self.say(argument, "started")
    }

    pub(super) fn stop(&mut self, argument: &CandidValue) -> MethodResult {
        // All calls have ended: the host runs one after the other, each until nothing is left to do.
        self.target(argument)?.is_stopped = true;
        self.say(argument, "stopped")
    }

    pub(super) fn update_settings(&mut self, argument: &CandidValue) -> MethodResult {
        let settings = argument.need("settings")?;
        self.target(argument)?.settings.update(settings)?;
        done()
    }

    pub(super) fn uninstall(&mut self, argument: &CandidValue) -> MethodResult {
        let canister = self.target(argument)?;
        canister.replace(None);
        canister.chunks.clear();
        self.say(argument, "its code was removed")
    }

    pub(super) fn delete(&mut self, argument: &CandidValue) -> MethodResult {
        let id = argument.principal_of("canister_id")?;
        let name = principal_text(&id);
        if !self.target(argument)?.is_stopped {
            return Err(Reject::new(
                code::NOT_STOPPED,
                format!("Canister {name} must be stopped before it is deleted"),
            ));
        }
        self.state.canisters.remove(&id);
        self.say(argument, "deleted")
    }

    pub(super) fn logs(&mut self, argument: &CandidValue) -> MethodResult {
        let value = self.target(argument)?.log.value();
        reply("logs", value)
    }

    /// 32 bytes of the system's randomness: the caller is outside, so no canister's state depends on them.
    pub(super) fn random(&mut self, _: &CandidValue) -> MethodResult {
        let mut random = [0; 32];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
        read.map_err(|error| Reject::new(code::REJECTED, format!("There is no randomness: {error}")))?;
        Ok([&b"DIDL\x01\x6d\x7b\x01\x00\x20"[..], &random].concat())
    }

    fn say(&self, argument: &CandidValue, what: &str) -> MethodResult {
        (self.log)(&format!("{}: {what}", principal_text(&argument.principal_of("canister_id")?)));
        done()
    }
}
