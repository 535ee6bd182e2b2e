//! The facts that the sections of a module state.

use super::sections::{Section, number};
use super::{BadModule, MemoryKind};
use std::collections::HashSet;
use wasmparser::{
    BinaryReader, CodeSectionReader, DataSectionReader, ExportSectionReader, ExternalKind, FunctionBody,
    FunctionSectionReader, GlobalSectionReader, ImportSectionReader, MemorySectionReader, MemoryType, Name, NameMap,
    NameSectionReader, Operator, TableSectionReader, TypeRef, ValType,
};

/// The type of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobalType {
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// A 32-bit float.
    F32,
    /// A 64-bit float.
    F64,
    /// A type that is not a number.
    Other,
}

/// A global of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalInfo {
    /// The name under which it is exported, else its debug name, else `global_` and its number.
    pub name: String,
    /// Its type.
    pub ty: GlobalType,
    /// Whether it can change.
    pub is_mutable: bool,
}

/// The start of the heap in every module with enhanced orthogonal persistence.
const HEAP_OF_ENHANCED: u64 = 5 << 20;

/// The facts that the sections of a module state.
#[derive(Debug)]
pub struct Facts {
    /// The width of its memory's addresses.
    pub memory: MemoryKind,
    /// The initial and the maximum size of its memory, in bytes.
    pub memory_limits: (u64, Option<u64>),
    /// The memory's type, if the module defines a memory itself.
    pub(crate) own_memory: Option<MemoryType>,
    /// Its globals, by index.
    pub globals: Vec<GlobalInfo>,
    /// The number of its tables.
    pub tables: u32,
    /// True if its code ever changes a table.
    pub changes_tables: bool,
    /// The number of its functions, imported ones included.
    pub functions: u32,
    /// The index of its start function.
    pub start: Option<u32>,
    /// The address at which its heap begins, if the module states it.
    pub heap_start: Option<u64>,
    /// Its Candid interface, if it carries one.
    pub interface: Option<String>,
    /// The labels of records and variants that it lists.
    pub labels: Vec<String>,
    /// True for a canister: it uses the system API of the Internet Computer.
    pub is_canister: bool,
}

/// The facts collected while the sections are read.
#[derive(Default)]
struct Gathered {
    memories: Vec<MemoryType>,
    own_memory: Option<MemoryType>,
    globals: Vec<(GlobalType, bool, Option<u64>)>,
    exported_globals: Vec<(u32, String)>,
    global_names: Vec<(u32, String)>,
    tables: u32,
    imported_functions: u32,
    functions: u32,
    start: Option<u32>,
    heap_base_function: Option<u32>,
    code: Option<(usize, Vec<u8>)>,
    is_enhanced: bool,
    interface: Option<String>,
    labels: Vec<String>,
    is_canister: bool,
}

impl Facts {
    /// The number of tables whose state must be kept: 0 if no table is ever changed.
    pub(crate) fn changing_tables(&self) -> usize {
        if self.changes_tables { self.tables as usize } else { 0 }
    }

    /// Collects the facts from the sections.
    pub(super) fn of(sections: &[Section<'_>]) -> Result<Self, BadModule> {
        let mut gathered = Gathered::default();
        for section in sections {
            gathered.add(section)?;
        }
        let memory = match gathered.memories.as_slice() {
            [memory] => *memory,
            [] => return Err(BadModule("the module has no memory".into())),
            more => return Err(BadModule(format!("the module has {} memories; only one can be captured", more.len()))),
        };
        let page = 1u64 << memory.page_size_log2.unwrap_or(16);
        let globals = gathered.named_globals();
        let (changes_tables, heap_base) = gathered.look_through_code()?;
        let heap_base = heap_base.map(|base| base.next_multiple_of(32));
        let exported = gathered.exported_globals.iter().find(|(_, name)| name == "__heap_base");
        let exported = exported.and_then(|&(index, _)| gathered.globals.get(index as usize)?.2);
        let heap_start = if gathered.is_enhanced { Some(HEAP_OF_ENHANCED) } else { heap_base.or(exported) };
        Ok(Self {
            memory: if memory.memory64 { MemoryKind::Memory64 } else { MemoryKind::Memory32 },
            memory_limits: (
                memory.initial.saturating_mul(page),
                memory.maximum.map(|pages| pages.saturating_mul(page)),
            ),
            own_memory: gathered.own_memory,
            globals,
            tables: gathered.tables,
            changes_tables,
            functions: gathered.functions,
            start: gathered.start,
            heap_start,
            interface: gathered.interface,
            labels: gathered.labels,
            is_canister: gathered.is_canister,
        })
    }
}

impl Gathered {
    fn add(&mut self, section: &Section<'_>) -> Result<(), BadModule> {
        let reader = BinaryReader::new(section.content, section.offset);
        match section.id {
            0 => self.add_custom(section)?,
            2 => self.add_imports(reader)?,
            3 => self.functions += FunctionSectionReader::new(reader)?.count(),
            4 => self.tables += TableSectionReader::new(reader)?.count(),
            5 => {
                for memory in MemorySectionReader::new(reader)? {
                    self.memories.push(memory?);
                }
                self.own_memory = self.memories.last().copied();
            }
            6 => {
                for global in GlobalSectionReader::new(reader)? {
                    let global = global?;
                    let constant = match global.init_expr.get_operators_reader().read()? {
                        Operator::I32Const { value } => Some(u64::from(value as u32)),
                        Operator::I64Const { value } => Some(value as u64),
                        _ => None,
                    };
                    self.globals.push((type_of(global.ty.content_type), global.ty.mutable, constant));
                }
            }
            7 => {
                for export in ExportSectionReader::new(reader)? {
                    let export = export?;
                    self.is_canister |= export.name.starts_with("canister_");
                    if export.kind == ExternalKind::Global {
                        self.exported_globals.push((export.index, export.name.to_owned()));
                    }
                }
            }
            8 => self.start = number(section.content, 0).map(|(index, _)| index),
            10 => self.code = Some((section.offset, section.content.to_vec())),
            11 => {
                for data in DataSectionReader::new(reader)? {
                    data?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_imports(&mut self, reader: BinaryReader<'_>) -> Result<(), BadModule> {
        for import in ImportSectionReader::new(reader)? {
            let import = import?;
            self.is_canister |= import.module == "ic0";
            match import.ty {
                TypeRef::Func(_) => self.imported_functions += 1,
                TypeRef::Table(_) => self.tables += 1,
                TypeRef::Memory(memory) => self.memories.push(memory),
                TypeRef::Global(global) => {
                    self.globals.push((type_of(global.content_type), global.mutable, None));
                }
                _ => {
                    return Err(BadModule(format!("imports {}.{}, which cannot be given", import.module, import.name)));
                }
            }
        }
        self.functions += self.imported_functions;
        Ok(())
    }

    fn add_custom(&mut self, section: &Section<'_>) -> Result<(), BadModule> {
        let Some((length, begin)) = number(section.content, 0) else { return Ok(()) };
        let Some(name) = section.content.get(begin..begin + length as usize) else { return Ok(()) };
        let content = &section.content[begin + length as usize..];
        match name {
            b"name" => {
                let reader = BinaryReader::new(content, section.offset + begin + length as usize);
                // Names are only for display: names that cannot be read are left out.
                for names in NameSectionReader::new(reader).map_while(Result::ok) {
                    match names {
                        Name::Function(names) => self.heap_base_function = index_of("get_heap_base", names),
                        Name::Global(names) => {
                            let names = names.into_iter().map_while(Result::ok);
                            self.global_names = names.map(|naming| (naming.index, naming.name.to_owned())).collect();
                        }
                        _ => {}
                    }
                }
            }
            b"icp:public candid:service" | b"icp:private candid:service" => {
                self.interface = std::str::from_utf8(content).ok().map(str::to_owned);
            }
            b"icp:private enhanced-orthogonal-persistence" | b"icp:public enhanced-orthogonal-persistence" => {
                self.is_enhanced = true;
            }
            b"motoko" => self.labels = labels(content),
            _ => {}
        }
        Ok(())
    }

    /// All globals, each with a unique name.
    fn named_globals(&self) -> Vec<GlobalInfo> {
        let mut taken = HashSet::new();
        let mut globals = Vec::with_capacity(self.globals.len());
        for (index, &(ty, is_mutable, _)) in self.globals.iter().enumerate() {
            let named = |names: &[(u32, String)]| {
                names.iter().find(|(one, _)| *one as usize == index).map(|(_, name)| name.clone())
            };
            let wanted = named(&self.exported_globals).or_else(|| named(&self.global_names));
            let name = wanted.filter(|name| !taken.contains(name)).unwrap_or_else(|| format!("global_{index}"));
            taken.insert(name.clone());
            globals.push(GlobalInfo { name, ty, is_mutable });
        }
        globals
    }

    /// Whether the code changes a table, and the value that `get_heap_base` returns.
    fn look_through_code(&self) -> Result<(bool, Option<u64>), BadModule> {
        let Some((offset, code)) = &self.code else { return Ok((false, None)) };
        let (mut changes_tables, mut heap_base) = (false, None);
        for (index, body) in (self.imported_functions..).zip(CodeSectionReader::new(BinaryReader::new(code, *offset))?)
        {
            let body = body?;
            changes_tables |= changes_a_table(&body)?;
            if self.heap_base_function == Some(index)
                && let Operator::GlobalGet { global_index } = body.get_operators_reader()?.read()?
            {
                heap_base = self.globals.get(global_index as usize).and_then(|global| global.2);
            }
        }
        Ok((changes_tables, heap_base))
    }
}

fn changes_a_table(body: &FunctionBody<'_>) -> Result<bool, BadModule> {
    for operator in body.get_operators_reader()? {
        let changes = matches!(
            operator?,
            Operator::TableSet { .. }
                | Operator::TableGrow { .. }
                | Operator::TableFill { .. }
                | Operator::TableCopy { .. }
                | Operator::TableInit { .. }
        );
        if changes {
            return Ok(true);
        }
    }
    Ok(false)
}

fn type_of(ty: ValType) -> GlobalType {
    match ty {
        ValType::I32 => GlobalType::I32,
        ValType::I64 => GlobalType::I64,
        ValType::F32 => GlobalType::F32,
        ValType::F64 => GlobalType::F64,
        _ => GlobalType::Other,
    }
}

fn index_of(wanted: &str, names: NameMap<'_>) -> Option<u32> {
    names.into_iter().map_while(Result::ok).find(|naming| naming.name == wanted).map(|naming| naming.index)
}

/// The labels of the custom section `motoko`. Layout: part 0, its length, the number of labels, then each label with its length.
fn labels(content: &[u8]) -> Vec<String> {
    let mut labels = Vec::new();
    let Some((0, Some((_, begin)))) = content.first().map(|&part| (part, number(content, 1))) else { return labels };
    let Some((count, mut at)) = number(content, begin) else { return labels };
    for _ in 0..count {
        let Some((length, begin)) = number(content, at) else { break };
        at = begin.saturating_add(length as usize);
        let Some(label) = content.get(begin..at).and_then(|label| std::str::from_utf8(label).ok()) else { break };
        labels.push(label.to_owned());
    }
    labels
}
