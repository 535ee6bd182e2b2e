//! An ELF file: its identity, its segments, and its links to debug information.

use std::fmt::Write;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, PT_LOAD, PT_NOTE, SHT_NOBITS, SHT_NOTE, SectionHeader64};
use object::read::elf::{ElfFile64, ElfSection64, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection};

use crate::file_parts::{FileParts, UnfinishedParts};
use crate::segments::LoadSegment;

/// The parsed form. Parsing is cheap: it only finds the tables.
pub(crate) type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// The build id of an ELF file in lower-case hexadecimal digits, if it has one.
pub fn build_id_of(path: &Path) -> Option<String> {
    ElfImage::open(path).ok()?.build_id().map(str::to_owned)
}

/// What a file says of itself. A recording without build ids recognizes its modules by this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleIdentity {
    /// The build id in lower-case hexadecimal digits; empty if there is none.
    pub build_id: String,
    /// The address and the size in memory of each part that the loader maps (`PT_LOAD`), as the linker laid them out.
    pub segments: Vec<(u64, u64)>,
}

impl ModuleIdentity {
    /// The identity of an ELF file, if it is one.
    pub fn of(path: &Path) -> Option<Self> {
        let image = ElfImage::open(path).ok()?;
        let elf = image.elf()?;
        let endian = elf.endian();
        let loaded = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
        let segments = loaded.map(|header| (header.p_vaddr(endian), header.p_memsz(endian))).collect();
        Some(Self { build_id: image.build_id().unwrap_or_default().to_owned(), segments })
    }
}

/// An ELF file with valid headers. Its headers, notes and links to debug files are read when it is opened; other sections are read when needed.
pub(crate) struct ElfImage {
    path: PathBuf,
    file: File,
    about: Metadata,
    headers: FileParts,
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
        if crate::is_lookup_forbidden() {
            return Err(io::Error::other("no files are opened for names"));
        }
        // Other kinds of files (a pipe, a terminal) could block the reader.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(path)?;
        let about = file.metadata()?;
        let headers = read_headers(&file, about.len())?.finish()?;
        let build_id = parse(&headers)?.build_id().ok().flatten().filter(|id| !id.is_empty()).map(hexadecimal);
        Ok(ElfImage { path: path.to_owned(), file, about, headers, build_id })
    }

    /// The metadata of the file when it was opened.
    pub(crate) fn about(&self) -> &Metadata {
        &self.about
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The headers, and the contents of the wanted sections. Fails if the file was changed since it was opened.
    pub(crate) fn with_sections(
        &self,
        mut wanted: impl FnMut(&Elf<'_>, &ElfSection64<'_, '_, LittleEndian>) -> bool,
    ) -> io::Result<FileParts> {
        let elf = parse(&self.headers)?;
        let ranges = elf.sections().filter(|section| wanted(&elf, section)).filter_map(|section| section.file_range());
        let ranges: Vec<Range<u64>> = ranges.map(|(start, size)| start..start.saturating_add(size)).collect();
        let mut parts = read_headers(&self.file, self.about.len())?;
        ranges.into_iter().try_for_each(|range| parts.read(&self.file, range))?;
        let now = self.file.metadata()?;
        if (now.len(), now.modified().ok()) != (self.about.len(), self.about.modified().ok()) {
            return Err(io::Error::other("the file was changed while it was read"));
        }
        parts.finish()
    }

    /// Up to `length` bytes of code from a link-time address on.
    pub(crate) fn code_at(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let segments = self.segments();
        let inside = |segment: &&LoadSegment| {
            address.checked_sub(segment.address).is_some_and(|offset| offset < segment.file_size)
        };
        let segment = segments.iter().find(inside)?;
        let offset = address - segment.address;
        let mut bytes = vec![0; length.min(usize::try_from(segment.file_size - offset).ok()?)];
        self.file.read_exact_at(&mut bytes, segment.file_offset.checked_add(offset)?).ok()?;
        Some(bytes)
    }

    pub(crate) fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The headers, without the contents of sections; see [`with_sections`](Self::with_sections).
    pub(crate) fn elf(&self) -> Option<Elf<'_>> {
        parse(&self.headers).ok()
    }

    pub(crate) fn segments(&self) -> Vec<LoadSegment> {
        let Some(elf) = self.elf() else { return Vec::new() };
        let endian = elf.endian();
        let loaded = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
        loaded
            .map(|header| LoadSegment {
                file_offset: header.p_offset(endian),
                file_size: header.p_filesz(endian),
                address: header.p_vaddr(endian),
            })
            .collect()
    }

    /// Whether the file has the code itself. A file with debug information only has the headers of the code sections, but not their contents.
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

    /// Whether some of the debug information may be in other files. The skeletons that stand for it need a table of addresses.
    pub(crate) fn may_have_split_dwarf(&self) -> bool {
        self.elf().is_some_and(|elf| debug_section(&elf, ".debug_addr").is_some())
    }

    pub(crate) fn debug_link(&self) -> Option<DebugLink> {
        let (name, checksum) = self.elf()?.gnu_debuglink().ok()??;
        // Only a file name is valid here; a path could lead anywhere.
        let file_name = Path::new(std::str::from_utf8(name).ok()?).file_name()?.into();
        Some(DebugLink { file_name, checksum })
    }

    pub(crate) fn supplementary_link(&self) -> Option<SupplementaryLink> {
        let (name, build_id) = self.elf()?.gnu_debugaltlink().ok()??;
        Some(SupplementaryLink { path: std::str::from_utf8(name).ok()?.into(), build_id: hexadecimal(build_id) })
    }

    pub(crate) fn has_checksum(&self, checksum: u32) -> bool {
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            match self.file.read_at(&mut piece, at) {
                Ok(0) => return hasher.finalize() == checksum,
                Ok(count) => {
                    hasher.update(&piece[..count]);
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

/// Reads the parts that describe a file: its header, its tables of segments and sections, the sections' names, its notes, and its links to debug
/// files.
fn read_headers(file: &File, length: u64) -> io::Result<UnfinishedParts> {
    let mut parts = UnfinishedParts::new(length)?;
    parts.read(file, 0..size_of::<FileHeader64<LittleEndian>>() as u64)?;
    if !parts.starts_with(b"\x7fELF") {
        return Err(io::Error::other("not an ELF file"));
    }
    let unreadable = |error| io::Error::other(format!("not a readable 64-bit ELF file: {error}"));
    let header = *FileHeader64::<LittleEndian>::parse(&*parts).map_err(unreadable)?;
    let endian = header.endian().map_err(unreadable)?;
    let table = |start: u64, count: u64, entry: u16| start..start.saturating_add(count.saturating_mul(entry.into()));
    // Counts that do not fit into the header are in the first section header.
    let sections = header.e_shoff(endian);
    parts.read(file, table(sections, 1, size_of::<SectionHeader64<LittleEndian>>() as u16))?;
    let count = header.shnum(endian, &*parts).map_err(unreadable)? as u64;
    let segments = header.phnum(endian, &*parts).map_err(unreadable)? as u64;
    parts.read(file, table(sections, count, header.e_shentsize(endian)))?;
    parts.read(file, table(header.e_phoff(endian), segments, header.e_phentsize(endian)))?;
    let names = header.section_strings_index(endian, &*parts).map_err(unreadable)?;
    let tables = header.section_headers(endian, &*parts).map_err(unreadable)?;
    let names = tables.get(names.0).and_then(|section| section.file_range(endian));
    if let Some((start, size)) = names {
        parts.read(file, start..start.saturating_add(size))?;
    }
    let elf = parse(&parts)?;
    let notes = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_NOTE);
    let mut ranges: Vec<(u64, u64)> = notes.map(|note| (note.p_offset(endian), note.p_filesz(endian))).collect();
    let is_small = |section: &ElfSection64<'_, '_, LittleEndian>| {
        section.elf_section_header().sh_type(endian) == SHT_NOTE
            || matches!(section.name(), Ok(".gnu_debuglink" | ".gnu_debugaltlink"))
    };
    ranges.extend(elf.sections().filter(is_small).filter_map(|section| section.file_range()));
    ranges.into_iter().try_for_each(|(start, size)| parts.read(file, start..start.saturating_add(size)))?;
    Ok(parts)
}

pub(crate) fn parse(bytes: &[u8]) -> io::Result<Elf<'_>> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(io::Error::other("not an ELF file"));
    }
    Elf::parse(bytes).map_err(|error| io::Error::other(format!("not a readable 64-bit ELF file: {error}")))
}

/// A section by the name that the DWARF standard gives it. Compressed sections formerly had other names.
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
