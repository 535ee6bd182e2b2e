//! A module as it is in its file, and the facts that Highwater needs before and while it runs.

mod facts;
pub(crate) mod prepare;
mod sections;

pub use facts::{Facts, GlobalInfo, GlobalType};

use prepare::prepare;
use sections::sections;
use sha2::{Digest, Sha256};
use std::fmt;

/// Why a module cannot be used, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadModule(pub String);

impl fmt::Display for BadModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadModule {}

impl From<wasmparser::BinaryReaderError> for BadModule {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self(format!("not a sound WASM module: {} at byte {}", error.message(), error.offset()))
    }
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
pub struct Module {
    /// The name of its file.
    pub name: String,
    /// The SHA-256 of its file, in hexadecimal digits.
    pub sha256: String,
    /// The facts that its sections state.
    pub facts: Facts,
    /// The module as the engine runs it: see [`prepare`].
    pub(crate) prepared: Vec<u8>,
}

impl Module {
    /// Reads a module, and prepares it for the engine.
    pub fn new(name: &str, bytes: &[u8]) -> Result<Self, BadModule> {
        let sections = sections(bytes)?;
        let facts = Facts::of(&sections)?;
        let prepared = prepare(&sections, &facts)?;
        Ok(Self { name: name.to_owned(), sha256: hexadecimal(&Sha256::digest(bytes)), facts, prepared })
    }
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
