//! Heap profiles of the pprof family: figures by call site at one instant.
//!
//! * [`PprofFormat`]: `profile.proto`, usually gzipped. Go's runtime, the crate `jemalloc_pprof`, `go tool pprof -proto` and Highwater itself write it.
//! * [`HeapTextFormat`]: texts with addresses. jemalloc and gperftools write them, and Go with `debug=1`.
//!
//! Both may be compressed with gzip, and are then decompressed into memory, up to a limit.

mod content;
mod messages;
mod proto;
mod sampling;
mod text;
mod text_maps;

use crate::format::{Format, Read};
use content::beginning;

/// A heap profile as `profile.proto`.
pub struct PprofFormat;

impl Format for PprofFormat {
    fn key(&self) -> &'static str {
        "pprof"
    }

    fn title(&self) -> &'static str {
        "pprof profile"
    }

    fn source_title(&self) -> &'static str {
        "a pprof heap profile"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes a snapshot of it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        messages::is_profile(&beginning(start))
    }

    fn read(&self) -> Read {
        Read::Profile(proto::read)
    }
}

/// A heap profile as text.
pub struct HeapTextFormat;

impl Format for HeapTextFormat {
    fn key(&self) -> &'static str {
        "heap-text"
    }

    fn title(&self) -> &'static str {
        "heap profile text"
    }

    fn source_title(&self) -> &'static str {
        "a heap profile as text"
    }

    fn advice(&self) -> &'static str {
        "'highwater import' makes a snapshot of it, to which 'highwater symbolize' adds names"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        text::is_heap_text(&beginning(start))
    }

    fn read(&self) -> Read {
        Read::Profile(text::read)
    }
}
