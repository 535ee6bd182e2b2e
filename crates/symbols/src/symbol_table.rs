//! Names of functions from an ELF symbol table, for addresses that DWARF does not know.

use std::borrow::Cow;
use std::cmp::Reverse;

use object::elf::{
    SHF_EXECINSTR, SHT_SYMTAB_SHNDX, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, SectionHeader64, Sym64,
};
use object::read::elf::{ElfSection64, SectionHeader, Sym, SymbolTable as ElfSymbolTable};
use object::{LittleEndian, ObjectSection};

use crate::demangle::{LONGEST_NAME, is_mangled, without_clone_suffixes};
use crate::elf::{Elf, ElfImage, parse};
use crate::file_parts::FileParts;

/// Functions by address, sorted.
#[derive(Default)]
pub(crate) struct SymbolTable {
    parts: Option<FileParts>,
    symbols: Vec<Symbol>,
}

struct Symbol {
    start: u64,
    /// Exclusive.
    end: u64,
    /// Where in the file the name begins; it ends with a zero byte.
    name_offset: u64,
    is_function: bool,
    /// Whether other functions, such as the same one for other types, have the same code.
    is_merged: bool,
    /// The nearest symbol before this one that reaches beyond this one's start.
    enclosing: Option<u32>,
}

/// A function of a symbol table.
pub(crate) struct SymbolFunction<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) start: u64,
    /// Whether other functions have the same code: the linker or the compiler has merged them. Then the types in the name may be those of another one.
    pub(crate) is_merged: bool,
}

/// Functions lie within each other only in hand-written assembly, and not deeply.
const DEEPEST_NESTING: usize = 16;

/// One of the two symbol tables of an ELF file: one has all names, the other has the names that the dynamic linker needs, which `strip` keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolTableKind {
    All,
    Dynamic,
}

impl SymbolTableKind {
    /// Whether a section belongs to the table: its symbols, their names, or the section numbers that do not fit into the symbols.
    fn has(self, elf: &Elf<'_>, section: &ElfSection64<'_, '_, LittleEndian>) -> bool {
        let symbols = match self {
            Self::All => elf.elf_symbol_table(),
            Self::Dynamic => elf.elf_dynamic_symbol_table(),
        };
        let is_further = section.elf_section_header().sh_type(elf.endian()) == SHT_SYMTAB_SHNDX;
        [symbols.section(), symbols.string_section()].contains(&section.index()) || is_further
    }
}

impl SymbolTable {
    pub(crate) fn of(image: &ElfImage, table: SymbolTableKind) -> Self {
        let parts = image.with_sections(|elf, section| table.has(elf, section));
        parts.map(|parts| Self::in_file(parts, table)).unwrap_or_default()
    }

    /// The table in a file of which at least its sections were read.
    pub(crate) fn in_file(parts: FileParts, table: SymbolTableKind) -> Self {
        let candidates = parse(&parts).map(|elf| candidates(&elf, table)).unwrap_or_default();
        let symbols = without_labels_in_functions(with_ends(best_of_aliases(candidates, &parts)));
        SymbolTable { parts: Some(parts), symbols }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function that contains the address.
    pub(crate) fn function_at(&self, address: u64) -> Option<SymbolFunction<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let mut index = after.checked_sub(1)?;
        for _ in 0..DEEPEST_NESTING {
            let symbol = self.symbols.get(index)?;
            if address < symbol.end {
                let name = String::from_utf8_lossy(name_bytes(self.parts.as_ref()?, symbol.name_offset));
                return Some(SymbolFunction { name, start: symbol.start, is_merged: symbol.is_merged });
            }
            index = symbol.enclosing? as usize;
        }
        None
    }
}

/// A symbol that may name a function.
struct SymbolCandidate {
    start: u64,
    /// 0 if the symbol does not say.
    size: u64,
    section_end: u64,
    name_offset: u64,
    is_function: bool,
    is_local: bool,
    is_merged: bool,
}

fn candidates(elf: &Elf<'_>, table: SymbolTableKind) -> Vec<SymbolCandidate> {
    let endian = elf.endian();
    let symbols: &ElfSymbolTable<'_, _> = match table {
        SymbolTableKind::All => elf.elf_symbol_table(),
        SymbolTableKind::Dynamic => elf.elf_dynamic_symbol_table(),
    };
    let Ok(names) = elf.elf_section_table().section(symbols.string_section()) else { return Vec::new() };
    let names_offset = names.sh_offset(endian);
    let placed = symbols.enumerate().filter_map(|(index, symbol)| {
        let section = symbols.symbol_section(endian, symbol, index).ok()??;
        candidate(endian, symbol, elf.elf_section_table().section(section).ok()?, names_offset)
    });
    placed.collect()
}

fn candidate(
    endian: LittleEndian,
    symbol: &Sym64<LittleEndian>,
    section: &SectionHeader64<LittleEndian>,
    names_offset: u64,
) -> Option<SymbolCandidate> {
    let is_function = matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC);
    let is_label = symbol.st_type() == STT_NOTYPE && section.sh_flags(endian).contains(SHF_EXECINSTR);
    if !(is_function || is_label) || symbol.st_name(endian) == 0 {
        return None;
    }
    Some(SymbolCandidate {
        start: symbol.st_value(endian),
        size: symbol.st_size(endian),
        section_end: section.sh_addr(endian).saturating_add(section.sh_size(endian)),
        name_offset: names_offset.checked_add(symbol.st_name(endian).into())?,
        is_function,
        is_local: symbol.st_bind() == STB_LOCAL,
        is_merged: false,
    })
}

/// Chooses among several names for one address the one that a programmer would call: `malloc` rather than `__libc_malloc`.
fn best_of_aliases(mut candidates: Vec<SymbolCandidate>, parts: &FileParts) -> Vec<SymbolCandidate> {
    candidates.sort_by_key(|candidate| candidate.start);
    let mut best: Vec<SymbolCandidate> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        match best.last_mut() {
            Some(rival) if rival.start == candidate.start => {
                let is_merged = rival.is_merged || are_different_functions(rival, &candidate, parts);
                if preference(&candidate, parts) > preference(rival, parts) {
                    *rival = candidate;
                }
                rival.is_merged = is_merged;
            }
            _ => best.push(candidate),
        }
    }
    best
}

/// Whether two symbols at one address are mangled names of different functions. Variants of one constructor or destructor differ in a digit.
fn are_different_functions(one: &SymbolCandidate, other: &SymbolCandidate, parts: &FileParts) -> bool {
    let names =
        [one, other].map(|symbol| std::str::from_utf8(name_bytes(parts, symbol.name_offset)).unwrap_or_default());
    let [one, other] = names.map(without_clone_suffixes);
    if one == other || !is_mangled(one) || !is_mangled(other) {
        return false;
    }
    let mut differences = one.bytes().zip(other.bytes()).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
    let (Some(at), None, true) = (differences.next(), differences.next(), one.len() == other.len()) else {
        return true;
    };
    let is_variant = at > 0 && matches!(one.as_bytes()[at - 1], b'C' | b'D' | b'I');
    !(is_variant && [one, other].iter().all(|name| name.as_bytes()[at].is_ascii_digit()))
}

fn preference<'a>(candidate: &SymbolCandidate, parts: &'a FileParts) -> impl Ord + use<'a> {
    let name = name_bytes(parts, candidate.name_offset);
    let is_mangled = std::str::from_utf8(name).is_ok_and(is_mangled);
    let underscores = if is_mangled { 0 } else { name.iter().take_while(|&&byte| byte == b'_').count() };
    (candidate.is_function, candidate.size > 0, !candidate.is_local, Reverse(underscores), Reverse(name))
}

/// A symbol without a size reaches to the next one, or to the end of its section.
fn with_ends(candidates: Vec<SymbolCandidate>) -> Vec<Symbol> {
    let next_starts: Vec<u64> = candidates.iter().skip(1).map(|next| next.start).chain([u64::MAX]).collect();
    let symbols = candidates.into_iter().zip(next_starts).map(|(candidate, next_start)| Symbol {
        start: candidate.start,
        end: match candidate.size {
            0 => next_start.min(candidate.section_end),
            size => candidate.start.saturating_add(size),
        },
        name_offset: candidate.name_offset,
        is_function: candidate.is_function,
        is_merged: candidate.is_merged,
        enclosing: None,
    });
    symbols.collect()
}

/// Drops the labels inside functions, and notes which functions lie within others.
fn without_labels_in_functions(symbols: Vec<Symbol>) -> Vec<Symbol> {
    let mut kept: Vec<Symbol> = Vec::with_capacity(symbols.len());
    let mut open: Vec<u32> = Vec::new();
    for mut symbol in symbols {
        while open.last().is_some_and(|&last| kept[last as usize].end <= symbol.start) {
            open.pop();
        }
        symbol.enclosing = open.last().copied();
        let in_function = symbol.enclosing.is_some_and(|index| kept[index as usize].is_function);
        let Ok(index) = u32::try_from(kept.len()) else { break };
        if symbol.is_function || !in_function {
            open.push(index);
            kept.push(symbol);
        }
    }
    kept
}

fn name_bytes(parts: &FileParts, offset: u64) -> &[u8] {
    let tail = usize::try_from(offset).ok().and_then(|offset| parts.get(offset..)).unwrap_or_default();
    let tail = &tail[..tail.len().min(LONGEST_NAME)];
    // `name@@VERSION` is how linkers write the version of a public symbol.
    tail.split(|&byte| byte == 0 || byte == b'@').next().unwrap_or_default()
}
