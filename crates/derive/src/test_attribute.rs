//! `#[highwater::test]`: a test with limits on its memory.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream as Tokens, TokenTree};
use quote::{quote, quote_spanned};
use syn::Error;

/// What the value of a key is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// The key stands alone.
    None,
    /// A number, or a text with a unit.
    Size,
    /// A number.
    Count,
}

/// A key of the attribute and the limit that it sets.
struct Key {
    name: &'static str,
    value: ValueKind,
    field: &'static str,
}

const KEYS: [Key; 6] = [
    Key { name: "max_peak", value: ValueKind::Size, field: "max_peak" },
    Key { name: "max_bytes", value: ValueKind::Size, field: "max_bytes" },
    Key { name: "max_block", value: ValueKind::Size, field: "max_block" },
    Key { name: "max_allocations", value: ValueKind::Count, field: "max_allocations" },
    Key { name: "no_allocations", value: ValueKind::None, field: "max_allocations" },
    Key { name: "no_leaks", value: ValueKind::None, field: "no_leaks" },
];

/// The test that the attribute makes of a function.
pub fn expand(arguments: Tokens, item: Tokens) -> Result<Tokens, Error> {
    let limits = limits(arguments)?;
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let body = match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
        _ => return Err(Error::new(Span::call_site(), "#[highwater::test] belongs to a function")),
    };
    let result = checked_result(&tokens)?;
    let statements = body.stream();
    let mut block =
        Group::new(Delimiter::Brace, quote!(::highwater::testing::run_test(&#limits, move || #result { #statements })));
    block.set_span(body.span());
    Ok(quote! {
        #[::core::prelude::v1::test]
        #[allow(clippy::needless_update)]
        #(#tokens)*
        #block
    })
}

/// Checks the part of a function before its body, and returns the arrow with the type of its result.
fn checked_result(signature: &[TokenTree]) -> Result<Tokens, Error> {
    let is_word = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident == word);
    let Some(at) = signature.iter().position(|token| is_word(token, "fn")) else {
        return Err(Error::new(Span::call_site(), "#[highwater::test] belongs to a function"));
    };
    if let Some(word) = signature[..at].iter().find(|token| is_word(token, "async")) {
        return Err(Error::new(
            word.span(),
            "an async function has no runtime here: make the test an ordinary function, and run the future in it, \
             on one thread, by the runtime's block_on",
        ));
    }
    if let Some(span) = signature[..at].iter().find_map(other_test_attribute) {
        return Err(Error::new(span, "remove this attribute: #[highwater::test] makes the function a test already"));
    }
    match signature.get(at + 2) {
        Some(TokenTree::Group(parameters)) if parameters.delimiter() == Delimiter::Parenthesis => {
            if !parameters.stream().is_empty() {
                return Err(Error::new(parameters.span(), "a test has no parameters"));
            }
        }
        other => {
            let span = other.map_or_else(Span::call_site, TokenTree::span);
            return Err(Error::new(span, "a test has no type parameters"));
        }
    }
    Ok(signature[at + 3..].iter().cloned().collect())
}

/// The span of `[test]` or `[runtime::test]`, in an attribute.
fn other_test_attribute(token: &TokenTree) -> Option<Span> {
    let TokenTree::Group(group) = token else { return None };
    let path = group.stream().to_string();
    let path = path.split('(').next().unwrap_or_default().trim();
    let is_test = group.delimiter() == Delimiter::Bracket && path.rsplit("::").next().map(str::trim) == Some("test");
    is_test.then(|| group.span())
}

/// The limits that the attribute's arguments set.
fn limits(arguments: Tokens) -> Result<Tokens, Error> {
    let mut tokens = arguments.into_iter().peekable();
    let mut given: Vec<&'static str> = Vec::new();
    let mut fields = Tokens::new();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(name) = token else {
            return Err(Error::new(token.span(), format!("here belongs a limit: {}", names())));
        };
        let key = KEYS.iter().find(|key| name == key.name).ok_or_else(|| unknown(&name))?;
        if given.contains(&key.field) {
            return Err(Error::new(name.span(), format!("{} is given twice", key.field)));
        }
        given.push(key.field);
        let is_assigned = tokens.next_if(|token| is_punct(token, '=')).is_some();
        let value = if is_assigned { tokens.next() } else { None };
        let value = value_of(key, &name, is_assigned, value)?;
        let field = Ident::new(key.field, name.span());
        fields.extend(quote!(#field: #value,));
        match tokens.next() {
            None => {}
            Some(comma) if is_punct(&comma, ',') => {}
            Some(other) => return Err(Error::new(other.span(), "limits are separated by commas")),
        }
    }
    if fields.is_empty() {
        return Err(Error::new(Span::call_site(), format!("name a limit: {}", names())));
    }
    Ok(quote!(::highwater::testing::Limits { #fields ..::core::default::Default::default() }))
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// The value of a limit's field.
fn value_of(key: &Key, name: &Ident, is_assigned: bool, value: Option<TokenTree>) -> Result<Tokens, Error> {
    let wrong = |span: Span, wanted: &str| Err(Error::new(span, format!("{name} is {wanted}")));
    let literal = match (key.value, value) {
        (ValueKind::None, _) if is_assigned => return wrong(name.span(), "written without a value"),
        (ValueKind::None, _) if key.field == "no_leaks" => return Ok(quote!(true)),
        (ValueKind::None, _) => return Ok(quote!(::core::option::Option::Some(0))),
        (_, Some(TokenTree::Literal(literal))) => literal,
        (ValueKind::Size, other) => {
            return wrong(span_of(other, name), "a size: max_peak = \"4 MiB\", or a number of bytes");
        }
        (ValueKind::Count, other) => return wrong(span_of(other, name), "a number: max_allocations = 3"),
    };
    let (text, span) = (literal.to_string(), literal.span());
    if text.starts_with('"') && key.value == ValueKind::Size {
        // Read when the test is compiled, by the code that reads sizes at run time.
        return Ok(quote_spanned!(span=> ::core::option::Option::Some(const {
            ::highwater::testing::size_in_attribute(#literal)
        })));
    }
    let digits: String = text.chars().filter(|digit| *digit != '_').collect();
    match (digits.parse::<u64>(), key.value) {
        (Ok(number), _) => {
            let number = Literal::u64_suffixed(number);
            Ok(quote!(::core::option::Option::Some(#number)))
        }
        (Err(_), ValueKind::Size) => wrong(span, "a size: \"4 MiB\", or a number of bytes"),
        (Err(_), _) => wrong(span, "a number"),
    }
}

fn span_of(token: Option<TokenTree>, name: &Ident) -> Span {
    token.map_or_else(|| name.span(), |token| token.span())
}

fn names() -> String {
    KEYS.each_ref().map(|key| key.name).join(", ")
}

/// The error of an unknown key, with the one that was probably meant.
fn unknown(name: &Ident) -> Error {
    let text = name.to_string();
    let nearest = KEYS.iter().map(|key| (distance(&text, key.name), key.name)).min();
    // A third of the letters, as budget files have it.
    let meant = nearest.filter(|(distance, _)| *distance <= text.len().max(3) / 3);
    let hint = match meant {
        Some((_, meant)) => format!("did you mean {meant}?"),
        None => format!("there are {}", names()),
    };
    Error::new(name.span(), format!("unknown limit {text}: {hint}"))
}

/// How many characters one has to insert, remove or replace.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, right) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(arguments: &str, item: &str) -> String {
        let expanded = expand(arguments.parse().unwrap(), item.parse().unwrap());
        expanded.map(|tokens| tokens.to_string()).unwrap_err().to_string()
    }

    fn error_of_limits(arguments: &str) -> String {
        error(arguments, "fn t() {}")
    }

    #[test]
    fn a_test_with_limits_keeps_its_attributes_and_its_result() {
        let item = "#[should_panic] #[ignore = \"slow\"] fn t() -> Result<(), Error> { work(); Ok(()) }";
        let arguments = "max_peak = \"4 MiB\", no_leaks, max_allocations = 1_000,";
        let expanded = expand(arguments.parse().unwrap(), item.parse().unwrap()).unwrap();
        let expected = quote! {
            #[::core::prelude::v1::test]
            #[allow(clippy::needless_update)]
            #[should_panic]
            #[ignore = "slow"]
            fn t() -> Result<(), Error> {
                ::highwater::testing::run_test(
                    &::highwater::testing::Limits {
                        max_peak: ::core::option::Option::Some(const {
                            ::highwater::testing::size_in_attribute("4 MiB")
                        }),
                        no_leaks: true,
                        max_allocations: ::core::option::Option::Some(1000u64),
                        ..::core::default::Default::default()
                    },
                    move || -> Result<(), Error> { work(); Ok(()) }
                )
            }
        };
        assert_eq!(expanded.to_string(), expected.to_string());
    }

    #[test]
    fn unknown_limits_are_refused_with_the_one_that_was_meant() {
        assert_eq!(error_of_limits("max_peek = \"1 MiB\""), "unknown limit max_peek: did you mean max_peak?");
        assert_eq!(error_of_limits("noleaks"), "unknown limit noleaks: did you mean no_leaks?");
        assert_eq!(
            error_of_limits("max_allocation = 1"),
            "unknown limit max_allocation: did you mean max_allocations?"
        );
        let all = "max_peak, max_bytes, max_block, max_allocations, no_allocations, no_leaks";
        assert_eq!(error_of_limits("timeout = 5"), format!("unknown limit timeout: there are {all}"));
        assert_eq!(error_of_limits(""), format!("name a limit: {all}"));
        assert_eq!(error_of_limits("5"), format!("here belongs a limit: {all}"));
    }

    #[test]
    fn wrong_values_are_refused() {
        let size = "max_peak is a size: max_peak = \"4 MiB\", or a number of bytes";
        for wrong in ["max_peak", "max_peak =", "max_peak = large", "max_peak = -1"] {
            assert_eq!(error_of_limits(wrong), size, "{wrong}");
        }
        assert_eq!(error_of_limits("max_peak = 1.5"), "max_peak is a size: \"4 MiB\", or a number of bytes");
        assert_eq!(error_of_limits("max_allocations = \"3\""), "max_allocations is a number");
        assert_eq!(error_of_limits("max_allocations"), "max_allocations is a number: max_allocations = 3");
        assert_eq!(error_of_limits("no_leaks = true"), "no_leaks is written without a value");
        assert_eq!(error_of_limits("no_leaks no_allocations"), "limits are separated by commas");
        assert_eq!(error_of_limits("no_leaks, no_leaks"), "no_leaks is given twice");
        assert_eq!(error_of_limits("no_allocations, max_allocations = 3"), "max_allocations is given twice");
    }

    #[test]
    fn only_plain_functions_are_tests() {
        assert!(error("no_leaks", "async fn t() {}").starts_with("an async function has no runtime here"));
        assert_eq!(error("no_leaks", "fn t(n: u32) {}"), "a test has no parameters");
        assert_eq!(error("no_leaks", "fn t<T>() {}"), "a test has no type parameters");
        assert_eq!(error("no_leaks", "struct T {}"), "#[highwater::test] belongs to a function");
        assert_eq!(error("no_leaks", "mod t;"), "#[highwater::test] belongs to a function");
        let twice = "remove this attribute: #[highwater::test] makes the function a test already";
        assert_eq!(error("no_leaks", "#[test] fn t() {}"), twice);
        assert_eq!(error("no_leaks", "#[tokio::test(flavor = \"x\")] fn t() {}"), twice);
    }
}
