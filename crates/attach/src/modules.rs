//! The program and its libraries, read from memory.
//!
//! Files are not needed to find functions: they may have been replaced since, or lie in a file system that this process does not see. Headers, dynamic section and
//! symbols are in memory as the loader uses them. Only a program without dynamic symbols is looked up in its file, `/proc/PID/exe`.

use crate::elf::{
    FILE_HEADER_BYTES, FileHeader, PROGRAM_HEADER_BYTES, PT_DYNAMIC, PT_INTERP, PT_LOAD, Segment, SymbolTable, u32_at,
    u64_at,
};
use crate::look::living_folder;
use crate::mappings::AddressSpace;
use crate::target_memory::TargetMemory;
use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

/// More is not a symbol table.
const MOST_SYMBOLS: u64 = 4_000_000;
/// More is not a table of names.
const MOST_STRING_BYTES: u64 = 256 << 20;
const PAGE: u64 = 4096;

/// One ELF file in the address space.
#[derive(Debug)]
pub(crate) struct TargetModule {
    pub path: String,
    /// What is added to addresses of the file.
    pub bias: u64,
    /// From its first to its last byte.
    pub range: Range<u64>,
    /// Its executable part.
    pub text: Range<u64>,
    /// The unused rest of its last executable page.
    pub slack: Range<u64>,
    pub segments: Vec<Segment>,
    pub symbols: SymbolTable,
    pub is_program: bool,
    pub is_loader: bool,
    pub is_vdso: bool,
    pub has_interpreter: bool,
}

impl TargetModule {
    fn read(memory: &TargetMemory, space: &AddressSpace, base: u64, path: &str) -> Option<Self> {
        let header = FileHeader::parse(&memory.read_vec(base, FILE_HEADER_BYTES).ok()?)?;
        let headers = memory
            .read_vec(base.checked_add(header.program_headers)?, header.program_header_count * PROGRAM_HEADER_BYTES)
            .ok()?;
        let segments = Segment::parse_all(&headers);
        let lowest = segments.iter().filter(|segment| segment.kind == PT_LOAD).map(|segment| segment.address).min()?;
        let bias = base.wrapping_sub(lowest & !(PAGE - 1));
        let mut module = Self {
            path: path.to_owned(),
            bias,
            range: base..base,
            text: 0..0,
            slack: 0..0,
            segments,
            symbols: SymbolTable::default(),
            is_program: false,
            is_loader: false,
            is_vdso: path == "[vdso]",
            has_interpreter: false,
        };
        let mut dynamic = None;
        for segment in &module.segments {
            let start = bias.wrapping_add(segment.address);
            let end = start.checked_add(segment.memory_bytes)?;
            match segment.kind {
                PT_LOAD => {
                    module.range.end = module.range.end.max(end);
                    if segment.executable {
                        module.text.start = if module.text.is_empty() { start } else { module.text.start.min(start) };
                        module.text.end = module.text.end.max(end);
                        let unused = end.checked_next_multiple_of(16)?..end.checked_next_multiple_of(PAGE)?;
                        let is_executable =
                            space.at(unused.end - 1).is_some_and(|mapping| mapping.executable && !mapping.shared);
                        if is_executable
                            && unused.end.saturating_sub(unused.start) > module.slack.end - module.slack.start
                        {
                            module.slack = unused;
                        }
                    }
                }
                PT_DYNAMIC => dynamic = Some((start, segment.memory_bytes)),
                PT_INTERP => module.has_interpreter = true,
                _ => (),
            }
        }
        if module.text.is_empty() {
            return None;
        }
        if let Some((at, bytes)) = dynamic {
            module.symbols = dynamic_symbols(memory, bias, at, bytes).unwrap_or_default();
        }
        Some(module)
    }

    /// The bytes that the module's file has at an address: what was there before anything changed it. As many as there are, up to `bytes`.
    pub(crate) fn bytes_of_file(&self, pid: i32, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let paths = if self.is_program {
            vec![format!("{}/exe", living_folder(pid))]
        } else {
            vec![format!("{}/root{}", living_folder(pid), self.path), self.path.clone()]
        };
        let file = paths.iter().find_map(|path| open_regular(path))?;
        let wanted = address.wrapping_sub(self.bias);
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.kind == PT_LOAD && wanted.wrapping_sub(segment.address) < segment.file_bytes)?;
        let into = wanted - segment.address;
        let available = (segment.file_bytes - into).min(bytes as u64) as usize;
        let mut content = vec![0; available];
        file.read_exact_at(&mut content, segment.offset.checked_add(into)?).ok()?;
        Some(content)
    }

    /// The name without folders.
    pub(crate) fn file_name(&self) -> &str {
        let name = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        name.rsplit('/').next().unwrap_or(name)
    }
}

/// The target says where its files are. A pipe with that name would keep us waiting.
fn open_regular(path: &str) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().is_ok_and(|data| data.is_file()).then_some(file)
}

/// All modules of a process. The program is first if it was found.
pub(crate) fn read_modules(pid: i32, memory: &TargetMemory, space: &AddressSpace) -> Vec<TargetModule> {
    let program =
        fs::read_link(format!("{}/exe", living_folder(pid))).ok().map(|path| path.to_string_lossy().into_owned());
    let mut modules = Vec::new();
    for mapping in &space.mappings {
        let is_file = mapping.inode != 0 && mapping.name.starts_with('/') && !mapping.name.starts_with("/memfd:");
        if mapping.offset != 0 || !mapping.readable || !(is_file || mapping.name == "[vdso]") {
            continue;
        }
        let Some(mut module) = TargetModule::read(memory, space, mapping.start, &mapping.name) else { continue };
        module.is_program = program.as_deref() == Some(mapping.name.as_str());
        module.is_loader = module.file_name().starts_with("ld-linux") || module.file_name().starts_with("ld-2.");
        modules.push(module);
    }
    modules.sort_by_key(|module| !module.is_program);
    modules
}

/// The program's `.symtab`, for programs that have no dynamic symbols.
pub(crate) fn symbols_of_program(pid: i32) -> Option<SymbolTable> {
    SymbolTable::of_file(&fs::read(format!("{}/exe", living_folder(pid))).ok()?)
}

fn dynamic_symbols(memory: &TargetMemory, bias: u64, at: u64, bytes: u64) -> Option<SymbolTable> {
    const DT_NULL: u64 = 0;
    const DT_HASH: u64 = 4;
    const DT_STRTAB: u64 = 5;
    const DT_SYMTAB: u64 = 6;
    const DT_STRSZ: u64 = 10;
    const DT_GNU_HASH: u64 = 0x6fff_fef5;
    let dynamic = memory.read_vec(at, bytes.min(1 << 16) as usize).ok()?;
    let (mut symbols, mut strings, mut string_bytes, mut hash, mut gnu_hash) = (0, 0, 0, 0, 0);
    for entry in dynamic.chunks_exact(16) {
        let (tag, value) = (u64_at(entry, 0)?, u64_at(entry, 8)?);
        // glibc's loader has added the bias in place, musl's has not.
        let address = if value < bias { bias.wrapping_add(value) } else { value };
        match tag {
            DT_NULL => break,
            DT_SYMTAB => symbols = address,
            DT_STRTAB => strings = address,
            DT_STRSZ => string_bytes = value,
            DT_HASH => hash = address,
            DT_GNU_HASH => gnu_hash = address,
            _ => (),
        }
    }
    let count = if gnu_hash != 0 {
        count_of_gnu_hash(memory, gnu_hash)?
    } else if hash != 0 {
        memory.read_u32(hash.checked_add(4)?).ok()?.into()
    } else {
        return None;
    };
    if count > MOST_SYMBOLS || string_bytes > MOST_STRING_BYTES {
        return None;
    }
    Some(SymbolTable {
        entries: memory.read_vec(symbols, count as usize * 24).ok()?,
        strings: memory.read_vec(strings, string_bytes as usize).ok()?,
    })
}

/// The number of symbols that a hash table implies: the end of its last chain.
fn count_of_gnu_hash(memory: &TargetMemory, at: u64) -> Option<u64> {
    let header = memory.read_vec(at, 16).ok()?;
    let (buckets, first, bloom) =
        (u64::from(u32_at(&header, 0)?), u64::from(u32_at(&header, 4)?), u64::from(u32_at(&header, 8)?));
    if buckets > MOST_SYMBOLS || bloom > MOST_SYMBOLS {
        return None;
    }
    let buckets_at = at.checked_add(16 + bloom * 8)?;
    let table = memory.read_vec(buckets_at, buckets as usize * 4).ok()?;
    let mut last = table.chunks_exact(4).filter_map(|bucket| u32_at(bucket, 0)).max().map_or(0, u64::from);
    if last < first {
        return Some(first);
    }
    let chains_at = buckets_at.checked_add(buckets * 4)?;
    while last < MOST_SYMBOLS {
        let hash = memory.read_u32(chains_at.checked_add((last - first) * 4)?).ok()?;
        last += 1;
        if hash & 1 != 0 {
            return Some(last);
        }
    }
    None
}
