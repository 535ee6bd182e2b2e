//! Sizes of types from DWARF, and the names of functions that only DWARF has: inlined ones.

use super::mentions::{Mentions, base_of, is_program_path};
use super::module::ModuleContents;
use super::{LONGEST_NAME, MOST_TYPES, SizedType, TypesError};
use crate::demangle::demangle;
use addr2line::gimli::{
    self, AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, SectionId, Unit, constants as dw,
};
use rustc_hash::{FxHashMap, FxHashSet};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Bytes<'a>>;

/// Types by path; `None` if the file has no debug information about types.
pub(super) fn read(
    contents: &ModuleContents<'_>,
    mentions: &mut Mentions,
) -> Result<Option<FxHashMap<String, SizedType>>, TypesError> {
    let section = |id: SectionId| Ok::<_, gimli::Error>(EndianSlice::new(contents.section(id), LittleEndian));
    let dwarf = Dwarf::load(section).unwrap_or_default();
    let mut found = FoundTypes::default();
    let mut units = dwarf.units();
    loop {
        let mut offset = 0;
        let step = units.next().and_then(|header| {
            let Some(header) = header else { return Ok(false) };
            offset = header.debug_info_offset().map_or(0, |offset| offset.0);
            let unit = dwarf.unit(header)?;
            UnitReader { dwarf: &dwarf, unit: &unit, found: &mut found, mentions }.read()?;
            Ok(true)
        });
        match step {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(TypesError::Dwarf { problem: error.to_string(), offset }),
        }
    }
    found.settle(mentions);
    Ok((!found.types.is_empty()).then_some(found.types))
}

/// All types, and what refers to them by their offset in the section.
#[derive(Default)]
struct FoundTypes {
    types: FxHashMap<String, SizedType>,
    /// The generic types with their parameters.
    variants: FxHashSet<String>,
    by_offset: FxHashMap<usize, String>,
    /// Pointers in C and C++, with what they point to.
    pointers: FxHashMap<usize, usize>,
    /// What functions of C and C++ return.
    returned: Vec<usize>,
}

impl FoundTypes {
    fn add(&mut self, offset: usize, path: &str, bytes: u64, is_native: bool) {
        if self.types.len() >= MOST_TYPES || self.variants.len() >= MOST_TYPES {
            return;
        }
        let base = base_of(path);
        let known = self.types.entry(base.clone()).or_default();
        known.bytes = known.bytes.max(bytes);
        if base.len() < path.len() && self.variants.insert(path.to_owned()) {
            known.variants += 1;
        }
        if is_native {
            self.by_offset.insert(offset, base);
        }
    }

    /// A type of C is held if a function returns a pointer to it.
    fn settle(&self, mentions: &mut Mentions) {
        for returned in &self.returned {
            let pointed = self.pointers.get(returned).and_then(|target| self.by_offset.get(target));
            if let Some(name) = pointed {
                mentions.hold(name);
            }
        }
    }
}

struct UnitReader<'r, 'a> {
    dwarf: &'r Dwarf<Bytes<'a>>,
    unit: &'r Unit<Bytes<'a>>,
    found: &'r mut FoundTypes,
    mentions: &'r mut Mentions,
}

/// An entry that encloses others: a namespace, a type, a function.
struct Scope {
    depth: isize,
    /// The length of the path outside of it.
    outer: usize,
    is_type: bool,
}

impl<'a> UnitReader<'_, 'a> {
    fn read(&mut self) -> gimli::Result<()> {
        let mut entries = self.unit.entries();
        let mut is_rust = false;
        let mut scopes: Vec<Scope> = Vec::new();
        let mut path = String::new();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                let left = scopes.pop().map_or(0, |scope| scope.outer);
                path.truncate(left);
            }
            match entry.tag() {
                dw::DW_TAG_compile_unit => {
                    is_rust = entry.attr_value(dw::DW_AT_language) == Some(AttributeValue::Language(dw::DW_LANG_Rust));
                    continue;
                }
                dw::DW_TAG_pointer_type if !is_rust => {
                    if let (Some(own), Some(target)) = (self.offset_of(entry), self.type_of(entry)) {
                        self.found.pointers.insert(own, target);
                    }
                    continue;
                }
                dw::DW_TAG_pointer_type => {
                    // A box is a pointer with a name.
                    self.mentions.add_type(&self.name(entry, dw::DW_AT_name));
                    continue;
                }
                dw::DW_TAG_namespace => {}
                dw::DW_TAG_subprogram => {
                    self.function(entry, is_rust, &path, scopes.last().is_some_and(|scope| scope.is_type))
                }
                dw::DW_TAG_structure_type
                | dw::DW_TAG_class_type
                | dw::DW_TAG_union_type
                | dw::DW_TAG_enumeration_type => {}
                _ => continue,
            }
            let is_type = !matches!(entry.tag(), dw::DW_TAG_namespace | dw::DW_TAG_subprogram);
            let name = self.name(entry, dw::DW_AT_name);
            let (outer, is_inside_type) = (path.len(), scopes.last().is_some_and(|scope| scope.is_type));
            if name.is_empty() || outer + name.len() > LONGEST_NAME {
                // What it encloses has no path either.
                path.push_str("::{}");
            } else {
                path.push_str(if outer == 0 { "" } else { "::" });
                path.push_str(&name);
            }
            scopes.push(Scope { depth, outer, is_type });
            // Variants of Rust's enums are structs inside them.
            if is_type && entry.tag() != dw::DW_TAG_enumeration_type && !(is_rust && is_inside_type) {
                self.named_type(entry, &path, is_rust);
            }
        }
        Ok(())
    }

    fn named_type(&mut self, entry: &Entry<'a>, path: &str, is_rust: bool) {
        let bytes = entry.attr_value(dw::DW_AT_byte_size).and_then(|value| value.udata_value()).unwrap_or(0);
        self.mentions.add_type(path);
        if let (Some(offset), true) = (self.offset_of(entry), is_program_path(path)) {
            self.found.add(offset, path, bytes, !is_rust);
        }
    }

    fn function(&mut self, entry: &Entry<'a>, is_rust: bool, path: &str, is_member: bool) {
        let linkage = self.name(entry, dw::DW_AT_linkage_name);
        if !linkage.is_empty() {
            self.mentions.add_inlined_function(&demangle(&linkage));
        }
        if is_rust {
            return;
        }
        if is_member {
            let name = self.name(entry, dw::DW_AT_name);
            self.mentions.add_member(path, &name);
        }
        self.found.returned.extend(self.type_of(entry));
    }

    fn name(&self, entry: &Entry<'a>, attribute: gimli::DwAt) -> String {
        let Some(value) = entry.attr_value(attribute) else { return String::new() };
        let Ok(text) = self.dwarf.attr_string(self.unit, value) else { return String::new() };
        match text.slice() {
            long if long.len() > LONGEST_NAME => String::new(),
            text => String::from_utf8_lossy(text).into_owned(),
        }
    }

    /// The offset of an entry in the section.
    fn offset_of(&self, entry: &Entry<'a>) -> Option<usize> {
        Some(entry.offset().to_debug_info_offset(&self.unit.header)?.0)
    }

    /// The offset in the section of the entry's type.
    fn type_of(&self, entry: &Entry<'a>) -> Option<usize> {
        match entry.attr_value(dw::DW_AT_type)? {
            AttributeValue::UnitRef(offset) => Some(offset.to_debug_info_offset(&self.unit.header)?.0),
            AttributeValue::DebugInfoRef(offset) => Some(offset.0),
            _ => None,
        }
    }
}
