//! Implementations, closures and asynchronous functions of Rust, and lambdas of C++.

use super::brackets::{Brackets, is_name_char};

/// The text with implementations named after their type, and with readable closures.
pub(super) fn readable(text: &str) -> String {
    let text = with_readable_braces(text);
    let text = without_leading_implementation(&text);
    without_turbofish(&without_inner_implementation(&text))
}

/// Closures, lambdas and asynchronous blocks by what they are, without what the compiler adds to tell them apart: the first needs no number.
fn with_readable_braces(text: &str) -> String {
    let Some(brackets) = Brackets::of(text) else { return text.to_owned() };
    let (mut done, mut at) = (String::with_capacity(text.len()), 0);
    while at < text.len() {
        let open = text[at..].find('{').map(|open| at + open);
        let Some((open, end)) = open.and_then(|open| Some((open, brackets.end(open)?))) else { break };
        done.push_str(&text[at..open]);
        let inner = &text[open + 1..end];
        at = end + 1;
        match brace_form(inner) {
            BraceForm::Shown(shown) => done.push_str(&shown),
            BraceForm::LeftOut if done.ends_with("::") => done.truncate(done.len() - 2),
            BraceForm::LeftOut if done.is_empty() && text[at..].starts_with("::") => at += 2,
            BraceForm::LeftOut => {}
        }
        // What a lambda does is its call operator.
        let rest = &text[at..];
        if inner.starts_with("lambda") && rest.starts_with("::operator()") {
            at += "::operator()".len();
        }
    }
    done.push_str(&text[at..]);
    done
}

enum BraceForm {
    Shown(String),
    LeftOut,
}

/// `closure#0`, `{closure}`, `closure_env#0`, `async_fn_env#0`, `impl#3`, `lambda(int)#1`, `shim:vtable#0`.
fn brace_form(inner: &str) -> BraceForm {
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let (what, number) = match inner.rsplit_once('#') {
        Some((what, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => (what, number),
        _ => (inner, ""),
    };
    let numbered = |word: &str, first: &str| {
        let is_first = number.is_empty() || number == first;
        BraceForm::Shown(if is_first { format!("{{{word}}}") } else { format!("{{{word}#{number}}}") })
    };
    match what {
        "closure" | "closure_env" => numbered("closure", "0"),
        "async_fn" | "async_fn_env" | "async_block" | "async_block_env" | "coroutine" | "coroutine_env" => {
            numbered("async", "0")
        }
        "impl" | "vtable.shim" => BraceForm::LeftOut,
        what if what.starts_with("shim:vtable") || what == "shim" => BraceForm::LeftOut,
        what if what.starts_with("lambda(") => numbered("lambda", ""),
        _ => BraceForm::Shown(format!("{{{inner}}}")),
    }
}

/// `<app::Parser as core::clone::Clone>::clone` is `app::Parser::clone`. A blanket implementation, `<T as Into<U>>::into`, has only its trait's name.
fn without_leading_implementation(text: &str) -> String {
    let Some(brackets) = Brackets::of(text) else { return text.to_owned() };
    let Some(end) = brackets.end(0).filter(|_| text.starts_with('<')) else { return text.to_owned() };
    let rest = &text[end + 1..];
    let inner = &text[1..end];
    if !rest.starts_with("::") || inner.is_empty() {
        return text.to_owned();
    }
    if let Some(of) = inner.strip_prefix("impl ") {
        return format!("{}{rest}", implementing(of));
    }
    let (own, of_trait) = split_outside(inner, " as ").unwrap_or((inner, ""));
    format!("{}{rest}", if is_parameter(own) && !of_trait.is_empty() { of_trait } else { own })
}

/// `app::<impl app::Show for app::Item>::show` is `app::Item::show`.
fn without_inner_implementation(text: &str) -> String {
    const MARK: &str = "::<impl ";
    let Some(brackets) = Brackets::of(text) else { return text.to_owned() };
    let found = text.match_indices(MARK).find(|(at, _)| brackets.depth(*at) == 0);
    let Some((open, end)) = found.and_then(|(at, _)| Some((at + 2, brackets.end(at + 2)?))) else {
        return text.to_owned();
    };
    format!("{}{}", implementing(&text[open + "<impl ".len()..end]), &text[end + 1..])
}

/// The type that is meant by `Trait for Type` or `Type`.
fn implementing(of: &str) -> &str {
    match split_outside(of, " for ") {
        Some((of_trait, own)) if is_parameter(own) => of_trait,
        Some((_, own)) => own,
        None => of,
    }
}

/// Splits at a word that is in no brackets.
fn split_outside<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let brackets = Brackets::of(text)?;
    let (at, _) = text.match_indices(word).find(|(at, _)| brackets.depth(*at) == 0)?;
    Some((&text[..at], &text[at + word.len()..]))
}

/// Whether a type is only a parameter: one letter.
fn is_parameter(own: &str) -> bool {
    let name = own.trim_start_matches(['&', '*', '(']).trim_start_matches("mut ").trim_start_matches("const ");
    name.len() == 1 && name.chars().all(|c| c.is_ascii_uppercase()) || name == "Self"
}

/// `parse::<u32>` is `parse<u32>`.
fn without_turbofish(text: &str) -> String {
    let (mut done, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("::<") {
        done.push_str(&rest[..at]);
        let is_turbofish = rest[..at].ends_with(is_name_char) && !rest[at + 3..].starts_with("impl ");
        done.push_str(if is_turbofish { "<" } else { "::<" });
        rest = &rest[at + 3..];
    }
    done.push_str(rest);
    done
}
