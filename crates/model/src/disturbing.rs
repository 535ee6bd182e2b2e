//! Characters that names may contain but that must not appear in displayed text.

/// True for characters that disturb or forge the text around them: control characters, line and paragraph separators, characters that change the
/// direction of writing (U+202E makes `cod.exe` of `exe.doc`), and invisible characters. The web page has the same list (`web/src/names.ts`).
///
/// ```
/// use highwater_model::disturbs_text;
///
/// assert!(['\u{1b}', '\u{85}', '\u{202e}', '\u{2028}', '\u{200b}'].into_iter().all(disturbs_text));
/// assert!(!['a', 'é', '漢', '→', '\u{301}'].into_iter().any(disturbs_text));
/// ```
pub fn disturbs_text(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
