//! Reads the sections of a module.

use super::{GlobalType, WasmError, WasmGlobal, WasmMemory, WasmModule, WasmSection};
use wasmparser::{
    BinaryReader, CodeSectionReader, ConstExpr, DataKind, DataSectionReader, ElementItems, ElementKind,
    ElementSectionReader, ExportSectionReader, ExternalKind, FromReader, FunctionSectionReader, GlobalSectionReader,
    ImportSectionReader, MemorySectionReader, MemoryType, Name, NameMap, NameSectionReader, Operator, SectionLimited,
    TableSectionReader, TypeRef, ValType,
};

/// The most entries of a section: real modules have far fewer, and hostile ones cannot make us allocate more.
const MOST_ENTRIES: u32 = 1 << 20;
/// The size of a page in bytes, as a power of two, if the memory does not state it.
const PAGE_LOG2: u32 = 16;

impl WasmModule {
    pub(super) fn read_section(&mut self, section: &WasmSection<'_>) -> Result<(), WasmError> {
        let reader = section.reader();
        match section.id {
            0 => self.read_custom(reader),
            2 => self.read_imports(ImportSectionReader::new(reader)?)?,
            3 => self.functions = self.functions.saturating_add(FunctionSectionReader::new(reader)?.count()),
            4 => self.tables = self.tables.saturating_add(TableSectionReader::new(reader)?.count()),
            5 => {
                for memory in limited(MemorySectionReader::new(reader)?)? {
                    self.memories.push(memory_of(memory?, false));
                }
            }
            6 => {
                for global in limited(GlobalSectionReader::new(reader)?)? {
                    let global = global?;
                    self.globals.push(WasmGlobal {
                        ty: type_of(global.ty.content_type),
                        is_mutable: global.ty.mutable,
                        value: constant(&global.init_expr),
                    });
                }
            }
            7 => {
                for export in limited(ExportSectionReader::new(reader)?)? {
                    let export = export?;
                    self.is_canister |= export.name.starts_with("canister_");
                    if export.kind == ExternalKind::Global {
                        self.exported_globals.push((export.index, export.name.to_owned()));
                    }
                }
            }
            8 => self.start = section.entries().map(|(index, _)| index),
            9 => {
                let _ = self.read_elements(reader);
            }
            10 => self.read_code(section)?,
            11 => {
                for data in limited(DataSectionReader::new(reader)?)? {
                    let data = data?;
                    let DataKind::Active { offset_expr, .. } = &data.kind else { continue };
                    if let Some(start) = constant(offset_expr).and_then(|start| u64::try_from(start).ok()) {
                        self.data_end = self.data_end.max(start.saturating_add(data.data.len() as u64));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn read_imports(&mut self, imports: ImportSectionReader<'_>) -> Result<(), WasmError> {
        for import in limited(imports)? {
            let import = import?;
            self.is_canister |= import.module == "ic0";
            match import.ty {
                TypeRef::Func(_) => {
                    self.imported_functions += 1;
                    self.functions = self.functions.saturating_add(1);
                }
                TypeRef::Table(_) => self.tables = self.tables.saturating_add(1),
                TypeRef::Memory(memory) => self.memories.push(memory_of(memory, true)),
                TypeRef::Global(global) => self.globals.push(WasmGlobal {
                    ty: type_of(global.content_type),
                    is_mutable: global.mutable,
                    value: None,
                }),
                _ => {
                    self.other_import.get_or_insert_with(|| format!("{}.{}", import.module, import.name));
                }
            }
        }
        Ok(())
    }

    /// Reads the segments of tables. A segment that is not a list of functions leaves the rest of the table unknown.
    fn read_elements(&mut self, reader: BinaryReader<'_>) -> Result<(), WasmError> {
        for element in limited(ElementSectionReader::new(reader)?)? {
            let element = element?;
            let (ElementKind::Active { offset_expr, .. }, ElementItems::Functions(functions)) =
                (&element.kind, element.items)
            else {
                break;
            };
            let Some(start) = constant(offset_expr) else { continue };
            for (index, function) in (start as u64..=u64::MAX).zip(functions) {
                self.table.insert(index, function?);
            }
        }
        Ok(())
    }

    fn read_code(&mut self, section: &WasmSection<'_>) -> Result<(), WasmError> {
        self.bodies.clear();
        for body in limited(CodeSectionReader::new(section.reader())?)? {
            let range = body?.range();
            self.bodies.push(range.start - section.offset..range.end - section.offset);
        }
        self.code = section.content.to_vec();
        self.code_offset = section.offset;
        Ok(())
    }

    /// Reads a custom section. What cannot be read is left out: these sections are not part of the program.
    fn read_custom(&mut self, mut reader: BinaryReader<'_>) {
        let Ok(name) = reader.read_string() else { return };
        let offset = reader.original_position();
        let Ok(content) = reader.read_bytes(reader.bytes_remaining()) else { return };
        match name {
            "name" => self.read_names(NameSectionReader::new(BinaryReader::new(content, offset))),
            "motoko" => {
                let _ = self.read_labels(BinaryReader::new(content, offset));
            }
            "icp:private motoko:stable-types" | "icp:public motoko:stable-types" => {
                self.stable_types = String::from_utf8_lossy(content).into_owned();
            }
            "icp:public candid:service" | "icp:private candid:service" => {
                self.interface = std::str::from_utf8(content).ok().map(str::to_owned);
            }
            "icp:private enhanced-orthogonal-persistence" | "icp:public enhanced-orthogonal-persistence" => {
                self.has_persistent_heap = true;
            }
            _ => {}
        }
    }

    fn read_names(&mut self, names: NameSectionReader<'_>) {
        for names in names.map_while(Result::ok) {
            match names {
                Name::Function(names) => self.function_names.extend(named(names)),
                Name::Local(functions) => {
                    for function in functions.into_iter().map_while(Result::ok) {
                        let names = named(function.names).map(|(local, name)| ((function.index, local), name));
                        self.local_names.extend(names);
                    }
                }
                Name::Global(names) => self.global_names.extend(named(names)),
                _ => {}
            }
        }
    }

    /// Reads the labels of the custom section `motoko`: part 0, its length, the number of labels, then each label with its length.
    fn read_labels(&mut self, mut reader: BinaryReader<'_>) -> Result<(), WasmError> {
        if reader.read_u8()? != 0 {
            return Ok(());
        }
        let length = reader.read_var_u32()?;
        let offset = reader.original_position();
        let mut part = BinaryReader::new(reader.read_bytes(length as usize)?, offset);
        for _ in 0..part.read_var_u32()? {
            self.labels.push(part.read_string()?.to_owned());
        }
        Ok(())
    }
}

/// The entries of a section, unless there are too many.
fn limited<'a, T: FromReader<'a>>(entries: SectionLimited<'a, T>) -> Result<SectionLimited<'a, T>, WasmError> {
    match entries.count() {
        0..=MOST_ENTRIES => Ok(entries),
        count => Err(WasmError::Malformed {
            problem: format!("a section of {count} entries; {MOST_ENTRIES} are the limit"),
            offset: entries.range().start,
        }),
    }
}

fn named(names: NameMap<'_>) -> impl Iterator<Item = (u32, String)> + '_ {
    names.into_iter().map_while(Result::ok).map(|naming| (naming.index, naming.name.to_owned()))
}

/// The value of an expression that is one constant.
fn constant(expression: &ConstExpr<'_>) -> Option<i64> {
    let mut operators = expression.get_operators_reader();
    let value = match operators.read().ok()? {
        Operator::I32Const { value } => value.into(),
        Operator::I64Const { value } => value,
        _ => return None,
    };
    matches!(operators.read(), Ok(Operator::End)).then_some(value)
}

fn memory_of(memory: MemoryType, is_imported: bool) -> WasmMemory {
    WasmMemory {
        is_imported,
        is_wide: memory.memory64,
        initial_pages: memory.initial,
        maximum_pages: memory.maximum,
        // A page size that is not possible is an error of the engine, not of this reader.
        page_bytes: 1u64.checked_shl(memory.page_size_log2.unwrap_or(PAGE_LOG2)).unwrap_or(u64::MAX),
    }
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
