//! A module as the host runs it: the facts that it needs, and the form that the engine gets.

mod facts;
pub(crate) mod prepare;

pub use facts::{GlobalInfo, ModuleFacts};

use highwater_image::wasm::{sections, unpacked};
use highwater_image::{WasmError, WasmModule, hexadecimal};
use prepare::prepare;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Why a module cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadModule {
    /// It cannot be read.
    #[error(transparent)]
    Wasm(#[from] WasmError),
    /// It has no memory.
    #[error("the module has no memory")]
    NoMemory,
    /// It has several memories: how many.
    #[error("the module has {0} memories; only one can be captured")]
    Memories(usize),
    /// It imports something that is neither function, table, memory nor global: what.
    #[error("imports {0}, which cannot be given")]
    Import(String),
    /// A section cannot take the entries that the host adds.
    #[error("the module has too many entries")]
    TooManyEntries,
}

/// The width of a memory's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// 32 bits: standard WASM.
    Memory32,
    /// 64 bits.
    Memory64,
}

impl MemoryKind {
    /// Its name in sidecars.
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory32 => "memory32",
            Self::Memory64 => "memory64",
        }
    }
}

/// A WASM module.
#[derive(Debug)]
pub struct HostModule {
    /// The name of its file.
    pub name: String,
    /// The SHA-256 of its file, in hexadecimal digits.
    pub sha256: String,
    /// The same of the module itself, if its file is compressed; else equal.
    pub unpacked_sha256: String,
    /// Its file, as it is installed.
    pub installed: Arc<[u8]>,
    /// The facts that its sections state.
    pub facts: ModuleFacts,
    /// The module as the engine runs it: see [`prepare`].
    pub(crate) prepared: Vec<u8>,
}

impl HostModule {
    /// Reads a module, which may be compressed with gzip, and prepares it for the engine.
    pub fn new(name: &str, bytes: &[u8]) -> Result<Self, BadModule> {
        let module = unpacked(bytes)?;
        let sections = sections(&module)?;
        let facts = ModuleFacts::of(WasmModule::of_sections(&sections)?)?;
        let prepared = prepare(&sections, &facts)?;
        Ok(Self {
            name: name.to_owned(),
            sha256: hexadecimal(&Sha256::digest(bytes)),
            unpacked_sha256: hexadecimal(&Sha256::digest(&module)),
            installed: bytes.into(),
            facts,
            prepared,
        })
    }
}
