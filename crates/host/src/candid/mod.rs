//! Candid, the interface language of canisters: converts arguments from text to bytes, and replies from bytes to text.
//!
//! ```
//! use highwater_host::candid::{Interface, decode, encode_arguments};
//!
//! let interface = Interface::parse("service : { open : (nat, opt text) -> (nat) }").unwrap();
//! let bytes = encode_arguments("(100, opt \"gold\")", Some((&interface, "open"))).unwrap();
//! assert_eq!(decode(&bytes, &[]).unwrap(), "(100 : nat, opt \"gold\")");
//! ```
//!
//! If a module carries its interface, arguments get the types of the interface. Otherwise the types are inferred (a whole number that is not negative is a
//! `nat`, which is also accepted as an `int`), or written after the values (`5 : nat8`).

mod decode;
mod encode;
mod interface;
mod lexer;
mod number;
mod parser;
mod principal;
mod types;
mod value;
mod values;

pub use decode::decode;
pub use interface::Interface;
pub use principal::{principal_bytes, principal_text};
pub use value::CandidValue;
pub use values::decode_values;

use std::fmt;

/// The deepest nesting of types and values.
const DEEPEST: usize = 100;

/// What is wrong with a text or with bytes, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidError(pub String);

impl fmt::Display for CandidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CandidError {}

fn error<T>(text: impl Into<String>) -> Result<T, CandidError> {
    Err(CandidError(text.into()))
}

/// Converts arguments from text, `(100, "text")`, to bytes. With an interface and a method they get the method's argument types.
pub fn encode_arguments(text: &str, method: Option<(&Interface, &str)>) -> Result<Vec<u8>, CandidError> {
    let values = parser::arguments(text)?;
    let known = method.and_then(|(interface, name)| Some((interface, interface.arguments_of(name)?)));
    match known {
        Some((interface, types)) => {
            if values.len() > types.len() {
                let (given, takes) = (values.len(), types.len());
                return error(format!("there are {given} arguments where {takes} are taken"));
            }
            let mut values = values;
            while values.len() < types.len() {
                let missing = &types[values.len()];
                if !interface.is_optional(missing) {
                    let (given, takes) = (values.len(), types.len());
                    return error(format!(
                        "there are {given} arguments where {takes} are taken: ({})",
                        interface.describe(types)
                    ));
                }
                values.push(value::CandidValue::Null);
            }
            encode::encode(&values, types, interface)
        }
        None => {
            let types = values.iter().map(encode::seeming_type).collect::<Result<Vec<_>, _>>()?;
            encode::encode(&values, &types, &Interface::default())
        }
    }
}

/// Converts values to bytes, with the types that names of an interface stand for.
pub(crate) fn encode_values(
    values: &[CandidValue],
    types: &[&str],
    interface: &Interface,
) -> Result<Vec<u8>, CandidError> {
    let types: Vec<_> = types.iter().map(|name| types::Type::Named((*name).to_owned())).collect();
    encode::encode(values, &types, interface)
}

#[cfg(test)]
mod tests;
