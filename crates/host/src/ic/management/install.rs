//! Installs code: new, in place of other code, or as an upgrade that keeps state.

use super::arguments::{Argument, ArgumentError};
use super::types::done;
use super::{Management, MethodResult};
use crate::candid::{CandidValue, principal_text};
use crate::canister::{Canister, UpgradeOptions};
use crate::ic::reject::{Reject, code};
use crate::module::HostModule;
use crate::program::HostedProgram;
use highwater_image::WasmModule;

/// What an installation does with what was there.
enum InstallMode {
    Install,
    Reinstall,
    Upgrade { skips_pre_upgrade: bool, keeps_memory: Option<bool> },
}

impl InstallMode {
    fn of(argument: &CandidValue) -> Result<Self, Reject> {
        let mode = argument.need("mode")?;
        if mode.case("install").is_some() {
            return Ok(Self::Install);
        }
        if mode.case("reinstall").is_some() {
            return Ok(Self::Reinstall);
        }
        let options = match mode.case("upgrade").ok_or(ArgumentError("mode"))? {
            CandidValue::Opt(options) => options.as_ref(),
            _ => &CandidValue::Null,
        };
        let keeps_memory = match options.field("wasm_memory_persistence") {
            None => None,
            Some(choice) if choice.case("keep").is_some() => Some(true),
            Some(choice) if choice.case("replace").is_some() => Some(false),
            Some(_) => return Err(ArgumentError("wasm_memory_persistence").into()),
        };
        let skips_pre_upgrade = options.field("skip_pre_upgrade") == Some(&CandidValue::Bool(true));
        Ok(Self::Upgrade { skips_pre_upgrade, keeps_memory })
    }
}

impl Management<'_> {
    pub(super) fn install_code(&mut self, argument: &CandidValue) -> MethodResult {
        let module = argument.blob_of("wasm_module")?.to_vec();
        let canister = argument.principal_of("canister_id")?;
        self.install(&canister, &module, argument)
    }

    pub(super) fn install_chunked_code(&mut self, argument: &CandidValue) -> MethodResult {
        let module = self.assemble(argument)?;
        let canister = argument.principal_of("target_canister")?;
        self.install(&canister, &module, argument)
    }

    fn install(&mut self, id: &[u8], module: &[u8], argument: &CandidValue) -> MethodResult {
        let mode = InstallMode::of(argument)?;
        let given = argument.blob_of("arg")?;
        let name = principal_text(id);
        let module = HostModule::new(&format!("{name}.wasm"), module).map_err(|problem| {
            Reject::new(code::INVALID_WASM, format!("Error from Canister {name}: the module is not valid: {problem}"))
        })?;
        let (options, caller) = (self.state.options.clone(), self.caller.to_vec());
        let hosted = self.canister(id)?;
        let old = hosted.program.as_mut().and_then(HostedProgram::canister_mut);
        let mut canister = match (mode, old) {
            (InstallMode::Install, Some(_)) => {
                let line = format!("Canister {name} is not empty; install it with the mode 'reinstall' or 'upgrade'");
                return Err(Reject::new(code::NOT_EMPTY, line));
            }
            (InstallMode::Upgrade { .. }, None) => {
                return Err(Reject::new(
                    code::NO_MODULE,
                    format!("Canister {name} has no code that could be upgraded"),
                ));
            }
            (InstallMode::Upgrade { skips_pre_upgrade, keeps_memory }, Some(old)) => {
                let keeps_memory = checked_persistence(old.machine().about(), &module, keeps_memory)?;
                let options = UpgradeOptions { keeps_memory, skips_pre_upgrade };
                old.upgraded(module, options, &caller, given)
            }
            (InstallMode::Install | InstallMode::Reinstall, old) => {
                let mut world = options.world;
                if let Some(old) = old {
                    world.time_ns = old.machine().system_ref().time_ns;
                }
                Canister::idle(module, options.limits, world).and_then(|mut canister| {
                    canister.machine_mut().system().id = id.to_vec();
                    canister.begin("canister_init", &caller, given).map(|()| canister)
                })
            }
        }
        .map_err(|problem| Reject::of_run(&name, &problem))?;
        let printed = canister.machine_mut().system().take_printed();
        hosted.replace(Some(HostedProgram::of_canister(canister, Vec::new())));
        self.note_printed(id, &printed);
        (self.log)(&format!("{name}: code was installed"));
        done()
    }
}

/// Whether the memory is kept. Motoko's modules with enhanced persistence need a choice, and others have none.
fn checked_persistence(old: &HostModule, new: &HostModule, choice: Option<bool>) -> Result<bool, Reject> {
    let is_persistent =
        |module: &HostModule| WasmModule::parse(&module.installed).is_ok_and(|module| module.has_persistent_heap);
    match choice {
        None if is_persistent(old) => Err(Reject::new(
            code::CONTRACT_VIOLATION,
            "Missing upgrade option: enhanced orthogonal persistence requires 'wasm_memory_persistence'",
        )),
        Some(true) if !is_persistent(new) => Err(Reject::new(
            code::CONTRACT_VIOLATION,
            "Invalid upgrade option: 'wasm_memory_persistence: keep' needs a module with enhanced orthogonal persistence",
        )),
        choice => Ok(choice == Some(true)),
    }
}
