//! A plain module: functions that are called with whole numbers. It may import a console. `wasi` functions do nothing; any other import traps when it is
//! called.

use crate::engine::{FunctionImport, Machine, MachineLimits, RunError, StoreData, Trap};
use crate::module::HostModule;
use wasmi::{Caller, Linker, Val, ValType};

/// The lines that a plain module printed.
#[derive(Debug, Default)]
pub struct ModuleConsole {
    lines: Vec<String>,
    bytes: usize,
}

/// Printed bytes that are kept for one call.
const MOST_PRINTED: usize = 16 << 20;

impl ModuleConsole {
    fn print(&mut self, text: &[u8]) {
        if self.bytes + text.len() <= MOST_PRINTED {
            self.bytes += text.len();
            self.lines.push(String::from_utf8_lossy(text).into_owned());
        }
    }

    /// Takes the lines printed since the last call of this function.
    pub fn take(&mut self) -> Vec<String> {
        self.bytes = 0;
        std::mem::take(&mut self.lines)
    }
}

/// A running plain module: no system API, only exported functions and a console.
pub struct PlainModule {
    machine: Machine<ModuleConsole>,
}

impl PlainModule {
    /// Starts a module: runs its start function, then `_initialize`.
    pub fn new(module: HostModule, limits: MachineLimits) -> Result<Self, RunError> {
        let mut plain = Self::idle(module, limits)?;
        plain.machine.start()?;
        if plain.machine.function_type("_initialize").is_some() {
            plain.machine.call("_initialize", &[])?;
        }
        plain.machine.commit()?;
        Ok(plain)
    }

    /// A module of which no code has run.
    pub fn idle(module: HostModule, limits: MachineLimits) -> Result<Self, RunError> {
        Ok(Self { machine: Machine::new(module, limits, ModuleConsole::default(), provide)? })
    }

    /// The running module, and its memory.
    pub fn machine(&self) -> &Machine<ModuleConsole> {
        &self.machine
    }

    /// The same, mutable: to continue from another memory.
    pub fn machine_mut(&mut self) -> &mut Machine<ModuleConsole> {
        &mut self.machine
    }

    /// Calls a function and returns its results. If it traps, all its changes are undone.
    pub fn call(&mut self, name: &str, numbers: &[i128]) -> Result<Vec<String>, RunError> {
        let Some(ty) = self.machine.function_type(name) else {
            let there = self.machine.function_names().join(", ");
            return Err(RunError::Failed(format!("no function is called '{name}'; there are: {there}")));
        };
        if ty.params().len() != numbers.len() {
            let (wanted, given) = (ty.params().len(), numbers.len());
            return Err(RunError::Failed(format!("'{name}' takes {wanted} numbers, not {given}")));
        }
        let mut arguments = Vec::with_capacity(numbers.len());
        for (&number, &ty) in numbers.iter().zip(ty.params()) {
            arguments
                .push(argument(number, ty).ok_or_else(|| RunError::Failed(format!("{number} does not fit '{name}'")))?);
        }
        let called = self.machine.call(name, &arguments);
        match called {
            Ok(results) => {
                self.machine.commit()?;
                Ok(results.iter().map(in_words).collect())
            }
            Err(stop) => {
                self.machine.restore()?;
                Err(stop)
            }
        }
    }

    /// Takes the lines printed since the last call of this function.
    pub fn take_printed(&mut self) -> Vec<String> {
        self.machine.system().take()
    }
}

fn argument(number: i128, ty: ValType) -> Option<Val> {
    match ty {
        ValType::I32 => {
            i32::try_from(number).or_else(|_| u32::try_from(number).map(|number| number as i32)).ok().map(Val::I32)
        }
        ValType::I64 => {
            i64::try_from(number).or_else(|_| u64::try_from(number).map(|number| number as i64)).ok().map(Val::I64)
        }
        ValType::F32 => Some(Val::F32((number as f32).into())),
        ValType::F64 => Some(Val::F64((number as f64).into())),
        _ => None,
    }
}

fn in_words(value: &Val) -> String {
    match value {
        Val::I32(value) => value.to_string(),
        Val::I64(value) => value.to_string(),
        Val::F32(value) => f32::from(*value).to_string(),
        Val::F64(value) => f64::from(*value).to_string(),
        _ => "?".into(),
    }
}

fn provide(linker: &mut Linker<StoreData<ModuleConsole>>, import: FunctionImport) -> Result<(), RunError> {
    let FunctionImport { module, name, ty } = import;
    let is_log = ty.params() == [ValType::I32; 2] && ty.results().is_empty() && name == "console_log";
    let is_wasi = module.starts_with("wasi_");
    let full_name = format!("{module}.{name}");
    let defined = linker.func_new(&module, &name, ty, move |mut caller, arguments, results| {
        if is_log {
            return log(&mut caller, arguments).map_err(wasmi::Error::host);
        }
        if is_wasi {
            // Report success and do nothing. Zero means success, and is also the default value of the results.
            results.iter_mut().for_each(|result| *result = Val::default_for_ty(result.ty()));
            return Ok(());
        }
        Err(wasmi::Error::host(Trap(format!("calls {full_name}, which this host does not have"))))
    });
    defined.map(|_| ()).map_err(|error| RunError::Failed(error.to_string()))
}

fn log(caller: &mut Caller<'_, StoreData<ModuleConsole>>, arguments: &[Val]) -> Result<(), Trap> {
    let beyond = || Trap("prints what lies beyond the end of memory".into());
    let (Some(Val::I32(address)), Some(Val::I32(length))) = (arguments.first(), arguments.get(1)) else {
        return Err(beyond());
    };
    let (address, length) = (*address as u32 as usize, *length as u32 as usize);
    let memory = caller.data().memory.ok_or_else(beyond)?;
    let (memory, data) = memory.data_and_store_mut(caller);
    let text = memory.get(address..address.saturating_add(length)).ok_or_else(beyond)?;
    data.system.print(text);
    Ok(())
}
