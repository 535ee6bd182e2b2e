//! One spelling for each type, so that one type is one row: compilers, demanglers and DWARF spell types differently.

use super::text::{DEEPEST, generic, split};

/// A Rust type as a programmer writes it: types of the standard library without their paths, without default allocators and hashers.
///
/// `alloc::vec::Vec<app::Point, alloc::alloc::Global>` becomes `Vec<app::Point>`. Types of other crates keep their paths.
pub fn rust(text: &str) -> String {
    rust_at(text, DEEPEST)
}

fn rust_at(text: &str, depth: usize) -> String {
    let text = text.trim();
    let Some(deeper) = depth.checked_sub(1) else { return text.to_owned() };
    for pointer in ["&mut ", "&", "*mut ", "*const ", "dyn ", "impl "] {
        if let Some(inner) = text.strip_prefix(pointer) {
            return format!("{pointer}{}", rust_at(inner, deeper));
        }
    }
    if let Some((parameters, result)) = text.starts_with("fn(").then(|| text.rsplit_once(" -> ")).flatten() {
        return format!("{parameters} -> {}", rust_at(result, deeper));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        return match split(inner, ";").as_deref() {
            Some([element, length]) => format!("[{}; {}]", rust_at(element, deeper), length.trim()),
            _ => format!("[{}]", rust_at(inner, deeper)),
        };
    }
    if let Some(traits) = split(text, " + ").filter(|traits| traits.len() > 1) {
        return traits.iter().map(|each| rust_at(each, deeper)).collect::<Vec<_>>().join(" + ");
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        if inner.starts_with("dyn ") {
            return rust_at(inner, deeper);
        }
        let parts: Vec<&str> =
            split(inner, ",").unwrap_or_default().into_iter().filter(|part| !part.trim().is_empty()).collect();
        let last = if parts.len() == 1 { "," } else { "" };
        return format!("({}{last})", parts.iter().map(|part| rust_at(part, deeper)).collect::<Vec<_>>().join(", "));
    }
    let Some(segments) = split(text, "::") else { return text.to_owned() };
    let is_standard = matches!(segments.first(), Some(&("alloc" | "core" | "std")));
    let is_named = segments.last().is_some_and(|last| !last.starts_with('{'));
    // Private types of the library have names that say nothing without their modules.
    let is_private =
        segments.last().is_some_and(|last| matches!(last.split('<').next(), Some("Inner" | "Packet" | "State")));
    let length = if is_private { 2 } else { 1 };
    let kept = if is_standard && is_named { &segments[segments.len().saturating_sub(length)..] } else { &segments[..] };
    let name = kept.iter().map(|segment| rust_segment(segment, deeper)).collect::<Vec<_>>().join("::");
    // The parts of a channel have names of many other things.
    if is_standard && segments.contains(&"mpmc") && is_named { format!("mpmc::{name}") } else { name }
}

fn rust_segment(segment: &str, depth: usize) -> String {
    if segment.starts_with('{') {
        return environment(segment);
    }
    let Some((name, arguments)) = generic(segment) else { return segment.to_owned() };
    let is_default = |argument: &&str| {
        matches!(*argument, "alloc::alloc::Global" | "std::alloc::Global")
            || argument.ends_with("::RandomState")
            || argument.starts_with('\'')
    };
    let arguments: Vec<String> =
        arguments.iter().filter(|argument| !is_default(argument)).map(|argument| rust_at(argument, depth)).collect();
    if arguments.is_empty() { name.to_owned() } else { format!("{name}<{}>", arguments.join(", ")) }
}

/// What the compiler makes of closures and asynchronous functions: `{async_fn_env#0}` becomes `{async fn}`, `{closure_env#2}` becomes `{closure#2}`.
fn environment(segment: &str) -> String {
    let inner = segment.trim_start_matches('{').split('}').next().unwrap_or_default();
    let (kind, number) = inner.split_once('#').unwrap_or((inner, ""));
    let kind = kind.strip_suffix("_env").unwrap_or(kind);
    match kind {
        "async_fn" => "{async fn}".to_owned(),
        "async_block" => "{async block}".to_owned(),
        "closure" if matches!(number, "" | "0") => "{closure}".to_owned(),
        _ if number.is_empty() => format!("{{{kind}}}"),
        _ => format!("{{{kind}#{number}}}"),
    }
}

/// A C++ type in one spelling: no space between closing brackets, `const` after the type, numbers as the standard spells them, no default
/// allocators, comparisons and hashers, `std::string` by its name.
pub fn cpp(text: &str) -> String {
    cpp_at(text, DEEPEST)
}

fn cpp_at(text: &str, depth: usize) -> String {
    let text = text.trim();
    let Some(deeper) = depth.checked_sub(1) else { return text.to_owned() };
    for suffix in ["*", "&", " const", " volatile"] {
        if let Some(inner) = text.strip_suffix(suffix).filter(|inner| !inner.is_empty()) {
            let inner = cpp_at(inner, deeper);
            // `const` of what a pointer leads to stays; the order is one.
            return format!("{}{suffix}", inner.trim_end());
        }
    }
    if let Some(inner) = text.strip_prefix("const ") {
        return format!("{} const", cpp_at(inner, deeper));
    }
    if let Some(inner) = text.strip_suffix("[]") {
        return format!("{}[]", cpp_at(inner, deeper));
    }
    if let Some(number) = number(text) {
        return number.to_owned();
    }
    let Some(segments) = split(text, "::") else { return text.to_owned() };
    let segments: Vec<&str> = segments.into_iter().filter(|part| !matches!(*part, "__cxx11" | "__1" | "")).collect();
    let is_standard = segments.first() == Some(&"std");
    let parts: Vec<String> = segments.iter().map(|segment| cpp_segment(segment, is_standard, deeper)).collect();
    let name = parts.join("::");
    let string = |rest: &str| match rest {
        "char>" => Some("std::string"),
        "wchar_t>" => Some("std::wstring"),
        "char8_t>" => Some("std::u8string"),
        "char16_t>" => Some("std::u16string"),
        "char32_t>" => Some("std::u32string"),
        _ => None,
    };
    name.strip_prefix("std::basic_string<").and_then(string).map_or(name.clone(), str::to_owned)
}

fn cpp_segment(segment: &str, is_standard: bool, depth: usize) -> String {
    let segment = segment.split("[abi:").next().unwrap_or(segment);
    let Some((name, arguments)) = generic(segment) else { return segment.to_owned() };
    if arguments.is_empty() {
        return name.to_owned();
    }
    const DEFAULTS: [&str; 6] = ["allocator<", "char_traits<", "less<", "hash<", "equal_to<", "default_delete<"];
    let arguments: Vec<String> = arguments.iter().map(|argument| cpp_at(argument, depth)).collect();
    let is_default = |argument: &String| {
        argument.strip_prefix("std::").is_some_and(|rest| DEFAULTS.iter().any(|default| rest.starts_with(default)))
    };
    // Only the standard library's own templates have defaults that go without saying.
    let kept: Vec<String> = arguments
        .iter()
        .enumerate()
        .filter(|(at, argument)| *at == 0 || !is_standard || !is_default(argument))
        .map(|(_, argument)| argument.clone())
        .collect();
    format!("{name}<{}>", kept.join(", "))
}

fn number(text: &str) -> Option<&'static str> {
    let mut words: Vec<&str> = text.split(' ').collect();
    words.sort_unstable();
    Some(match words.as_slice() {
        ["int", "long", "unsigned"] | ["long", "unsigned"] => "unsigned long",
        ["int", "long", "long", "unsigned"] | ["long", "long", "unsigned"] => "unsigned long long",
        ["int", "long"] | ["int", "long", "signed"] => "long",
        ["int", "long", "long"] => "long long",
        ["int", "short"] => "short",
        ["int", "short", "unsigned"] | ["short", "unsigned"] => "unsigned short",
        ["int", "unsigned"] | ["unsigned"] => "unsigned int",
        ["char", "unsigned"] => "unsigned char",
        ["char", "signed"] => "signed char",
        ["double", "long"] => "long double",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_types_are_spelled_as_in_the_source() {
        let cases = [
            ("alloc::vec::Vec<app::Point, alloc::alloc::Global>", "Vec<app::Point>"),
            ("alloc::vec::Vec<alloc::vec::Vec<u16>>", "Vec<Vec<u16>>"),
            (
                "core::option::Option<alloc::boxed::Box<app::Session, alloc::alloc::Global>>",
                "Option<Box<app::Session>>",
            ),
            ("std::collections::hash::map::HashMap<u64,(),std::hash::random::RandomState>", "HashMap<u64, ()>"),
            ("(u64)", "(u64,)"),
            ("(u64,)", "(u64,)"),
            ("(u64, &[alloc::string::String; 3])", "(u64, &[String; 3])"),
            ("app::session::{async_fn_env#0}", "app::session::{async fn}"),
            ("app::main::{closure_env#2}<u8>", "app::main::{closure#2}"),
            ("dyn core::future::Future<Output = u64>", "dyn Future<Output = u64>"),
            ("fn(u8) -> alloc::string::String", "fn(u8) -> String"),
            (
                "alloc::boxed::Box<(dyn core::ops::function::Fn<(), Output = u8> + core::marker::Send), alloc::alloc::Global>",
                "Box<dyn Fn<(), Output = u8> + Send>",
            ),
            ("alloc::sync::Arc<std::thread::Inner>", "Arc<thread::Inner>"),
            ("app::Own", "app::Own"),
        ];
        for (text, spelled) in cases {
            assert_eq!(rust(text), spelled, "{text}");
            assert_eq!(rust(spelled), spelled);
        }
    }

    #[test]
    fn cpp_types_have_one_spelling() {
        let cases = [
            ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
            (
                "std::vector<std::vector<short int, std::allocator<short int> >, std::allocator<X> >",
                "std::vector<std::vector<short>>",
            ),
            ("long unsigned int", "unsigned long"),
            ("const Key*", "Key const*"),
            ("Key const*", "Key const*"),
            ("Key []", "Key[]"),
            ("std::unique_ptr<Session, std::default_delete<Session> >", "std::unique_ptr<Session>"),
            ("own::Pool<std::allocator<int> >", "own::Pool<std::allocator<int>>"),
            ("own::Pool<int, std::allocator<int> >", "own::Pool<int, std::allocator<int>>"),
            ("std::pair<std::__cxx11::basic_string<char> const, int>", "std::pair<std::string const, int>"),
        ];
        for (text, spelled) in cases {
            assert_eq!(cpp(text), spelled, "{text}");
            assert_eq!(cpp(spelled), spelled);
        }
    }

    #[test]
    fn deep_and_broken_texts_stay() {
        for text in ["a<", "a>", "(", "[", "<<<<", "a<b", "::", "Vec<"] {
            let _ = (rust(text), cpp(text));
        }
        let deep = format!("{}u8{}", "a<".repeat(10_000), ">".repeat(10_000));
        assert_eq!(rust(&deep), deep);
        assert_eq!(cpp(&deep).len(), deep.len());
    }
}
