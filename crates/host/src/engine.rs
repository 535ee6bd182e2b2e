//! The engine that runs a module, and the state that it returns to when a message fails.
//!
//! A [`Machine`] alternates between running and resting. All changes of a message to memory, globals and tables are either committed ([`Machine::commit`]) or
//! undone ([`Machine::restore`]) before the next message runs. Images are taken from the committed state.

mod committed;
mod instance;
mod run_error;

pub use run_error::{RunError, Trap};

use crate::memory::PagedMemory;
use crate::module::HostModule;
use crate::module::prepare::{function_export, table_export};
use committed::CommittedState;
use instance::{config, instantiate, one_line, widest};
use wasmi::{
    Engine, ExternType, Func, FuncType, Instance, Linker, Memory, Nullable, Ref, Store, StoreLimits, TrapCode, Val,
    ValType,
};

/// The limits of a module.
#[derive(Clone, Copy, Debug)]
pub struct MachineLimits {
    /// The most instructions for one message.
    pub instructions: u64,
    /// The most bytes of memory.
    pub memory_bytes: u64,
}

impl Default for MachineLimits {
    /// The instruction limit of an update call on the Internet Computer; 16 GiB.
    fn default() -> Self {
        Self { instructions: 40_000_000_000, memory_bytes: 16 << 30 }
    }
}

/// The data that the engine's store holds for the host: the memory, and the state of the host's functions.
pub struct StoreData<S> {
    /// The module's memory.
    pub memory: Option<Memory>,
    limits: StoreLimits,
    /// The state that the host's functions need.
    pub system: S,
}

/// A function that a module imports, for the code that provides it.
pub struct FunctionImport {
    /// The module it is imported from.
    pub module: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FuncType,
}

/// An instance of a module, with its memory. After each message its changes are committed or undone.
pub struct Machine<S: 'static> {
    // Must be the first field: the store uses the memory until it is dropped.
    store: Store<StoreData<S>>,
    instance: Instance,
    module: wasmi::Module,
    linker: Linker<StoreData<S>>,
    about: HostModule,
    memory: PagedMemory,
    committed: CommittedState,
    limits: MachineLimits,
}

impl<S: Default + 'static> Machine<S> {
    /// Instantiates a module. None of its code has run yet, not even its start function. `provide` defines each function that it imports.
    pub fn new(
        about: HostModule,
        limits: MachineLimits,
        system: S,
        mut provide: impl FnMut(&mut Linker<StoreData<S>>, FunctionImport) -> Result<(), RunError>,
    ) -> Result<Self, RunError> {
        let engine = Engine::new(&config());
        let module =
            wasmi::Module::new(&engine, &about.prepared).map_err(|error| RunError::Failed(one_line(&error)))?;
        let mut linker = Linker::new(&engine);
        for import in module.imports() {
            if let ExternType::Func(ty) = import.ty() {
                let (module, name) = (import.module().to_owned(), import.name().to_owned());
                provide(&mut linker, FunctionImport { module, name, ty: ty.clone() })?;
            }
        }
        let (least, most) = about.facts.memory_limits;
        let capacity = most.unwrap_or(u64::MAX).min(limits.memory_bytes).min(widest(&about));
        if capacity < least {
            let needs = format!("needs {least} bytes of memory; it may have {}", limits.memory_bytes);
            return Err(RunError::Failed(needs));
        }
        let mut memory = PagedMemory::new(capacity as usize)?;
        let (store, instance) = instantiate(&module, &linker, &mut memory, &about, system, least)?;
        let mut machine =
            Self { store, instance, module, linker, about, memory, committed: CommittedState::default(), limits };
        machine.commit()?;
        Ok(machine)
    }

    /// Runs the module's start function, if it has one.
    pub fn start(&mut self) -> Result<(), RunError> {
        match self.about.facts.start {
            Some(index) => self.call(&function_export(index as usize), &[]).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The facts about the module.
    pub fn about(&self) -> &HostModule {
        &self.about
    }

    /// The state that the host's functions need.
    pub fn system(&mut self) -> &mut S {
        &mut self.store.data_mut().system
    }

    /// The same, shared.
    pub fn system_ref(&self) -> &S {
        &self.store.data().system
    }

    /// The memory as it is now, with what the current message has changed.
    pub(crate) fn memory_content(&self) -> &[u8] {
        self.store.data().memory.map_or(&[], |memory| memory.data(&self.store))
    }

    /// The limits it runs under.
    pub fn limits(&self) -> MachineLimits {
        self.limits
    }

    /// The type of an exported function.
    pub fn function_type(&self, name: &str) -> Option<FuncType> {
        Some(self.instance.get_func(&self.store, name)?.ty(&self.store))
    }

    /// The names of the exported functions that the module itself names.
    pub fn function_names(&self) -> Vec<String> {
        let exports = self.instance.exports(&self.store).filter(|export| export.clone().into_func().is_some());
        let mut names: Vec<String> = exports.map(|export| export.name().to_owned()).collect();
        names.retain(|name| !name.starts_with("highwater:"));
        names.sort();
        names
    }

    /// Calls an exported function and returns its results.
    pub fn call(&mut self, name: &str, arguments: &[Val]) -> Result<Vec<Val>, RunError> {
        let function = self.instance.get_func(&self.store, name);
        self.run(function.ok_or_else(|| RunError::Failed(format!("has no function '{name}'")))?, arguments)
    }

    /// Calls a function in the first table, with one number.
    pub fn call_in_table(&mut self, index: u64, argument: u64) -> Result<(), RunError> {
        let table = self.instance.get_table(&self.store, &table_export(0));
        let element = table.and_then(|table| table.get(&self.store, index));
        let Some(Ref::Func(Nullable::Val(function))) = element else {
            return Err(RunError::Trapped(format!("the callback {index} is not in the table")));
        };
        let argument = match function.ty(&self.store).params() {
            [ValType::I32] => Val::I32(argument as i32),
            [ValType::I64] => Val::I64(argument as i64),
            _ => return Err(RunError::Trapped(format!("the callback {index} does not take one number"))),
        };
        self.run(function, &[argument]).map(|_| ())
    }

    fn run(&mut self, function: Func, arguments: &[Val]) -> Result<Vec<Val>, RunError> {
        let mut results: Vec<Val> =
            function.ty(&self.store).results().iter().map(|&ty| Val::default_for_ty(ty)).collect();
        let instructions = self.limits.instructions;
        let fuelled = self.store.set_fuel(instructions);
        fuelled.and_then(|()| function.call(&mut self.store, arguments, &mut results)).map_err(|error| match error
            .as_trap_code()
        {
            Some(TrapCode::OutOfFuel) => RunError::TooLong(instructions),
            _ => {
                RunError::Trapped(error.downcast_ref::<Trap>().map_or_else(|| one_line(&error), |trap| trap.0.clone()))
            }
        })?;
        Ok(results)
    }
}
