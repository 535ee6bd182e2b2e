//! Converts stacks to locations, functions and mappings.
//!
//! A location without the name of a function does not make its mapping claim to have functions, so a viewer still looks them up by itself.

use super::profile_field;
use super::strings::Strings;
use crate::code_location::{CodeLine, CodeLocation, location_runs};
use crate::protobuf::ProtobufMessage;
use highwater_model::{Catalog, Frame, StackId};
use std::collections::{HashMap, HashSet};

mod mapping_field {
    pub(super) const ID: u64 = 1;
    pub(super) const MEMORY_START: u64 = 2;
    pub(super) const MEMORY_LIMIT: u64 = 3;
    pub(super) const FILE_OFFSET: u64 = 4;
    pub(super) const FILENAME: u64 = 5;
    pub(super) const BUILD_ID: u64 = 6;
    pub(super) const HAS_FUNCTIONS: u64 = 7;
    pub(super) const HAS_FILENAMES: u64 = 8;
    pub(super) const HAS_LINE_NUMBERS: u64 = 9;
    pub(super) const HAS_INLINE_FRAMES: u64 = 10;
}

mod location_field {
    pub(super) const ID: u64 = 1;
    pub(super) const MAPPING_ID: u64 = 2;
    pub(super) const ADDRESS: u64 = 3;
    pub(super) const LINE: u64 = 4;
}

mod line_field {
    pub(super) const FUNCTION_ID: u64 = 1;
    pub(super) const LINE: u64 = 2;
}

mod function_field {
    pub(super) const ID: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const SYSTEM_NAME: u64 = 3;
    pub(super) const FILENAME: u64 = 4;
}

/// The locations, functions and mappings of a profile.
pub(super) struct PprofSymbols<'a> {
    catalog: &'a Catalog,
    mappings: Vec<PprofMapping>,
    locations: HashMap<Vec<Frame>, u64>,
    /// By the indices of name and file.
    functions: HashMap<(u64, u64), u64>,
    /// The encoded tables of locations and functions.
    encoded: ProtobufMessage,
    before: UsedIds,
}

/// The numbers of mappings, locations and functions that other snapshots of the same profile have: the highest of each.
#[derive(Clone, Copy, Default)]
pub(super) struct UsedIds {
    mappings: u64,
    locations: u64,
    functions: u64,
}

/// Known facts about a module, by its index in the catalog.
#[derive(Clone, Copy, Default)]
struct PprofMapping {
    id: u64,
    has_locations: bool,
    has_functions: bool,
    has_filenames: bool,
    has_line_numbers: bool,
    has_inline_frames: bool,
}

impl<'a> PprofSymbols<'a> {
    /// `program` identifies the main module; viewers expect it to be mapping 1.
    pub(super) fn new(catalog: &'a Catalog, program: &str, before: UsedIds) -> Self {
        let main = main_module(catalog, program);
        let mapping = |index: usize| {
            let id = match main {
                Some(main) if index == main => 1,
                Some(main) if index < main => index + 2,
                _ => index + 1,
            };
            PprofMapping { id: before.mappings + id as u64, ..PprofMapping::default() }
        };
        Self {
            catalog,
            mappings: (0..catalog.modules.len()).map(mapping).collect(),
            locations: HashMap::new(),
            functions: HashMap::new(),
            encoded: ProtobufMessage::default(),
            before,
        }
    }

    /// The locations of a stack, innermost first. An unknown stack gets a location that says so.
    pub(super) fn location_ids(&mut self, stack: StackId, strings: &mut Strings) -> Vec<u64> {
        let runs = location_runs(self.catalog, stack);
        runs.iter().map(|frames| self.location_id(frames, strings)).collect()
    }

    /// The same without some frames: what they hold belongs to their callers. There is no location where nothing else is left.
    pub(super) fn location_ids_without(
        &mut self,
        hidden: &HashSet<Frame>,
        stack: StackId,
        strings: &mut Strings,
    ) -> Vec<u64> {
        let mut runs = location_runs(self.catalog, stack);
        runs.iter_mut().for_each(|frames| frames.retain(|frame| !hidden.contains(frame)));
        runs.iter().filter(|frames| !frames.is_empty()).map(|frames| self.location_id(frames, strings)).collect()
    }

    fn location_id(&mut self, frames: &[Frame], strings: &mut Strings) -> u64 {
        if let Some(&id) = self.locations.get(frames) {
            return id;
        }
        let id = self.before.locations + self.locations.len() as u64 + 1;
        self.locations.insert(frames.to_vec(), id);

        let CodeLocation { address, module, lines } = CodeLocation::of(self.catalog, frames);
        let mut location = ProtobufMessage::default();
        location.uint(location_field::ID, id);
        location.uint(location_field::MAPPING_ID, module.map_or(0, |module| self.mappings[module].id));
        location.uint(location_field::ADDRESS, address);
        for line in &lines {
            let line = self.line(line, strings);
            location.message(location_field::LINE, &line);
        }
        self.encoded.message(profile_field::LOCATION, &location);
        self.learn_about_mapping(module, frames);
        id
    }

    fn line(&mut self, of: &CodeLine<'_>, strings: &mut Strings) -> ProtobufMessage {
        let (name, file) = (strings.index(&of.function), strings.index(of.file));
        let mut line = ProtobufMessage::default();
        line.uint(line_field::FUNCTION_ID, self.function_id(name, file));
        line.int(line_field::LINE, u64::from(of.line));
        line
    }

    fn function_id(&mut self, name: u64, file: u64) -> u64 {
        let next = self.before.functions + self.functions.len() as u64 + 1;
        let id = *self.functions.entry((name, file)).or_insert(next);
        if id == next {
            let mut function = ProtobufMessage::default();
            function.uint(function_field::ID, id);
            function.int(function_field::NAME, name);
            function.int(function_field::SYSTEM_NAME, name);
            function.int(function_field::FILENAME, file);
            self.encoded.message(profile_field::FUNCTION, &function);
        }
        id
    }

    /// Records which facts the frames of a mapping have. A viewer looks up a mapping's addresses itself only if nothing is known of any of them.
    fn learn_about_mapping(&mut self, module: Option<usize>, frames: &[Frame]) {
        let catalog = self.catalog;
        let known = |text| !catalog.strings.get(text).is_empty();
        if let Some(mapping) = module.and_then(|module| self.mappings.get_mut(module)) {
            mapping.has_locations = true;
            mapping.has_functions |= frames.iter().any(|frame| known(frame.function));
            mapping.has_filenames |= frames.iter().any(|frame| known(frame.file));
            mapping.has_line_numbers |= frames.iter().any(|frame| frame.line != 0);
            mapping.has_inline_frames |= frames.len() > 1;
        }
    }

    /// The same as [`Self::finish`], without mappings that no location is in: a catalog may be that of several processes.
    pub(super) fn finish_used(self, strings: &mut Strings) -> ProtobufMessage {
        self.encode(strings, |mapping| mapping.has_locations).0
    }

    /// The tables of locations, functions and mappings, and the numbers that are used now.
    pub(super) fn finish(self, strings: &mut Strings) -> (ProtobufMessage, UsedIds) {
        self.encode(strings, |_| true)
    }

    fn encode(mut self, strings: &mut Strings, wanted: fn(&PprofMapping) -> bool) -> (ProtobufMessage, UsedIds) {
        let mut mappings: Vec<_> = self.mappings.iter().zip(&self.catalog.modules).collect();
        mappings.sort_by_key(|(mapping, _)| mapping.id);
        for (mapping, module) in mappings.into_iter().filter(|(mapping, _)| wanted(mapping)) {
            let text = |id| self.catalog.strings.get(id);
            let mut message = ProtobufMessage::default();
            message.uint(mapping_field::ID, mapping.id);
            message.uint(mapping_field::MEMORY_START, module.start);
            message.uint(mapping_field::MEMORY_LIMIT, module.end);
            message.uint(mapping_field::FILE_OFFSET, module.file_offset);
            message.int(mapping_field::FILENAME, strings.index(text(module.path)));
            message.int(mapping_field::BUILD_ID, strings.index(text(module.build_id)));
            message.flag(mapping_field::HAS_FUNCTIONS, mapping.has_functions);
            message.flag(mapping_field::HAS_FILENAMES, mapping.has_filenames);
            message.flag(mapping_field::HAS_LINE_NUMBERS, mapping.has_line_numbers);
            message.flag(mapping_field::HAS_INLINE_FRAMES, mapping.has_inline_frames);
            self.encoded.message(profile_field::MAPPING, &message);
        }
        let used = UsedIds {
            mappings: self.before.mappings + self.mappings.len() as u64,
            locations: self.before.locations + self.locations.len() as u64,
            functions: self.before.functions + self.functions.len() as u64,
        };
        (self.encoded, used)
    }
}

/// The module whose file name is that of the program. `program` may be a command line.
fn main_module(catalog: &Catalog, program: &str) -> Option<usize> {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let first_word = program.split_whitespace().next().unwrap_or_default();
    let candidates = [file_name(program), file_name(first_word)];
    catalog.modules.iter().position(|module| {
        let name = file_name(catalog.strings.get(module.path));
        !name.is_empty() && candidates.contains(&name)
    })
}
