//! Values as text: results, and what `debug_show` gives.
//!
//! Both are in the syntax of Motoko. `debug_show` groups digits and leaves texts as they are, as the compiler's does; a result has plain digits and escapes,
//! so that other programs can read it. Printable bytes of Blobs are characters in both, because images are full of them.

use crate::value::{Object, Value};

/// The deepest nesting that is shown.
const DEEPEST: usize = 50;
/// The most items of one array or map that are shown.
const SHOWN: usize = 1000;

/// How digits and texts are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As the result of a script.
    Result,
    /// As `debug_show`.
    DebugShow,
}

/// A value as text.
pub fn show(value: &Value, style: Style) -> String {
    let mut shown = Shown { text: String::new(), style };
    shown.push(value, 0);
    shown.text
}

struct Shown {
    text: String,
    style: Style,
}

impl Shown {
    fn push(&mut self, value: &Value, depth: usize) {
        let text = &mut self.text;
        if depth > DEEPEST {
            text.push('…');
            return;
        }
        match value {
            Value::Null => text.push_str("null"),
            Value::Unit => text.push_str("()"),
            Value::Bool(truth) => *text += &truth.to_string(),
            Value::Number(number) => {
                if number.kind.is_signed() && !number.is_negative() && number.to_u64() != Some(0) {
                    text.push('+');
                }
                let digits = number.to_string();
                *text += &if self.style == Style::DebugShow { grouped(&digits) } else { digits };
            }
            Value::Float(number) => *text += &float(*number),
            Value::Char(character) if self.style == Style::DebugShow => *text += &format!("'{character}'"),
            Value::Char(character) => *text += &format!("{character:?}"),
            Value::Text(content) if self.style == Style::DebugShow => *text += &format!("\"{content}\""),
            Value::Text(content) => quote(content, text),
            Value::Blob(bytes) => blob(bytes, text),
            Value::Option(inner) => {
                text.push('?');
                self.in_parentheses(inner, depth);
            }
            Value::Variant(name, inner) => {
                *text += &format!("#{name}");
                match &**inner {
                    Value::Unit => {}
                    Value::Tuple(_) => self.push(inner, depth + 1),
                    _ => self.listed(std::iter::once(&**inner), 1, ("(", ")"), depth),
                }
            }
            Value::Tuple(items) => self.listed(items.iter(), items.len(), ("(", ")"), depth),
            Value::Array(array) => {
                let items = array.items.borrow();
                let open = if array.mutable && items.is_empty() {
                    "[var"
                } else if array.mutable {
                    "[var "
                } else {
                    "["
                };
                self.listed(items.iter(), items.len(), (open, "]"), depth);
            }
            Value::Numbers(numbers) => {
                let shown: Vec<Value> = numbers.iter().take(SHOWN + 1).map(|number| Value::nat(*number)).collect();
                self.listed(shown.iter(), numbers.len(), ("[", "]"), depth);
            }
            Value::Object(object) => self.record(object, depth),
            Value::Host(host) => match host.items() {
                Some(items) => self.listed(items.iter(), items.len(), ("[", "]"), depth),
                None => *text += &format!("<{}>", host.type_name()),
            },
            other => *text += &format!("<{}>", other.type_name().trim_start_matches("an ").trim_start_matches("a ")),
        }
    }

    /// The content of an option: with parentheses, where `debug_show` writes them.
    fn in_parentheses(&mut self, value: &Value, depth: usize) {
        let has_sign = matches!(value, Value::Number(number) if number.kind.is_signed());
        let is_negative = matches!(value, Value::Float(number) if *number < 0.0);
        if has_sign || is_negative || matches!(value, Value::Option(_) | Value::Variant(..)) {
            self.listed(std::iter::once(value), 1, ("(", ")"), depth);
        } else {
            self.push(value, depth + 1);
        }
    }

    fn record(&mut self, object: &Object, depth: usize) {
        self.text.push('{');
        for (index, (name, field)) in object.fields.iter().enumerate() {
            self.text += &format!("{}{name} = ", if index > 0 { "; " } else { "" });
            match &*field.value.borrow() {
                Some(value) => self.push(value, depth + 1),
                None => self.text.push('…'),
            }
        }
        self.text.push('}');
    }

    fn listed<'a>(
        &mut self,
        items: impl Iterator<Item = &'a Value>,
        count: usize,
        (open, close): (&str, &str),
        depth: usize,
    ) {
        self.text.push_str(open);
        for (index, item) in items.take(SHOWN).enumerate() {
            if index > 0 {
                self.text.push_str(", ");
            }
            self.push(item, depth + 1);
        }
        if count > SHOWN {
            self.text += &format!(", … {} more", count - SHOWN);
        }
        self.text.push_str(close);
    }
}

/// `1_000_000`
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

fn float(number: f64) -> String {
    if number.abs() >= 1e17 || (number != 0.0 && number.abs() < 1e-5) {
        format!("{number:e}")
    } else {
        number.to_string()
    }
}

fn quote(content: &str, text: &mut String) {
    text.push('"');
    for character in content.chars() {
        match character {
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            '"' | '\\' => text.extend(['\\', character]),
            _ if character.is_control() => *text += &format!("\\u{{{:x}}}", u32::from(character)),
            _ => text.push(character),
        }
    }
    text.push('"');
}

fn blob(bytes: &[u8], text: &mut String) {
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
