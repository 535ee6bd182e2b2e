//! Saved pages: the page in one file, with the answers for the choice.
//!
//! A saved page works without the server and sends no requests. Everything from a recording is inside one JSON text whose `<` are escaped, so nothing in it can
//! end that text or begin another element; its policy lets only the page's own script run, by its hash.

mod answers;
mod hash;
mod instants;
mod source_files;
mod stacks;
mod texts;

use crate::api::Api;
use crate::page;
use hash::sha256_base64;
use highwater_query::QueryError;
use highwater_store::history::Work;
use serde_json::Value;

/// The parts of the page that are replaced with inlined content.
const STYLE: &str = r#"<link rel="stylesheet" href="assets/app.css">"#;
const DATA: &str = "<!-- highwater-data -->";
const SCRIPT: &str = r#"<script src="assets/app.js"></script>"#;
const FIRST_META: &str = r#"<meta charset="utf-8">"#;

/// The choice, as the fragment of the page's address has it, without the `#`.
pub struct SavedChoice<'a> {
    /// `source=0&from=…&filter=…`.
    pub choice: &'a str,
    /// The source that is saved; all sources if `None`.
    pub source: Option<usize>,
    /// The page also holds the source files of the largest sites.
    pub with_source: bool,
}

/// A page in one file.
pub struct SavedPage {
    /// The file.
    pub html: String,
    /// The source files that it holds, as the recordings name them.
    pub source_files: Vec<String>,
}

/// The whole page, with its answers.
pub fn page(api: &Api, wanted: &SavedChoice<'_>, work: &Work<'_>) -> Result<SavedPage, QueryError> {
    let text = |name: &str| -> Result<&'static str, QueryError> {
        let file = page::file(name).map(|(_, bytes)| bytes);
        file.and_then(|bytes| std::str::from_utf8(bytes).ok())
            .ok_or_else(|| QueryError::Failed(format!("this program was built without the page's {name}")))
    };
    let (frame, style, script) = (text("/")?, text("/assets/app.css")?, text("/assets/app.js")?);
    if style.contains("</style") || script.contains("</script") {
        return Err(QueryError::failed("the page's own files cannot be put into one"));
    }
    let data = answers::all(api, wanted, work)?;
    let source_files = data["texts"].as_object().into_iter().flat_map(|texts| texts.keys().cloned()).collect();
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; style-src-attr 'unsafe-inline'; \
         img-src data: blob:; base-uri 'none'; form-action 'none'",
        sha256_base64(script.as_bytes()),
        sha256_base64(style.as_bytes()),
    );
    let mut whole = frame.to_owned();
    for (place, content) in [
        (SCRIPT, format!("<script>{script}</script>")),
        (DATA, format!(r#"<script type="application/json" id="highwater-data">{}</script>"#, in_html(&data))),
        (STYLE, format!("<style>{style}</style>")),
        (FIRST_META, format!("{FIRST_META}\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")),
    ] {
        // Content that was inserted earlier may contain the text of a marker. So only the original frame is searched, from its end on.
        let at = frame.rfind(place).ok_or_else(|| QueryError::Failed(format!("the page has no {place}")))?;
        whole.replace_range(at..at + place.len(), &content);
    }
    Ok(SavedPage { html: whole, source_files })
}

/// JSON that an HTML parser cannot take for anything else.
pub fn in_html(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// The name of a file that is made of a source, without its extension.
pub fn file_stem(api: &Api, source: usize) -> String {
    let path = api.sources.get(source).ok().and_then(|source| source.path.clone());
    let stem = path.as_ref().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
    let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    stem.unwrap_or_else(|| "highwater".to_owned()).chars().take(100).map(harmless).collect()
}
