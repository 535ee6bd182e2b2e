//! The first packet: the process that was traced, and how it was sampled.

use super::bytes::{PacketCursor, put_text};
use super::header::PacketHeader;
use highwater_model::{Source, SourceKind, WordSampling};

/// The code of the event.
pub const CODE: u32 = 0;
/// Texts are truncated to this length: a packet has no room for more.
const LONGEST_TEXT: usize = 8_000;

/// Reads the source from the content of a packet, after the event's header; `None` if it is malformed.
pub fn read(header: &PacketHeader, content: &[u8]) -> Option<Source> {
    let mut input = PacketCursor::new(content, 0);
    let event = input.u32()?;
    if event >> super::header::TIME_BITS != CODE {
        return None;
    }
    let rate = f64::from_bits(input.i64()? as u64);
    let word_bits = input.u8()?;
    let mut text = || Some(String::from_utf8_lossy(input.text()?).into_owned());
    let (program, host, runtime_parameters) = (text()?, text()?, text()?);
    let pid = input.i64()?;
    let context = if header.version >= 2 { String::from_utf8_lossy(input.text()?).into_owned() } else { String::new() };
    if !input.is_at_end() {
        return None;
    }
    let sampling = WordSampling::new(rate, word_bits / 8)?;
    Some(Source {
        kind: SourceKind::MEMTRACE,
        program,
        host,
        runtime_parameters,
        context,
        pid: pid as u64,
        start_unix_ns: u64::try_from(header.time_begin).ok()?.saturating_mul(1000),
        sample_rate: Some((sampling.bytes_per_sample().round() as u64).max(1)),
        word_sampling: Some(sampling),
        ..Source::default()
    })
}

/// Appends the content of the packet: the event with its header.
pub fn put(source: &Source, sampling: &WordSampling, time: i64, version: u16, out: &mut Vec<u8>) {
    let low = time as u32 & ((1 << super::header::TIME_BITS) - 1);
    out.extend_from_slice(&(CODE << super::header::TIME_BITS | low).to_le_bytes());
    out.extend_from_slice(&sampling.rate().to_bits().to_le_bytes());
    out.push(sampling.word_bytes() * 8);
    let mut text = |text: &str| put_text(out, &text[..text.floor_char_boundary(LONGEST_TEXT)]);
    text(&source.program);
    text(&source.host);
    text(&source.runtime_parameters);
    out.extend_from_slice(&source.pid.to_le_bytes());
    if version >= 2 {
        put_text(out, &source.context[..source.context.floor_char_boundary(LONGEST_TEXT)]);
    }
}
