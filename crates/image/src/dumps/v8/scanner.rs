//! Reads JSON from front to back without keeping it. A document of several gigabytes is a few arrays of numbers and one of strings.

use crate::dumps::DumpError;
use std::io::Read;

/// The bytes read at once.
const BUFFER: usize = 1 << 20;
/// The longest number, with the separators before it, that is certainly complete in the buffer.
const LONGEST_NUMBER: usize = 64;
/// The most bytes of the values that are kept as they are: the description of the fields.
const LONGEST_VALUE: usize = 1 << 20;

/// A position in a document.
pub struct Scanner<R> {
    input: R,
    buffer: Vec<u8>,
    /// The next byte in the buffer.
    at: usize,
    /// The bytes in the buffer.
    filled: usize,
    /// The offset in the document at which the buffer begins.
    base: u64,
    is_at_end: bool,
}

impl<R: Read> Scanner<R> {
    /// The beginning of a document.
    pub fn new(input: R) -> Self {
        Self { input, buffer: vec![0; BUFFER], at: 0, filled: 0, base: 0, is_at_end: false }
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Damage at the next byte.
    pub fn damaged(&self, what: impl Into<std::borrow::Cow<'static, str>>) -> DumpError {
        DumpError::damaged(self.offset(), what)
    }

    /// Reads until the buffer is full. The bytes from `at` on are kept.
    #[cold]
    fn fill(&mut self) -> Result<(), DumpError> {
        self.buffer.copy_within(self.at..self.filled, 0);
        self.base += self.at as u64;
        self.filled -= self.at;
        self.at = 0;
        while self.filled < self.buffer.len() && !self.is_at_end {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.is_at_end = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, DumpError> {
        if self.at == self.filled {
            self.fill()?;
        }
        Ok(self.buffer[..self.filled].get(self.at).copied())
    }

    fn next(&mut self) -> Result<u8, DumpError> {
        let byte = self.peek()?.ok_or_else(|| self.damaged("the file ends here, and is not complete"))?;
        self.at += 1;
        Ok(byte)
    }

    fn skip_space(&mut self) -> Result<(), DumpError> {
        while self.peek()?.is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        Ok(())
    }

    /// Passes a byte, and space before it.
    pub fn expect(&mut self, wanted: u8) -> Result<(), DumpError> {
        self.skip_space()?;
        let found = self.next()?;
        if found != wanted {
            self.at -= 1;
            let (wanted, found) = (char::from(wanted), char::from(found));
            return Err(self.damaged(format!("'{wanted}' is expected, and {found:?} is there")));
        }
        Ok(())
    }

    /// Passes a byte, and space before it, if it is the next one.
    pub fn accept(&mut self, wanted: u8) -> Result<bool, DumpError> {
        self.skip_space()?;
        let is_next = self.peek()? == Some(wanted);
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Passes an array of whole numbers, row by row: each row has `width` numbers. Returns the number of rows.
    pub fn rows(
        &mut self,
        width: usize,
        mut visit: impl FnMut(&[u64], u64) -> Result<(), DumpError>,
    ) -> Result<u64, DumpError> {
        let mut row = vec![0; width];
        let (mut column, mut rows) = (0, 0);
        self.expect(b'[')?;
        if self.accept(b']')? {
            return Ok(0);
        }
        loop {
            // Numbers that are certainly complete in the buffer, with a comma after them: nearly all.
            let bytes = &self.buffer[..self.filled];
            let mut at = self.at;
            while at + LONGEST_NUMBER < bytes.len() {
                let Some((value, after)) = short_number(bytes, at) else { break };
                at = after;
                row[column] = value;
                column += 1;
                if column == width {
                    visit(&row, self.base + at as u64)?;
                    (column, rows) = (0, rows + 1);
                }
            }
            self.at = at;
            if self.filled - self.at <= LONGEST_NUMBER && !self.is_at_end {
                self.fill()?;
                continue;
            }
            row[column] = self.any_number()?;
            column += 1;
            if column == width {
                visit(&row, self.offset())?;
                (column, rows) = (0, rows + 1);
            }
            if !self.accept(b',')? {
                self.expect(b']')?;
                break;
            }
        }
        if column != 0 {
            return Err(self.damaged(format!("the last row has {column} numbers of {width}")));
        }
        Ok(rows)
    }

    /// A whole number that is not negative, and may have space before it.
    fn any_number(&mut self) -> Result<u64, DumpError> {
        self.skip_space()?;
        let mut value: u64 = 0;
        let mut digits = 0;
        while let Some(digit) = self.peek()?.filter(u8::is_ascii_digit) {
            let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
            value = next.ok_or_else(|| self.damaged("a number is too large"))?;
            (self.at, digits) = (self.at + 1, digits + 1);
        }
        if digits == 0 {
            return Err(match self.peek()? {
                Some(found) => self.damaged(format!("a number is expected, and {:?} is there", char::from(found))),
                None => self.damaged("the file ends here, and is not complete"),
            });
        }
        Ok(value)
    }

    /// Appends the text of a string in UTF-8. Surrogates without a partner become U+FFFD.
    pub fn string(&mut self, out: &mut Vec<u8>) -> Result<(), DumpError> {
        self.expect(b'"')?;
        // The first half of a pair, which was the last thing.
        let mut high: Option<u16> = None;
        loop {
            if self.at == self.filled {
                self.fill()?;
            }
            let rest = &self.buffer[self.at..self.filled];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
            if plain > 0 {
                flush(&mut high, out);
                out.extend_from_slice(&rest[..plain]);
                self.at += plain;
                continue;
            }
            match self.next()? {
                b'"' => {
                    flush(&mut high, out);
                    return Ok(());
                }
                _ => self.escape(&mut high, out)?,
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, high: &mut Option<u16>, out: &mut Vec<u8>) -> Result<(), DumpError> {
        let byte = match self.next()? {
            b'u' => {
                let unit = self.code_unit()?;
                let decoded = match (high.take(), unit) {
                    (Some(first), 0xdc00..=0xdfff) => char::decode_utf16([first, unit]).next(),
                    (first, _) => {
                        flush(&mut first.into_iter().next(), out);
                        if (0xd800..0xdc00).contains(&unit) {
                            *high = Some(unit);
                            return Ok(());
                        }
                        char::decode_utf16([unit]).next()
                    }
                };
                push(decoded.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER), out);
                return Ok(());
            }
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            byte @ (b'"' | b'\\' | b'/') => byte,
            other => return Err(self.damaged(format!("{:?} is no escape in a string", char::from(other)))),
        };
        flush(high, out);
        out.push(byte);
        Ok(())
    }

    fn code_unit(&mut self) -> Result<u16, DumpError> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.next()?;
            let digit =
                char::from(byte).to_digit(16).ok_or_else(|| self.damaged("four hexadecimal digits are expected"))?;
            unit = unit << 4 | digit as u16;
        }
        Ok(unit)
    }

    /// The bytes of a value, as they are.
    pub fn value(&mut self) -> Result<Vec<u8>, DumpError> {
        let mut bytes = Vec::new();
        self.pass_value(|byte| {
            bytes.push(byte);
            bytes.len() <= LONGEST_VALUE
        })?;
        Ok(bytes)
    }

    /// Passes a value of any kind.
    pub fn skip(&mut self) -> Result<(), DumpError> {
        self.pass_value(|_| true)
    }

    /// Passes a value; it ends where a comma or the end of what it is in follows. Nesting is counted, not followed: depth costs nothing.
    fn pass_value(&mut self, mut keep: impl FnMut(u8) -> bool) -> Result<(), DumpError> {
        let mut depth = 0u64;
        let mut is_in_string = false;
        loop {
            let Some(byte) = self.peek()? else { return Err(self.damaged("the file ends here, and is not complete")) };
            if !is_in_string && depth == 0 && matches!(byte, b',' | b'}' | b']') {
                return Ok(());
            }
            self.at += 1;
            if !keep(byte) {
                return Err(self.damaged("the description of the fields is too long"));
            }
            match byte {
                b'\\' if is_in_string => {
                    let escaped = self.next()?;
                    keep(escaped);
                }
                b'"' => is_in_string = !is_in_string,
                b'{' | b'[' if !is_in_string => depth += 1,
                b'}' | b']' if !is_in_string => depth -= 1,
                _ => {}
            }
        }
    }
}

/// The number at a place, if it has less than sixteen digits, and a comma after it, which may be on the next line; and the place after that comma.
#[inline]
fn short_number(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    const POWERS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (mut value, mut digits) = leading_digits(word(at)?);
    if digits == 8 {
        let (rest, more) = leading_digits(word(at + 8)?);
        value = value * POWERS.get(more)? + rest;
        digits += more;
    }
    let after = at + digits;
    match bytes.get(after..after + 2)? {
        [b',', _] if digits > 0 => Some((value, after + 1)),
        [b'\n', b','] if digits > 0 => Some((value, after + 2)),
        _ => None,
    }
}

/// The number in the decimal digits with which eight bytes begin, and the count of these digits. The bytes are handled together, as one word.
#[inline]
fn leading_digits(eight: u64) -> (u64, usize) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // A digit becomes 0 to 9; any other byte becomes 10 or more, and sets its highest bit when 118 is added or has it already.
    let values = eight ^ (EACH * 0x30);
    let others = (values.wrapping_add(EACH * 0x76) | values) & (EACH * 0x80);
    let digits = others.trailing_zeros() as usize / 8;
    if digits == 0 {
        return (0, 0);
    }
    // Zeros in front, then pairs, then fours, then all eight.
    let padded = values << (64 - 8 * digits);
    let pairs = padded.wrapping_mul(10).wrapping_add(padded >> 8);
    const MASK: u64 = 0x0000_00ff_0000_00ff;
    let high = (pairs & MASK).wrapping_mul(0x000f_4240_0000_0064);
    let low = (pairs >> 16 & MASK).wrapping_mul(0x0000_2710_0000_0001);
    (high.wrapping_add(low) >> 32, digits)
}

/// Writes U+FFFD for half a pair that stayed alone.
fn flush(high: &mut Option<u16>, out: &mut Vec<u8>) {
    if high.take().is_some() {
        push(char::REPLACEMENT_CHARACTER, out);
    }
}

fn push(character: char, out: &mut Vec<u8>) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives one byte at a time, so that every value crosses the end of what is read.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.len().min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn string(json: &str) -> String {
        let mut out = Vec::new();
        Scanner::new(Slowly(json.as_bytes())).string(&mut out).expect("a string");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn strings_are_unescaped() {
        assert_eq!(string(r#""a\"\\\/\n\u00e9""#), "a\"\\/\né");
        assert_eq!(string(r#""\ud83d\ude00|\ud83d|\ude00|\ud83d\ud83d\ude00""#), "😀|\u{fffd}|\u{fffd}|\u{fffd}😀");
        assert_eq!(string("\"grün\""), "grün");
    }

    #[test]
    fn values_that_are_not_needed_are_passed_at_any_depth() {
        let deep = format!("{}{},7", "[".repeat(100_000), "]".repeat(100_000));
        let mut scanner = Scanner::new(deep.as_bytes());
        scanner.skip().expect("passed");
        assert_eq!(scanner.offset(), 200_000);
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(numbers in prop::collection::vec(any::<u64>(), 0..50), cut in 0u32..60, space in any::<bool>()) {
            let numbers: Vec<u64> = numbers.iter().map(|number| number >> cut).collect();
            let between = if space { " ,\n " } else { "," };
            let text: Vec<String> = numbers.iter().map(u64::to_string).collect();
            let json = format!("[{}]", text.join(between));
            let mut read = Vec::new();
            let rows = Scanner::new(json.as_bytes()).rows(1, |row, _| { read.push(row[0]); Ok(()) }).expect("numbers");
            prop_assert_eq!(rows, numbers.len() as u64);
            prop_assert_eq!(read, numbers);
        }

        #[test]
        fn any_bytes_are_numbers_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Scanner::new(bytes.as_slice()).rows(3, |_, _| Ok(()));
            let _ = Scanner::new(bytes.as_slice()).string(&mut Vec::new());
            let _ = Scanner::new(bytes.as_slice()).skip();
        }
    }
}
