//! The header of a capture.

use super::MAGIC;
use super::bytes::{ByteReader, RecordError};
use highwater_model::{Nanos, Source, SourceKind, ThreadId, program_name};
use std::io::BufRead;

/// The supported version of the format.
const VERSION: u32 = 13;
/// The number of a capture with sums instead of a history.
const AGGREGATED: u8 = 1;
/// Limit for the number of paths in a list.
const MOST_PATHS: usize = 1 << 16;

/// What is known of a capture before its first record.
pub(super) struct CaptureHeader {
    pub source: Source,
    /// The version of Python, as its C interface writes it: `0x030b_…` is 3.11.
    pub python: u32,
    pub has_native_traces: bool,
    pub main_thread: ThreadId,
    /// Outermost calls of the main thread that belong to memray.
    pub skipped_calls: u64,
}

impl CaptureHeader {
    pub fn read(bytes: &mut ByteReader<impl BufRead>) -> Result<Self, RecordError> {
        for expected in MAGIC {
            if bytes.byte()? != *expected {
                return Err(bytes.malformed("it is no memray capture"));
            }
        }
        let version = bytes.half_word()?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let python = bytes.half_word()?;
        let has_native_traces = bytes.byte()? != 0;
        if bytes.byte()? == AGGREGATED {
            return Err(RecordError::Aggregated);
        }
        let [_, _, start_ms, end_ms] = [bytes.word()?, bytes.word()?, bytes.word()?, bytes.word()?];
        let command: Vec<String> = bytes.text()?.split_whitespace().map(str::to_owned).collect();
        let pid = bytes.half_word()?;
        let main_thread = ThreadId(bytes.word()?);
        let skipped_calls = bytes.word()?;
        let (allocator, traces_allocators, _tracks_objects) = (bytes.byte()?, bytes.byte()? != 0, bytes.byte()?);
        let _library = bytes.text()?;
        for _ in 0..2 {
            let mut count = 0;
            while !bytes.text()?.is_empty() {
                count += 1;
                if count > MOST_PATHS {
                    return Err(bytes.malformed("there are too many paths"));
                }
            }
        }
        let source = Source {
            kind: SourceKind::new("memray"),
            program: program(&command),
            command,
            pid: pid.into(),
            start_unix_ns: start_ms.saturating_mul(1_000_000),
            duration: Nanos(end_ms.saturating_sub(start_ms).saturating_mul(1_000_000)),
            runtime_parameters: runtime(python, allocator, traces_allocators),
            ..Source::default()
        };
        Ok(Self { source, python, has_native_traces, main_thread, skipped_calls })
    }
}

/// The program that memray ran: `memray run --native app.py --port 1` is `app.py`.
fn program(command: &[String]) -> String {
    /// Options of `memray run` with a value.
    const WITH_VALUE: [&str; 4] = ["-o", "--output", "-p", "--live-port"];
    let mut words = command.iter().map(String::as_str);
    let first = words.next();
    let is_memray = first.is_some_and(|first| first.ends_with("/memray") || first.ends_with("/memray/__main__.py"));
    if is_memray && words.next() == Some("run") {
        while let Some(word) = words.next() {
            match word {
                "-m" => return words.next().unwrap_or_default().to_owned(),
                "-c" => return "python -c".to_owned(),
                _ if WITH_VALUE.contains(&word) => drop(words.next()),
                _ if word.starts_with('-') => {}
                _ => return program_name(Some(word), ""),
            }
        }
    }
    program_name(first, "")
}

fn runtime(python: u32, allocator: u8, traces_allocators: bool) -> String {
    // The rest of the number is that of the Python that memray was built with.
    let [major, minor, ..] = python.to_be_bytes();
    let allocator = match allocator {
        1 => "pymalloc",
        2 => "pymalloc with debugging",
        3 => "malloc",
        5 => "mimalloc",
        6 => "mimalloc with debugging",
        _ => "another allocator",
    };
    let traced = if traces_allocators { "every object is recorded" } else { "only its arenas are recorded" };
    let traced = if allocator == "malloc" { String::new() } else { format!(": {traced}") };
    format!("Python {major}.{minor} with {allocator}{traced}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_its_own_name() {
        let named = |command: &str| program(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(named("/venv/memray/__main__.py run -q --native -o out.bin dir/app.py --port 1"), "app.py");
        assert_eq!(named("/usr/bin/memray run -fm pip install x"), "pip");
        assert_eq!(named("/usr/bin/memray run -m compileall ."), "compileall");
        assert_eq!(named("/usr/bin/memray run -c pass"), "python -c");
        assert_eq!(named("./server.py --live"), "server.py");
        assert_eq!(named("/usr/bin/memray run"), "memray");
    }

    #[test]
    fn the_runtime_is_described() {
        assert_eq!(runtime(0x030b_02f0, 1, false), "Python 3.11 with pymalloc: only its arenas are recorded");
        assert_eq!(runtime(0x030d_00f0, 3, true), "Python 3.13 with malloc");
    }
}
