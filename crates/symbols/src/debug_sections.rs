//! The DWARF sections that are read, inflated if they are compressed.

use std::io::Read;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian as DwarfEndian, SectionId};
use object::read::elf::ElfSection64;
use object::{CompressedData, CompressionFormat, LittleEndian, ObjectSection};

use crate::elf::{Elf, ElfImage, debug_section, parse};
use crate::file_parts::FileParts;

/// The sections needed for names, lines and ranges. The others (locations of variables, macros) can be large and are not inflated.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The index of a package of split DWARF, and the other sections that its index points into: without them, a unit counts as damaged.
const NEEDED_OF_PACKAGES: [SectionId; 7] = [
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
];

/// No real section has a higher compression ratio; a section that claims more is damaged, and is not inflated.
const BEST_COMPRESSION: u64 = 2000;

/// The bytes of the sections, which can be borrowed as long as this lives.
pub(crate) struct DebugSections {
    parts: FileParts,
    sections: Vec<(SectionId, SectionBytes)>,
}

enum SectionBytes {
    InFile { offset: usize, size: usize },
    Inflated(Vec<u8>),
}

impl DebugSections {
    pub(crate) fn of(image: &ElfImage) -> Option<Self> {
        let names = NEEDED.map(|id| (id, id.name()));
        Self::named(image, &names)
    }

    /// The sections of a file with one unit of split DWARF. They have names of their own.
    pub(crate) fn of_split_unit(image: &ElfImage) -> Option<Self> {
        Self::named(image, &split_names(NEEDED.iter()))
    }

    /// The sections of a package of split DWARF.
    pub(crate) fn of_package(image: &ElfImage) -> Option<Self> {
        Self::named(image, &split_names(NEEDED.iter().chain(&NEEDED_OF_PACKAGES)))
    }

    fn named(image: &ElfImage, names: &[(SectionId, &str)]) -> Option<Self> {
        let is_needed = |elf: &Elf<'_>, section: &ElfSection64<'_, '_, LittleEndian>| {
            let mut needed = names.iter().filter_map(|(_, name)| debug_section(elf, name));
            needed.any(|needed| needed.index() == section.index())
        };
        let parts = image.with_sections(is_needed).ok()?;
        let elf = parse(&parts).ok()?;
        let sections = names.iter().filter_map(|(id, name)| Some((*id, section_bytes(&elf, name)?))).collect();
        Some(DebugSections { parts, sections })
    }

    pub(crate) fn reader(&self, section: SectionId) -> EndianSlice<'_, DwarfEndian> {
        EndianSlice::new(self.bytes(section), DwarfEndian)
    }

    /// `None` if the sections are too damaged to be read at all.
    pub(crate) fn dwarf(&self) -> Option<Dwarf<EndianSlice<'_, DwarfEndian>>> {
        Dwarf::load(|id| Ok::<_, addr2line::gimli::Error>(self.reader(id))).ok()
    }

    /// Empty if the section is missing or damaged.
    pub(crate) fn bytes(&self, wanted: SectionId) -> &[u8] {
        match self.sections.iter().find(|(id, _)| *id == wanted) {
            Some((_, SectionBytes::InFile { offset, size })) => {
                self.parts.get(*offset..).and_then(|tail| tail.get(..*size)).unwrap_or_default()
            }
            Some((_, SectionBytes::Inflated(bytes))) => bytes,
            None => &[],
        }
    }
}

fn split_names<'a>(ids: impl Iterator<Item = &'a SectionId>) -> Vec<(SectionId, &'static str)> {
    ids.filter_map(|id| Some((*id, id.dwo_name()?))).collect()
}

fn section_bytes(elf: &Elf<'_>, name: &str) -> Option<SectionBytes> {
    let section = debug_section(elf, name)?;
    let compressed = section.compressed_data().ok()?;
    if compressed.format != CompressionFormat::None {
        return inflated(compressed).map(SectionBytes::Inflated);
    }
    let (offset, size) = section.file_range()?;
    Some(SectionBytes::InFile { offset: offset.try_into().ok()?, size: size.try_into().ok()? })
}

pub(crate) fn inflated(section: CompressedData<'_>) -> Option<Vec<u8>> {
    if section.uncompressed_size > (section.data.len() as u64).saturating_mul(BEST_COMPRESSION) {
        return None;
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(section.uncompressed_size.try_into().ok()?).ok()?;
    let read = match section.format {
        CompressionFormat::Zlib => {
            flate2::read::ZlibDecoder::new(section.data).take(section.uncompressed_size).read_to_end(&mut bytes)
        }
        CompressionFormat::Zstandard => {
            zstd::Decoder::new(section.data).ok()?.take(section.uncompressed_size).read_to_end(&mut bytes)
        }
        _ => return None,
    };
    (read.ok()? as u64 == section.uncompressed_size).then_some(bytes)
}
