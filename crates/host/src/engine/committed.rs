//! The committed state of a module, and how it is restored.

use super::instance::{grow, instantiate};
use super::{Machine, RunError, StoreData};
use crate::memory::PagedMemory;
use crate::module::prepare::{function_export, global_export, table_export};
use highwater_image::wasm::GlobalType;
use std::collections::HashMap;
use std::io;
use wasmi::{F32, F64, Global, Nullable, Ref, Store, StoreLimits, Table, Val};

/// The committed state, except the bytes of the memory.
#[derive(Clone, Debug, Default)]
pub(super) struct CommittedState {
    pub memory_bytes: u64,
    /// The bits of each global.
    pub globals: Vec<Option<u64>>,
    /// For each element of each table the function in it, by its number.
    pub tables: Vec<Vec<Option<u32>>>,
}

impl<S: Default + 'static> Machine<S> {
    /// Keeps all changes since the last commit.
    pub fn commit(&mut self) -> Result<(), RunError> {
        let memory_bytes = self.memory_now();
        self.memory.commit(memory_bytes)?;
        let globals = (0..self.about.facts.globals.len()).map(|index| bits(&self.global(index)?.get(&self.store)));
        let globals = globals.collect();
        let tables = (0..self.about.facts.changing_tables()).map(|index| self.functions_in(index)).collect();
        self.committed = CommittedState { memory_bytes, globals, tables };
        Ok(())
    }

    /// Undoes all changes since the last commit.
    pub fn restore(&mut self) -> Result<(), RunError> {
        self.memory.restore(self.committed.memory_bytes)?;
        // Neither a memory nor a table of the engine can shrink.
        if self.memory_now() != self.committed.memory_bytes || self.has_grown_tables() {
            self.make_anew()?;
        }
        self.put_back_globals()?;
        self.put_back_tables()
    }

    /// Instantiates the module again, over the committed memory.
    fn make_anew(&mut self) -> Result<(), RunError> {
        let system = std::mem::take(self.system());
        let unused = StoreData { memory: None, limits: StoreLimits::default(), system: S::default() };
        // The old store must be dropped before the memory is given out again.
        drop(std::mem::replace(&mut self.store, Store::new(self.module.engine(), unused)));
        let bytes = self.committed.memory_bytes;
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
    ) -> Result<(), RunError> {
        // Clears the memory that the module was instantiated with.
        self.memory.restore(0)?;
        if let Some(given) = self.store.data().memory {
            grow(&mut self.store, given, &mut self.memory, bytes)?;
        }
        if self.memory_now() != bytes {
            return Err(RunError::Failed(format!("its memory cannot have {bytes} bytes")));
        }
        read(&mut self.memory)?;
        self.committed.memory_bytes = bytes;
        self.committed.globals = globals.to_vec();
        self.put_back_globals()
    }

    /// The present size of the memory in bytes.
    fn memory_now(&self) -> u64 {
        self.store.data().memory.map_or(0, |memory| memory.data_size(&self.store) as u64)
    }

    /// The size of the committed memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.committed.memory_bytes
    }

    /// The committed memory.
    pub fn memory(&self) -> &PagedMemory {
        &self.memory
    }

    /// The bits of each committed global; `None` if it is not a number.
    pub fn globals(&self) -> &[Option<u64>] {
        &self.committed.globals
    }

    fn global(&self, index: usize) -> Option<Global> {
        self.instance.get_global(&self.store, &global_export(index))
    }

    fn put_back_globals(&mut self) -> Result<(), RunError> {
        for (index, bits) in self.committed.globals.iter().enumerate() {
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
                .ok_or_else(|| RunError::Failed(format!("global '{}' cannot be put back", info.name)))?;
        }
        Ok(())
    }

    fn table(&self, index: usize) -> Option<Table> {
        self.instance.get_table(&self.store, &table_export(index))
    }

    /// The numbers of all functions by their debug text: the engine cannot compare functions, but its debug output names them.
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
        let grown = |(index, committed): (usize, &Vec<Option<u32>>)| {
            self.table(index).is_some_and(|table| table.size(&self.store) != committed.len() as u64)
        };
        self.committed.tables.iter().enumerate().any(grown)
    }

    fn put_back_tables(&mut self) -> Result<(), RunError> {
        for (index, committed) in self.committed.tables.iter().enumerate() {
            let Some(table) = self.instance.get_table(&self.store, &table_export(index)) else { continue };
            let cannot = || RunError::Failed(format!("table {index} cannot be put back"));
            let missing = (committed.len() as u64).saturating_sub(table.size(&self.store));
            if missing > 0 {
                let nothing = Ref::Func(Nullable::Null);
                table.grow(&mut self.store, missing, nothing).map_err(|_| cannot())?;
            }
            for (element, function) in committed.iter().enumerate() {
                let function =
                    function.and_then(|index| self.instance.get_func(&self.store, &function_export(index as usize)));
                let function = function.map_or(Nullable::Null, Nullable::Val);
                table.set(&mut self.store, element as u64, Ref::Func(function)).map_err(|_| cannot())?;
            }
        }
        Ok(())
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
