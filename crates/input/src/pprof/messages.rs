//! The messages of `profile.proto`: <https://github.com/google/pprof/blob/main/proto/profile.proto>.
//!
//! Tables may come in any order, and usually after the samples: they are collected first, and samples are read from the same bytes afterwards.

use highwater_formats::pprof::profile_field;
use highwater_formats::protobuf::{ProtobufError, ProtobufField, ProtobufFields, ProtobufValue};
use std::collections::HashMap;

/// The fault of a profile, and its offset in the decompressed bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProtoFault {
    pub offset: usize,
    pub what: String,
}

impl ProtoFault {
    pub(super) fn new(offset: usize, what: impl ToString) -> Self {
        Self { offset, what: what.to_string() }
    }
}

impl From<ProtobufError> for ProtoFault {
    fn from(error: ProtobufError) -> Self {
        Self::new(error.offset, error.fault)
    }
}

/// What values count, as indices of strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueType {
    pub kind: u64,
    pub unit: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MappingMessage {
    pub id: u64,
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub path: u64,
    pub build_id: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FunctionMessage {
    pub name: u64,
    pub system_name: u64,
    pub file: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct LocationMessage {
    pub id: u64,
    pub mapping: u64,
    pub address: u64,
    /// Innermost first.
    pub lines: Vec<LineMessage>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineMessage {
    pub function: u64,
    pub line: u64,
}

#[derive(Debug, Default)]
pub(super) struct SampleMessage {
    /// Innermost first.
    pub locations: Vec<u64>,
    pub values: Vec<u64>,
    pub labels: Vec<LabelMessage>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LabelMessage {
    pub key: u64,
    /// The index of a string, or 0.
    pub text: u64,
    pub number: u64,
}

/// A profile without its samples.
#[derive(Debug, Default)]
pub(super) struct Tables<'a> {
    pub sample_types: Vec<ValueType>,
    pub mappings: Vec<MappingMessage>,
    pub locations: Vec<LocationMessage>,
    pub functions: HashMap<u64, FunctionMessage>,
    strings: Vec<&'a [u8]>,
    pub time_nanos: u64,
    pub duration_nanos: u64,
    pub period_type: ValueType,
    pub period: u64,
    pub comments: Vec<u64>,
}

impl<'a> Tables<'a> {
    /// Collects the tables of a profile.
    pub(super) fn read(profile: &'a [u8]) -> Result<Self, ProtoFault> {
        let mut tables = Self::default();
        for field in ProtobufFields::new(profile, 0) {
            let field = field?;
            match field.number {
                profile_field::SAMPLE_TYPE => tables.sample_types.push(value_type(&field)?),
                profile_field::MAPPING => tables.mappings.push(mapping(&field)?),
                profile_field::LOCATION => tables.locations.push(location(&field)?),
                profile_field::FUNCTION => {
                    let (id, function) = function(&field)?;
                    tables.functions.insert(id, function);
                }
                profile_field::STRING_TABLE => tables.strings.push(bytes(&field)?),
                profile_field::TIME_NANOS => tables.time_nanos = positive(number(&field)?),
                profile_field::DURATION_NANOS => tables.duration_nanos = positive(number(&field)?),
                profile_field::PERIOD_TYPE => tables.period_type = value_type(&field)?,
                profile_field::PERIOD => tables.period = positive(number(&field)?),
                profile_field::COMMENT => numbers(&field, &mut tables.comments)?,
                _ => {}
            }
        }
        Ok(tables)
    }

    /// A string by its index; empty if there is none.
    pub(super) fn string(&self, index: u64) -> String {
        let bytes = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        String::from_utf8_lossy(bytes.copied().unwrap_or_default()).into_owned()
    }

    /// True if a string has this text.
    pub(super) fn is(&self, index: u64, text: &str) -> bool {
        usize::try_from(index).ok().and_then(|index| self.strings.get(index)) == Some(&text.as_bytes())
    }
}

/// Passes each sample, with its offset. The sample is reused.
pub(super) fn for_each_sample(
    profile: &[u8],
    mut take: impl FnMut(usize, &SampleMessage) -> Result<(), ProtoFault>,
) -> Result<(), ProtoFault> {
    let mut sample = SampleMessage::default();
    for field in ProtobufFields::new(profile, 0) {
        let field = field?;
        if field.number != profile_field::SAMPLE {
            continue;
        }
        sample.locations.clear();
        sample.values.clear();
        sample.labels.clear();
        for part in message(&field)? {
            let part = part?;
            match part.number {
                1 => numbers(&part, &mut sample.locations)?,
                2 => numbers(&part, &mut sample.values)?,
                3 => sample.labels.push(label(&part)?),
                _ => {}
            }
        }
        take(field.offset, &sample)?;
    }
    Ok(())
}

/// True for the beginning of a profile: all fields are known, and one says what values count.
pub(super) fn is_profile(start: &[u8]) -> bool {
    let mut has_type = false;
    for field in ProtobufFields::new(start, 0) {
        let field = match field {
            Ok(field) => field,
            Err(error) => return error.is_cut && has_type,
        };
        let is_message = matches!(field.value, ProtobufValue::Bytes(_));
        let is_sound = match field.number {
            profile_field::SAMPLE_TYPE => is_value_type(&field),
            profile_field::SAMPLE..=profile_field::STRING_TABLE | profile_field::PERIOD_TYPE => is_message,
            profile_field::COMMENT => true,
            7..=profile_field::DOC_URL => !is_message,
            _ => false,
        };
        if !is_sound {
            return false;
        }
        has_type |= field.number == profile_field::SAMPLE_TYPE;
    }
    has_type
}

/// True for a type with a name, and without anything else than a name and a unit.
fn is_value_type(field: &ProtobufField<'_>) -> bool {
    let Ok(mut parts) = message(field) else { return false };
    let is_part = |part: Result<ProtobufField<'_>, ProtobufError>| {
        part.is_ok_and(|part| (1..=2).contains(&part.number) && matches!(part.value, ProtobufValue::Number(_)))
    };
    parts.all(is_part) && value_type(field).is_ok_and(|parts| parts.kind != 0)
}

fn bytes<'a>(field: &ProtobufField<'a>) -> Result<&'a [u8], ProtoFault> {
    match field.value {
        ProtobufValue::Bytes(bytes) => Ok(bytes),
        _ => Err(ProtoFault::new(field.offset, format!("field {} is no text and no message", field.number))),
    }
}

fn message<'a>(field: &ProtobufField<'a>) -> Result<ProtobufFields<'a>, ProtoFault> {
    Ok(ProtobufFields::new(bytes(field)?, field.offset))
}

fn number(field: &ProtobufField<'_>) -> Result<u64, ProtoFault> {
    match field.value {
        ProtobufValue::Number(number) => Ok(number),
        _ => Err(ProtoFault::new(field.offset, format!("field {} is no number", field.number))),
    }
}

fn numbers(field: &ProtobufField<'_>, into: &mut Vec<u64>) -> Result<(), ProtoFault> {
    match field.value.append_numbers(into) {
        true => Ok(()),
        false => Err(ProtoFault::new(field.offset, format!("field {} is no list of numbers", field.number))),
    }
}

/// A signed number that is 0 if it is negative.
fn positive(number: u64) -> u64 {
    u64::try_from(number as i64).unwrap_or(0)
}

fn value_type(field: &ProtobufField<'_>) -> Result<ValueType, ProtoFault> {
    let mut made = ValueType::default();
    for part in message(field)? {
        let part = part?;
        match part.number {
            1 => made.kind = number(&part)?,
            2 => made.unit = number(&part)?,
            _ => {}
        }
    }
    Ok(made)
}

fn mapping(field: &ProtobufField<'_>) -> Result<MappingMessage, ProtoFault> {
    let mut made = MappingMessage::default();
    for part in message(field)? {
        let part = part?;
        match part.number {
            1 => made.id = number(&part)?,
            2 => made.start = number(&part)?,
            3 => made.end = number(&part)?,
            4 => made.file_offset = number(&part)?,
            5 => made.path = number(&part)?,
            6 => made.build_id = number(&part)?,
            _ => {}
        }
    }
    Ok(made)
}

fn function(field: &ProtobufField<'_>) -> Result<(u64, FunctionMessage), ProtoFault> {
    let (mut id, mut made) = (0, FunctionMessage::default());
    for part in message(field)? {
        let part = part?;
        match part.number {
            1 => id = number(&part)?,
            2 => made.name = number(&part)?,
            3 => made.system_name = number(&part)?,
            4 => made.file = number(&part)?,
            _ => {}
        }
    }
    Ok((id, made))
}

fn location(field: &ProtobufField<'_>) -> Result<LocationMessage, ProtoFault> {
    let mut made = LocationMessage::default();
    for part in message(field)? {
        let part = part?;
        match part.number {
            1 => made.id = number(&part)?,
            2 => made.mapping = number(&part)?,
            3 => made.address = number(&part)?,
            4 => made.lines.push(line(&part)?),
            _ => {}
        }
    }
    Ok(made)
}

fn line(field: &ProtobufField<'_>) -> Result<LineMessage, ProtoFault> {
    let mut made = LineMessage::default();
    for part in message(field)? {
        let part = part?;
        match part.number {
            1 => made.function = number(&part)?,
            2 => made.line = positive(number(&part)?),
            _ => {}
        }
    }
    Ok(made)
}

fn label(field: &ProtobufField<'_>) -> Result<LabelMessage, ProtoFault> {
    let mut made = LabelMessage::default();
    for part in message(field)? {
        let part = part?;
        match part.number {
            1 => made.key = number(&part)?,
            2 => made.text = number(&part)?,
            3 => made.number = positive(number(&part)?),
            _ => {}
        }
    }
    Ok(made)
}
