//! The source block: whose memory it is (docs/format.md §7). A later one replaces an earlier one.

use super::varint::{self, Input};
use highwater_model::{Nanos, Source, SourceKind};

/// Appends the payload.
pub fn encode(source: &Source, out: &mut Vec<u8>) {
    let sample = source.sample_rate.map_or(0, |rate| rate.max(1));
    for value in [source.kind as u64, source.pid, source.start_unix_ns, source.duration.0, sample] {
        varint::put(out, value);
    }
    varint::put_byte_string(out, source.program.as_bytes());
    varint::put_byte_string(out, source.host.as_bytes());
}

/// Reads a payload; `None` if it is malformed.
pub fn decode(payload: &[u8]) -> Option<Source> {
    let mut input = Input::new(payload);
    let kind = SourceKind::from_number(input.number()?)?;
    let (pid, start_unix_ns, duration, sample) =
        (input.number()?, input.number()?, Nanos(input.number()?), input.number()?);
    let mut text = || Some(String::from_utf8_lossy(input.byte_string()?).into_owned());
    let (program, host) = (text()?, text()?);
    let sample_rate = (sample > 0).then_some(sample);
    Some(Source { kind, program, pid, host, start_unix_ns, duration, sample_rate })
}
