//! What Motoko has and scripts do not, and what to write instead.

/// A keyword, and the line for it.
const REFUSALS: [(&str, &str); 14] = [
    ("actor", "a script has no actors; write its functions at the top level, or 'object { … }'"),
    ("persistent", "a script has no actors; write its functions at the top level, or 'object { … }'"),
    ("async", "a script runs alone, and needs no 'async'; write the expression without it"),
    ("await", "a script runs alone, and needs no 'await'; write the expression without it"),
    ("shared", "a script has no callers; write 'func' without 'shared'"),
    ("query", "a script has no callers; write 'func' without 'query'"),
    ("composite", "a script has no callers; write 'func' without 'composite'"),
    ("try", "errors of a script end it; return an option or a variant, and 'switch' on it"),
    ("throw", "errors of a script end it; return an option or a variant, or write 'assert' or Debug.trap(text)"),
    ("to_candid", "a script does no Candid; read the image with image.slice(offset, length)"),
    ("from_candid", "a script does no Candid; read fields with image.field(object, name)"),
    ("mixin", "a script has no mixins; write 'object { … }' or a class"),
    ("include", "a script has no mixins; write 'object { … }' or a class"),
    ("prim", "a script has no primitives of the compiler; import a module of mo:base or mo:core"),
];

/// Keywords that cannot begin an expression, and that are no names.
const KEYWORDS: [&str; 34] = [
    "and",
    "assert",
    "break",
    "case",
    "catch",
    "class",
    "continue",
    "debug",
    "debug_show",
    "do",
    "else",
    "false",
    "finally",
    "for",
    "func",
    "if",
    "ignore",
    "import",
    "in",
    "label",
    "let",
    "loop",
    "module",
    "not",
    "null",
    "object",
    "or",
    "private",
    "public",
    "return",
    "stable",
    "switch",
    "true",
    "type",
];
const MORE_KEYWORDS: [&str; 6] = ["var", "while", "with", "flexible", "transient", "system"];

/// What to write instead of what a keyword begins.
pub fn refusal(word: &str) -> Option<&'static str> {
    REFUSALS.into_iter().find(|(keyword, _)| *keyword == word).map(|(_, line)| line)
}

/// True if a word is no name.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || MORE_KEYWORDS.contains(&word) || refusal(word).is_some_and(|_| word != "prim")
}

/// Operators of other languages.
pub fn foreign_sign(sign: &str, next: &str) -> Option<&'static str> {
    match (sign, next) {
        ("&", "&") => Some("write 'and' instead of &&"),
        ("|", "|") => Some("write 'or' instead of ||"),
        ("!", _) => Some("write 'not' instead of !"),
        ("+", "+") => Some("write 'i += 1' instead of i++"),
        ("=", ">") => Some("write 'func (x) = …' instead of (x) => …"),
        ("=", _) => Some("write ':=' to assign, and '==' to compare"),
        _ => None,
    }
}
