//! What a file has to say about types: sections of DWARF, and names of functions.

use super::TypesError;
use crate::debug_sections::inflated;
use crate::demangle::demangle;
use addr2line::gimli::SectionId;
use object::{CompressionFormat, Object, ObjectKind, ObjectSection, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use wasmparser::{BinaryReaderError, KnownCustom, Name, Parser, Payload};

/// The sections that types need. A unit refers to its lines and addresses, too, and cannot be opened without them.
const NEEDED: [SectionId; 8] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// The parts of a file that are about types.
#[derive(Default)]
pub(super) struct ModuleContents<'a> {
    sections: Vec<(SectionId, Cow<'a, [u8]>)>,
}

impl ModuleContents<'_> {
    /// Empty if the file has no such section.
    pub fn section(&self, wanted: SectionId) -> &[u8] {
        self.sections.iter().find(|(id, _)| *id == wanted).map_or(&[], |(_, bytes)| bytes)
    }
}

/// Reads the parts of a file, and passes on the readable name of each function: all of them at once could need far more memory than the file. The code is
/// not read.
pub(super) fn contents<'a>(file: &'a [u8], function: &mut dyn FnMut(&str)) -> Result<ModuleContents<'a>, TypesError> {
    if file.starts_with(b"\0asm") {
        of_wasm(file, function)
            .map_err(|error| TypesError::Malformed { problem: error.message().to_owned(), offset: error.offset() })
    } else if file.starts_with(b"\x7fELF") {
        of_elf(file, function)
    } else {
        Err(TypesError::UnknownFile)
    }
}

fn of_wasm<'a>(file: &'a [u8], function: &mut dyn FnMut(&str)) -> Result<ModuleContents<'a>, BinaryReaderError> {
    let mut contents = ModuleContents::default();
    for payload in Parser::new(0).parse_all(file) {
        let Payload::CustomSection(section) = payload? else { continue };
        if let Some(id) = NEEDED.into_iter().find(|id| id.name() == section.name()) {
            contents.sections.push((id, Cow::Borrowed(section.data())));
        }
        let KnownCustom::Name(names) = section.as_known() else { continue };
        for part in names {
            let Name::Function(functions) = part? else { continue };
            for name in functions {
                function(&demangle(name?.name));
            }
        }
    }
    Ok(contents)
}

fn of_elf<'a>(file: &'a [u8], function: &mut dyn FnMut(&str)) -> Result<ModuleContents<'a>, TypesError> {
    let elf =
        object::File::parse(file).map_err(|error| TypesError::Malformed { problem: error.to_string(), offset: 0 })?;
    if elf.kind() == ObjectKind::Relocatable {
        return Err(TypesError::Unlinked);
    }
    let mut contents = ModuleContents::default();
    for id in NEEDED {
        let Some(section) = elf.section_by_name(id.name()) else { continue };
        let Ok(data) = section.compressed_data() else { continue };
        let bytes = match data.format {
            CompressionFormat::None => Some(Cow::Borrowed(data.data)),
            _ => inflated(data).map(Cow::Owned),
        };
        contents.sections.extend(bytes.map(|bytes| (id, bytes)));
    }
    let functions = elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    functions.filter_map(|symbol| Some(demangle(symbol.name().ok()?))).for_each(|name| function(&name));
    Ok(contents)
}
