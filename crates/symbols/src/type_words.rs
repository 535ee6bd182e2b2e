//! The names of the types that a function deals with: those of its variables and parameters, and those in the names of the functions that are
//! inlined into it.
//!
//! A library function that was merged with the same one for other types has the names of one of them. The function that calls it deals with the right one.

use std::collections::HashSet;

use addr2line::gimli::{self, AttributeValue, Unit, UnitOffset};

use crate::function_entry::{EntryReader, Slice};

/// Functions with more entries are not read to their end: then nothing is known.
const MOST_ENTRIES: usize = 100_000;
/// How many types are looked at: a type leads to those of its members.
const MOST_TYPES: usize = 4_000;
/// The number of members on the way from a variable to a type.
const DEEPEST_MEMBER: usize = 5;

/// The words that were found, and what was looked at.
#[derive(Default)]
pub(crate) struct TypeWords {
    /// The identifiers.
    pub(crate) found: HashSet<String>,
    /// Whether the compiler has optimised the function: its variables move, or are gone. `None` if it has no variables.
    pub(crate) is_optimized: Option<bool>,
    types: HashSet<usize>,
    functions: HashSet<usize>,
}

impl TypeWords {
    /// Adds the identifiers of a text.
    fn add(&mut self, text: &str) {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        for word in text.split(|character| !is_word(character)).filter(|word| !word.is_empty()) {
            if !self.found.contains(word) {
                self.found.insert(word.to_owned());
            }
        }
    }
}

impl<'a> EntryReader<'_, 'a> {
    /// The identifiers in the names of all types that a function deals with; `None` if the function is too long.
    /// With `by_variables`, the functions that are inlined into it do not count, nor do their variables.
    pub(crate) fn words_of_function(
        &self,
        unit: &Unit<Slice<'a>>,
        function: UnitOffset,
        by_variables: bool,
    ) -> Option<TypeWords> {
        let mut words = TypeWords::default();
        let own = self.function(unit, function);
        own.name.iter().chain(&own.class).for_each(|name| words.add(name));
        own.linkage_name.iter().for_each(|name| words.add(&crate::demangle::demangle(name)));
        let mut entries = unit.entries_raw(Some(function)).ok()?;
        let mut entry = gimli::DebuggingInformationEntry::null();
        let top = entries.next_depth();
        let mut inside: Option<isize> = None;
        for _ in 0..MOST_ENTRIES {
            if entries.is_empty() {
                return Some(words);
            }
            let depth = entries.next_depth();
            if !entries.read_entry(&mut entry).ok()? {
                continue;
            }
            if depth <= top && entry.offset() != function {
                return Some(words);
            }
            if inside.is_some_and(|inlined| depth > inlined) {
                continue;
            }
            inside = None;
            match entry.tag() {
                gimli::DW_TAG_inlined_subroutine if by_variables => {
                    inside = Some(depth);
                    None
                }
                gimli::DW_TAG_inlined_subroutine => self.add_function_words(unit, &entry, &mut words),
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    let is_fixed = matches!(entry.attr_value(gimli::DW_AT_location), Some(AttributeValue::Exprloc(_)));
                    words.is_optimized = Some(words.is_optimized == Some(true) || !is_fixed);
                    self.add_variable_words(unit, &entry, &mut words)
                }
                _ => None,
            };
        }
        None
    }

    fn add_function_words(
        &self,
        unit: &Unit<Slice<'a>>,
        call: &gimli::DebuggingInformationEntry<Slice<'a>>,
        words: &mut TypeWords,
    ) -> Option<()> {
        let origin = call.attr_value(gimli::DW_AT_abstract_origin)?;
        self.follow(unit, origin, |unit, offset| {
            if words.functions.insert(self.key(unit, offset)) {
                let inlined = self.function(unit, offset);
                inlined.name.iter().chain(&inlined.class).for_each(|name| words.add(name));
                // C++ has the types in the linkage name only.
                let is_typed = inlined.name.as_deref().is_some_and(|name| name.contains('<'));
                if let Some(linkage) = inlined.linkage_name.filter(|_| !is_typed) {
                    words.add(&crate::demangle::demangle(&linkage));
                }
            }
            Some(())
        })
    }

    fn add_variable_words(
        &self,
        unit: &Unit<Slice<'a>>,
        variable: &gimli::DebuggingInformationEntry<Slice<'a>>,
        words: &mut TypeWords,
    ) -> Option<()> {
        let of = match variable.attr_value(gimli::DW_AT_type) {
            Some(of) => of,
            None => {
                let origin = variable.attr_value(gimli::DW_AT_abstract_origin)?;
                return self.follow(unit, origin, |unit, offset| {
                    let of = unit.entry(offset).ok()?.attr_value(gimli::DW_AT_type)?;
                    self.follow(unit, of, |unit, offset| self.add_type_words(unit, offset, DEEPEST_MEMBER, words))
                });
            }
        };
        self.follow(unit, of, |unit, offset| self.add_type_words(unit, offset, DEEPEST_MEMBER, words))
    }

    /// Adds the name of a type, and those of the types of its members.
    fn add_type_words(
        &self,
        unit: &Unit<Slice<'a>>,
        offset: UnitOffset,
        depth: usize,
        words: &mut TypeWords,
    ) -> Option<()> {
        if words.types.len() >= MOST_TYPES || !words.types.insert(self.key(unit, offset)) {
            return None;
        }
        let entry = unit.entry(offset).ok()?;
        if let Some(name) = self.text(unit, &entry, gimli::DW_AT_name) {
            words.add(&name);
        }
        if let Some(inner) = entry.attr_value(gimli::DW_AT_type) {
            // Pointers and arrays are no members.
            self.follow(unit, inner, |unit, offset| self.add_type_words(unit, offset, depth.checked_sub(1)?, words));
        }
        let depth = depth.checked_sub(1)?;
        let mut members = Vec::new();
        self.each_child(unit, offset, |child| {
            if matches!(
                child.tag(),
                gimli::DW_TAG_member | gimli::DW_TAG_template_type_parameter | gimli::DW_TAG_inheritance
            ) {
                members.extend(child.attr_value(gimli::DW_AT_type));
            }
        });
        for member in members {
            self.follow(unit, member, |unit, offset| self.add_type_words(unit, offset, depth, words));
        }
        Some(())
    }

    /// The number of an entry in its section.
    fn key(&self, unit: &Unit<Slice<'a>>, offset: UnitOffset) -> usize {
        offset.to_debug_info_offset(&unit.header).map_or(offset.0, |offset| offset.0)
    }
}
