//! The engine that runs a module, and the state that it goes back to when a message ends badly.
//!
//! A [`Machine`] alternates between running and resting. Everything that a message changed in memory, globals and tables is either kept
//! ([`Machine::commit`]) or undone ([`Machine::restore`]) before the next one runs. Images are taken from what was kept.

use crate::memory::PagedMemory;
use crate::module::prepare::{MEMORY, OURS, function_export, global_export, table_export};
use crate::module::{GlobalType, Module};
use std::collections::HashMap;
use std::fmt;
use std::io;
use wasmi::errors::HostError;
use wasmi::{
    Config, Engine, ExternType, F32, F64, Func, FuncType, Global, Instance, Linker, Memory, MemoryType, Nullable, Ref,
    Store, StoreLimits, StoreLimitsBuilder, Table, TrapCode, Val, ValType,
};

/// What a module may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions for one message.
    pub instructions: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl Default for Limits {
    /// As many instructions as the Internet Computer gives an update; 16 GiB.
    fn default() -> Self {
        Self { instructions: 40_000_000_000, memory_bytes: 16 << 30 }
    }
}

/// The deepest call chain, and the bytes of stack it may take: a canister's own stack, 4 MiB, ends before.
const DEEPEST: usize = 100_000;
const STACK_BYTES: usize = 64 << 20;
/// Elements of all tables.
const MOST_ELEMENTS: usize = 10_000_000;
/// The unit in which memories grow.
const WASM_PAGE: u64 = 64 << 10;
/// Memory that is made anew grows in steps of so many bytes, because the engine touches all of it.
const GROWTH_STEP: u64 = 64 << 20;

/// Why a call did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The module trapped, or did what it may not: why.
    Trapped(String),
    /// It used up its instructions.
    TooLong(u64),
    /// It was left because of something else: what.
    Failed(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trapped(why) => write!(f, "trapped: {why}"),
            Self::TooLong(limit) => write!(f, "did not end within {limit} instructions"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Stop {}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("its memory cannot be kept: {error}"))
    }
}

/// A trap that a function of ours raises.
#[derive(Debug)]
pub struct Trap(pub String);

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostError for Trap {}

/// What the engine holds for us: the memory, and whatever the functions of ours need.
pub struct Held<S> {
    /// The module's memory.
    pub memory: Option<Memory>,
    limits: StoreLimits,
    /// What the functions of ours need.
    pub system: S,
}

/// A function that a module imports, for whoever provides it.
pub struct Import {
    /// The module it is imported from.
    pub module: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FuncType,
}

/// What was kept of everything but the memory's bytes.
#[derive(Clone, Debug, Default)]
struct Kept {
    memory_bytes: u64,
    /// The bits of each global.
    globals: Vec<Option<u64>>,
    /// For each element of each table the function in it, by its number.
    tables: Vec<Vec<Option<u32>>>,
}

/// A module that lives. See the module's text.
pub struct Machine<S: 'static> {
    // First: it uses the memory until it is dropped.
    store: Store<Held<S>>,
    instance: Instance,
    module: wasmi::Module,
    linker: Linker<Held<S>>,
    about: Module,
    memory: PagedMemory,
    kept: Kept,
    limits: Limits,
}

impl<S: Default + 'static> Machine<S> {
    /// Makes a module ready to be called, and nothing more: not even its start function has run. `provide` gives it each function that it
    /// imports.
    pub fn new(
        about: Module,
        limits: Limits,
        system: S,
        mut provide: impl FnMut(&mut Linker<Held<S>>, Import) -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let engine = Engine::new(&config());
        let module = wasmi::Module::new(&engine, &about.prepared).map_err(|error| Stop::Failed(one_line(&error)))?;
        let mut linker = Linker::new(&engine);
        for import in module.imports() {
            if let ExternType::Func(ty) = import.ty() {
                let (module, name) = (import.module().to_owned(), import.name().to_owned());
                provide(&mut linker, Import { module, name, ty: ty.clone() })?;
            }
        }
        let (least, most) = about.facts.memory_limits;
        let capacity = most.unwrap_or(u64::MAX).min(limits.memory_bytes).min(widest(&about));
        if capacity < least {
            let needs = format!("needs {least} bytes of memory; it may have {}", limits.memory_bytes);
            return Err(Stop::Failed(needs));
        }
        let mut memory = PagedMemory::new(capacity as usize)?;
        let (store, instance) = instantiate(&module, &linker, &mut memory, &about, system, least)?;
        let mut machine = Self { store, instance, module, linker, about, memory, kept: Kept::default(), limits };
        machine.commit()?;
        Ok(machine)
    }

    /// Runs the module's start function, if it has one.
    pub fn start(&mut self) -> Result<(), Stop> {
        match self.about.facts.start {
            Some(index) => self.call(&function_export(index as usize), &[]).map(|_| ()),
            None => Ok(()),
        }
    }

    /// What is known about the module.
    pub fn about(&self) -> &Module {
        &self.about
    }

    /// What the functions of ours need.
    pub fn system(&mut self) -> &mut S {
        &mut self.store.data_mut().system
    }

    /// The same, to look at.
    pub fn system_ref(&self) -> &S {
        &self.store.data().system
    }

    /// The limits it runs under.
    pub fn limits(&self) -> Limits {
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

    /// Calls an exported function; its results.
    pub fn call(&mut self, name: &str, arguments: &[Val]) -> Result<Vec<Val>, Stop> {
        let function = self.instance.get_func(&self.store, name);
        self.run(function.ok_or_else(|| Stop::Failed(format!("has no function '{name}'")))?, arguments)
    }

    /// Calls a function of the first table, with one number.
    pub fn call_in_table(&mut self, index: u64, argument: u64) -> Result<(), Stop> {
        let table = self.instance.get_table(&self.store, &table_export(0));
        let element = table.and_then(|table| table.get(&self.store, index));
        let Some(Ref::Func(Nullable::Val(function))) = element else {
            return Err(Stop::Trapped(format!("the callback {index} is not in the table")));
        };
        let argument = match function.ty(&self.store).params() {
            [ValType::I32] => Val::I32(argument as i32),
            [ValType::I64] => Val::I64(argument as i64),
            _ => return Err(Stop::Trapped(format!("the callback {index} does not take one number"))),
        };
        self.run(function, &[argument]).map(|_| ())
    }

    fn run(&mut self, function: Func, arguments: &[Val]) -> Result<Vec<Val>, Stop> {
        let mut results: Vec<Val> =
            function.ty(&self.store).results().iter().map(|&ty| Val::default_for_ty(ty)).collect();
        let instructions = self.limits.instructions;
        let fuelled = self.store.set_fuel(instructions);
        fuelled.and_then(|()| function.call(&mut self.store, arguments, &mut results)).map_err(|error| match error
            .as_trap_code()
        {
            Some(TrapCode::OutOfFuel) => Stop::TooLong(instructions),
            _ => Stop::Trapped(error.downcast_ref::<Trap>().map_or_else(|| one_line(&error), |trap| trap.0.clone())),
        })?;
        Ok(results)
    }

    /// What was changed since the last commit stays.
    pub fn commit(&mut self) -> Result<(), Stop> {
        let memory_bytes = self.memory_now();
        self.memory.commit(memory_bytes)?;
        let globals = (0..self.about.facts.globals.len()).map(|index| bits(&self.global(index)?.get(&self.store)));
        let globals = globals.collect();
        let tables = (0..self.about.facts.changing_tables()).map(|index| self.functions_in(index)).collect();
        self.kept = Kept { memory_bytes, globals, tables };
        Ok(())
    }

    /// What was changed since the last commit is undone.
    pub fn restore(&mut self) -> Result<(), Stop> {
        self.memory.restore(self.kept.memory_bytes)?;
        // A memory of the engine cannot shrink, nor can a table.
        if self.memory_now() != self.kept.memory_bytes || self.has_grown_tables() {
            self.make_anew()?;
        }
        self.put_back_globals()?;
        self.put_back_tables()
    }

    /// A fresh instance of the module over the kept memory.
    fn make_anew(&mut self) -> Result<(), Stop> {
        let system = std::mem::take(self.system());
        let unused = Held { memory: None, limits: StoreLimits::default(), system: S::default() };
        // The old one goes before the memory is given out again.
        drop(std::mem::replace(&mut self.store, Store::new(self.module.engine(), unused)));
        let bytes = self.kept.memory_bytes;
        let made = instantiate(&self.module, &self.linker, &mut self.memory, &self.about, system, bytes);
        (self.store, self.instance) = made?;
        Ok(self.memory.restore(bytes)?)
    }

    /// Continues from another memory, with its globals.
    pub fn load(
        &mut self,
        bytes: u64,
        globals: &[Option<u64>],
        read: impl FnOnce(&mut PagedMemory) -> io::Result<()>,
    ) -> Result<(), Stop> {
        // Nothing of what the module begins with stays.
        self.memory.restore(0)?;
        if let Some(given) = self.store.data().memory {
            grow(&mut self.store, given, &mut self.memory, bytes)?;
        }
        if self.memory_now() != bytes {
            return Err(Stop::Failed(format!("its memory cannot have {bytes} bytes")));
        }
        read(&mut self.memory)?;
        self.kept.memory_bytes = bytes;
        self.kept.globals = globals.to_vec();
        self.put_back_globals()
    }

    /// Bytes of memory right now.
    fn memory_now(&self) -> u64 {
        self.store.data().memory.map_or(0, |memory| memory.data_size(&self.store) as u64)
    }

    /// Bytes of memory that were kept.
    pub fn memory_bytes(&self) -> u64 {
        self.kept.memory_bytes
    }

    /// The memory that was kept.
    pub fn memory(&self) -> &PagedMemory {
        &self.memory
    }

    /// The bits of each global that was kept; `None` for what is no number.
    pub fn globals(&self) -> &[Option<u64>] {
        &self.kept.globals
    }

    fn global(&self, index: usize) -> Option<Global> {
        self.instance.get_global(&self.store, &global_export(index))
    }

    fn put_back_globals(&mut self) -> Result<(), Stop> {
        for (index, bits) in self.kept.globals.iter().enumerate() {
            let info = &self.about.facts.globals[index];
            let (Some(bits), true) = (*bits, info.is_mutable) else { continue };
            let value = match info.ty {
                GlobalType::I32 => Val::I32(bits as i32),
                GlobalType::I64 => Val::I64(bits as i64),
                GlobalType::F32 => Val::F32(F32::from_bits(bits as u32)),
                GlobalType::F64 => Val::F64(F64::from_bits(bits)),
                GlobalType::Other => continue,
            };
            let global = self.instance.get_global(&self.store, &global_export(index));
            global
                .and_then(|global| global.set(&mut self.store, value).ok())
                .ok_or_else(|| Stop::Failed(format!("global '{}' cannot be put back", info.name)))?;
        }
        Ok(())
    }

    fn table(&self, index: usize) -> Option<Table> {
        self.instance.get_table(&self.store, &table_export(index))
    }

    /// The engine cannot compare functions, but it names them.
    fn names_of_functions(&self) -> HashMap<String, u32> {
        let numbered = (0..self.about.facts.functions).filter_map(|index| {
            let function = self.instance.get_func(&self.store, &function_export(index as usize))?;
            Some((format!("{function:?}"), index))
        });
        numbered.collect()
    }

    fn functions_in(&self, table: usize) -> Vec<Option<u32>> {
        let names = self.names_of_functions();
        let Some(table) = self.table(table) else { return Vec::new() };
        let element = |index| match table.get(&self.store, index) {
            Some(Ref::Func(Nullable::Val(function))) => names.get(&format!("{function:?}")).copied(),
            _ => None,
        };
        (0..table.size(&self.store)).map(element).collect()
    }

    fn has_grown_tables(&self) -> bool {
        let grown = |(index, kept): (usize, &Vec<Option<u32>>)| {
            self.table(index).is_some_and(|table| table.size(&self.store) != kept.len() as u64)
        };
        self.kept.tables.iter().enumerate().any(grown)
    }

    fn put_back_tables(&mut self) -> Result<(), Stop> {
        for (index, kept) in self.kept.tables.iter().enumerate() {
            let Some(table) = self.instance.get_table(&self.store, &table_export(index)) else { continue };
            let cannot = || Stop::Failed(format!("table {index} cannot be put back"));
            let missing = (kept.len() as u64).saturating_sub(table.size(&self.store));
            if missing > 0 {
                let nothing = Ref::Func(Nullable::Null);
                table.grow(&mut self.store, missing, nothing).map_err(|_| cannot())?;
            }
            for (element, function) in kept.iter().enumerate() {
                let function =
                    function.and_then(|index| self.instance.get_func(&self.store, &function_export(index as usize)));
                let function = function.map_or(Nullable::Null, Nullable::Val);
                table.set(&mut self.store, element as u64, Ref::Func(function)).map_err(|_| cannot())?;
            }
        }
        Ok(())
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .wasm_memory64(true)
        .ignore_custom_sections(true)
        .set_max_stack_height(STACK_BYTES)
        .set_max_recursion_depth(DEEPEST);
    config
}

fn widest(about: &Module) -> u64 {
    match about.facts.memory {
        crate::module::MemoryKind::Memory32 => 4 << 30,
        crate::module::MemoryKind::Memory64 => u64::MAX,
    }
}

#[allow(unsafe_code, reason = "the one place where the engine is given its memory")]
fn instantiate<S>(
    module: &wasmi::Module,
    linker: &Linker<Held<S>>,
    memory: &mut PagedMemory,
    about: &Module,
    system: S,
    bytes: u64,
) -> Result<(Store<Held<S>>, Instance), Stop> {
    let failed = |error: &dyn fmt::Display| Stop::Failed(one_line(error));
    let limits = StoreLimitsBuilder::new().memory_size(memory.capacity()).table_elements(MOST_ELEMENTS).build();
    let held = Held { memory: None, limits, system };
    let mut store = Store::new(module.engine(), held);
    store.limiter(|held| &mut held.limits);
    store.set_fuel(u64::MAX).map_err(|error| failed(&error))?;
    let mut linker = linker.clone();
    let wanted = module.imports().find_map(|import| match import.ty() {
        ExternType::Memory(ty) => Some((import.module().to_owned(), import.name().to_owned(), *ty)),
        _ => None,
    });
    let (from, name, ty): (String, String, MemoryType) =
        wanted.unwrap_or_else(|| (OURS.into(), MEMORY.into(), MemoryType::new(0, None)));
    // SAFETY: whatever ran on it before is gone, the machine drops the store before the memory, and while the memory works the store rests.
    let all = unsafe { memory.bytes() };
    let given = Memory::new_static(&mut store, ty, all).map_err(|error| failed(&error))?;
    store.data_mut().memory = Some(given);
    grow(&mut store, given, memory, bytes)?;
    linker.define(&from, &name, given).map_err(|error| failed(&error))?;
    let instance = linker.instantiate_and_start(&mut store, module);
    let instance = instance.map_err(|error| failed(&format_args!("{} cannot be started: {error}", about.name)))?;
    Ok((store, instance))
}

/// Lets a memory have so many bytes. The engine fills what is new with zeros, which are there already.
fn grow<S>(store: &mut Store<Held<S>>, given: Memory, memory: &mut PagedMemory, bytes: u64) -> Result<(), Stop> {
    let cannot = || Stop::Failed(format!("its memory cannot have {bytes} bytes"));
    loop {
        let now = given.data_size(&*store) as u64;
        if now >= bytes {
            return Ok(());
        }
        let step = (bytes - now).min(GROWTH_STEP);
        store.set_fuel(u64::MAX).map_err(|_| cannot())?;
        let grown = memory.aside(now..now + step, || given.grow(&mut *store, step.div_ceil(WASM_PAGE)))?;
        grown.map_err(|_| cannot())?;
    }
}

/// The bits of a number.
fn bits(value: &Val) -> Option<u64> {
    match value {
        Val::I32(value) => Some(u64::from(*value as u32)),
        Val::I64(value) => Some(*value as u64),
        Val::F32(value) => Some(u64::from(value.to_bits())),
        Val::F64(value) => Some(value.to_bits()),
        _ => None,
    }
}

fn one_line(text: &dyn fmt::Display) -> String {
    text.to_string().lines().next().unwrap_or_default().to_owned()
}
