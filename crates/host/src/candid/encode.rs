//! Converts values to bytes.

use super::interface::{Interface, describe};
use super::number::Number;
use super::types::{Field, Simple, Type, push_code, push_length};
use super::value::Value;
use super::{CandidError, DEEPEST, error};
use std::collections::HashMap;

/// The most named types that are followed in a row.
pub const MOST_STEPS: usize = 1000;

/// The type of a value, inferred from its form.
pub fn seeming_type(value: &Value) -> Result<Type, CandidError> {
    Ok(match value {
        Value::Null => Type::Simple(Simple::Null),
        Value::Bool(_) => Type::Simple(Simple::Bool),
        // A `nat` is also an `int`, but not the reverse.
        Value::Whole(number) => Type::Simple(if number.is_negative { Simple::Int } else { Simple::Nat }),
        Value::Float(_) => Type::Simple(Simple::Float64),
        Value::Text(_) => Type::Simple(Simple::Text),
        Value::Blob(_) => Type::Vec(Box::new(Type::Simple(Simple::Unsigned(1)))),
        Value::Principal(_) => Type::Simple(Simple::Principal),
        Value::Opt(inner) => Type::Opt(Box::new(seeming_type(inner)?)),
        Value::Vec(items) => {
            let inner = items.first().map_or(Ok(Type::Simple(Simple::Empty)), seeming_type)?;
            Type::Vec(Box::new(inner))
        }
        Value::Record(fields) => {
            let typed = fields.iter().map(|(id, value)| Ok(Field { id: *id, ty: seeming_type(value)? }));
            Type::Record(typed.collect::<Result<_, _>>()?)
        }
        Value::Variant(id, value) => Type::Variant(vec![Field { id: *id, ty: seeming_type(value)? }]),
        Value::Typed(_, ty) => ty.clone(),
    })
}

/// Converts values of these types to bytes: the table of types, the types, the values.
pub fn encode(values: &[Value], types: &[Type], interface: &Interface) -> Result<Vec<u8>, CandidError> {
    let mut table = Table { interface, entries: Vec::new(), known: HashMap::new() };
    let codes = types.iter().map(|ty| table.code(ty, 0)).collect::<Result<Vec<_>, _>>()?;
    let mut bytes = b"DIDL".to_vec();
    push_length(&mut bytes, table.entries.len() as u64);
    for entry in &table.entries {
        bytes.extend(entry);
    }
    push_length(&mut bytes, codes.len() as u64);
    for code in codes {
        push_code(&mut bytes, code);
    }
    for (index, (value, ty)) in values.iter().zip(types).enumerate() {
        push_value(&mut bytes, value, ty, interface, 0)
            .map_err(|problem| CandidError(format!("argument {}: {problem}", index + 1)))?;
    }
    Ok(bytes)
}

/// The composite types, each once.
struct Table<'a> {
    interface: &'a Interface,
    entries: Vec<Vec<u8>>,
    known: HashMap<String, i64>,
}

impl Table<'_> {
    /// The code of a type: its own, or its index in the table.
    fn code(&mut self, ty: &Type, depth: usize) -> Result<i64, CandidError> {
        if depth > DEEPEST {
            return error("its type is nested too deeply");
        }
        if let Type::Named(name) = ty
            && let Some(&code) = self.known.get(name)
        {
            return Ok(code);
        }
        let interface = self.interface;
        let resolved = interface.resolve(ty)?;
        if let Type::Simple(simple) = resolved {
            return Ok(simple.code());
        }
        let place = self.entries.len();
        self.entries.push(Vec::new());
        if let Type::Named(name) = ty {
            self.known.insert(name.clone(), place as i64);
        }
        let mut entry = Vec::new();
        match resolved {
            Type::Opt(inner) | Type::Vec(inner) => {
                push_code(&mut entry, if matches!(resolved, Type::Opt(_)) { -18 } else { -19 });
                let inner = self.code(inner, depth + 1)?;
                push_code(&mut entry, inner);
            }
            Type::Record(fields) | Type::Variant(fields) => {
                push_code(&mut entry, if matches!(resolved, Type::Record(_)) { -20 } else { -21 });
                push_length(&mut entry, fields.len() as u64);
                for field in in_order(fields)? {
                    push_length(&mut entry, field.id.into());
                    let code = self.code(&field.ty, depth + 1)?;
                    push_code(&mut entry, code);
                }
            }
            _ => return error("functions and services cannot be sent from here"),
        }
        self.entries[place] = entry;
        Ok(place as i64)
    }
}

/// Fields sorted by their numbers; a number may occur only once.
fn in_order(fields: &[Field]) -> Result<Vec<&Field>, CandidError> {
    let mut ordered: Vec<&Field> = fields.iter().collect();
    ordered.sort_by_key(|field| field.id);
    if ordered.windows(2).any(|pair| pair[0].id == pair[1].id) {
        return error("a field occurs twice");
    }
    Ok(ordered)
}

fn push_value(
    bytes: &mut Vec<u8>,
    value: &Value,
    ty: &Type,
    interface: &Interface,
    depth: usize,
) -> Result<(), CandidError> {
    if depth > DEEPEST {
        return error("it is nested too deeply");
    }
    let wrong = || error(format!("{} where {} is taken", value.kind(), describe(ty)));
    let resolved = interface.resolve(ty)?;
    match (value, resolved) {
        (Value::Typed(inner, said), _) => {
            // The written type must be the expected type, after names are resolved. The encoding itself checks the value.
            let said = interface.resolve(said)?;
            if let (Type::Simple(said), Type::Simple(taken)) = (said, resolved)
                && said != taken
                && !(*said == Simple::Nat && *taken == Simple::Int)
            {
                return error(format!("{} where {} is taken", said.name(), taken.name()));
            }
            push_value(bytes, inner, ty, interface, depth + 1)
        }
        (_, Type::Simple(simple)) => push_simple(bytes, value, *simple).unwrap_or_else(wrong),
        (Value::Null, Type::Opt(_)) => {
            bytes.push(0);
            Ok(())
        }
        (Value::Opt(inner), Type::Opt(ty)) => {
            bytes.push(1);
            push_value(bytes, inner, ty, interface, depth + 1)
        }
        (Value::Vec(items), Type::Vec(ty)) => {
            push_length(bytes, items.len() as u64);
            items.iter().try_for_each(|item| push_value(bytes, item, ty, interface, depth + 1))
        }
        (Value::Blob(content), Type::Vec(inner)) if **inner == Type::Simple(Simple::Unsigned(1)) => {
            push_length(bytes, content.len() as u64);
            bytes.extend(content);
            Ok(())
        }
        (Value::Record(given), Type::Record(fields)) => {
            let taken: Vec<u32> = fields.iter().map(|field| field.id).collect();
            if let Some((unknown, _)) = given.iter().find(|(id, _)| !taken.contains(id)) {
                return error(format!("the record has a field that is not taken (number {unknown})"));
            }
            for field in in_order(fields)? {
                match given.iter().find(|(id, _)| *id == field.id) {
                    Some((_, value)) => push_value(bytes, value, &field.ty, interface, depth + 1)?,
                    None if interface.is_optional(&field.ty) => {
                        push_value(bytes, &Value::Null, &field.ty, interface, depth + 1)?
                    }
                    None => return error(format!("the record lacks a field (number {})", field.id)),
                }
            }
            Ok(())
        }
        (Value::Variant(id, value), Type::Variant(fields)) => {
            let ordered = in_order(fields)?;
            let Some(place) = ordered.iter().position(|field| field.id == *id) else {
                return error("the variant has no such case");
            };
            push_length(bytes, place as u64);
            push_value(bytes, value, &ordered[place].ty, interface, depth + 1)
        }
        _ => wrong(),
    }
}

/// Appends a value of a simple type; `None` if the value has another type.
fn push_simple(bytes: &mut Vec<u8>, value: &Value, simple: Simple) -> Option<Result<(), CandidError>> {
    match (value, simple) {
        (_, Simple::Reserved) | (Value::Null, Simple::Null) => {}
        (Value::Bool(truth), Simple::Bool) => bytes.push(u8::from(*truth)),
        (Value::Whole(number), Simple::Nat) if !number.is_negative => number.push_unsigned(bytes),
        (Value::Whole(number), Simple::Nat) => return Some(error(format!("{} is not a nat", number.in_words()))),
        (Value::Whole(number), Simple::Int) => number.push_signed(bytes),
        (Value::Whole(number), Simple::Unsigned(width) | Simple::Signed(width)) => {
            return Some(push_fixed(bytes, number, simple, width));
        }
        (Value::Whole(number), Simple::Float64) => bytes.extend((number.to_i128()? as f64).to_le_bytes()),
        (Value::Whole(number), Simple::Float32) => bytes.extend((number.to_i128()? as f32).to_le_bytes()),
        (Value::Float(number), Simple::Float64) => bytes.extend(number.to_le_bytes()),
        (Value::Float(number), Simple::Float32) => bytes.extend((*number as f32).to_le_bytes()),
        (Value::Text(text), Simple::Text) => {
            push_length(bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        }
        (Value::Principal(principal), Simple::Principal) => {
            bytes.push(1);
            push_length(bytes, principal.len() as u64);
            bytes.extend(principal);
        }
        _ => return None,
    }
    Some(Ok(()))
}

fn push_fixed(bytes: &mut Vec<u8>, number: &Number, simple: Simple, width: u8) -> Result<(), CandidError> {
    let bits = u32::from(width) * 8;
    let (least, most) = match simple {
        Simple::Signed(_) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    };
    match number.to_i128().filter(|value| (least..=most).contains(value)) {
        Some(value) => {
            bytes.extend(&value.to_le_bytes()[..usize::from(width)]);
            Ok(())
        }
        None => error(format!("{} does not fit into {}", number.in_words(), simple.name())),
    }
}
