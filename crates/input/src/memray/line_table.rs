//! Source lines of Python's instructions.
//!
//! A Python function has a table that maps its instructions to lines. Its notation changed with Python 3.10 and 3.11; see
//! `Objects/locations.md` and `Objects/lnotab_notes.txt` in CPython. Where a table makes no sense, no line is known.

/// The line of an instruction; 0 if it is not known. `offset` is what the captured interpreter calls the instruction's offset: bytes, and words in
/// Python 3.10.
pub(super) fn line_of(python: u32, table: &[u8], first_line: i64, offset: i64) -> u32 {
    let Ok(offset) = u64::try_from(offset) else { return 0 };
    let line = match python {
        _ if table.is_empty() => None,
        0x030b_0000.. => line_in_locations(table, first_line, offset / 2),
        0x030a_0000.. => Some(line_in_ranges(table, first_line, offset.saturating_mul(2))),
        _ => Some(line_in_steps(table, first_line, offset)),
    };
    line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

/// Python 3.11 and later: entries of a length in code units and a location.
fn line_in_locations(table: &[u8], first_line: i64, unit: u64) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let (mut line, mut end) = (first_line, 0u64);
    while let Some(first) = bytes.next().filter(|first| *first != 0) {
        match (first >> 3) & 15 {
            15 => {}
            14 => {
                line = line.wrapping_add(signed(&mut bytes)?);
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
            }
            13 => line = line.wrapping_add(signed(&mut bytes)?),
            code @ 10..=12 => {
                line = line.wrapping_add(i64::from(code) - 10);
                bytes.nth(1)?;
            }
            _ => drop(bytes.next()?),
        }
        end += u64::from(first & 7) + 1;
        if unit < end {
            return Some(line);
        }
    }
    None
}

/// A number in groups of six bits, the lowest first.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(6) {
        let byte = bytes.next()?;
        number |= u32::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(number);
        }
    }
    None
}

fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let number = i64::from(unsigned(bytes)?);
    Some(if number & 1 == 0 { number >> 1 } else { -(number >> 1) })
}

/// Python 3.10: pairs of a number of bytes and a step of lines, which holds for these bytes. A step of −128 stands for no line.
fn line_in_ranges(table: &[u8], first_line: i64, offset: u64) -> i64 {
    let (mut line, mut end) = (first_line, 0u64);
    for pair in table.chunks_exact(2) {
        end += u64::from(pair[0]);
        line += if pair[1] == 0x80 { 0 } else { i64::from(pair[1] as i8) };
        if end > offset {
            break;
        }
    }
    line
}

/// Python 3.9 and earlier: pairs of a number of bytes and a step of lines, which holds after these bytes.
fn line_in_steps(table: &[u8], first_line: i64, offset: u64) -> i64 {
    let (mut line, mut start) = (first_line, 0u64);
    for pair in table.chunks_exact(2) {
        start += u64::from(pair[0]);
        if start > offset {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `def f(x):` at line 10, with statements in lines 11, 12, 13 and 16. The tables and the first instructions of lines are those of Python itself
    /// (`co_lnotab`, `co_linetable` and `dis.findlinestarts`).
    #[test]
    fn tables_of_all_versions_are_read() {
        let starts = |python: u32, table: &[u8], starts: &[(i64, u32)]| {
            for pair in starts.windows(2) {
                for offset in (pair[0].0..pair[1].0).step_by(2) {
                    let unit = if python >> 16 == 0x030a { offset / 2 } else { offset };
                    assert_eq!(line_of(python, table, 10, unit), pair[0].1, "{python:x} {offset}");
                }
            }
        };
        starts(0x0309_12f0, &[0, 1, 6, 1, 4, 1, 4, 3], &[(0, 11), (6, 12), (10, 13), (14, 16), (18, 0)]);
        starts(0x030a_0df0, &[6, 1, 4, 1, 4, 1, 4, 3], &[(0, 11), (6, 12), (10, 13), (14, 16), (18, 0)]);
        let table = [
            128, 0, 216, 9, 10, 136, 3, 128, 65, 216, 7, 8, 240, 0, 1, 5, 20, 216, 15, 19, 136, 116, 240, 6, 0, 12, 13,
            128, 72,
        ];
        starts(0x030b_07f0, &table, &[(0, 10), (2, 11), (8, 12), (12, 13), (16, 16), (20, 0)]);
        let table = [128, 0, 216, 9, 10, 136, 3, 128, 65, 222, 7, 8, 216, 15, 19, 240, 6, 0, 12, 13, 128, 72];
        starts(0x030d_00f0, &table, &[(0, 10), (2, 11), (8, 12), (22, 13), (24, 16), (28, 0)]);
        assert_eq!(line_of(0x030d_00f0, &table, 10, 28), 0, "after the last instruction");
    }

    #[test]
    fn nonsense_has_no_line() {
        for table in [&[0xf0][..], &[0xff, 0xff, 0xff], &[0xe8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[0xd0, 1]] {
            for python in [0x0309_00f0, 0x030a_00f0, 0x030b_00f0] {
                for offset in [i64::MIN, -1, 0, 7, i64::MAX] {
                    line_of(python, table, i64::from(i32::MAX), offset);
                }
            }
        }
        assert_eq!(line_of(0x030b_00f0, &[], 10, 0), 0);
        assert_eq!(line_of(0x030b_00f0, &[0x80, 0], 10, -2), 0);
    }
}
