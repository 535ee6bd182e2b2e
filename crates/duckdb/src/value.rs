//! Values of DuckDB's vectors as JSON.

use crate::library::{Handle, Library, RawText};
use highwater_model::utc_date;
use libc::c_void;
use serde_json::{Number, Value};

/// The type of a column: what its values are, and how the protocol calls them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Unsigned8,
    Unsigned16,
    Unsigned32,
    Unsigned64,
    Float,
    Double,
    /// Units in a second.
    Timestamp(i64),
    Date,
    Huge,
    Text,
    /// The width of its integer in bytes, and its digits after the point.
    Decimal(usize, u8),
    /// The type of `NULL`.
    Null,
}

impl Kind {
    /// The type of a column, by the number that `duckdb_type` has for it.
    pub fn new(library: &Library, logical: Handle) -> Result<Self, i32> {
        // SAFETY: the handle is a logical type that its caller destroys later.
        let number = unsafe { (library.get_type_id)(logical) };
        Ok(match number {
            1 => Self::Boolean,
            2 => Self::Int8,
            3 => Self::Int16,
            4 => Self::Int32,
            5 => Self::Int64,
            6 => Self::Unsigned8,
            7 => Self::Unsigned16,
            8 => Self::Unsigned32,
            9 => Self::Unsigned64,
            10 => Self::Float,
            11 => Self::Double,
            12 | 31 => Self::Timestamp(1_000_000),
            13 => Self::Date,
            16 => Self::Huge,
            17 => Self::Text,
            19 => {
                // SAFETY: as above, and the type is a decimal.
                let (inner, scale) =
                    unsafe { ((library.decimal_internal_type)(logical), (library.decimal_scale)(logical)) };
                Self::Decimal(if inner == 16 { 16 } else { 1 << (inner - 2) }, scale)
            }
            20 => Self::Timestamp(1),
            21 => Self::Timestamp(1_000),
            22 => Self::Timestamp(1_000_000_000),
            36 => Self::Null,
            other => return Err(other),
        })
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Unsigned8 | Self::Unsigned16 => "INT",
            Self::Int64 | Self::Unsigned32 => "BIGINT",
            Self::Float | Self::Double => "DOUBLE",
            Self::Timestamp(_) => "TIMESTAMP",
            Self::Date => "DATE",
            Self::Huge | Self::Decimal(..) | Self::Unsigned64 => "DECIMAL",
            Self::Text | Self::Null => "STRING",
        }
    }

    /// A value of a vector.
    ///
    /// # Safety
    /// `data` is that of a vector of this type with more than `row` values, and the value is valid.
    pub unsafe fn read(self, data: *const c_void, row: usize) -> Value {
        macro_rules! at {
            ($kind:ty) => {
                // SAFETY: the vector has values of this type, one after another, and this one is among them.
                unsafe { data.cast::<$kind>().add(row).read_unaligned() }
            };
        }
        match self {
            Self::Boolean => Value::Bool(at!(u8) != 0),
            Self::Int8 => at!(i8).into(),
            Self::Int16 => at!(i16).into(),
            Self::Int32 => at!(i32).into(),
            Self::Int64 => at!(i64).into(),
            Self::Unsigned8 => at!(u8).into(),
            Self::Unsigned16 => at!(u16).into(),
            Self::Unsigned32 => at!(u32).into(),
            Self::Unsigned64 => decimal(i128::from(at!(u64)), 0),
            Self::Float => double(f64::from(at!(f32))),
            Self::Double => double(at!(f64)),
            Self::Timestamp(units) => timestamp(at!(i64), units),
            Self::Date => utc_date(i64::from(at!(i32))).into(),
            Self::Huge | Self::Decimal(16, _) => decimal(at!(i128), self.scale()),
            Self::Decimal(8, _) => decimal(i128::from(at!(i64)), self.scale()),
            Self::Decimal(4, _) => decimal(i128::from(at!(i32)), self.scale()),
            Self::Decimal(..) => decimal(i128::from(at!(i16)), self.scale()),
            Self::Text => {
                let text = at!(RawText);
                let length = text.length as usize;
                if length <= text.inlined.len() {
                    return String::from_utf8_lossy(&text.inlined[..length]).into();
                }
                let pointer = usize::from_ne_bytes(text.inlined[4..].try_into().expect("eight bytes")) as *const u8;
                // SAFETY: a longer text lies where the pointer behind its first four bytes points, as long as its chunk.
                let bytes = unsafe { std::slice::from_raw_parts(pointer, length) };
                String::from_utf8_lossy(bytes).into()
            }
            Self::Null => Value::Null,
        }
    }

    fn scale(self) -> u8 {
        if let Self::Decimal(_, scale) = self { scale } else { 0 }
    }
}

fn double(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A number if it is whole and fits 64 bits, else a text.
fn decimal(value: i128, scale: u8) -> Value {
    if scale == 0 {
        return i64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from);
    }
    let digits = format!("{:0>1$}", value.unsigned_abs(), usize::from(scale) + 1);
    let (whole, part) = digits.split_at(digits.len() - usize::from(scale));
    format!("{}{whole}.{part}", if value < 0 { "-" } else { "" }).into()
}

/// RFC 3339 in UTC, to the microsecond.
fn timestamp(value: i64, units: i64) -> Value {
    // DuckDB's infinities.
    if value == i64::MAX || value == -i64::MAX {
        return Value::Null;
    }
    let seconds = value.div_euclid(units);
    let micros = i128::from(value.rem_euclid(units)) * 1_000_000 / i128::from(units);
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", utc_date(seconds.div_euclid(86_400))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_exactly() {
        assert_eq!(decimal(i128::from(i64::MAX), 0), Value::from(i64::MAX));
        assert_eq!(decimal(1 << 100, 0), Value::from("1267650600228229401496703205376"));
        assert_eq!(decimal(-105, 2), Value::from("-1.05"));
        assert_eq!(decimal(5, 3), Value::from("0.005"));
        assert_eq!(timestamp(-1, 1_000_000), Value::from("1969-12-31T23:59:59.999999Z"));
        assert_eq!(timestamp(951_782_400, 1), Value::from("2000-02-29T00:00:00.000000Z"));
        assert_eq!(double(f64::INFINITY), Value::Null);
    }
}
