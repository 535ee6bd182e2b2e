//! Values in the syntax of Motoko.

use motoko::shared::FastClone;
use motoko::value::{Text, Value, Value_};
use motoko::vm_types::{ActiveBorrow, Core};

/// The deepest nesting that is shown.
const DEEPEST: usize = 50;

/// A value as text.
pub fn show(core: &Core, value: &Value_) -> String {
    let mut text = String::new();
    push(core, value, 0, &mut text);
    text
}

/// The content of a text.
pub fn text_of(text: &Text) -> String {
    match text {
        Text::String(text) => (**text).clone(),
        Text::Concat(parts) => parts.iter().map(String::as_str).collect(),
    }
}

fn push(core: &Core, value: &Value_, depth: usize, text: &mut String) {
    if depth > DEEPEST {
        text.push('…');
        return;
    }
    match &**value {
        Value::Null => text.push_str("null"),
        Value::Unit => text.push_str("()"),
        Value::Bool(truth) => *text += &truth.to_string(),
        Value::Nat(number) => *text += &number.to_string(),
        Value::Int(number) => *text += &number.to_string(),
        Value::Float(number) => *text += &format!("{:?}", number.0),
        Value::Char(character) => *text += &format!("{character:?}"),
        Value::Text(content) => *text += &format!("{:?}", text_of(content)),
        Value::Blob(bytes) => {
            text.push('"');
            for byte in bytes {
                match byte {
                    b'"' | b'\\' => *text += &format!("\\{}", char::from(*byte)),
                    b' '..=b'~' => text.push(char::from(*byte)),
                    _ => *text += &format!("\\{byte:02X}"),
                }
            }
            text.push('"');
        }
        Value::Array(_, items) => listed(core, items.iter(), ("[", "]"), depth, text),
        Value::Tuple(items) => listed(core, items.iter(), ("(", ")"), depth, text),
        Value::Object(fields) => {
            let mut named: Vec<_> = fields.iter().map(|(id, field)| (id.string.as_str(), &field.val)).collect();
            named.sort_by_key(|(name, _)| *name);
            text.push_str("{ ");
            for (index, (name, value)) in named.into_iter().enumerate() {
                *text += &format!("{}{name} = ", if index > 0 { "; " } else { "" });
                push(core, value, depth + 1, text);
            }
            text.push_str(" }");
        }
        Value::Option(inner) => {
            text.push('?');
            push(core, inner, depth + 1, text);
        }
        Value::Variant(label, content) => {
            *text += &format!("#{}", label.string.as_str());
            if let Some(content) = content {
                listed(core, [content].into_iter(), ("(", ")"), depth, text);
            }
        }
        Value::Pointer(pointer) => match ActiveBorrow::deref(core, pointer) {
            Ok(inner) => push(core, &inner.fast_clone(), depth + 1, text),
            Err(_) => text.push_str("<gone>"),
        },
        Value::Dynamic(ours) => *text += &format!("{:?}", ours.dynamic()),
        Value::Function(_) | Value::PrimFunction(_) => text.push_str("<function>"),
        _ => text.push_str("<value>"),
    }
}

fn listed<'a>(
    core: &Core,
    items: impl Iterator<Item = &'a Value_>,
    (open, close): (&str, &str),
    depth: usize,
    text: &mut String,
) {
    text.push_str(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        push(core, item, depth + 1, text);
    }
    text.push_str(close);
}
