//! The parts of ELF that attaching needs, as words at fixed offsets. Everything here comes from another process or from its file.

use std::collections::HashMap;

pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_DYNAMIC: u32 = 2;
pub(crate) const PT_INTERP: u32 = 3;
pub(crate) const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const SYMBOL_BYTES: usize = 24;
const STT_FUNC: u8 = 2;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// What the header of a file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHeader {
    pub is_64_bit: bool,
    pub machine: u16,
    pub program_headers: u64,
    pub program_header_count: usize,
    pub section_headers: u64,
    pub section_header_count: usize,
}

/// Bytes of the header.
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// Bytes of one program header.
pub(crate) const PROGRAM_HEADER_BYTES: usize = 56;

impl FileHeader {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != b"\x7fELF" {
            return None;
        }
        let is_64_bit = *bytes.get(4)? == 2;
        Some(Self {
            is_64_bit,
            machine: u16_at(bytes, 18)?,
            program_headers: u64_at(bytes, 32)?,
            program_header_count: if is_64_bit && u16_at(bytes, 54)? as usize == PROGRAM_HEADER_BYTES {
                u16_at(bytes, 56)?.into()
            } else {
                0
            },
            section_headers: u64_at(bytes, 40)?,
            section_header_count: u16_at(bytes, 60)?.into(),
        })
    }
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub kind: u32,
    pub executable: bool,
    pub writable: bool,
    pub offset: u64,
    pub address: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
}

impl Segment {
    pub(crate) fn parse_all(bytes: &[u8]) -> Vec<Self> {
        bytes.chunks_exact(PROGRAM_HEADER_BYTES).filter_map(Self::parse).collect()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let flags = u32_at(bytes, 4)?;
        Some(Self {
            kind: u32_at(bytes, 0)?,
            executable: flags & 1 != 0,
            writable: flags & 2 != 0,
            offset: u64_at(bytes, 8)?,
            address: u64_at(bytes, 16)?,
            file_bytes: u64_at(bytes, 32)?,
            memory_bytes: u64_at(bytes, 40)?,
        })
    }
}

/// A function or object that a module defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefinedSymbol {
    /// In the address space.
    pub address: u64,
    pub size: u64,
    pub is_function: bool,
}

/// A symbol table with its strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct SymbolTable {
    pub entries: Vec<u8>,
    pub strings: Vec<u8>,
}

impl SymbolTable {
    /// The defined symbols among `names`. A global one counts more than a local one of the same name.
    pub(crate) fn find<'a>(&self, bias: u64, names: &[&'a str]) -> HashMap<&'a str, DefinedSymbol> {
        let wanted: HashMap<&[u8], &'a str> = names.iter().map(|&name| (name.as_bytes(), name)).collect();
        let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
        let mut found: HashMap<&str, (DefinedSymbol, bool)> = HashMap::new();
        for entry in self.entries.chunks_exact(SYMBOL_BYTES) {
            let (Some(name), Some(section), Some(value), Some(size)) =
                (u32_at(entry, 0), u16_at(entry, 6), u64_at(entry, 8), u64_at(entry, 16))
            else {
                continue;
            };
            if section == 0 || value == 0 {
                continue;
            }
            let Some(text) = self.strings.get(name as usize..) else { continue };
            let Some(length) = text.iter().take(longest + 1).position(|&byte| byte == 0) else { continue };
            let Some(&name) = wanted.get(&text[..length]) else { continue };
            let is_global = entry[4] >> 4 != 0;
            if found.get(name).is_none_or(|&(_, global)| is_global && !global) {
                let symbol =
                    DefinedSymbol { address: bias.wrapping_add(value), size, is_function: entry[4] & 15 == STT_FUNC };
                found.insert(name, (symbol, is_global));
            }
        }
        found.into_iter().map(|(name, (symbol, _))| (name, symbol)).collect()
    }

    /// Whether a symbol of this name is there, be it defined or only used.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.entries.chunks_exact(SYMBOL_BYTES).any(|entry| {
            let text = u32_at(entry, 0).and_then(|at| self.strings.get(at as usize..));
            text.is_some_and(|text| text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)))
        })
    }

    /// The full symbol table of a file, `.symtab`.
    pub(crate) fn of_file(file: &[u8]) -> Option<Self> {
        const SHT_SYMTAB: u32 = 2;
        const SECTION_BYTES: usize = 64;
        let header = FileHeader::parse(file)?;
        let sections = usize::try_from(header.section_headers).ok().filter(|&at| at > 0)?;
        let section =
            |index: usize| file.get(sections.checked_add(index.checked_mul(SECTION_BYTES)?)?..)?.get(..SECTION_BYTES);
        let content = |section: &[u8]| {
            let at = usize::try_from(u64_at(section, 24)?).ok()?;
            file.get(at..at.checked_add(usize::try_from(u64_at(section, 32)?).ok()?)?).map(<[u8]>::to_vec)
        };
        let symbols = (0..header.section_header_count)
            .filter_map(section)
            .find(|section| u32_at(section, 4) == Some(SHT_SYMTAB))?;
        let strings = section(u32_at(symbols, 40)? as usize)?;
        Some(Self { entries: content(symbols)?, strings: content(strings)? })
    }
}
