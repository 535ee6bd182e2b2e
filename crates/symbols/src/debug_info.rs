//! DWARF: the functions at an address, inlined ones included, and their lines.

use addr2line::Context;
use addr2line::gimli::{AbbreviationsCacheStrategy, Dwarf, EndianSlice, Error, LittleEndian, UnitOffset};
use self_cell::self_cell;

use crate::debug_sections::DebugSections;
use crate::elf::ElfImage;
use crate::function_entry::{EntryReader, FunctionEntry, SizedName, Slice, UnitStarts};
use crate::made_type::NewCall;
use crate::split_dwarf::SplitDwarf;
use crate::type_words::TypeWords;

/// A function at an address, according to DWARF.
#[derive(Default)]
pub(crate) struct DebugFrame {
    pub(crate) function: FunctionEntry,
    /// The element type, if the function is a method of C++'s allocator.
    pub(crate) allocated: Option<SizedName>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

struct SourceFiles {
    sections: DebugSections,
    supplementary: Option<DebugSections>,
    split: SplitDwarf,
}

/// The parsed form of the sections.
pub(crate) struct FileContext<'a> {
    context: Context<EndianSlice<'a, LittleEndian>>,
    units: UnitStarts<'a>,
}

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

    /// What the call of `operator new` before this address makes, with the size of an object.
    pub(crate) fn made_before(&self, return_address: u64) -> Option<SizedName> {
        let address = return_address.checked_sub(1)?;
        self.with_dependent(|files, FileContext { context, units }| {
            let unit = files.split.complete(context.find_dwarf_and_unit(address))?;
            let innermost = files.split.complete(context.find_frames(address)).ok()?.next().ok()??;
            let (scope, line) = (innermost.dw_die_offset?, innermost.location?.line?);
            EntryReader { dwarf: unit.dwarf, units }.made_by(unit.unit, &NewCall { scope, return_address, line })
        })
    }

    /// The class whose constructor begins at this address, with the size of an object.
    pub(crate) fn constructor_at(&self, address: u64) -> Option<SizedName> {
        self.with_dependent(|files, FileContext { context, units }| {
            let unit = files.split.complete(context.find_dwarf_and_unit(address))?;
            let outermost = outermost(files, context, address);
            EntryReader { dwarf: unit.dwarf, units }.constructed_class(unit.unit, outermost?)
        })
    }

    /// The names of the types that the function at an address deals with, without paths.
    pub(crate) fn words_at(&self, address: u64, by_variables: bool) -> Option<TypeWords> {
        self.with_dependent(|files, FileContext { context, units }| {
            let unit = files.split.complete(context.find_dwarf_and_unit(address))?;
            let outermost = outermost(files, context, address);
            EntryReader { dwarf: unit.dwarf, units }.words_of_function(unit.unit, outermost?, by_variables)
        })
    }

    /// The source line of an address.
    pub(crate) fn line(&self, address: u64) -> Option<u32> {
        self.with_dependent(|_, file| file.context.find_location(address).ok()??.line)
    }

    /// Whether a part of the debug information that lies in another file was needed and is missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.borrow_owner().split.is_incomplete()
    }

    /// Innermost first. Unreadable parts are left out.
    pub(crate) fn frames(&self, address: u64) -> Vec<DebugFrame> {
        self.with_dependent(|files, FileContext { context, units }| {
            let mut found = Vec::new();
            // There is no code at this address, and `addr2line` adds 1.
            if address == u64::MAX {
                return found;
            }
            let Ok(mut frames) = files.split.complete(context.find_frames(address)) else { return found };
            let unit = files.split.complete(context.find_dwarf_and_unit(address));
            while let Ok(Some(frame)) = frames.next() {
                let entry = unit.zip(frame.dw_die_offset).map(|(unit, offset)| {
                    let reader = EntryReader { dwarf: unit.dwarf, units };
                    let function = reader.function(unit.unit, offset);
                    let is_allocate = function.name.as_deref() == Some("allocate");
                    let allocated = if is_allocate { reader.allocated_by_cpp(unit.unit, offset) } else { None };
                    (function, allocated)
                });
                let (mut function, allocated) = entry.unwrap_or_default();
                if function.linkage_name.is_none() && function.name.is_none() {
                    let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
                    function.name = name.filter(|name| !name.is_empty()).map(|name| name.into_owned());
                }
                let location = frame.location.as_ref();
                let file = location.and_then(|location| location.file).map(str::to_owned);
                found.push(DebugFrame { function, allocated, file, line: location.and_then(|location| location.line) });
            }
            found
        })
    }
}

/// The entry of the function at an address into which all others there are inlined.
fn outermost<'a>(files: &'a SourceFiles, context: &Context<Slice<'a>>, address: u64) -> Option<UnitOffset> {
    let mut frames = files.split.complete(context.find_frames(address)).ok()?;
    let mut outermost = None;
    while let Ok(Some(frame)) = frames.next() {
        outermost = frame.dw_die_offset;
    }
    outermost
}

fn context(files: &SourceFiles) -> Result<FileContext<'_>, Error> {
    let mut dwarf = dwarf(&files.sections)?;
    if let Some(supplementary) = &files.supplementary {
        dwarf.set_sup(self::dwarf(supplementary)?);
    }
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    Ok(FileContext { context: Context::from_dwarf(dwarf)?, units: UnitStarts::default() })
}

fn dwarf(sections: &DebugSections) -> Result<Dwarf<EndianSlice<'_, LittleEndian>>, Error> {
    Dwarf::load(|id| Ok(EndianSlice::new(sections.bytes(id), LittleEndian)))
}
