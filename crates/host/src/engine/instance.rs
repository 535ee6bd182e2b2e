//! Instantiates a module in the engine: the engine's settings, and the memory that it runs on.

use super::{RunError, StoreData};
use crate::memory::PagedMemory;
use crate::module::HostModule;
use crate::module::prepare::{MEMORY, OURS};
use std::fmt;
use wasmi::{Config, ExternType, Instance, Linker, Memory, MemoryType, Store, StoreLimitsBuilder};

/// The deepest call chain, and the bytes of stack that it may take. A canister overflows its own stack of 4 MiB before.
const DEEPEST: usize = 100_000;
const STACK_BYTES: usize = 64 << 20;
/// The most elements in all tables.
const MOST_ELEMENTS: usize = 10_000_000;
/// The unit in which memories grow.
const WASM_PAGE: u64 = 64 << 10;
/// A new memory grows in steps of this many bytes, because the engine touches all of it.
const GROWTH_STEP: u64 = 64 << 20;

pub(super) fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .wasm_memory64(true)
        .ignore_custom_sections(true)
        .set_max_stack_height(STACK_BYTES)
        .set_max_recursion_depth(DEEPEST);
    config
}

pub(super) fn widest(about: &HostModule) -> u64 {
    match about.facts.memory {
        crate::module::MemoryKind::Memory32 => 4 << 30,
        crate::module::MemoryKind::Memory64 => u64::MAX,
    }
}

#[allow(unsafe_code, reason = "the one place where the engine is given its memory")]
pub(super) fn instantiate<S>(
    module: &wasmi::Module,
    linker: &Linker<StoreData<S>>,
    memory: &mut PagedMemory,
    about: &HostModule,
    system: S,
    bytes: u64,
) -> Result<(Store<StoreData<S>>, Instance), RunError> {
    let failed = |error: &dyn fmt::Display| RunError::Failed(one_line(error));
    let limits = StoreLimitsBuilder::new().memory_size(memory.capacity()).table_elements(MOST_ELEMENTS).build();
    let data = StoreData { memory: None, limits, system };
    let mut store = Store::new(module.engine(), data);
    store.limiter(|data| &mut data.limits);
    store.set_fuel(u64::MAX).map_err(|error| failed(&error))?;
    let mut linker = linker.clone();
    let wanted = module.imports().find_map(|import| match import.ty() {
        ExternType::Memory(ty) => Some((import.module().to_owned(), import.name().to_owned(), *ty)),
        _ => None,
    });
    let (from, name, ty): (String, String, MemoryType) =
        wanted.unwrap_or_else(|| (OURS.into(), MEMORY.into(), MemoryType::new(0, None)));
    // SAFETY: the previous instance on this memory is gone, the machine drops the store before the memory, and the store does not run during calls of the
    // memory's methods.
    let all = unsafe { memory.bytes() };
    let given = Memory::new_static(&mut store, ty, all).map_err(|error| failed(&error))?;
    store.data_mut().memory = Some(given);
    grow(&mut store, given, memory, bytes)?;
    linker.define(&from, &name, given).map_err(|error| failed(&error))?;
    let instance = linker.instantiate_and_start(&mut store, module);
    let instance = instance.map_err(|error| failed(&format_args!("{} cannot be started: {error}", about.name)))?;
    Ok((store, instance))
}

/// Grows a memory to `bytes` bytes. The engine fills the new part with zeros; it reads as zeros already.
pub(super) fn grow<S>(
    store: &mut Store<StoreData<S>>,
    given: Memory,
    memory: &mut PagedMemory,
    bytes: u64,
) -> Result<(), RunError> {
    let cannot = || RunError::Failed(format!("its memory cannot have {bytes} bytes"));
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

pub(super) fn one_line(text: &dyn fmt::Display) -> String {
    text.to_string().lines().next().unwrap_or_default().to_owned()
}
