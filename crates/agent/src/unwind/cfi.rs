//! Reads `.eh_frame`: for a code address, how the caller's registers are found.
//!
//! A *row* holds the rules for one address: where the canonical frame address (CFA, the stack pointer before the call) is, and
//! for each register of the caller where it was saved. Everything here reads memory of a loaded module between given
//! bounds, checks every length, allocates nothing, and returns `None` for anything it does not understand.

use super::bytes::{ByteCursor, Pointers};

/// Registers by their DWARF numbers: the sixteen general ones, then the return address.
pub const REGISTERS: usize = 17;
/// rbx.
pub const BX: usize = 3;
/// rbp.
pub const BP: usize = 6;
/// rsp.
pub const SP: usize = 7;
/// The return address.
pub const RA: usize = 16;

/// An expression of a module, by the address of its first byte and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Where it starts.
    pub start: u64,
    /// Its length.
    pub length: u32,
}

/// Where the CFA is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CfaRule {
    /// A register plus an offset.
    Register(usize, i64),
    /// The value of an expression.
    Expression(Expression),
}

/// How a register of the caller is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterRule {
    /// It has the value it has now.
    Same,
    /// It is lost; for the return address: there is no caller.
    Undefined,
    /// Saved at the CFA plus this.
    At(i64),
    /// It is the CFA plus this.
    Is(i64),
    /// It is in another register.
    Register(usize),
    /// Saved at the address that the expression gives.
    AtExpression(Expression),
    /// It is the value of the expression.
    IsExpression(Expression),
}

/// The rules for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfiRow {
    /// The CFA.
    pub cfa: CfaRule,
    /// The registers of the caller.
    pub registers: [RegisterRule; REGISTERS],
    /// The frame was made by the kernel for a signal handler: the caller was interrupted, it did not call.
    pub signal: bool,
}

/// The part of a module where unwind tables are: its bounds, and the address of `.eh_frame_hdr` within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindTables {
    /// First address of the module.
    pub start: u64,
    /// End of the module.
    pub end: u64,
    /// `.eh_frame_hdr`.
    pub header: u64,
}

/// The row for a code address.
///
/// # Safety
/// The memory of `tables` from the header on is readable as far as the tables say, as it is in a loaded module.
pub unsafe fn row_at(tables: &UnwindTables, pc: u64) -> Option<CfiRow> {
    let fde = find_fde(tables, pc)?;
    let entry = FrameDescription::read(tables, fde)?;
    entry.row(pc)
}

/// Whether a function begins at an address.
///
/// # Safety
/// As above.
pub unsafe fn begins_at(tables: &UnwindTables, pc: u64) -> bool {
    find_fde(tables, pc).and_then(|fde| FrameDescription::read(tables, fde)).is_some_and(|entry| entry.begin == pc)
}

/// Finds the frame description in the sorted table of `.eh_frame_hdr`.
fn find_fde(tables: &UnwindTables, pc: u64) -> Option<u64> {
    const UDATA4: u8 = 0x03;
    const DATA_RELATIVE_SDATA4: u8 = 0x3b;
    if tables.header == 0 {
        return None;
    }
    let mut header = ByteCursor::new(tables.header, tables.end)?;
    let (version, frame_encoding, count_encoding, table_encoding) =
        (header.u8()?, header.u8()?, header.u8()?, header.u8()?);
    if version != 1 || count_encoding != UDATA4 || table_encoding != DATA_RELATIVE_SDATA4 {
        return None;
    }
    header.pointer(frame_encoding, &Pointers { data: tables.header })?;
    let count = u64::from(header.u32()?);
    let table = header.position();
    if count == 0 || table.checked_add(count.checked_mul(8)?)? > tables.end {
        return None;
    }
    let at = |index: u64| {
        let mut entry = ByteCursor::new(table + index * 8, tables.end)?;
        let address_of = |offset: u32| tables.header.wrapping_add(offset as i32 as u64);
        Some((address_of(entry.u32()?), address_of(entry.u32()?)))
    };
    // The last entry that begins at or before the address.
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if at(middle)?.0 <= pc {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (begin, fde) = at(low)?;
    (begin <= pc && fde >= tables.start).then_some(fde)
}

/// A frame description, with the fields of its common part (CIE).
struct FrameDescription<'a> {
    tables: &'a UnwindTables,
    code_factor: u64,
    data_factor: i64,
    return_register: u64,
    signal: bool,
    pointer_encoding: u8,
    initial: ByteCursor,
    begin: u64,
    length: u64,
    program: ByteCursor,
}

impl<'a> FrameDescription<'a> {
    fn read(tables: &'a UnwindTables, fde: u64) -> Option<Self> {
        const OMITTED: u8 = 0xff;
        let mut description = Self::body(tables, fde)?;
        let at = description.position();
        let distance = u64::from(description.u32()?);
        let mut common = Self::body(tables, at.checked_sub(distance)?)?;
        if distance == 0 || common.u32()? != 0 {
            return None;
        }
        let version = common.u8()?;
        if version != 1 && version != 3 {
            return None;
        }
        let augmentation = common.position();
        while common.u8()? != 0 {}
        let mut letters = ByteCursor::new(augmentation, common.position() - 1)?;
        let code_factor = common.uleb()?;
        let data_factor = common.sleb()?;
        let return_register = if version == 1 { u64::from(common.u8()?) } else { common.uleb()? };
        let (mut signal, mut pointer_encoding, mut has_data) = (false, 0, false);
        if let Some(first) = letters.u8() {
            if first != b'z' {
                return None;
            }
            has_data = true;
            let length = common.uleb()?;
            let mut data = common.take(length)?;
            while let Some(letter) = letters.u8() {
                match letter {
                    b'R' => pointer_encoding = data.u8()?,
                    b'L' => drop(data.u8()?),
                    b'P' => {
                        let encoding = data.u8()?;
                        data.pointer(encoding & 0x7f, &Pointers { data: tables.header })?;
                    }
                    b'S' => signal = true,
                    b'B' => {}
                    _ => return None,
                }
            }
        }
        if pointer_encoding == OMITTED {
            return None;
        }
        let bases = Pointers { data: tables.header };
        let begin = description.pointer(pointer_encoding, &bases)?;
        let length = description.pointer(pointer_encoding & 0x0f, &bases)?;
        if has_data {
            let length = description.uleb()?;
            description.take(length)?;
        }
        Some(Self {
            tables,
            code_factor,
            data_factor,
            return_register,
            signal,
            pointer_encoding,
            initial: common,
            begin,
            length,
            program: description,
        })
    }

    /// The bytes after the length of the entry at `address`.
    fn body(tables: &UnwindTables, address: u64) -> Option<ByteCursor> {
        let mut bytes = ByteCursor::new(address, tables.end).filter(|_| address >= tables.start)?;
        let length = bytes.u32()?;
        // 64-bit entries are not used in programs that fit in memory.
        if length == 0 || length == u32::MAX {
            return None;
        }
        bytes.take(u64::from(length))
    }

    fn row(&self, pc: u64) -> Option<CfiRow> {
        if pc.wrapping_sub(self.begin) >= self.length || self.return_register != RA as u64 {
            return None;
        }
        let mut row =
            CfiRow { cfa: CfaRule::Register(SP, 0), registers: [RegisterRule::Same; REGISTERS], signal: self.signal };
        // The stack pointer before the call is the CFA, unless said otherwise.
        row.registers[SP] = RegisterRule::Is(0);
        row.registers[RA] = RegisterRule::Undefined;
        self.run(self.initial, &mut row, None, u64::MAX)?;
        let initial = row;
        self.run(self.program, &mut row, Some(&initial), pc)?;
        Some(row)
    }

    /// Runs a program until it passes `pc`.
    fn run(&self, mut program: ByteCursor, row: &mut CfiRow, initial: Option<&CfiRow>, pc: u64) -> Option<()> {
        const MOST_REMEMBERED: usize = 4;
        let mut location = self.begin;
        let mut remembered = [*row; MOST_REMEMBERED];
        let mut depth = 0;
        while let Some(code) = program.u8() {
            let low = u64::from(code & 0x3f);
            match code {
                0x40..=0x7f => location = self.advanced(location, low),
                0x80..=0xbf => {
                    let offset = self.offset(program.uleb()?);
                    set(row, low, RegisterRule::At(offset));
                }
                0xc0..=0xff => restore(row, initial, low),
                // set_loc
                0x01 => location = program.pointer(self.pointer_encoding, &Pointers { data: self.tables.header })?,
                // advance_loc 1, 2, 4
                0x02 => location = self.advanced(location, program.u8()?.into()),
                0x03 => location = self.advanced(location, program.u16()?.into()),
                0x04 => location = self.advanced(location, program.u32()?.into()),
                // offset_extended, restore_extended, undefined, same_value, register
                0x05 => {
                    let register = program.uleb()?;
                    let offset = self.offset(program.uleb()?);
                    set(row, register, RegisterRule::At(offset));
                }
                0x06 => restore(row, initial, program.uleb()?),
                0x07 => set(row, program.uleb()?, RegisterRule::Undefined),
                0x08 => set(row, program.uleb()?, RegisterRule::Same),
                0x09 => {
                    let register = program.uleb()?;
                    let other = program.uleb()? as usize;
                    set(
                        row,
                        register,
                        if other < REGISTERS { RegisterRule::Register(other) } else { RegisterRule::Undefined },
                    );
                }
                // remember_state, restore_state
                0x0a => {
                    *remembered.get_mut(depth)? = *row;
                    depth += 1;
                }
                0x0b => {
                    depth = depth.checked_sub(1)?;
                    *row = remembered[depth];
                }
                // def_cfa, def_cfa_register, def_cfa_offset
                0x0c => {
                    let register = program.uleb()? as usize;
                    row.cfa = CfaRule::Register(register, program.uleb()? as i64);
                }
                0x0d => {
                    let register = program.uleb()? as usize;
                    let CfaRule::Register(_, offset) = row.cfa else { return None };
                    row.cfa = CfaRule::Register(register, offset);
                }
                0x0e => {
                    let offset = program.uleb()? as i64;
                    let CfaRule::Register(register, _) = row.cfa else { return None };
                    row.cfa = CfaRule::Register(register, offset);
                }
                // def_cfa_expression, expression, val_expression
                0x0f => row.cfa = CfaRule::Expression(expression(&mut program)?),
                0x10 => {
                    let register = program.uleb()?;
                    let expression = expression(&mut program)?;
                    set(row, register, RegisterRule::AtExpression(expression));
                }
                0x16 => {
                    let register = program.uleb()?;
                    let expression = expression(&mut program)?;
                    set(row, register, RegisterRule::IsExpression(expression));
                }
                // offset_extended_sf, def_cfa_sf, def_cfa_offset_sf
                0x11 => {
                    let register = program.uleb()?;
                    let offset = program.sleb()?.wrapping_mul(self.data_factor);
                    set(row, register, RegisterRule::At(offset));
                }
                0x12 => {
                    let register = program.uleb()? as usize;
                    row.cfa = CfaRule::Register(register, program.sleb()?.wrapping_mul(self.data_factor));
                }
                0x13 => {
                    let offset = program.sleb()?.wrapping_mul(self.data_factor);
                    let CfaRule::Register(register, _) = row.cfa else { return None };
                    row.cfa = CfaRule::Register(register, offset);
                }
                // val_offset, val_offset_sf
                0x14 => {
                    let register = program.uleb()?;
                    let offset = self.offset(program.uleb()?);
                    set(row, register, RegisterRule::Is(offset));
                }
                0x15 => {
                    let register = program.uleb()?;
                    let offset = program.sleb()?.wrapping_mul(self.data_factor);
                    set(row, register, RegisterRule::Is(offset));
                }
                // nop, GNU_args_size
                0x00 => {}
                0x2e => drop(program.uleb()?),
                _ => return None,
            }
            if location > pc && initial.is_some() {
                // The last instruction moved beyond the address; the rules before it hold.
                return Some(());
            }
        }
        Some(())
    }

    fn advanced(&self, location: u64, by: u64) -> u64 {
        location.wrapping_add(by.wrapping_mul(self.code_factor))
    }

    fn offset(&self, factored: u64) -> i64 {
        (factored as i64).wrapping_mul(self.data_factor)
    }
}

fn expression(program: &mut ByteCursor) -> Option<Expression> {
    let length = program.uleb()?;
    let start = program.position();
    program.take(length)?;
    Some(Expression { start, length: u32::try_from(length).ok()? })
}

/// Sets the rule of a register; registers other than the general ones, such as vector registers, are ignored.
fn set(row: &mut CfiRow, register: u64, rule: RegisterRule) {
    if let Some(slot) = usize::try_from(register).ok().and_then(|register| row.registers.get_mut(register)) {
        *slot = rule;
    }
}

fn restore(row: &mut CfiRow, initial: Option<&CfiRow>, register: u64) {
    let rule = initial.and_then(|row| row.registers.get(usize::try_from(register).ok()?));
    set(row, register, rule.copied().unwrap_or(RegisterRule::Same));
}
