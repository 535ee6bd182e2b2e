//! Moving the first instructions of a function, so that a jump can stand in their place.
//!
//! The jump stands *after* the first instruction if that can be undone: a probe of the kernel on the entry runs the first instruction of the file elsewhere and goes
//! on after it. With the jump on the entry the program would die of such a probe; after it both work, whichever comes first.

use crate::decode::{Instruction, OpcodeMap};

/// Bytes of `jmp` with a 32-bit displacement.
pub(crate) const JUMP_BYTES: usize = 5;

/// Bytes of an absolute jump: `jmp [rip]` and the address.
pub(crate) const FAR_JUMP_BYTES: usize = 14;

/// Why the beginning of a function cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Immovable {
    /// An unknown instruction.
    #[error("its instruction at +{0} cannot be decoded")]
    Undecodable(usize),
    /// A debugger's breakpoint, or code that is none.
    #[error("it has a breakpoint at +{0}")]
    Breakpoint(usize),
    /// A call, whose return address would be elsewhere, or a loop.
    #[error("its instruction at +{0} cannot be moved")]
    Fixed(usize),
    /// A branch between the instructions that are to be overwritten.
    #[error("it branches back into its first instructions")]
    BranchesBack,
    /// Another function may begin in the bytes that are to be overwritten.
    #[error("it is too short")]
    Short,
    /// A write that crosses a page is two writes, and the attacher may die between them.
    #[error("its first instructions lie on two pages")]
    CrossesPage,
    /// A displacement of 32 bits does not reach from the new address.
    #[error("it refers to addresses that are too far away")]
    TooFar,
}

/// A function's beginning, as it stands in its trampoline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MovedStart {
    /// Moved instructions, and the jump to the rest of the function.
    pub code: Vec<u8>,
    /// Where the jump is to be written: bytes of the first instruction, if that stays.
    pub skip: usize,
    /// By how much the stack pointer must be raised at the jump, to be as it was at the entry.
    pub undo: u32,
    /// Bytes of the function whose instructions were moved.
    pub covered: usize,
}

/// By how much to raise the stack pointer to undo an instruction; `None` if it cannot be undone. `arguments` is how many registers carry arguments.
fn undo_of(instruction: &Instruction, arguments: usize) -> Option<u32> {
    // rdi, rsi, rdx, rcx, r8, r9
    const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
    let unused = |register: u8| {
        matches!(register, 0 | 10 | 11) || ARGUMENTS.iter().skip(arguments).any(|&argument| argument == register)
    };
    let group = instruction.modrm.map(|modrm| modrm >> 3 & 7);
    match (instruction.map, instruction.opcode) {
        (OpcodeMap::Primary, 0x50..=0x57) if !instruction.narrow => Some(8),
        (OpcodeMap::Primary, 0x81 | 0x83)
            if group == Some(5) && instruction.rex & 8 != 0 && instruction.direct_operand() == Some(4) =>
        {
            u32::try_from(instruction.immediate).ok().filter(|&bytes| bytes < 1 << 20)
        }
        // cmp, test
        (OpcodeMap::Primary, 0x38..=0x3d | 0x84 | 0x85 | 0xa8 | 0xa9) => Some(0),
        (OpcodeMap::Primary, 0x80 | 0x81 | 0x83) if group == Some(7) => Some(0),
        (OpcodeMap::Primary, 0xf6 | 0xf7) if group.is_some_and(|group| group < 2) => Some(0),
        // nop; the form with `f3` is `pause`, the one with REX.B exchanges registers.
        (OpcodeMap::Primary, 0x90) if instruction.rex & 1 == 0 => Some(0),
        (OpcodeMap::Secondary, 0x1f) => Some(0),
        // endbr64
        (OpcodeMap::Secondary, 0x1e) if instruction.repeat && instruction.modrm == Some(0xfa) => Some(0),
        // mov, xor, lea to a register that carries nothing
        (OpcodeMap::Primary, 0x89 | 0x31) => {
            instruction.direct_operand().filter(|&register| unused(register)).map(|_| 0)
        }
        (OpcodeMap::Primary, 0x8b | 0x8d | 0x33) => {
            instruction.register().filter(|&register| unused(register)).map(|_| 0)
        }
        (OpcodeMap::Primary, 0xc7) if group == Some(0) => {
            instruction.direct_operand().filter(|&register| unused(register)).map(|_| 0)
        }
        (OpcodeMap::Primary, 0xb8..=0xbf) => {
            Some((instruction.opcode & 7) | (instruction.rex & 1) << 3).filter(|&register| unused(register)).map(|_| 0)
        }
        _ => None,
    }
}

/// Whether a jump at this offset of a function lies on two pages. The kernel copies page by page: an attacher that is killed after the first would leave half a jump.
fn crosses_page(entry: u64, skip: usize) -> bool {
    const PAGE: u64 = 4096;
    entry.wrapping_add(skip as u64) % PAGE > PAGE - JUMP_BYTES as u64
}

/// Moves the first instructions of the function at `entry`, whose bytes are `code`, to `target`. `size` is how long the function is; `code` may be longer.
pub(crate) fn relocate(
    entry: u64,
    size: usize,
    code: &[u8],
    target: u64,
    arguments: usize,
) -> Result<MovedStart, Immovable> {
    let first = Instruction::decode(code).ok_or(Immovable::Undecodable(0))?;
    let (skip, undo) = match undo_of(&first, arguments) {
        Some(undo) if size >= first.length + JUMP_BYTES && !crosses_page(entry, first.length) => (first.length, undo),
        _ if crosses_page(entry, 0) => return Err(Immovable::CrossesPage),
        _ => (0, 0),
    };
    let end = skip + JUMP_BYTES;
    // A branch to the jump itself is one to the hook, once more: also wrong, except to the entry.
    let overwritten = |address: u64| {
        let offset = address.wrapping_sub(entry);
        offset >= skip.max(1) as u64 && offset < end as u64
    };
    let mut moved = Vec::new();
    let mut at = 0;
    while at < end {
        let instruction = code.get(at..).and_then(Instruction::decode).ok_or(Immovable::Undecodable(at))?;
        if instruction.is_breakpoint() {
            return Err(Immovable::Breakpoint(at));
        }
        let next = at + instruction.length;
        let from = |offset: usize| entry.wrapping_add(offset as u64);
        let displacement = |to: u64, moved_end: usize| {
            i32::try_from(to.wrapping_sub(target.wrapping_add(moved_end as u64)).cast_signed())
                .map_err(|_| Immovable::TooFar)
        };
        if let Some(branch) = instruction.branch {
            let to = from(next).wrapping_add_signed(branch);
            if to.wrapping_sub(entry) < end as u64 {
                return Err(Immovable::BranchesBack);
            }
            if let Some(condition) = instruction.condition() {
                moved.extend([0x0f, 0x80 | condition]);
            } else if instruction.is_jump() {
                moved.push(0xe9);
            } else {
                return Err(Immovable::Fixed(at));
            }
            let offset = displacement(to, moved.len() + 4)?;
            moved.extend(offset.to_le_bytes());
        } else {
            let copied = code.get(at..next).ok_or(Immovable::Undecodable(at))?;
            let begin = moved.len();
            moved.extend_from_slice(copied);
            if let Some(offset) = instruction.relative_displacement {
                let old = copied
                    .get(offset..offset + 4)
                    .and_then(|bytes| bytes.try_into().ok())
                    .map(i32::from_le_bytes)
                    .ok_or(Immovable::Undecodable(at))?;
                let new = displacement(from(next).wrapping_add_signed(old.into()), moved.len())?;
                moved.splice(begin + offset..begin + offset + 4, new.to_le_bytes());
            }
            // Indirect calls push a return address that would be ours.
            if instruction.map == OpcodeMap::Primary
                && instruction.opcode == 0xff
                && matches!(instruction.modrm.map(|modrm| modrm >> 3 & 7), Some(2 | 3))
            {
                return Err(Immovable::Fixed(at));
            }
            // System calls are restarted at their own address.
            if instruction.map == OpcodeMap::Secondary && matches!(instruction.opcode, 0x05 | 0x34) {
                return Err(Immovable::Fixed(at));
            }
        }
        at = next;
        if instruction.ends_flow() && at < end {
            // What follows must be padding up to the end of the jump.
            let rest = code.get(at..end).ok_or(Immovable::Short)?;
            if !rest.iter().all(|&byte| matches!(byte, 0x90 | 0xcc | 0x66 | 0x0f | 0x1f | 0x00))
                || at < size && size < end && size != at
            {
                return Err(Immovable::Short);
            }
            at = end;
        }
    }
    if branches_back(entry, at, code.get(..size.min(code.len())).unwrap_or_default(), overwritten) {
        return Err(Immovable::BranchesBack);
    }
    moved.extend([0xff, 0x25, 0, 0, 0, 0]);
    moved.extend(entry.wrapping_add(at as u64).to_le_bytes());
    Ok(MovedStart { code: moved, skip, undo, covered: at })
}

/// Whether the rest of a function branches between the instructions that are overwritten. Reading ends at what cannot be decoded.
fn branches_back(entry: u64, mut at: usize, code: &[u8], overwritten: impl Fn(u64) -> bool) -> bool {
    while let Some(instruction) = code.get(at..).and_then(Instruction::decode) {
        at += instruction.length;
        if instruction
            .branch
            .is_some_and(|branch| overwritten(entry.wrapping_add(at as u64).wrapping_add_signed(branch)))
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Immovable, relocate};

    const ENTRY: u64 = 0x7f00_0000_1000;
    const TARGET: u64 = 0x7f00_1000_0000;

    fn moved(code: &[u8], arguments: usize) -> Result<(usize, u32, usize, Vec<u8>), Immovable> {
        let mut padded = code.to_vec();
        padded.extend([0x90; 32]);
        relocate(ENTRY, padded.len(), &padded, TARGET, arguments)
            .map(|moved| (moved.skip, moved.undo, moved.covered, moved.code))
    }

    /// The jump back to the rest of the function.
    fn back(covered: usize) -> Vec<u8> {
        let mut jump = vec![0xff, 0x25, 0, 0, 0, 0];
        jump.extend((ENTRY + covered as u64).to_le_bytes());
        jump
    }

    #[test]
    fn the_jump_stands_behind_an_instruction_that_can_be_undone() {
        // push %r12; push %rbp; sub $0x18,%rsp
        let code = [0x41, 0x54, 0x55, 0x48, 0x83, 0xec, 0x18];
        let (skip, undo, covered, moved_code) = moved(&code, 1).unwrap();
        assert_eq!((skip, undo, covered), (2, 8, 7));
        assert_eq!(moved_code, [&code[..], &back(7)].concat());
        // sub $0x28,%rsp; mov %rdi,%rbx; xor %eax,%eax
        assert_eq!(moved(&[0x48, 0x83, 0xec, 0x28, 0x48, 0x89, 0xfb, 0x31, 0xc0], 1).unwrap().1, 0x28);
        // endbr64; push %rbp; mov %rsp,%rbp; …
        assert_eq!(moved(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57], 1).unwrap().0, 4);
    }

    #[test]
    fn what_cannot_be_undone_is_overwritten_itself() {
        // mov %rsi,%rdi; mov (%rdi),%rax: the first argument is lost.
        let code = [0x48, 0x89, 0xf7, 0x48, 0x8b, 0x07];
        assert_eq!(moved(&code, 2).unwrap().0, 0);
        // mov %rdi,%rdx is harmless with one argument, not with three.
        let code = [0x48, 0x89, 0xfa, 0x48, 0x8b, 0x07, 0x31, 0xc0];
        assert_eq!(moved(&code, 1).unwrap().0, 3);
        assert_eq!(moved(&code, 3).unwrap().0, 0);
    }

    #[test]
    fn no_jump_lies_on_two_pages() {
        // push %r12; push %rbp; sub $0x18,%rsp; then nop
        let mut code = vec![0x41, 0x54, 0x55, 0x48, 0x83, 0xec, 0x18];
        code.extend([0x90; 32]);
        let skip =
            |offset: u64| relocate((ENTRY & !0xfff) + offset, code.len(), &code, TARGET, 1).map(|moved| moved.skip);
        assert_eq!(skip(0xff9), Ok(2), "its last byte is the page's last");
        assert_eq!(skip(0xffa), Ok(0), "the entry itself is on one page");
        assert_eq!(skip(0xffb), Ok(0));
        for offset in 0xffc..0xffe {
            assert_eq!(skip(offset), Err(Immovable::CrossesPage), "{offset:x}");
        }
        assert_eq!(skip(0xffe), Ok(2), "the first instruction ends with the page");
        assert_eq!(skip(0xfff), Ok(2));
    }

    #[test]
    fn addresses_and_branches_mean_the_same_as_before() {
        // mov 0x1234(%rip),%rax; test %rax,%rax; je +0x40
        let code = [0x48, 0x8b, 0x05, 0x34, 0x12, 0, 0, 0x48, 0x85, 0xc0, 0x74, 0x40];
        let (skip, _, covered, moved_code) = moved(&code, 1).unwrap();
        assert_eq!((skip, covered), (7, 12));
        let displacement = i32::from_le_bytes(moved_code[3..7].try_into().unwrap());
        assert_eq!(TARGET.wrapping_add(7).wrapping_add_signed(displacement.into()), ENTRY + 7 + 0x1234);
        assert_eq!(moved_code[10..12], [0x0f, 0x84]);
        let displacement = i32::from_le_bytes(moved_code[12..16].try_into().unwrap());
        assert_eq!((TARGET + 16).wrapping_add_signed(displacement.into()), ENTRY + 12 + 0x40);
        assert_eq!(moved_code[16..], back(12));
    }

    #[test]
    fn what_would_break_is_refused() {
        // call +0
        assert_eq!(moved(&[0xe8, 0, 0, 0, 0], 1), Err(Immovable::Fixed(0)));
        // push %rbx; call *%rax
        assert_eq!(moved(&[0x53, 0xff, 0xd0, 0x90, 0x90, 0x90], 1), Err(Immovable::Fixed(1)));
        assert_eq!(moved(&[0x53, 0xcc, 0x90, 0x90, 0x90, 0x90], 1), Err(Immovable::Breakpoint(1)));
        assert_eq!(moved(&[0x53, 0x06, 0x90, 0x90, 0x90, 0x90], 1), Err(Immovable::Undecodable(1)));
        // push %rbx; five times nop; … jmp back to the second nop.
        assert_eq!(
            moved(&[0x53, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x89, 0xfb, 0xeb, 0xf7], 1),
            Err(Immovable::BranchesBack)
        );
        // xor %eax,%eax; ret, and another function after it.
        assert_eq!(
            relocate(ENTRY, 3, &[0x31, 0xc0, 0xc3, 0x48, 0x89, 0xf8, 0xc3, 0x90], TARGET, 1),
            Err(Immovable::Short)
        );
        let far =
            relocate(ENTRY, 12, &[0x48, 0x8b, 0x05, 0, 0, 0, 0, 0x48, 0x85, 0xc0, 0x31, 0xc0], ENTRY + (1 << 33), 1);
        assert_eq!(far, Err(Immovable::TooFar));
    }
}
