//! The console of a WASM module's host.

use crate::event::ObjectEvent;
use crate::line::ObjectLine;
use crate::sink::Sink;

/// Sends lines to the host, which shows them on its console.
pub(crate) struct ConsoleSink;

#[allow(unsafe_code, reason = "an import is not safe to call by itself")]
mod import {
    #[link(wasm_import_module = "highwater")]
    unsafe extern "C" {
        /// Shows a line of UTF-8, without its end, on the console.
        fn console(text: *const u8, length: usize);
    }

    pub fn show(line: &str) {
        // SAFETY: the host reads `length` bytes at `text`, which stay borrowed until it returns, and writes nothing.
        unsafe { console(line.as_ptr(), line.len()) }
    }
}

impl Sink for ConsoleSink {
    fn record(&self, event: &ObjectEvent<'_>) {
        let lines = ObjectLine::of(event);
        let text = std::str::from_utf8(lines.bytes()).unwrap_or_default();
        text.lines().for_each(import::show);
    }
}
