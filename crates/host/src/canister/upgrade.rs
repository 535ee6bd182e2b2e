//! Replaces a canister's code and keeps its state, as far as the new code wants it.

use super::{Canister, World};
use crate::content::MemoryContent;
use crate::engine::RunError;
use crate::memory::{PAGE, is_zero};
use crate::module::HostModule;
use crate::system::{CanisterMessage, MessageMode};
use std::io;

/// How a canister is upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeOptions {
    /// The new code gets the main memory of the old code.
    pub keeps_memory: bool,
    /// `canister_pre_upgrade` does not run.
    pub skips_pre_upgrade: bool,
}

/// The memory of a canister during a message.
struct LiveMemory<'a>(&'a [u8]);

impl MemoryContent for LiveMemory<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn pages(&self, visit: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let occupied = self.0.chunks(PAGE).enumerate().filter(|(_, page)| !is_zero(page));
        occupied.into_iter().try_for_each(|(number, page)| visit((number * PAGE) as u64, page))
    }
}

impl Canister {
    /// The canister with new code: runs `canister_pre_upgrade` of the old code, then `canister_post_upgrade` of the new code. If anything fails, this canister
    /// is as it was.
    pub fn upgraded(
        &mut self,
        module: HostModule,
        options: UpgradeOptions,
        caller: &[u8],
        argument: &[u8],
    ) -> Result<Self, RunError> {
        let system = self.machine.system();
        let before = (system.settings.clone(), system.time_ns, system.performance);
        let made = self.prepare_upgrade(options, caller).and_then(|()| self.succeed(module, options, caller, argument));
        if made.is_err() {
            self.machine.restore()?;
            let system = self.machine.system();
            system.stable.restore();
            (system.settings, system.time_ns, system.performance) = before;
        }
        made
    }

    /// Runs `canister_pre_upgrade`, and leaves its changes uncommitted.
    fn prepare_upgrade(&mut self, options: UpgradeOptions, caller: &[u8]) -> Result<(), RunError> {
        let export = "canister_pre_upgrade";
        if options.skips_pre_upgrade || self.machine.function_type(export).is_none() {
            return Ok(());
        }
        let message = CanisterMessage { caller: caller.to_vec(), ..self.message(MessageMode::Init) };
        let system = self.machine.system();
        system.time_ns += 1;
        system.message = message;
        self.machine.call(export, &[]).map(|_| ())
    }

    fn succeed(
        &self,
        module: HostModule,
        options: UpgradeOptions,
        caller: &[u8],
        argument: &[u8],
    ) -> Result<Self, RunError> {
        let old = self.machine.system_ref();
        let world = World { time_ns: old.time_ns, seed: self.random };
        let mut new = Self::idle(module, self.machine.limits(), world)?;
        let system = new.machine.system();
        system.id.clone_from(&old.id);
        system.settings = old.settings.clone();
        // Timers belong to the code that set them.
        system.settings.timer_ns = 0;
        system.version = old.version + 1;
        system.performance = old.performance;
        system.stable.load(&old.stable.capture())?;
        if options.keeps_memory {
            let content = LiveMemory(self.machine.memory_content());
            let globals = new.machine.globals().to_vec();
            let bytes = content.bytes().max(new.machine.memory_bytes());
            new.machine.load(bytes, &globals, |memory| content.pages(&mut |at, page| memory.write(at, page)))?;
        }
        new.begin("canister_post_upgrade", caller, argument)?;
        Ok(new)
    }
}
