//! `Text`

use super::arguments::{character, drained, items, mapped, text, truth};
use super::number::{compared, differed, equalled, greater, hashed, lesser};
use super::{native, ranged};
use crate::compare::order_of;
use crate::machine::Machine;
use crate::value::{Evaluated, Module, Native, Value, refuse};

/// `Text`
pub static TEXT: Module = Module { name: "Text", functions: &FUNCTIONS };

static FUNCTIONS: [Native; 46] = [
    native("size", 1, |_, a| Ok(Value::nat(text(&a[0])?.chars().count() as u64))),
    native("isEmpty", 1, |_, a| Ok(Value::Bool(text(&a[0])?.is_empty()))),
    native("chars", 1, characters),
    native("toIter", 1, characters),
    native("vals", 1, characters),
    native("toArray", 1, |_, a| Ok(Value::array(text(&a[0])?.chars().map(Value::Char).collect()))),
    native("toVarArray", 1, |_, a| Ok(Value::mutable_array(text(&a[0])?.chars().map(Value::Char).collect()))),
    native("fromIter", 1, |machine, a| from_characters(&drained(machine, &a[0])?)),
    native("fromArray", 1, |_, a| from_characters(&items(&a[0])?)),
    native("fromVarArray", 1, |_, a| from_characters(&items(&a[0])?)),
    native("fromChar", 1, |_, a| Ok(Value::text(character(&a[0])?.to_string()))),
    native("toText", 1, |_, a| Ok(a[0].clone())),
    native("concat", 2, |_, a| Ok(Value::text(format!("{}{}", text(&a[0])?, text(&a[1])?)))),
    native("join", 2, join),
    native("split", 2, |machine, a| Ok(Value::iterator(pieces(machine, a)?.into_iter().map(Value::text)))),
    native("tokens", 2, |machine, a| {
        let pieces = pieces(machine, a)?.into_iter().filter(|piece| !piece.is_empty());
        Ok(Value::iterator(pieces.map(Value::text)))
    }),
    native("contains", 2, |machine, a| Ok(Value::Bool(!Found::all(machine, a)?.is_empty()))),
    native("startsWith", 2, |machine, a| {
        Ok(Value::Bool(Found::all(machine, a)?.first().is_some_and(|found| found.from == 0)))
    }),
    native("endsWith", 2, |machine, a| Ok(Value::Bool(stripped_end(machine, a)?.is_some()))),
    native("stripStart", 2, |machine, a| Ok(Value::option(stripped_start(machine, a)?.map(Value::text)))),
    native("stripEnd", 2, |machine, a| Ok(Value::option(stripped_end(machine, a)?.map(Value::text)))),
    native("trim", 2, |machine, a| trimmed(machine, a, true, true)),
    native("trimStart", 2, |machine, a| trimmed(machine, a, true, false)),
    native("trimEnd", 2, |machine, a| trimmed(machine, a, false, true)),
    native("replace", 3, replace),
    native("toUpper", 1, |_, a| Ok(Value::text(text(&a[0])?.to_uppercase()))),
    native("toUppercase", 1, |_, a| Ok(Value::text(text(&a[0])?.to_uppercase()))),
    native("toLower", 1, |_, a| Ok(Value::text(text(&a[0])?.to_lowercase()))),
    native("toLowercase", 1, |_, a| Ok(Value::text(text(&a[0])?.to_lowercase()))),
    native("reverse", 1, |_, a| Ok(Value::text(text(&a[0])?.chars().rev().collect::<String>()))),
    native("map", 2, |machine, a| {
        let characters = text(&a[0])?.chars().map(Value::Char).collect();
        from_characters(&mapped(machine, characters, &a[1])?)
    }),
    native("translate", 2, flat_map),
    native("flatMap", 2, flat_map),
    native("foldLeft", 3, |machine, a| {
        let characters = text(&a[0])?.chars().map(Value::Char).collect();
        super::arguments::folded(machine, characters, a[1].clone(), &a[2])
    }),
    native("encodeUtf8", 1, |_, a| Ok(Value::Blob(text(&a[0])?.as_bytes().into()))),
    native("decodeUtf8", 1, |_, a| {
        let bytes = super::arguments::bytes(&a[0])?;
        Ok(Value::option(std::str::from_utf8(bytes).ok().map(Value::text)))
    }),
    native("equal", 2, equalled),
    native("notEqual", 2, differed),
    native("less", 2, lesser),
    native("greater", 2, greater),
    native("lessOrEqual", 2, |_, a| Ok(Value::Bool(text(&a[0])? <= text(&a[1])?))),
    native("greaterOrEqual", 2, |_, a| Ok(Value::Bool(text(&a[0])? >= text(&a[1])?))),
    native("compare", 2, compared),
    native("compareWith", 3, compare_with),
    native("hash", 1, hashed),
    ranged("empty", (0, 0), |_, _| Ok(Value::text(""))),
];

fn characters(_: &mut Machine, a: &[Value]) -> Evaluated {
    let content = text(&a[0])?.clone();
    let mut next = 0;
    Ok(Value::iterator(std::iter::from_fn(move || {
        let character = content[next..].chars().next()?;
        next += character.len_utf8();
        Some(Value::Char(character))
    })))
}

fn from_characters(items: &[Value]) -> Evaluated {
    Ok(Value::text(items.iter().map(character).collect::<Evaluated<String>>()?))
}

/// mo:base takes the separator first, mo:core the iterator.
fn join(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let (separator, parts) = if matches!(a[0], Value::Text(_)) { (&a[0], &a[1]) } else { (&a[1], &a[0]) };
    let separator = text(separator)?.clone();
    let parts = drained(machine, parts)?;
    let parts = parts.iter().map(|part| text(part).map(|part| &**part)).collect::<Evaluated<Vec<_>>>()?;
    Ok(Value::text(parts.join(&separator)))
}

/// Where a pattern matches.
struct Found {
    from: usize,
    to: usize,
}

impl Found {
    /// All matches of a pattern (`#char c`, `#text t`, `#predicate f`) in a text.
    fn all(machine: &mut Machine, a: &[Value]) -> Evaluated<Vec<Self>> {
        let content = text(&a[0])?;
        let Value::Variant(name, wanted) = &a[1] else {
            return refuse("a pattern is #char 'c', #text \"t\" or #predicate f");
        };
        let mut found = Vec::new();
        match &*name.name() {
            "char" => {
                let wanted = character(wanted)?;
                let places = content.match_indices(wanted);
                found.extend(places.map(|(from, part)| Self { from, to: from + part.len() }));
            }
            "text" => {
                let places = content.match_indices(&**text(wanted)?);
                found.extend(places.map(|(from, part)| Self { from, to: from + part.len() }));
            }
            "predicate" => {
                for (from, character) in content.char_indices() {
                    if truth(&machine.call(wanted, &[Value::Char(character)])?)? {
                        found.push(Self { from, to: from + character.len_utf8() });
                    }
                }
            }
            _ => return refuse("a pattern is #char 'c', #text \"t\" or #predicate f"),
        }
        Ok(found)
    }
}

fn pieces(machine: &mut Machine, a: &[Value]) -> Evaluated<Vec<String>> {
    let found = Found::all(machine, a)?;
    let content = text(&a[0])?;
    let mut pieces = Vec::new();
    let mut after = 0;
    for Found { from, to } in found {
        pieces.push(content[after..from].to_owned());
        after = to;
    }
    pieces.push(content[after..].to_owned());
    Ok(pieces)
}

fn stripped_start(machine: &mut Machine, a: &[Value]) -> Evaluated<Option<String>> {
    let first = Found::all(machine, a)?.into_iter().next().filter(|found| found.from == 0);
    let content = text(&a[0])?;
    Ok(first.map(|found| content[found.to..].to_owned()))
}

fn stripped_end(machine: &mut Machine, a: &[Value]) -> Evaluated<Option<String>> {
    let content = text(&a[0])?.clone();
    if let Value::Variant(_, wanted) = &a[1]
        && let Value::Text(wanted) = &**wanted
    {
        return Ok(content.strip_suffix(&**wanted).map(Into::into));
    }
    let last = Found::all(machine, a)?.into_iter().next_back().filter(|found| found.to == content.len());
    Ok(last.map(|found| content[..found.from].to_owned()))
}

fn trimmed(machine: &mut Machine, a: &[Value], start: bool, end: bool) -> Evaluated {
    let mut content = a[0].clone();
    let stripped = |machine: &mut Machine, content: &Value, at_start: bool| {
        let arguments = [content.clone(), a[1].clone()];
        let stripped = if at_start { stripped_start(machine, &arguments) } else { stripped_end(machine, &arguments) };
        // An empty pattern matches for ever.
        stripped.map(|rest| rest.filter(|rest| matches!(content, Value::Text(text) if text.len() > rest.len())))
    };
    while let Some(rest) = if start { stripped(machine, &content, true)? } else { None } {
        content = Value::text(rest);
    }
    while let Some(rest) = if end { stripped(machine, &content, false)? } else { None } {
        content = Value::text(rest);
    }
    Ok(content)
}

fn replace(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let by = text(&a[2])?.clone();
    Ok(Value::text(pieces(machine, a)?.join(&by)))
}

fn flat_map(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let characters = text(&a[0])?.chars().map(Value::Char).collect();
    let parts = mapped(machine, characters, &a[1])?;
    Ok(Value::text(parts.iter().map(|part| text(part).map(|part| part.to_string())).collect::<Evaluated<String>>()?))
}

fn compare_with(machine: &mut Machine, a: &[Value]) -> Evaluated {
    let (mut one, mut two) = (text(&a[0])?.chars(), text(&a[1])?.chars());
    loop {
        let order = match (one.next(), two.next()) {
            (Some(one), Some(two)) => machine.call(&a[2], &[Value::Char(one), Value::Char(two)])?,
            (one, two) => return Ok(crate::compare::order_value(one.is_some().cmp(&two.is_some()))),
        };
        if order_of(&order)?.is_ne() {
            return Ok(order);
        }
    }
}
