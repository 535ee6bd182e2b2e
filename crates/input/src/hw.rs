//! Highwater's own recordings and snapshots.

use crate::format::{Format, Read};
use highwater_store::is_recording;

/// `.hw`: docs/format.md.
pub struct HwFormat;

impl Format for HwFormat {
    fn key(&self) -> &'static str {
        "hw"
    }

    fn title(&self) -> &'static str {
        "Highwater recording"
    }

    fn advice(&self) -> &'static str {
        "every command reads it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        is_recording(start)
    }

    fn read(&self) -> Read {
        Read::Recording
    }
}
