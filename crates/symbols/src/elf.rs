//! An ELF file: what it is, what it is mapped to, and where its debug information may be.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::elf::{PT_LOAD, SHT_NOBITS};
use object::read::elf::{ElfFile64, ElfSection64, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection};

use crate::mapping::Mapping;
use crate::segments::Segment;

/// The parsed form. Parsing is cheap, as it only notes where the tables are.
pub(crate) type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// The build id of an ELF file in lower-case hexadecimal digits, if it has one.
pub fn build_id_of(path: &Path) -> Option<String> {
    ElfImage::open(path).ok()?.build_id().map(str::to_owned)
}

/// An ELF file that was mapped and has proper headers.
pub(crate) struct ElfImage {
    path: PathBuf,
    mapping: Arc<Mapping>,
    build_id: Option<String>,
}

/// The name of a separate debug file, and the checksum of its contents (`.gnu_debuglink`).
pub(crate) struct DebugLink {
    pub(crate) file_name: PathBuf,
    pub(crate) checksum: u32,
}

/// A file of debug information that several debug files share, made by `dwz` (`.gnu_debugaltlink`).
pub(crate) struct SupplementaryLink {
    pub(crate) path: PathBuf,
    pub(crate) build_id: String,
}

impl ElfImage {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mapping = Mapping::of_file(path)?;
        let build_id = parse(&mapping)?.build_id().ok().flatten().filter(|id| !id.is_empty()).map(hexadecimal);
        Ok(ElfImage { path: path.to_owned(), mapping: Arc::new(mapping), build_id })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    pub(crate) fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// Nothing if the file was damaged since it was opened.
    pub(crate) fn elf(&self) -> Option<Elf<'_>> {
        parse(&self.mapping).ok()
    }

    pub(crate) fn segments(&self) -> Vec<Segment> {
        let Some(elf) = self.elf() else { return Vec::new() };
        let endian = elf.endian();
        let loaded = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
        loaded
            .map(|header| Segment {
                file_offset: header.p_offset(endian),
                file_size: header.p_filesz(endian),
                address: header.p_vaddr(endian),
            })
            .collect()
    }

    /// Whether the file has the code itself. A file of debug information alone has its section headers without their contents.
    pub(crate) fn has_code(&self) -> bool {
        let Some(elf) = self.elf() else { return false };
        let endian = elf.endian();
        let mut code = elf.sections().filter(|section| section.name() == Ok(".text"));
        code.all(|section| section.elf_section_header().sh_type(endian) != SHT_NOBITS)
    }

    pub(crate) fn has_debug_info(&self) -> bool {
        let Some(elf) = self.elf() else { return false };
        let section = debug_section(&elf, ".debug_info");
        section.is_some_and(|section| section.data().is_ok_and(|bytes| !bytes.is_empty()))
    }

    pub(crate) fn debug_link(&self) -> Option<DebugLink> {
        let (name, checksum) = self.elf()?.gnu_debuglink().ok()??;
        // Only a name is meant; a path could lead anywhere.
        let file_name = Path::new(std::str::from_utf8(name).ok()?).file_name()?.into();
        Some(DebugLink { file_name, checksum })
    }

    pub(crate) fn supplementary_link(&self) -> Option<SupplementaryLink> {
        let (name, build_id) = self.elf()?.gnu_debugaltlink().ok()??;
        Some(SupplementaryLink { path: std::str::from_utf8(name).ok()?.into(), build_id: hexadecimal(build_id) })
    }

    pub(crate) fn has_checksum(&self, checksum: u32) -> bool {
        crc32fast::hash(&self.mapping) == checksum
    }
}

fn parse(bytes: &[u8]) -> io::Result<Elf<'_>> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(io::Error::other("not an ELF file"));
    }
    Elf::parse(bytes).map_err(|error| io::Error::other(format!("not a readable 64-bit ELF file: {error}")))
}

/// A section by the name that the DWARF standard gives it. Compressed ones once had a name of their own.
pub(crate) fn debug_section<'data, 'elf>(
    elf: &'elf Elf<'data>,
    name: &str,
) -> Option<ElfSection64<'data, 'elf, LittleEndian>> {
    elf.section_by_name(name).or_else(|| elf.section_by_name(&name.replacen(".debug", ".zdebug", 1)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
