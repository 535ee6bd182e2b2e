//! Profiles as the bodies of requests, each below the limits that stores have by default.

use super::process_profile::ProcessProfile;
use super::store_kind::ProfileStoreKind;
use flate2::Compression;
use flate2::write::GzEncoder;
use highwater_formats::heap_profile::{HeapFigure, HeapSample};
use highwater_formats::otlp::{AttributeValue, OtlpRequest};
use highwater_formats::pprof::heap_profile;
use highwater_formats::pyroscope::PushRequest;
use highwater_model::rfc3339;
use std::io::Write;

/// Pyroscope's limit for one profile, uncompressed.
const LARGEST_PROFILE: usize = 4 << 20;
/// A request of Pyroscope is sent once it is larger: less is lost if one is refused, and few connections are needed.
const PUSH_SIZE: usize = 2 << 20;
/// The largest request of OpenTelemetry, uncompressed. Its specification allows 64 MiB; the collector's default is 20.
const LARGEST_REQUEST: usize = 16 << 20;
/// Pyroscope's limit for the value of a label, in bytes.
const LONGEST_VALUE: usize = 2048;

/// The body of a request.
#[derive(Debug)]
pub(super) struct ProfileBody {
    pub(super) bytes: Vec<u8>,
    /// Compressed as a whole, which the request says.
    pub(super) is_gzipped: bool,
    /// The number of profiles in it.
    pub(super) profiles: usize,
}

/// The requests for these profiles.
pub(super) fn bodies(kind: ProfileStoreKind, profiles: &[ProcessProfile]) -> Vec<ProfileBody> {
    match kind {
        ProfileStoreKind::Pyroscope => pyroscope_bodies(profiles, LARGEST_PROFILE, PUSH_SIZE),
        ProfileStoreKind::Otlp => {
            let whole: Vec<ProfilePart<'_>> = profiles.iter().map(ProfilePart::whole).collect();
            let mut bodies = Vec::new();
            otlp_bodies(&whole, LARGEST_REQUEST, &mut bodies);
            bodies
        }
    }
}

/// A process, or a part of its samples.
#[derive(Clone, Copy)]
struct ProfilePart<'a> {
    process: &'a ProcessProfile,
    samples: &'a [HeapSample],
    /// The index of its first sample.
    first: usize,
}

impl<'a> ProfilePart<'a> {
    fn whole(process: &'a ProcessProfile) -> Self {
        Self { process, samples: &process.samples, first: 0 }
    }

    /// Two halves; `None` if there is only one sample.
    fn halves(self) -> Option<[Self; 2]> {
        let (left, right) = self.samples.split_at(self.samples.len() / 2);
        let right = Self { samples: right, first: self.first + left.len(), ..self };
        (!left.is_empty()).then_some([Self { samples: left, ..self }, right])
    }

    /// A UUID of version 8: the same for the same rows, so that a store knows what is sent again.
    fn id(self, figure: Option<HeapFigure>) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.process.process.process_id.to_be_bytes());
        let slot = self.process.slot.max(0).cast_unsigned().to_be_bytes();
        id[9..14].copy_from_slice(&slot[3..]);
        let part = (self.first as u32).to_be_bytes();
        id[14] = part[2];
        id[15] = part[3];
        // The version and the variant of a UUID, and the figure beside it.
        id[6] = 0x80 | id[6] & 0x0f;
        id[8] = 0x80 | part[1] & 0x07 | figure.map_or(0, |figure| (figure as u8 + 1) << 3);
        id
    }
}

fn pyroscope_bodies(profiles: &[ProcessProfile], largest_profile: usize, push_size: usize) -> Vec<ProfileBody> {
    let mut bodies = Vec::new();
    let (mut request, mut count) = (PushRequest::default(), 0);
    for process in profiles {
        let mut encoded = Vec::new();
        encode_pprof(ProfilePart::whole(process), largest_profile, &mut encoded);
        let is_split = encoded.len() > 1;
        for (number, (part, bytes)) in encoded.into_iter().enumerate() {
            let mut labels = pyroscope_labels(process);
            // Parts of one profile in one series would be taken for several instants. Series are added up.
            if is_split {
                labels.push(("part", number.to_string()));
            }
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            request.add(&labels, &gzip(&bytes), &uuid(part.id(None)));
            count += 1;
            if request.size() >= push_size {
                let bytes = std::mem::take(&mut request).into_bytes();
                bodies.push(ProfileBody { bytes, is_gzipped: false, profiles: std::mem::take(&mut count) });
            }
        }
    }
    if count > 0 {
        bodies.push(ProfileBody { bytes: request.into_bytes(), is_gzipped: false, profiles: count });
    }
    bodies
}

/// The profile of a part, or of its halves if it is too large. One sample is never too large for less than absurd stacks: then the store says so.
fn encode_pprof<'a>(part: ProfilePart<'a>, largest: usize, out: &mut Vec<(ProfilePart<'a>, Vec<u8>)>) {
    let bytes = heap_profile(&part.process.heap_profile(part.samples));
    match part.halves() {
        Some(halves) if bytes.len() > largest => halves.into_iter().for_each(|half| encode_pprof(half, largest, out)),
        _ => out.push((part, bytes)),
    }
}

fn otlp_bodies(parts: &[ProfilePart<'_>], largest: usize, out: &mut Vec<ProfileBody>) {
    let mut request = OtlpRequest::default();
    for part in parts {
        let profile = part.process.heap_profile(part.samples);
        request.add(&otlp_attributes(part.process), &profile, |figure| Some(part.id(Some(figure))));
    }
    if request.is_empty() {
        return;
    }
    if request.size() > largest {
        match parts {
            [part] => {
                if let Some(halves) = part.halves() {
                    halves.into_iter().for_each(|half| otlp_bodies(&[half], largest, out));
                    return;
                }
            }
            _ => {
                let (left, right) = parts.split_at(parts.len() / 2);
                otlp_bodies(left, largest, out);
                otlp_bodies(right, largest, out);
                return;
            }
        }
    }
    let profiles = request.profiles();
    out.push(ProfileBody { bytes: gzip(&request.into_bytes()), is_gzipped: true, profiles });
}

/// The labels of a series. Values that are not known are left out.
fn pyroscope_labels(process: &ProcessProfile) -> Vec<(&'static str, String)> {
    let labels = &process.process.labels;
    let pid = process.process.pid.to_string();
    let known = [
        ("__name__", "memory"),
        ("__delta__", "false"),
        ("service_name", labels.service.as_str()),
        ("version", &labels.version),
        ("region", &labels.region),
        ("host", &labels.host),
        ("container", &labels.container),
        ("pid", &pid),
    ];
    let cut = |value: &str| value[..value.floor_char_boundary(LONGEST_VALUE)].to_owned();
    known.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, cut(value))).collect()
}

/// The attributes of a resource, after OpenTelemetry's semantic conventions.
fn otlp_attributes(process: &ProcessProfile) -> Vec<(&'static str, AttributeValue)> {
    let of = &process.process;
    let is_id = of.labels.container.len() == 64 && of.labels.container.bytes().all(|byte| byte.is_ascii_hexdigit());
    let texts = [
        ("service.name", of.labels.service.clone()),
        ("service.version", of.labels.version.clone()),
        ("service.instance.id", format!("{:016x}", of.process_id)),
        ("cloud.region", of.labels.region.clone()),
        ("host.name", of.labels.host.clone()),
        (if is_id { "container.id" } else { "container.name" }, of.labels.container.clone()),
        ("process.creation.time", rfc3339(of.start_us.max(0).cast_unsigned().saturating_mul(1000))),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut attributes: Vec<(&str, AttributeValue)> =
        texts.map(|(key, text)| (key, AttributeValue::Text(text))).collect();
    attributes.push(("process.pid", AttributeValue::Int(of.pid.into())));
    attributes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

fn uuid(id: [u8; 16]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

#[cfg(test)]
mod tests;
