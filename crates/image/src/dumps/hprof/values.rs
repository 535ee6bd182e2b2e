//! The values of objects, read from the file when they are shown.

use super::HprofHeap;
use super::objects::class_references;
use super::records::FieldType;
use crate::heap::HeapError;
use crate::lens::Located;
use std::fmt;

/// The most elements of an array that are shown.
const SHOWN_ELEMENTS: u32 = 20;
/// The most bytes of a text that are shown.
const SHOWN_TEXT: u32 = 400;
/// The most objects that are shown within one.
const SHOWN_OBJECTS: u32 = 200;
/// The deepest level that is shown.
const DEEPEST: u32 = 32;
/// Elements that are read at once.
const AT_ONCE: u32 = 8192;

/// The value of a field or element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum JavaValue {
    /// The identifier of an object; 0 is `null`.
    Reference(u64),
    Boolean(bool),
    Char(u16),
    Float(f32),
    Double(f64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
}

impl JavaValue {
    /// The value in bits that were read from a field of a type.
    pub fn of(kind: FieldType, bits: u64) -> Self {
        match kind {
            FieldType::Object => Self::Reference(bits),
            FieldType::Boolean => Self::Boolean(bits != 0),
            FieldType::Char => Self::Char(bits as u16),
            FieldType::Float => Self::Float(f32::from_bits(bits as u32)),
            FieldType::Double => Self::Double(f64::from_bits(bits)),
            FieldType::Byte => Self::Byte(bits as i8),
            FieldType::Short => Self::Short(bits as i16),
            FieldType::Int => Self::Int(bits as i32),
            FieldType::Long => Self::Long(bits as i64),
        }
    }
}

impl fmt::Display for JavaValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(0) => f.write_str("null"),
            Self::Reference(id) => write!(f, "{id:#x}"),
            Self::Boolean(value) => value.fmt(f),
            Self::Char(unit) => match char::from_u32((*unit).into()) {
                Some(character) => write!(f, "{character:?}"),
                None => write!(f, "'\\u{unit:04x}'"),
            },
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Double(value) => write!(f, "{value:?}"),
            Self::Byte(value) => value.fmt(f),
            Self::Short(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Long(value) => value.fmt(f),
        }
    }
}

/// A field with its value.
pub(super) struct Field {
    pub name: String,
    pub value: JavaValue,
    /// False for a reference that does not keep its target.
    keeps: bool,
}

impl HprofHeap {
    fn name(&self, id: u64) -> String {
        self.catalog.name(&self.bytes, id).unwrap_or_else(|| format!("{id:#x}"))
    }

    fn read(&self, at: u64, length: u64) -> Vec<u8> {
        let length = length.min(self.bytes.len().saturating_sub(at));
        let mut buffer = vec![0; length as usize];
        let count = self.bytes.read_at(&mut buffer, at).unwrap_or(0);
        buffer.truncate(count);
        buffer
    }

    /// The fields of an instance, those of its class first; the static fields of a class object.
    pub(super) fn fields(&self, object: u32) -> Vec<Field> {
        if let Some(class) = self.described_class(object) {
            return self.static_fields(class);
        }
        let class = self.objects.class(object);
        if self.is_array(class) {
            return Vec::new();
        }
        let Some(at) = self.record_of(object) else { return Vec::new() };
        let id_size = self.header.id_size;
        let bytes = self.read(at + 9 + 2 * u64::from(id_size), self.classes.get(class).field_bytes);
        let is_weak = self.classes.is_weak(class);
        let mut offset = 0;
        let mut fields = Vec::new();
        for class in self.classes.chain(class) {
            for (name, kind) in &class.record.fields {
                let name = self.name(*name);
                let keeps = !(is_weak && class.name == "java.lang.ref.Reference" && name == "referent");
                let width = kind.width(id_size) as usize;
                let Some(value) = bytes.get(offset..offset + width) else { return fields };
                let bits = value.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                fields.push(Field { name, value: JavaValue::of(*kind, bits), keeps });
                offset += width;
            }
        }
        fields
    }

    fn static_fields(&self, class: u32) -> Vec<Field> {
        let field = |field: &super::records::StaticField| Field {
            name: self.name(field.name),
            value: JavaValue::of(field.kind, field.value),
            keeps: true,
        };
        self.classes.get(class).record.statics.iter().map(field).collect()
    }

    /// Elements of an array, from an index on.
    fn elements(&self, array: u32, from: u32, count: u32) -> Vec<JavaValue> {
        let class = self.objects.class(array);
        let count = count.min(self.objects.length(array).saturating_sub(from));
        let (Some(at), id_size) = (self.record_of(array), self.header.id_size) else { return Vec::new() };
        let kind = FieldType::PRIMITIVES.get(class as usize).copied().unwrap_or(FieldType::Object);
        let head = if kind == FieldType::Object { 9 + 2 * id_size } else { 10 + id_size };
        let width = kind.width(id_size);
        let bytes =
            self.read(at + u64::from(head) + u64::from(from) * u64::from(width), u64::from(count) * u64::from(width));
        let value = |bytes: &[u8]| JavaValue::of(kind, bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)));
        bytes.chunks_exact(width as usize).map(value).collect()
    }

    /// The name of the reference with an index: `.owner`, `[3]`. References to `null` have no index.
    pub(super) fn reference_name(&self, object: u32, index: u32) -> Option<String> {
        let class = self.objects.class(object);
        if let Some(described) = self.described_class(object) {
            return self.class_reference_name(described, index);
        }
        let mut left = index;
        let class = self.classes.get(class);
        if !class.is_permanent && class.object.is_some() {
            left = match left.checked_sub(1) {
                Some(left) => left,
                None => return Some(".<class>".to_owned()),
            };
        }
        let is_counted =
            |value: JavaValue| matches!(value, JavaValue::Reference(id) if self.addresses.number(id).is_some());
        if !self.is_array(self.objects.class(object)) {
            let fields = self.fields(object);
            let field = fields.iter().filter(|field| field.keeps && is_counted(field.value)).nth(left as usize)?;
            return Some(format!(".{}", field.name));
        }
        let length = self.objects.length(object);
        let mut from = 0;
        while from < length {
            for (value, at) in self.elements(object, from, AT_ONCE).into_iter().zip(from..) {
                if is_counted(value) {
                    left = match left.checked_sub(1) {
                        Some(left) => left,
                        None => return Some(format!("[{at}]")),
                    };
                }
            }
            from = from.saturating_add(AT_ONCE);
        }
        None
    }

    fn class_reference_name(&self, class: u32, index: u32) -> Option<String> {
        let record = &self.classes.get(class).record;
        let statics = record.statics.iter().filter(|field| field.kind == FieldType::Object);
        let names = ["<super>", "<loader>", "<signers>", "<protection domain>"].map(str::to_owned);
        let names = names.into_iter().map(|name| (name, 0)).chain(statics.map(|field| (String::new(), field.name)));
        let mut counted = names.zip(class_references(record)).filter(|(_, id)| self.addresses.number(*id).is_some());
        let ((name, static_name), _) = counted.nth(index as usize)?;
        Some(format!(".{}", if name.is_empty() { self.name(static_name) } else { name }))
    }

    /// The object in a field of an instance.
    fn object_field(&self, object: u32, name: &str) -> Option<u32> {
        self.fields(object).into_iter().find_map(|field| match field.value {
            JavaValue::Reference(id) if field.name == name => self.addresses.number(id),
            _ => None,
        })
    }

    /// The text in a field of an instance.
    pub(super) fn text_field(&self, object: u32, name: &str) -> Option<String> {
        let (text, _) = self.text(self.object_field(object, name)?, SHOWN_TEXT)?;
        Some(text)
    }

    /// The beginning of the text of a `java.lang.String`, and its length in UTF-16 units. Since JDK 9 its bytes are Latin-1 or UTF-16, before it has
    /// characters.
    pub(super) fn text(&self, object: u32, limit: u32) -> Option<(String, u32)> {
        if self.objects.class(object) != self.classes.string_class {
            return None;
        }
        let fields = self.fields(object);
        let find = |name: &str| fields.iter().find(|field| field.name == name).map(|field| field.value);
        let Some(JavaValue::Reference(id)) = find("value") else { return None };
        let array = self.addresses.number(id)?;
        let length = self.objects.length(array);
        let kind = FieldType::PRIMITIVES.get(self.objects.class(array) as usize)?;
        let whole = |value: Option<JavaValue>| match value {
            Some(JavaValue::Int(value)) => u32::try_from(value).ok(),
            _ => None,
        };
        match kind {
            FieldType::Char => {
                // JDK 6 shared one array between texts.
                let from = whole(find("offset")).unwrap_or(0);
                let length = whole(find("count")).unwrap_or(length);
                let units = self.elements(array, from, length.min(limit)).into_iter().filter_map(unit);
                Some((decode(units), length))
            }
            FieldType::Byte if matches!(find("coder"), Some(JavaValue::Byte(1))) => {
                let bytes: Vec<u8> =
                    self.elements(array, 0, limit.saturating_mul(2)).into_iter().filter_map(byte).collect();
                // In the order of the processor's bytes: little-endian on all that are in use.
                let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
                Some((decode(units), length / 2))
            }
            FieldType::Byte => {
                let bytes = self.elements(array, 0, limit).into_iter().filter_map(byte);
                Some((bytes.map(char::from).collect(), length))
            }
            _ => None,
        }
    }

    /// Finds what a text names: an address, or a path from a class: `Zoo.SESSIONS.table[3]`.
    pub(super) fn locate_text(&self, text: &str, depth: u32) -> Result<Located, HeapError> {
        let object = match crate::lens::address_of(text) {
            Some(address) => self.addresses.number(address).ok_or_else(|| format!("no object is at {address:#x}"))?,
            None => self.follow(text)?,
        };
        let mut text = String::new();
        let mut left = SHOWN_OBJECTS;
        self.show(object, depth.min(DEEPEST), 0, &mut left, &mut text);
        Ok(Located { object: object.into(), value: Some(text) })
    }

    /// Follows a path from a class: its name, then fields and indexes.
    fn follow(&self, path: &str) -> Result<u32, HeapError> {
        // The longest name that fits: a class's name may begin with that of another.
        let begins = |name: &str| {
            path.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
        };
        let classes = self.classes.described().filter(|index| begins(&self.classes.get(*index).name).is_some());
        let class = classes.max_by_key(|index| self.classes.get(*index).name.len());
        let class = class.ok_or_else(|| format!("'{path}' is neither an address nor a path from a class"))?;
        let mut at = self.classes.get(class).object.ok_or_else(|| format!("'{path}' is a class without an object"))?;
        let mut rest = begins(&self.classes.get(class).name).unwrap_or_default();
        while !rest.is_empty() {
            let end = rest[1..].find(['.', '[']).map_or(rest.len(), |end| end + 1);
            let step = &rest[..end];
            at = self.step_to(at, step).ok_or_else(|| format!("'{step}' in '{path}' leads to no object"))?;
            rest = &rest[end..];
        }
        Ok(at)
    }

    fn step_to(&self, object: u32, step: &str) -> Option<u32> {
        if let Some(index) = step.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return match self.elements(object, index.parse().ok()?, 1).first()? {
                JavaValue::Reference(id) => self.addresses.number(*id),
                _ => None,
            };
        }
        self.object_field(object, step.strip_prefix('.')?)
    }

    /// Writes an object as text, with `depth` levels of objects within it, each field on its own line.
    fn show(&self, object: u32, depth: u32, indent: usize, left: &mut u32, text: &mut String) {
        *left = left.saturating_sub(1);
        if let Some((content, length)) = self.text(object, SHOWN_TEXT) {
            let cut = if length > SHOWN_TEXT { format!("… ({length} characters)") } else { String::new() };
            text.push_str(&format!("{content:?}{cut}"));
            return;
        }
        let class = self.objects.class(object);
        let described = self.described_class(object);
        let name = described.map_or_else(
            || self.class_with_length(class, object),
            |described| format!("class {}", self.classes.get(described).name),
        );
        text.push_str(&name);
        if indent > 0 {
            text.push_str(&format!(" @ {:#x}", self.addresses.address(object).unwrap_or(0)));
        }
        let is_array = self.is_array(class);
        if depth == 0 || *left == 0 {
            return;
        }
        let items: Vec<(String, JavaValue)> = if is_array {
            let values = self.elements(object, 0, SHOWN_ELEMENTS);
            values.into_iter().zip(0..).map(|(value, at): (_, u32)| (format!("[{at}]"), value)).collect()
        } else {
            self.fields(object).into_iter().map(|field| (field.name, field.value)).collect()
        };
        if items.iter().all(|(_, value)| !matches!(value, JavaValue::Reference(_))) && is_array {
            let values: Vec<String> = items.iter().map(|(_, value)| value.to_string()).collect();
            let more = if self.objects.length(object) > SHOWN_ELEMENTS { ", …" } else { "" };
            text.push_str(&format!(" {{{}{more}}}", values.join(", ")));
            return;
        }
        if items.is_empty() {
            text.push_str(" {}");
            return;
        }
        text.push_str(" {\n");
        for (name, value) in &items {
            text.push_str(&format!("{:width$}{name} = ", "", width = indent + 4));
            match value {
                JavaValue::Reference(id) if *id != 0 && *left > 0 => match self.addresses.number(*id) {
                    Some(target) => self.show(target, depth - 1, indent + 4, left, text),
                    None => text.push_str(&format!("{id:#x}, which is not in the dump")),
                },
                value => text.push_str(&value.to_string()),
            }
            text.push('\n');
        }
        let unshown = self.objects.length(object).saturating_sub(SHOWN_ELEMENTS);
        if is_array && unshown > 0 {
            text.push_str(&format!("{:width$}… {unshown} more\n", "", width = indent + 4));
        }
        text.push_str(&format!("{:indent$}}}", ""));
    }

    /// The name of a class, with the length of an array: `long[16]`.
    fn class_with_length(&self, class: u32, object: u32) -> String {
        let name = &self.classes.get(class).name;
        if !self.is_array(class) {
            return name.clone();
        }
        // The length belongs to the outermost dimension, which Java writes first.
        name.replacen("[]", &format!("[{}]", self.objects.length(object)), 1)
    }
}

fn unit(value: JavaValue) -> Option<u16> {
    match value {
        JavaValue::Char(unit) => Some(unit),
        _ => None,
    }
}

fn byte(value: JavaValue) -> Option<u8> {
    match value {
        JavaValue::Byte(byte) => Some(byte as u8),
        _ => None,
    }
}

fn decode(units: impl Iterator<Item = u16>) -> String {
    char::decode_utf16(units).map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
