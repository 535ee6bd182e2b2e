//! What a host runs: canisters by their principals, each with its program, its snapshots and what the management canister keeps of it.
//!
//! `image host` has one canister, or one place for it. Clients of the network's interface may create a few more.

use crate::canister::{CYCLES, SELF};
use crate::ic::{CanisterLog, CanisterSettings, ChunkStore, UploadedSnapshot};
use crate::program::{HostedProgram, ProgramOptions};
use crate::snapshots::HostSnapshots;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A place for a program, which may be empty.
#[derive(Default)]
pub struct HostedCanister {
    /// The program that is installed.
    pub program: Option<HostedProgram>,
    /// Its snapshots.
    pub snapshots: HostSnapshots,
    /// True if it takes no calls.
    pub is_stopped: bool,
    /// The settings that the management canister keeps.
    pub(crate) settings: CanisterSettings,
    /// Parts of modules that are not installed yet.
    pub(crate) chunks: ChunkStore,
    /// Snapshots of which a client has not sent everything, by their numbers.
    pub(crate) uploads: BTreeMap<u64, UploadedSnapshot>,
    /// The lines that it printed.
    pub(crate) log: CanisterLog,
    /// The cycles of a place without a program.
    pub(crate) idle_cycles: u128,
}

impl HostedCanister {
    /// A place with a program, or without.
    pub(crate) fn new(program: Option<HostedProgram>) -> Self {
        Self { program, idle_cycles: CYCLES, ..Self::default() }
    }

    /// Its cycles.
    pub(crate) fn cycles(&self) -> u128 {
        let canister = self.program.as_ref().and_then(HostedProgram::canister);
        canister.map_or(self.idle_cycles, |canister| canister.machine().system_ref().settings.cycles)
    }

    /// Gives it cycles.
    pub(crate) fn set_cycles(&mut self, cycles: u128) {
        self.idle_cycles = cycles;
        if let Some(canister) = self.program.as_mut().and_then(HostedProgram::canister_mut) {
            canister.machine_mut().system().settings.cycles = cycles;
        }
    }

    /// Installs another program, or none; cycles stay.
    pub(crate) fn replace(&mut self, program: Option<HostedProgram>) {
        let cycles = self.cycles();
        self.program = program;
        self.set_cycles(cycles);
    }
}

/// All canisters of a host.
pub struct HostState {
    pub(crate) canisters: BTreeMap<Vec<u8>, HostedCanister>,
    pub(crate) options: ProgramOptions,
}

/// A state that several servers answer from, one request at a time.
pub type SharedState = Arc<Mutex<HostState>>;

impl HostState {
    /// A host with a program, or with a place for one. Programs that are installed later get these options.
    pub fn new(program: Option<HostedProgram>, options: ProgramOptions) -> Self {
        Self { canisters: BTreeMap::from([(SELF.to_vec(), HostedCanister::new(program))]), options }
    }

    /// The same, to be shared.
    pub fn shared(self) -> SharedState {
        Arc::new(Mutex::new(self))
    }

    /// The canister that the host began with; none if a client has deleted it.
    pub fn first(&mut self) -> Option<&mut HostedCanister> {
        self.canisters.get_mut(&SELF[..])
    }
}

/// Locks a state.
pub(crate) fn locked(state: &SharedState) -> MutexGuard<'_, HostState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
