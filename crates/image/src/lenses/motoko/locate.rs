//! Paths to values, as a program would write them: `tree#node.account.balance`, `archive[0]`, `0x500800.owner`.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::names::label_hash;
use super::value::MotokoValue;
use crate::bitmap::Bitmap;
use crate::lens::Lens;

/// A value in a heap, and the word that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLocation {
    /// The value.
    pub value: MotokoValue,
    /// The object that holds it, and the address of the word; none if the path names an object itself.
    pub holder: Option<(u64, u64)>,
}

/// The most boxes, options and variants that are passed in search of a field.
const MOST_WRAPPERS: u32 = 64;

impl<const WIDE: bool> Motoko<'_, WIDE> {
    /// Finds the value that a path names; the error says how far the path could be followed.
    pub fn find_value(&self, path: &str, found: &Bitmap) -> Result<ValueLocation, String> {
        let (mut location, mut rest) = self.find_root(path, found)?;
        while !rest.is_empty() {
            let before = &path[..path.len() - rest.len()];
            (location, rest) =
                self.step_into(location, rest, found).map_err(|problem| format!("'{before}' {problem}"))?;
        }
        Ok(location)
    }

    fn find_root<'p>(&self, path: &'p str, found: &Bitmap) -> Result<(ValueLocation, &'p str), String> {
        if let Some(digits) = path.strip_prefix("0x") {
            let end = digits.find(|character: char| !character.is_ascii_hexdigit()).unwrap_or(digits.len());
            let address = u64::from_str_radix(&digits[..end], 16).map_err(|_| format!("'{path}' is no address"))?;
            if !self.is_object(address, found) {
                return Err(format!("no object begins at {address:#x}; 'highwater image heap' lists the largest"));
            }
            return Ok((
                self.unboxed(ValueLocation { value: MotokoValue::Object(self.current_address(address)), holder: None }),
                &digits[end..],
            ));
        }
        let named = self.roots.iter().filter_map(|root| {
            let rest = path.strip_prefix(&root.name.to_string())?;
            (rest.is_empty() || rest.starts_with(['.', '#', '?', '['])).then_some((root, rest))
        });
        // The longest name that fits: 'static[1]' is not an element of 'static'.
        let Some((root, rest)) = named.min_by_key(|(_, rest)| rest.len()) else {
            let names: Vec<String> =
                self.roots.iter().filter(|root| root.is_variable).map(|root| root.name.to_string()).collect();
            return Err(format!("'{path}' begins with no root; there are: {}", names.join(", ")));
        };
        if !self.is_object(root.object, found) {
            return Err(format!("the root '{}' refers to no object", root.name));
        }
        Ok((self.unboxed(ValueLocation { value: MotokoValue::Object(root.object), holder: None }), rest))
    }

    /// The value of a mutable variable or field, instead of its box.
    fn unboxed(&self, location: ValueLocation) -> ValueLocation {
        match location.value {
            MotokoValue::Object(object) if self.kind_of(object) == MotokoKind::MutBox => {
                self.held_by(object, self.header)
            }
            _ => location,
        }
    }

    fn held_by(&self, object: u64, index: u64) -> ValueLocation {
        ValueLocation { value: self.value(object, index), holder: Some((object, object + index * Self::WORD)) }
    }

    fn step_into<'p>(
        &self,
        location: ValueLocation,
        rest: &'p str,
        found: &Bitmap,
    ) -> Result<(ValueLocation, &'p str), String> {
        let MotokoValue::Object(mut object) = location.value else { return Err("is no object with parts".to_owned()) };
        let first = rest.chars().next().unwrap_or_default();
        if first == '.' {
            // Boxes, options and variants are passed in search of a field.
            for _ in 0..MOST_WRAPPERS {
                let inner = match self.kind_of(object) {
                    MotokoKind::Variant => self.value(object, self.header + 1),
                    MotokoKind::Some | MotokoKind::MutBox => self.value(object, self.header),
                    _ => break,
                };
                let MotokoValue::Object(inner) = inner else { break };
                object = inner;
            }
        }
        if !self.is_object(object, found) {
            return Err(format!("leads to {object:#x}, where no object is"));
        }
        let step_end = rest[1..].find(['.', '#', '?', '[']).map_or(rest.len(), |at| at + 1);
        let (step, after) = rest.split_at(step_end);
        let index = match first {
            '.' => self.field_index(object, &step[1..])?,
            '[' => {
                let number = step[1..].strip_suffix(']').and_then(|number| number.parse::<u64>().ok());
                self.element_index(object, number.ok_or_else(|| format!("has no element '{step}'"))?)?
            }
            '#' => self.variant_index(object, &step[1..])?,
            _ if self.kind_of(object) == MotokoKind::Some => self.header,
            // An option is stored as its value, unless that is an option itself.
            _ => return Ok((location, after)),
        };
        Ok((self.unboxed(self.held_by(object, index)), after))
    }

    fn field_index(&self, object: u64, name: &str) -> Result<u64, String> {
        let kind = self.kind_of(object);
        if let (MotokoKind::Tuple | MotokoKind::SharedFunction, Ok(number)) = (kind, name.parse::<u64>()) {
            return self.element_index(object, number);
        }
        if kind != MotokoKind::Object {
            return Err(format!("is no record, but: {}", kind.name()));
        }
        let unnamed = name.strip_prefix('_').and_then(|name| name.strip_suffix('_')).and_then(|hash| hash.parse().ok());
        let hash = unnamed.unwrap_or_else(|| label_hash(name));
        let field = (0..self.fields(object).unwrap_or(0)).find(|&field| self.field_hash(object, field) == hash);
        let field =
            field.ok_or_else(|| format!("has no field '{name}'; it has: {}", self.field_names(object).join(", ")))?;
        Ok(self.first_field() + field)
    }

    fn element_index(&self, object: u64, number: u64) -> Result<u64, String> {
        let kind = self.kind_of(object);
        if !matches!(
            kind,
            MotokoKind::ImmutableArray | MotokoKind::MutableArray | MotokoKind::Tuple | MotokoKind::SharedFunction
        ) {
            return Err(format!("is no array, but: {}", kind.name()));
        }
        let length = self.length(object);
        if number >= length {
            return Err(format!("has {length} elements, no number {number}"));
        }
        Ok(self.header + 1 + number)
    }

    fn variant_index(&self, object: u64, label: &str) -> Result<u64, String> {
        if self.kind_of(object) != MotokoKind::Variant {
            return Err(format!("is no variant, but: {}", self.kind_of(object).name()));
        }
        let hash = self.nth(object, self.header) as u32;
        if label_hash(label) != hash {
            return Err(format!("is #{}, not #{label}", self.names.label(hash)));
        }
        Ok(self.header + 1)
    }
}
