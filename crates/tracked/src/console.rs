//! The console of a WASM module's host.
//!
//! Two ways lead there. Without a feature, the module imports `highwater.console(pointer, length)`, which its host provides. That works with any host, but
//! not with wasm-bindgen: its glue takes an import that it does not know for a JavaScript module of that name. With the feature `wasm-bindgen`, the glue
//! itself calls `console.log`; it also copies text out of shared memory, which a `TextDecoder` refuses to read.
//!
//! Each line is one call, so lines of several threads stay whole.

use crate::event::ObjectEvent;
use crate::line::ObjectLine;
use crate::sink::Sink;

/// Sends lines to the host, which shows them on its console.
pub(crate) struct ConsoleSink;

#[cfg(not(all(feature = "wasm-bindgen", target_os = "unknown")))]
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

#[cfg(all(feature = "wasm-bindgen", target_os = "unknown"))]
#[allow(unsafe_code, reason = "the macro expands to unsafe code")]
mod import {
    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = console, js_name = log)]
        pub fn show(line: &str);
    }
}

impl Sink for ConsoleSink {
    fn record(&self, event: &ObjectEvent<'_>) {
        let lines = ObjectLine::of(event);
        let text = std::str::from_utf8(lines.bytes()).unwrap_or_default();
        text.lines().for_each(import::show);
    }
}
