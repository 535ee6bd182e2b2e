//! The answer of a server that has taken a request: perhaps not all of it.

use crate::protobuf::{ProtobufFields, ProtobufValue};

/// The longest message of a server that is repeated, in characters.
const LONGEST_MESSAGE: usize = 200;

/// The part of a request that a server did not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialSuccess {
    /// The number of profiles that it refused.
    pub rejected_profiles: u64,
    /// Its reason, or a warning if it took everything; at most 200 characters, without line breaks.
    pub message: String,
}

/// Reads an `ExportProfilesServiceResponse`. `None` if everything was taken, or if the bytes are no such message: the status has said that it was.
pub fn partial_success(reply: &[u8]) -> Option<PartialSuccess> {
    let partial = ProtobufFields::new(reply, 0).filter_map(Result::ok).find_map(|field| match field.value {
        ProtobufValue::Bytes(bytes) if field.number == 1 => Some(bytes),
        _ => None,
    })?;
    let mut found = PartialSuccess::default();
    for field in ProtobufFields::new(partial, 0).filter_map(Result::ok) {
        match (field.number, field.value) {
            (1, ProtobufValue::Number(number)) => found.rejected_profiles = number,
            (2, ProtobufValue::Bytes(text)) => found.message = one_line(text),
            _ => {}
        }
    }
    (found != PartialSuccess::default()).then_some(found)
}

/// A text of a server, for a line of ours: no control characters, and not long.
pub fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * LONGEST_MESSAGE)]);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|character| !highwater_model::disturbs_text(*character)).take(LONGEST_MESSAGE).collect()
}
