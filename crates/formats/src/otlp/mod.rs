//! OpenTelemetry's profiles: the request of `/v1development/profiles`, which is also a file of `ProfilesData`.
//!
//! A profile has one type of value, so a process has up to four: `inuse_space`, `inuse_objects`, `alloc_space`, `alloc_objects`. All profiles of a request
//! share one dictionary of stacks, locations, functions, mappings, attributes and strings, in which the entry 0 of each table means "not set". A stack has
//! its innermost location first.
//!
//! Schema: <https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto/profiles/v1development>, as of version 1.11. The signal has the
//! status *Development*: fields have changed between releases.

mod dictionary;
pub mod reply;
#[cfg(test)]
mod tests;

use crate::heap_profile::{HeapFigure, HeapProfile};
use crate::protobuf::ProtobufMessage;
use dictionary::OtlpDictionary;

mod request_field {
    pub(super) const RESOURCE_PROFILES: u64 = 1;
    pub(super) const DICTIONARY: u64 = 2;
    pub(super) const RESOURCE: u64 = 1;
    pub(super) const SCOPE_PROFILES: u64 = 2;
    pub(super) const SCOPE: u64 = 1;
    pub(super) const PROFILES: u64 = 2;
    pub(super) const SCOPE_NAME: u64 = 1;
    pub(super) const SCOPE_VERSION: u64 = 2;
    pub(super) const RESOURCE_ATTRIBUTES: u64 = 1;
    pub(super) const ATTRIBUTE_KEY: u64 = 1;
    pub(super) const ATTRIBUTE_VALUE: u64 = 2;
}

mod profile_field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLES: u64 = 2;
    pub(super) const TIME_UNIX_NANO: u64 = 3;
    pub(super) const DURATION_NANO: u64 = 4;
    pub(super) const PERIOD_TYPE: u64 = 5;
    pub(super) const PERIOD: u64 = 6;
    pub(super) const PROFILE_ID: u64 = 7;
}

mod sample_field {
    pub(super) const STACK_INDEX: u64 = 1;
    pub(super) const VALUES: u64 = 4;
}

pub(super) mod any_value_field {
    pub(in crate::otlp) const STRING: u64 = 1;
    pub(in crate::otlp) const INT: u64 = 3;
}

/// The value of an attribute of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A number.
    Int(i64),
}

/// The profiles of one or more processes.
#[derive(Debug, Default)]
pub struct OtlpRequest {
    message: ProtobufMessage,
    dictionary: OtlpDictionary,
    profiles: usize,
}

impl OtlpRequest {
    /// Adds the profiles of a process; `attributes` say which process it is. `profile_id` gives each figure's profile an identity, by which a store
    /// knows a profile that is sent again. A figure without a sample that is not 0 has no profile.
    pub fn add(
        &mut self,
        attributes: &[(&str, AttributeValue)],
        profile: &HeapProfile<'_>,
        profile_id: impl Fn(HeapFigure) -> Option<[u8; 16]>,
    ) {
        let mut scope = ProtobufMessage::default();
        scope.text(request_field::SCOPE_NAME, "highwater");
        scope.text(request_field::SCOPE_VERSION, env!("CARGO_PKG_VERSION"));
        let mut of_scope = ProtobufMessage::default();
        of_scope.message(request_field::SCOPE, &scope);
        let mut stacks = self.dictionary.stacks_of(profile.catalog);
        let mut profiles = 0;
        for figure in profile.figures() {
            let values = profile.samples.iter().map(|sample| (sample.stack, figure.of(sample)));
            let mut samples = ProtobufMessage::default();
            for (stack, value) in values.filter(|(_, value)| *value != 0) {
                let mut sample = ProtobufMessage::default();
                sample.uint(sample_field::STACK_INDEX, stacks.stack(stack));
                sample.ints(sample_field::VALUES, &[value]);
                samples.message(profile_field::SAMPLES, &sample);
            }
            if samples.bytes().is_empty() {
                continue;
            }
            profiles += 1;
            let (name, unit) = figure.name_and_unit();
            let mut message = ProtobufMessage::default();
            message.message(profile_field::SAMPLE_TYPE, &stacks.value_type(name, unit));
            message.append(&samples);
            let (start, duration) = match (figure.is_of_a_window(), profile.allocated_since_unix_ns) {
                (true, Some(since)) => (since, profile.time_unix_ns.saturating_sub(since)),
                _ => (profile.time_unix_ns, 0),
            };
            message.fixed64(profile_field::TIME_UNIX_NANO, start);
            message.uint(profile_field::DURATION_NANO, duration);
            message.message(profile_field::PERIOD_TYPE, &stacks.value_type("space", "bytes"));
            message.int(profile_field::PERIOD, profile.period());
            if let Some(id) = profile_id(figure) {
                message.binary(profile_field::PROFILE_ID, &id);
            }
            of_scope.message(request_field::PROFILES, &message);
        }
        self.profiles += profiles;
        if profiles > 0 {
            let mut of_resource = ProtobufMessage::default();
            of_resource.message(request_field::RESOURCE, &resource(attributes));
            of_resource.message(request_field::SCOPE_PROFILES, &of_scope);
            self.message.message(request_field::RESOURCE_PROFILES, &of_resource);
        }
    }

    /// True if no process has a profile.
    pub fn is_empty(&self) -> bool {
        self.profiles == 0
    }

    /// The number of profiles.
    pub fn profiles(&self) -> usize {
        self.profiles
    }

    /// The size of the request so far.
    pub fn size(&self) -> usize {
        self.message.bytes().len() + self.dictionary.size()
    }

    /// The request.
    pub fn into_bytes(mut self) -> Vec<u8> {
        let dictionary = self.dictionary.into_message();
        self.message.message(request_field::DICTIONARY, &dictionary);
        self.message.into_bytes()
    }
}

fn resource(attributes: &[(&str, AttributeValue)]) -> ProtobufMessage {
    let mut resource = ProtobufMessage::default();
    for (key, value) in attributes {
        let mut any = ProtobufMessage::default();
        match value {
            AttributeValue::Text(text) => any.text(any_value_field::STRING, text),
            AttributeValue::Int(number) => any.present_int(any_value_field::INT, *number),
        }
        let mut attribute = ProtobufMessage::default();
        attribute.text(request_field::ATTRIBUTE_KEY, key);
        attribute.message(request_field::ATTRIBUTE_VALUE, &any);
        resource.message(request_field::RESOURCE_ATTRIBUTES, &attribute);
    }
    resource
}
