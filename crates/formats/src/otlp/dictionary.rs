//! The tables that all profiles of a request share. Every entry is there once, and is known by its encoded bytes or by the indices that it is made of.

use super::any_value_field;
use crate::code_location::{CodeLocation, location_runs};
use crate::pprof::strings::Strings;
use crate::protobuf::ProtobufMessage;
use highwater_model::{Catalog, Frame, StackId};
use std::collections::HashMap;

mod table_field {
    pub(super) const MAPPING: u64 = 1;
    pub(super) const LOCATION: u64 = 2;
    pub(super) const FUNCTION: u64 = 3;
    pub(super) const LINK: u64 = 4;
    pub(super) const STRING: u64 = 5;
    pub(super) const ATTRIBUTE: u64 = 6;
    pub(super) const STACK: u64 = 7;
}

mod entry_field {
    pub(super) const MEMORY_START: u64 = 1;
    pub(super) const MEMORY_LIMIT: u64 = 2;
    pub(super) const FILE_OFFSET: u64 = 3;
    pub(super) const MAPPING_FILENAME: u64 = 4;
    pub(super) const MAPPING_ATTRIBUTES: u64 = 5;
    pub(super) const MAPPING_INDEX: u64 = 1;
    pub(super) const ADDRESS: u64 = 2;
    pub(super) const LINES: u64 = 3;
    pub(super) const FUNCTION_INDEX: u64 = 1;
    pub(super) const LINE: u64 = 2;
    pub(super) const FUNCTION_NAME: u64 = 1;
    pub(super) const SYSTEM_NAME: u64 = 2;
    pub(super) const FUNCTION_FILENAME: u64 = 3;
    pub(super) const ATTRIBUTE_KEY: u64 = 1;
    pub(super) const ATTRIBUTE_VALUE: u64 = 2;
    pub(super) const LOCATION_INDICES: u64 = 1;
    pub(super) const TYPE: u64 = 1;
    pub(super) const UNIT: u64 = 2;
}

/// The attribute of a mapping that has its build id, after OpenTelemetry's semantic conventions.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// The tables of a request.
#[derive(Debug, Default)]
pub(super) struct OtlpDictionary {
    strings: Strings,
    mappings: OtlpTable,
    locations: OtlpTable,
    functions: OtlpTable,
    attributes: OtlpTable,
    stacks: OtlpTable,
}

/// The indices of entries by their encoded bytes. Entry 0 is the empty message.
#[derive(Debug)]
struct OtlpTable {
    in_order: Vec<Vec<u8>>,
    indices: HashMap<Vec<u8>, u64>,
    size: usize,
}

impl Default for OtlpTable {
    fn default() -> Self {
        Self { in_order: vec![Vec::new()], indices: HashMap::from([(Vec::new(), 0)]), size: 0 }
    }
}

impl OtlpTable {
    fn index(&mut self, entry: ProtobufMessage) -> u64 {
        let bytes = entry.into_bytes();
        if let Some(&index) = self.indices.get(&bytes) {
            return index;
        }
        let index = self.in_order.len() as u64;
        self.size += bytes.len();
        self.in_order.push(bytes.clone());
        self.indices.insert(bytes, index);
        index
    }
}

impl OtlpDictionary {
    /// The stacks of a catalog in the tables. The catalog's handles are looked up once.
    pub(super) fn stacks_of<'a>(&'a mut self, catalog: &'a Catalog) -> OtlpStacks<'a> {
        OtlpStacks { dictionary: self, catalog, stacks: HashMap::new(), locations: HashMap::new() }
    }

    /// About the size of the tables: the bytes of their entries.
    pub(super) fn size(&self) -> usize {
        let Self { strings, mappings, locations, functions, attributes, stacks } = self;
        strings.size()
            + [mappings, locations, functions, attributes, stacks].iter().map(|table| table.size).sum::<usize>()
    }

    pub(super) fn into_message(self) -> ProtobufMessage {
        let mut message = ProtobufMessage::default();
        let mut table = |field: u64, table: &OtlpTable| {
            table.in_order.iter().for_each(|entry| message.binary(field, entry));
        };
        table(table_field::MAPPING, &self.mappings);
        table(table_field::LOCATION, &self.locations);
        table(table_field::FUNCTION, &self.functions);
        table(table_field::LINK, &OtlpTable::default());
        table(table_field::ATTRIBUTE, &self.attributes);
        table(table_field::STACK, &self.stacks);
        self.strings.in_order().for_each(|text| message.text(table_field::STRING, text));
        message
    }

    fn mapping(&mut self, catalog: &Catalog, module: usize) -> u64 {
        let module = &catalog.modules[module];
        let text = |id| catalog.strings.get(id);
        let mut mapping = ProtobufMessage::default();
        mapping.uint(entry_field::MEMORY_START, module.start);
        mapping.uint(entry_field::MEMORY_LIMIT, module.end);
        mapping.uint(entry_field::FILE_OFFSET, module.file_offset);
        mapping.uint(entry_field::MAPPING_FILENAME, self.strings.index(text(module.path)));
        if !text(module.build_id).is_empty() {
            let attribute = self.text_attribute(BUILD_ID, text(module.build_id));
            mapping.ints(entry_field::MAPPING_ATTRIBUTES, &[attribute]);
        }
        self.mappings.index(mapping)
    }

    fn text_attribute(&mut self, key: &str, value: &str) -> u64 {
        let mut any = ProtobufMessage::default();
        any.text(any_value_field::STRING, value);
        let mut attribute = ProtobufMessage::default();
        attribute.uint(entry_field::ATTRIBUTE_KEY, self.strings.index(key));
        attribute.message(entry_field::ATTRIBUTE_VALUE, &any);
        self.attributes.index(attribute)
    }

    fn location(&mut self, catalog: &Catalog, frames: &[Frame]) -> u64 {
        let CodeLocation { address, module, lines } = CodeLocation::of(catalog, frames);
        let mut location = ProtobufMessage::default();
        if let Some(module) = module {
            location.uint(entry_field::MAPPING_INDEX, self.mapping(catalog, module));
        }
        location.uint(entry_field::ADDRESS, address);
        for line in &lines {
            let (name, file) = (self.strings.index(&line.function), self.strings.index(line.file));
            let mut function = ProtobufMessage::default();
            function.uint(entry_field::FUNCTION_NAME, name);
            function.uint(entry_field::SYSTEM_NAME, name);
            function.uint(entry_field::FUNCTION_FILENAME, file);
            let mut message = ProtobufMessage::default();
            message.uint(entry_field::FUNCTION_INDEX, self.functions.index(function));
            message.uint(entry_field::LINE, u64::from(line.line));
            location.message(entry_field::LINES, &message);
        }
        self.locations.index(location)
    }
}

/// The stacks of one catalog in the tables.
pub(super) struct OtlpStacks<'a> {
    dictionary: &'a mut OtlpDictionary,
    catalog: &'a Catalog,
    stacks: HashMap<StackId, u64>,
    locations: HashMap<Vec<Frame>, u64>,
}

impl OtlpStacks<'_> {
    /// The index of a stack.
    pub(super) fn stack(&mut self, stack: StackId) -> u64 {
        if let Some(&index) = self.stacks.get(&stack) {
            return index;
        }
        let mut locations = Vec::new();
        for frames in location_runs(self.catalog, stack) {
            let index = match self.locations.get(&frames) {
                Some(&index) => index,
                None => self.dictionary.location(self.catalog, &frames),
            };
            self.locations.entry(frames).or_insert(index);
            locations.push(index);
        }
        let mut entry = ProtobufMessage::default();
        entry.ints(entry_field::LOCATION_INDICES, &locations);
        let index = self.dictionary.stacks.index(entry);
        self.stacks.insert(stack, index);
        index
    }

    /// A type of values.
    pub(super) fn value_type(&mut self, name: &str, unit: &str) -> ProtobufMessage {
        let strings = &mut self.dictionary.strings;
        let mut message = ProtobufMessage::default();
        message.uint(entry_field::TYPE, strings.index(name));
        message.uint(entry_field::UNIT, strings.index(unit));
        message
    }
}
