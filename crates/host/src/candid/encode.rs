//! Converts values to bytes.

use super::interface::{Interface, describe};
use super::number::WholeNumber;
use super::types::{CandidField, Simple, Type, push_code, push_length};
use super::value::CandidValue;
use super::{CandidError, DEEPEST, error};
use std::collections::HashMap;

/// The most named types that are followed in a row.
pub const MOST_STEPS: usize = 1000;

/// The type of a value, inferred from its form.
pub fn seeming_type(value: &CandidValue) -> Result<Type, CandidError> {
    Ok(match value {
        CandidValue::Null => Type::Simple(Simple::Null),
        CandidValue::Bool(_) => Type::Simple(Simple::Bool),
        // A `nat` is also an `int`, but not the reverse.
        CandidValue::Whole(number) => Type::Simple(if number.is_negative { Simple::Int } else { Simple::Nat }),
        CandidValue::Float(_) => Type::Simple(Simple::Float64),
        CandidValue::Text(_) => Type::Simple(Simple::Text),
        CandidValue::Blob(_) => Type::Vec(Box::new(Type::Simple(Simple::Unsigned(1)))),
        CandidValue::Principal(_) => Type::Simple(Simple::Principal),
        CandidValue::Opt(inner) => Type::Opt(Box::new(seeming_type(inner)?)),
        CandidValue::Vec(items) => {
            let inner = items.first().map_or(Ok(Type::Simple(Simple::Empty)), seeming_type)?;
            Type::Vec(Box::new(inner))
        }
        CandidValue::Record(fields) => {
            let typed = fields.iter().map(|(id, value)| Ok(CandidField { id: *id, ty: seeming_type(value)? }));
            Type::Record(typed.collect::<Result<_, _>>()?)
        }
        CandidValue::Variant(id, value) => Type::Variant(vec![CandidField { id: *id, ty: seeming_type(value)? }]),
        CandidValue::Typed(_, ty) => ty.clone(),
    })
}

/// Converts values of these types to bytes: the table of types, the types, the values.
pub fn encode(values: &[CandidValue], types: &[Type], interface: &Interface) -> Result<Vec<u8>, CandidError> {
    let mut table = TypeTable { interface, entries: Vec::new(), known: HashMap::new() };
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
struct TypeTable<'a> {
    interface: &'a Interface,
    entries: Vec<Vec<u8>>,
    known: HashMap<String, i64>,
}

impl TypeTable<'_> {
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
        let index = self.entries.len();
        self.entries.push(Vec::new());
        if let Type::Named(name) = ty {
            self.known.insert(name.clone(), index as i64);
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
        self.entries[index] = entry;
        Ok(index as i64)
    }
}

/// Fields sorted by their numbers; a number may occur only once.
fn in_order(fields: &[CandidField]) -> Result<Vec<&CandidField>, CandidError> {
    let mut ordered: Vec<&CandidField> = fields.iter().collect();
    ordered.sort_by_key(|field| field.id);
    if ordered.windows(2).any(|pair| pair[0].id == pair[1].id) {
        return error("a field occurs twice");
    }
    Ok(ordered)
}

fn push_value(
    bytes: &mut Vec<u8>,
    value: &CandidValue,
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
        (CandidValue::Typed(inner, written), _) => {
            // The written type must be the expected type, after names are resolved. The encoding itself checks the value.
            let written = interface.resolve(written)?;
            if let (Type::Simple(written), Type::Simple(taken)) = (written, resolved)
                && written != taken
                && !(*written == Simple::Nat && *taken == Simple::Int)
            {
                return error(format!("{} where {} is taken", written.name(), taken.name()));
            }
            push_value(bytes, inner, ty, interface, depth + 1)
        }
        (_, Type::Simple(simple)) => push_simple(bytes, value, *simple).unwrap_or_else(wrong),
        (CandidValue::Null, Type::Opt(_)) => {
            bytes.push(0);
            Ok(())
        }
        (CandidValue::Opt(inner), Type::Opt(ty)) => {
            bytes.push(1);
            push_value(bytes, inner, ty, interface, depth + 1)
        }
        (CandidValue::Vec(items), Type::Vec(ty)) => {
            push_length(bytes, items.len() as u64);
            items.iter().try_for_each(|item| push_value(bytes, item, ty, interface, depth + 1))
        }
        (CandidValue::Blob(content), Type::Vec(inner)) if **inner == Type::Simple(Simple::Unsigned(1)) => {
            push_length(bytes, content.len() as u64);
            bytes.extend(content);
            Ok(())
        }
        (CandidValue::Record(given), Type::Record(fields)) => {
            let taken: Vec<u32> = fields.iter().map(|field| field.id).collect();
            if let Some((unknown, _)) = given.iter().find(|(id, _)| !taken.contains(id)) {
                return error(format!("the record has a field that is not taken (number {unknown})"));
            }
            for field in in_order(fields)? {
                match given.iter().find(|(id, _)| *id == field.id) {
                    Some((_, value)) => push_value(bytes, value, &field.ty, interface, depth + 1)?,
                    None if interface.is_optional(&field.ty) => {
                        push_value(bytes, &CandidValue::Null, &field.ty, interface, depth + 1)?
                    }
                    None => return error(format!("the record lacks a field (number {})", field.id)),
                }
            }
            Ok(())
        }
        (CandidValue::Variant(id, value), Type::Variant(fields)) => {
            let ordered = in_order(fields)?;
            let Some(index) = ordered.iter().position(|field| field.id == *id) else {
                return error("the variant has no such case");
            };
            push_length(bytes, index as u64);
            push_value(bytes, value, &ordered[index].ty, interface, depth + 1)
        }
        _ => wrong(),
    }
}

/// Appends a value of a simple type; `None` if the value has another type.
fn push_simple(bytes: &mut Vec<u8>, value: &CandidValue, simple: Simple) -> Option<Result<(), CandidError>> {
    match (value, simple) {
        (_, Simple::Reserved) | (CandidValue::Null, Simple::Null) => {}
        (CandidValue::Bool(truth), Simple::Bool) => bytes.push(u8::from(*truth)),
        (CandidValue::Whole(number), Simple::Nat) if !number.is_negative => number.push_unsigned(bytes),
        (CandidValue::Whole(number), Simple::Nat) => return Some(error(format!("{} is not a nat", number.in_words()))),
        (CandidValue::Whole(number), Simple::Int) => number.push_signed(bytes),
        (CandidValue::Whole(number), Simple::Unsigned(width) | Simple::Signed(width)) => {
            return Some(push_fixed(bytes, number, simple, width));
        }
        (CandidValue::Whole(number), Simple::Float64) => bytes.extend((number.to_i128()? as f64).to_le_bytes()),
        (CandidValue::Whole(number), Simple::Float32) => bytes.extend((number.to_i128()? as f32).to_le_bytes()),
        (CandidValue::Float(number), Simple::Float64) => bytes.extend(number.to_le_bytes()),
        (CandidValue::Float(number), Simple::Float32) => bytes.extend((*number as f32).to_le_bytes()),
        (CandidValue::Text(text), Simple::Text) => {
            push_length(bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        }
        (CandidValue::Principal(principal), Simple::Principal) => {
            bytes.push(1);
            push_length(bytes, principal.len() as u64);
            bytes.extend(principal);
        }
        _ => return None,
    }
    Some(Ok(()))
}

fn push_fixed(bytes: &mut Vec<u8>, number: &WholeNumber, simple: Simple, width: u8) -> Result<(), CandidError> {
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
