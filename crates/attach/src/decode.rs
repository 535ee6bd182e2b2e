//! Lengths and kinds of x86-64 instructions: as much as moving the first instructions of a function needs.
//!
//! Every instruction set of user programs has a length here; what is unknown or invalid in 64-bit mode is `None`, and then the function is not moved. The tests compare
//! all boundaries with `objdump` over whole libraries.

/// The longest instruction that the processor accepts.
pub(crate) const LONGEST: usize = 15;

/// Which table an opcode belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpcodeMap {
    /// One byte.
    Primary,
    /// Behind `0f`.
    Secondary,
    /// Behind `0f 38`, `0f 3a`, or a vector prefix.
    Other,
}

/// One instruction, with what is needed to move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub length: usize,
    pub map: OpcodeMap,
    pub opcode: u8,
    pub rex: u8,
    /// Whether it has the prefix `66`, which makes operands 16 bits wide.
    pub narrow: bool,
    /// Whether it has the prefix `f3`.
    pub repeat: bool,
    /// The byte that names registers or memory.
    pub modrm: Option<u8>,
    /// Where its 32-bit displacement is, if that is relative to the next instruction.
    pub relative_displacement: Option<usize>,
    /// Where a branch leads, relative to the next instruction.
    pub branch: Option<i64>,
    /// The immediate operand, sign-extended; 0 if there is none.
    pub immediate: i64,
}

struct Bytes<'a> {
    code: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.code.get(self.at)?;
        self.at += 1;
        (self.at <= LONGEST).then_some(byte)
    }

    /// A little-endian number of `width` bytes, sign-extended.
    fn number(&mut self, width: usize) -> Option<i64> {
        let mut bytes = [0; 8];
        for byte in bytes.iter_mut().take(width) {
            *byte = self.next()?;
        }
        if width == 0 {
            return Some(0);
        }
        let unused = 64 - 8 * width as u32;
        Some((i64::from_le_bytes(bytes) << unused) >> unused)
    }
}

impl Instruction {
    /// The instruction at the beginning of `code`.
    pub(crate) fn decode(code: &[u8]) -> Option<Self> {
        let mut bytes = Bytes { code, at: 0 };
        let (mut narrow, mut short_address, mut repeat, mut rex) = (false, false, false, 0);
        let first = loop {
            let byte = bytes.next()?;
            match byte {
                0x66 => narrow = true,
                0x67 => short_address = true,
                0xf3 => repeat = true,
                0xf0 | 0xf2 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 => (),
                // Only the last one counts, directly in front of the opcode.
                0x40..=0x4f => {
                    rex = byte;
                    let next = bytes.next()?;
                    if matches!(
                        next,
                        0x40..=0x4f | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65
                    ) {
                        return None;
                    }
                    break next;
                }
                _ => break byte,
            }
        };
        let wide = rex & 8 != 0;
        let operand = if narrow && !wide { 2 } else { 4 };
        let mut branch_bytes = 0;
        let (map, opcode, has_modrm, mut immediate_bytes) = match first {
            0x0f => {
                let second = bytes.next()?;
                match second {
                    0x38 => (OpcodeMap::Other, bytes.next()?, true, 0),
                    0x3a => (OpcodeMap::Other, bytes.next()?, true, 1),
                    0x80..=0x8f => {
                        if narrow {
                            return None;
                        }
                        branch_bytes = 4;
                        (OpcodeMap::Secondary, second, false, 0)
                    }
                    _ => {
                        let (modrm, immediate) = secondary(second)?;
                        (OpcodeMap::Secondary, second, modrm, immediate)
                    }
                }
            }
            0xc5 | 0xc4 | 0x62 => vector(first, &mut bytes)?,
            _ => {
                let (modrm, immediate) = match first {
                    0x70..=0x7f | 0xe0..=0xe3 | 0xeb => {
                        branch_bytes = 1;
                        (false, 0)
                    }
                    0xe8 | 0xe9 => {
                        if narrow {
                            return None;
                        }
                        branch_bytes = 4;
                        (false, 0)
                    }
                    0xa0..=0xa3 => (false, if short_address { 4 } else { 8 }),
                    0xb8..=0xbf if wide => (false, 8),
                    _ => primary(first, operand)?,
                };
                (OpcodeMap::Primary, first, modrm, immediate)
            }
        };
        let mut relative_displacement = None;
        let modrm = if has_modrm {
            let modrm = bytes.next()?;
            if map == OpcodeMap::Primary && first == 0x8f && modrm >> 3 & 7 != 0 {
                return None;
            }
            // `test` is the only one of its group with an immediate.
            if map == OpcodeMap::Primary && modrm >> 3 & 7 < 2 {
                match first {
                    0xf6 => immediate_bytes = 1,
                    0xf7 => immediate_bytes = operand,
                    _ => (),
                }
            }
            let (mode, register) = (modrm >> 6, modrm & 7);
            if mode != 3 {
                let base = if register == 4 { Some(bytes.next()? & 7) } else { None };
                match mode {
                    0 if register == 5 => {
                        relative_displacement = Some(bytes.at);
                        bytes.number(4)?;
                    }
                    0 if base == Some(5) => {
                        bytes.number(4)?;
                    }
                    0 => (),
                    1 => {
                        bytes.number(1)?;
                    }
                    _ => {
                        bytes.number(4)?;
                    }
                }
            }
            Some(modrm)
        } else {
            None
        };
        let branch = if branch_bytes > 0 { Some(bytes.number(branch_bytes)?) } else { None };
        // `enter` has two.
        let immediate = bytes.number(immediate_bytes.min(8))?;
        Some(Self {
            length: bytes.at,
            map,
            opcode,
            rex,
            narrow,
            repeat,
            modrm,
            relative_displacement,
            branch,
            immediate,
        })
    }

    /// The register operand of an instruction whose ModRM byte names two registers or a register and memory.
    pub(crate) fn register(&self) -> Option<u8> {
        self.modrm.map(|modrm| (modrm >> 3 & 7) | (self.rex & 4) << 1)
    }

    /// The other operand, if it is a register.
    pub(crate) fn direct_operand(&self) -> Option<u8> {
        self.modrm.filter(|modrm| modrm >> 6 == 3).map(|modrm| (modrm & 7) | (self.rex & 1) << 3)
    }

    /// Whether this is `jmp` with a displacement.
    pub(crate) fn is_jump(&self) -> bool {
        self.map == OpcodeMap::Primary && matches!(self.opcode, 0xe9 | 0xeb)
    }

    /// The condition of a conditional branch that has a long form.
    pub(crate) fn condition(&self) -> Option<u8> {
        match (self.map, self.opcode) {
            (OpcodeMap::Primary, 0x70..=0x7f) | (OpcodeMap::Secondary, 0x80..=0x8f) => Some(self.opcode & 15),
            _ => None,
        }
    }

    /// Whether control never comes to the next instruction: a return, a jump, a trap.
    pub(crate) fn ends_flow(&self) -> bool {
        match self.map {
            OpcodeMap::Primary => match self.opcode {
                0xc2 | 0xc3 | 0xca | 0xcb | 0xcf | 0xcc | 0xe9 | 0xeb | 0xf4 => true,
                0xff => self.modrm.is_some_and(|modrm| matches!(modrm >> 3 & 7, 4 | 5)),
                _ => false,
            },
            OpcodeMap::Secondary => self.opcode == 0x0b,
            OpcodeMap::Other => false,
        }
    }

    pub(crate) fn is_breakpoint(&self) -> bool {
        self.map == OpcodeMap::Primary && matches!(self.opcode, 0xcc | 0xcd | 0xf1)
    }
}

/// ModRM byte or not, and bytes of the immediate.
fn primary(opcode: u8, operand: usize) -> Option<(bool, usize)> {
    Some(match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => (true, 0),
            4 => (false, 1),
            5 => (false, operand),
            _ => return None,
        },
        0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf => (false, 0),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => (true, 0),
        0x68 | 0xa9 | 0xb8..=0xbf => (false, operand),
        0x69 | 0x81 | 0xc7 => (true, operand),
        0x6a | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe4..=0xe7 => (false, 1),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => (true, 1),
        0xc2 | 0xca => (false, 2),
        0xc8 => (false, 3),
        0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf | 0xd7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => (false, 0),
        _ => return None,
    })
}

/// The same for opcodes after `0f`.
fn secondary(opcode: u8) -> Option<(bool, usize)> {
    Some(match opcode {
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x35 | 0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => (false, 0),
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => (true, 1),
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x36 | 0x39 | 0x3b..=0x3f | 0x7a | 0x7b | 0xa6 | 0xa7 => return None,
        _ => (true, 0),
    })
}

/// An instruction with a vector prefix (VEX, EVEX).
fn vector(first: u8, bytes: &mut Bytes<'_>) -> Option<(OpcodeMap, u8, bool, usize)> {
    let table = match first {
        0xc5 => {
            bytes.next()?;
            1
        }
        0xc4 => {
            let table = bytes.next()? & 0x1f;
            bytes.next()?;
            table
        }
        _ => {
            let table = bytes.next()? & 7;
            bytes.next()?;
            bytes.next()?;
            table
        }
    };
    let opcode = bytes.next()?;
    let (modrm, immediate) = match table {
        1 => match opcode {
            0x77 if first != 0x62 => (false, 0),
            0x70..=0x73 | 0xc2 | 0xc4..=0xc6 => (true, 1),
            _ => (true, 0),
        },
        2 | 5 | 6 => (true, 0),
        3 => (true, 1),
        _ => return None,
    };
    Some((OpcodeMap::Other, opcode, modrm, immediate))
}

#[cfg(test)]
mod tests {
    use super::Instruction;
    use std::path::Path;
    use std::process::Command;

    /// Every boundary that `objdump` sees in a library, compared.
    fn compare(library: &str) {
        if !Path::new(library).exists() {
            println!("short: {library} is not installed");
            return;
        }
        let output = Command::new("objdump")
            .args(["-d", "-w", "-j", ".text", library])
            .output()
            .expect("objdump is a part of binutils");
        let text = String::from_utf8_lossy(&output.stdout);
        let (mut compared, mut wrong) = (0, Vec::new());
        for line in text.lines() {
            let mut columns = line.split('\t');
            let (Some(address), Some(bytes), Some(words)) = (columns.next(), columns.next(), columns.next()) else {
                continue;
            };
            let code: Vec<u8> = bytes.split_whitespace().filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
            // Prefixes without an instruction are shown alone.
            if words.contains("(bad)")
                || words.starts_with("rex") && code.len() == 1
                || matches!(words.trim(), "data16" | "cs" | "repz" | "repnz" | "lock")
            {
                continue;
            }
            // `objdump` shows a wait and the instruction that it waits for as one.
            if code.len() > 1 && code[0] == 0x9b {
                continue;
            }
            compared += 1;
            let mut padded = code.clone();
            padded.extend([0x90; 16]);
            let found = Instruction::decode(&padded);
            if found.is_none_or(|instruction| instruction.length != code.len()) {
                wrong.push(format!("{address} {words}: {code:02x?} gives {found:?}"));
            }
        }
        assert!(compared > 10_000, "{library}: {compared} {}", String::from_utf8_lossy(&output.stderr));
        assert!(wrong.is_empty(), "{library}: {} of {compared}: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    }

    #[test]
    fn lengths_are_those_of_objdump() {
        for library in ["libc.so.6", "libm.so.6", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"]
        {
            compare(&format!("/usr/lib/x86_64-linux-gnu/{library}"));
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic() {
        let mut random = 1_u64;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = u128::from(random).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes();
            for length in 0..16 {
                if let Some(instruction) = Instruction::decode(&bytes[..length]) {
                    assert!(instruction.length <= length && instruction.length > 0);
                }
            }
        }
    }
}
