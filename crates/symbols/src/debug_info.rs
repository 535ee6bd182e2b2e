//! DWARF: the functions at an address, inlined ones included, and their lines.

use addr2line::Context;
use addr2line::gimli::{AbbreviationsCacheStrategy, Dwarf, EndianSlice, Error, LittleEndian};
use self_cell::self_cell;

use crate::debug_sections::DebugSections;
use crate::elf::ElfImage;
use crate::split_dwarf::SplitDwarf;

/// A function at an address, according to DWARF.
pub(crate) struct DebugFrame {
    /// As in the file: mangled, if the compiler recorded the mangled name.
    pub(crate) function: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

struct SourceFiles {
    sections: DebugSections,
    supplementary: Option<DebugSections>,
    split: SplitDwarf,
}

type FileContext<'a> = Context<EndianSlice<'a, LittleEndian>>;

self_cell!(
    /// The DWARF context together with the bytes that it borrows: both have to live in one place.
    pub(crate) struct DebugInfo {
        owner: SourceFiles,
        #[not_covariant]
        dependent: FileContext,
    }
);

impl DebugInfo {
    /// `None` if the sections are too damaged to find out which functions there are.
    pub(crate) fn of(image: &ElfImage, supplementary: Option<&ElfImage>, split: SplitDwarf) -> Option<Self> {
        let files = SourceFiles {
            sections: DebugSections::of(image)?,
            supplementary: supplementary.and_then(DebugSections::of),
            split,
        };
        DebugInfo::try_new(files, context).ok()
    }

    /// Whether a part of the debug information that lies in another file was needed and is missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.borrow_owner().split.is_incomplete()
    }

    /// Innermost first. Unreadable parts are left out.
    pub(crate) fn frames(&self, address: u64) -> Vec<DebugFrame> {
        self.with_dependent(|files, context| {
            let mut found = Vec::new();
            // There is no code at this address, and `addr2line` adds 1.
            if address == u64::MAX {
                return found;
            }
            let Ok(mut frames) = files.split.complete(context.find_frames(address)) else { return found };
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
                let location = frame.location.as_ref();
                found.push(DebugFrame {
                    function: name.filter(|name| !name.is_empty()).map(|name| name.into_owned()),
                    file: location.and_then(|location| location.file).map(str::to_owned),
                    line: location.and_then(|location| location.line),
                });
            }
            found
        })
    }
}

fn context(files: &SourceFiles) -> Result<FileContext<'_>, Error> {
    let mut dwarf = dwarf(&files.sections)?;
    if let Some(supplementary) = &files.supplementary {
        dwarf.set_sup(self::dwarf(supplementary)?);
    }
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    Context::from_dwarf(dwarf)
}

fn dwarf(sections: &DebugSections) -> Result<Dwarf<EndianSlice<'_, LittleEndian>>, Error> {
    Dwarf::load(|id| Ok(EndianSlice::new(sections.bytes(id), LittleEndian)))
}
