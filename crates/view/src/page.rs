//! The page: its files are part of the binary.

use highwater_packed::Packed;

// `FILES`: the files of the built page, by their path in it.
include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// A file of the page, with its media type.
pub fn file(path: &str) -> Option<(&'static str, &'static [u8])> {
    let path = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    let (name, file) = FILES.iter().find(|(name, _)| *name == path)?;
    Some((kind(name), file.content()))
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "woff2" => "font/woff2",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
