//! The code that one borrowed thread runs to map the agent, and that finds its own way back.
//!
//! Straight-line code with immediates: it uses no stack and changes no flags, so red zones, alternate stacks and nearly full stacks do not matter. Conditions are
//! `lea rcx, [rax - x]; jrcxz`. Its end restores the ten registers that it uses and jumps to where the thread was. After the one `PTRACE_SETREGSET` that sends a thread
//! here, the attacher may die at any instant: the thread waits for it for some milliseconds, and goes on without.

use crate::tracee::Registers;
use highwater_shm::attach_v1::{AttachHeader, OBJECT_NAME};
use std::mem::offset_of;
use std::ops::Range;

/// The first word of a script, by which a later attacher recognizes one.
pub(crate) const SCRIPT_MAGIC: u64 = u64::from_le_bytes(*b"HWscript");
/// The most that a script takes.
pub(crate) const MOST_SCRIPT_BYTES: usize = 1536;
/// How often the thread asks whether the attacher has opened the object, and how long it pauses in between.
const PAUSES: u64 = 1000;
const PAUSE_NANOSECONDS: u64 = 50_000;

/// Indices in [`AttachHeader::script_results`].
pub(crate) mod result {
    /// The object's descriptor.
    pub(crate) const DESCRIPTOR: usize = 0;
    /// The object's mapping.
    pub(crate) const SHARED: usize = 1;
    /// The islands' mappings.
    pub(crate) const FIRST_ISLAND: usize = 2;
    /// Two words for a time.
    pub(super) const TIME: usize = 22;
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Register {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
}

const ARGUMENTS: [Register; 6] =
    [Register::Rdi, Register::Rsi, Register::Rdx, Register::R10, Register::R8, Register::R9];

/// Machine code in the making.
struct Code {
    bytes: Vec<u8>,
    /// Displacements that lead to the end.
    to_end: Vec<usize>,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn load_immediate(&mut self, register: Register, value: u64) {
        let number = register as u8;
        let (low, high) = (number & 7, number >> 3);
        if let Ok(value) = u32::try_from(value) {
            if high != 0 {
                self.put(&[0x41]);
            }
            self.put(&[0xb8 + low]);
            self.put(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value.cast_signed()) {
            self.put(&[0x48 | high, 0xc7, 0xc0 + low]);
            self.put(&value.to_le_bytes());
        } else {
            self.put(&[0x48 | high, 0xb8 + low]);
            self.put(&value.to_le_bytes());
        }
    }

    /// `mov [address], rax`
    fn store_rax(&mut self, address: u64) {
        self.put(&[0x48, 0xa3]);
        self.put(&address.to_le_bytes());
    }

    /// `mov rax, [address]`
    fn load_rax(&mut self, address: u64) {
        self.put(&[0x48, 0xa1]);
        self.put(&address.to_le_bytes());
    }

    fn store(&mut self, value: u64, address: u64) {
        self.load_immediate(Register::Rax, value);
        self.store_rax(address);
    }

    fn copy_rax(&mut self, to: Register) {
        let number = to as u8;
        self.put(&[0x48 | number >> 3, 0x89, 0xc0 + (number & 7)]);
    }

    /// The system call with the arguments that are in the registers.
    fn call_prepared(&mut self, number: i64) {
        self.load_immediate(Register::Rax, number.cast_unsigned());
        self.put(&[0x0f, 0x05]);
    }

    fn call(&mut self, number: i64, arguments: &[u64]) {
        for (&register, &value) in ARGUMENTS.iter().zip(arguments) {
            self.load_immediate(register, value);
        }
        self.call_prepared(number);
    }

    /// Goes on if rax has this value, to the end otherwise.
    fn require_rax(&mut self, value: u64) {
        self.load_immediate(Register::Rcx, value.wrapping_neg());
        // lea rcx, [rax + rcx]; jrcxz over the jump; jmp end
        self.put(&[0x48, 0x8d, 0x0c, 0x08, 0xe3, 5, 0xe9]);
        self.to_end.push(self.bytes.len());
        self.put(&[0; 4]);
    }

    /// `jmp` to an earlier instruction, unless rcx is 0.
    fn loop_to_unless_rcx_is_0(&mut self, start: usize) {
        self.put(&[0xe3, 5, 0xe9]);
        let displacement = start.wrapping_sub(self.bytes.len() + 4) as u32;
        self.put(&displacement.to_le_bytes());
    }

    fn end_here(&mut self) {
        for at in std::mem::take(&mut self.to_end) {
            self.patch(at);
        }
    }

    fn patch(&mut self, at: usize) {
        let displacement = (self.bytes.len() - (at + 4)) as u32;
        self.bytes[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
    }

    /// All registers as they were, and back.
    fn go_back(&mut self, registers: &Registers, resume: &ResumePoint) {
        self.load_immediate(Register::Rbx, registers.rbx);
        self.load_immediate(Register::Rdi, registers.rdi);
        self.load_immediate(Register::Rsi, registers.rsi);
        self.load_immediate(Register::Rdx, registers.rdx);
        self.load_immediate(Register::R8, registers.r8);
        self.load_immediate(Register::R9, registers.r9);
        self.load_immediate(Register::R10, registers.r10);
        self.load_immediate(Register::R11, registers.r11);
        self.load_immediate(Register::Rcx, registers.rcx);
        self.load_immediate(Register::Rax, resume.rax);
        self.put(&[0xff, 0x25, 0, 0, 0, 0]);
        self.put(&resume.rip.to_le_bytes());
    }
}

/// Where a thread goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResumePoint {
    pub rip: u64,
    pub rax: u64,
}

/// What a script maps.
#[derive(Clone, Debug, Default)]
pub(crate) struct MappingRequest {
    /// Where the image goes.
    pub image: u64,
    /// Bytes that are executable.
    pub text_bytes: u64,
    /// All bytes.
    pub image_bytes: u64,
    /// Where in the image the switch and the header are.
    pub switch_offset: u64,
    pub header_offset: u64,
    /// Pages for islands.
    pub islands: Vec<u64>,
    /// The size of the object.
    pub shared_bytes: u64,
}

/// A script with its entry.
#[derive(Debug)]
pub(crate) struct Script {
    pub bytes: Vec<u8>,
    /// Where a thread begins.
    pub entry: u64,
}

const PAGE: u64 = 4096;
const OBJECT_FLAGS: u64 = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) as u64;
const READ_EXECUTE: u64 = (libc::PROT_READ | libc::PROT_EXEC) as u64;
const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const AT_A_HOLE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
const OVER_THE_IMAGE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
const OBJECT_MAPPING: u64 = (libc::MAP_SHARED | libc::MAP_NORESERVE) as u64;

/// A system call with the arguments that filters see: number, name, arguments.
pub(crate) type FilteredCall = (i64, &'static str, [u64; 6]);

/// The system calls of [`mapping_script`]. Where an argument is known only when the script runs (a descriptor, an address), it is one that is like it.
pub(crate) fn calls_of_script(request: &MappingRequest) -> Vec<FilteredCall> {
    let (image, shared_bytes) = (request.image, request.shared_bytes);
    let data = image + request.text_bytes;
    let mut calls = vec![
        (libc::SYS_mmap, "mmap", [image, request.image_bytes, READ_EXECUTE, AT_A_HOLE, u64::MAX, 0]),
        (
            libc::SYS_mmap,
            "mmap",
            [data, request.image_bytes - request.text_bytes, READ_WRITE, OVER_THE_IMAGE, u64::MAX, 0],
        ),
        (
            libc::SYS_madvise,
            "madvise",
            [image + request.switch_offset, PAGE, libc::MADV_WIPEONFORK as u64, u64::MAX, 0, 0],
        ),
        (libc::SYS_memfd_create, "memfd_create", [image, OBJECT_FLAGS, 0, 0, 0, 0]),
        (libc::SYS_mmap, "mmap", [0, shared_bytes, READ_WRITE, OBJECT_MAPPING, 3, 0]),
        (libc::SYS_madvise, "madvise", [image, shared_bytes, libc::MADV_DONTFORK as u64, OBJECT_MAPPING, 3, 0]),
        (libc::SYS_madvise, "madvise", [image, shared_bytes, libc::MADV_DONTDUMP as u64, OBJECT_MAPPING, 3, 0]),
        (libc::SYS_ppoll, "ppoll", [0, 0, image, 0, 8, 0]),
        (libc::SYS_close, "close", [3, 0, 0, 0, 0, 0]),
        call_that_unmaps(image, request.image_bytes),
    ];
    calls.extend(
        request
            .islands
            .iter()
            .map(|&island| (libc::SYS_mmap, "mmap", [island, PAGE, READ_EXECUTE, AT_A_HOLE, u64::MAX, 0])),
    );
    calls
}

/// The only kind of call of [`cleaning_script`].
pub(crate) fn call_that_unmaps(address: u64, bytes: u64) -> FilteredCall {
    (libc::SYS_munmap, "munmap", [address, bytes, 0, 0, 0, 0])
}

fn begin(at: u64) -> Code {
    let mut code = Code { bytes: Vec::with_capacity(MOST_SCRIPT_BYTES), to_end: Vec::new() };
    code.put(&SCRIPT_MAGIC.to_le_bytes());
    code.put(OBJECT_NAME.to_bytes_with_nul());
    while !(at as usize + code.bytes.len()).is_multiple_of(16) {
        code.put(&[0xcc]);
    }
    code
}

fn unmap_all(code: &mut Code, unmapped: &[Range<u64>]) {
    for range in unmapped {
        code.call(libc::SYS_munmap, &[range.start, range.end - range.start]);
    }
}

/// A script that unmaps what an earlier attach left.
pub(crate) fn cleaning_script(at: u64, unmapped: &[Range<u64>], registers: &Registers, resume: &ResumePoint) -> Script {
    let mut code = begin(at);
    let entry = at + code.bytes.len() as u64;
    unmap_all(&mut code, unmapped);
    code.go_back(registers, resume);
    Script { bytes: code.bytes, entry }
}

/// A script that maps everything, and first unmaps what an earlier attach left.
pub(crate) fn mapping_script(
    at: u64,
    request: &MappingRequest,
    unmapped: &[Range<u64>],
    registers: &Registers,
    resume: &ResumePoint,
) -> Script {
    let header = request.image + request.header_offset;
    let results = header + offset_of!(AttachHeader, script_results) as u64;
    let result = |index: usize| results + 8 * index as u64;
    let done = header + offset_of!(AttachHeader, script_done) as u64;
    let acknowledged = header + offset_of!(AttachHeader, script_acknowledged) as u64;
    let name = at + 8;

    let mut code = begin(at);
    let entry = at + code.bytes.len() as u64;
    unmap_all(&mut code, unmapped);
    code.call(libc::SYS_mmap, &[request.image, request.image_bytes, READ_EXECUTE, AT_A_HOLE, u64::MAX, 0]);
    code.require_rax(request.image);
    let data = request.image + request.text_bytes;
    code.call(
        libc::SYS_mmap,
        &[data, request.image_bytes - request.text_bytes, READ_WRITE, OVER_THE_IMAGE, u64::MAX, 0],
    );
    code.require_rax(data);
    code.call(libc::SYS_madvise, &[request.image + request.switch_offset, PAGE, libc::MADV_WIPEONFORK as u64]);
    // A forked child would believe that it records.
    code.require_rax(0);
    for (index, &island) in request.islands.iter().enumerate() {
        code.call(libc::SYS_mmap, &[island, PAGE, READ_EXECUTE, AT_A_HOLE, u64::MAX, 0]);
        code.store_rax(result(result::FIRST_ISLAND + index));
    }
    code.call(libc::SYS_memfd_create, &[name, OBJECT_FLAGS]);
    code.store_rax(result(result::DESCRIPTOR));
    // The object is still empty: nothing is populated, even where the program locks all its memory.
    code.copy_rax(Register::R8);
    for (register, value) in [
        (Register::Rdi, 0),
        (Register::Rsi, request.shared_bytes),
        (Register::Rdx, READ_WRITE),
        (Register::R10, OBJECT_MAPPING),
        (Register::R9, 0),
    ] {
        code.load_immediate(register, value);
    }
    code.call_prepared(libc::SYS_mmap);
    code.store_rax(result(result::SHARED));
    code.copy_rax(Register::Rdi);
    code.load_immediate(Register::Rsi, request.shared_bytes);
    code.load_immediate(Register::Rdx, libc::MADV_DONTFORK as u64);
    code.call_prepared(libc::SYS_madvise);
    // A core dump would read all of its address space, and so fill its holes. The call before has left its other arguments in their registers.
    code.load_immediate(Register::Rdx, libc::MADV_DONTDUMP as u64);
    code.call_prepared(libc::SYS_madvise);
    code.store(1, done);

    // Until the attacher has opened the object, or for 50 milliseconds and what the pauses take longer.
    code.load_immediate(Register::Rbx, PAUSES);
    let again = code.bytes.len();
    code.load_rax(acknowledged);
    code.copy_rax(Register::Rcx);
    code.put(&[0xe3, 5, 0xe9]);
    let leave = code.bytes.len();
    code.put(&[0; 4]);
    code.store(0, result(result::TIME));
    code.store(PAUSE_NANOSECONDS, result(result::TIME + 1));
    code.call(libc::SYS_ppoll, &[0, 0, result(result::TIME), 0, 8]);
    // lea rbx, [rbx - 1]; mov rcx, rbx
    code.put(&[0x48, 0x8d, 0x5b, 0xff, 0x48, 0x89, 0xd9]);
    code.loop_to_unless_rcx_is_0(again);
    code.patch(leave);
    code.load_rax(result(result::DESCRIPTOR));
    code.copy_rax(Register::Rdi);
    code.call_prepared(libc::SYS_close);
    code.store(2, done);

    code.end_here();
    code.go_back(registers, resume);
    Script { bytes: code.bytes, entry }
}

#[cfg(test)]
mod tests {
    use super::{
        MOST_SCRIPT_BYTES, MappingRequest, Register, ResumePoint, Script, calls_of_script, cleaning_script,
        mapping_script,
    };
    use crate::decode::Instruction;
    use crate::tracee::Registers;

    fn registers() -> Registers {
        // SAFETY: integers only.
        unsafe { std::mem::zeroed() }
    }

    /// Runs the script's code on a register file, without memory: which calls it makes. Loops are left at once.
    fn calls_made(script: &Script, at: u64) -> Vec<(i64, [u64; 6])> {
        let mut registers = [0_u64; 16];
        let (mut code, mut calls) = ((script.entry - at) as usize, Vec::new());
        let immediate = |at: usize, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&script.bytes[at..at + bytes]);
            u64::from_le_bytes(word)
        };
        while code < script.bytes.len() - 8 {
            let length = Instruction::decode(&script.bytes[code..]).unwrap().length;
            match script.bytes[code..code + length] {
                [low @ 0xb8..=0xbf, ..] => registers[(low & 7) as usize] = immediate(code + 1, 4),
                [0x41, low @ 0xb8..=0xbf, ..] => registers[8 + (low & 7) as usize] = immediate(code + 2, 4),
                [rex, 0xc7, low, ..] => {
                    let value = i64::from(immediate(code + 3, 4) as u32 as i32).cast_unsigned();
                    registers[(rex & 1) as usize * 8 + (low & 7) as usize] = value;
                }
                [rex @ 0x48..=0x49, low @ 0xb8..=0xbf, ..] => {
                    registers[(rex & 1) as usize * 8 + (low & 7) as usize] = immediate(code + 2, 8);
                }
                [0x0f, 0x05] => {
                    let argument = |register: Register| registers[register as usize];
                    calls.push((registers[0].cast_signed(), super::ARGUMENTS.map(argument)));
                }
                _ => (),
            }
            code += length;
        }
        calls
    }

    #[test]
    fn filters_are_asked_about_every_call_of_a_script() {
        let request = MappingRequest {
            image: 0x7f12_3456_0000,
            text_bytes: 0x8000,
            image_bytes: 0x2_0000,
            switch_offset: 0x8000,
            header_offset: 0x9000,
            islands: vec![0x7f12_3455_0000],
            shared_bytes: 1 << 30,
        };
        let resume = ResumePoint { rip: 0x40_1234, rax: 219 };
        let at = 0x7f12_0000_0010;
        let old = 0x7f00_0000_0000..0x7f00_0010_0000;
        let script = mapping_script(at, &request, std::slice::from_ref(&old), &registers(), &resume);
        let asked = calls_of_script(&request);
        let made = calls_made(&script, at);
        assert_eq!(made.len(), asked.len());
        // Those on which filters decide: sizes, protections, flags and advice, not addresses and descriptors.
        let telling = |number: i64, arguments: [u64; 6]| match number {
            libc::SYS_mmap => vec![arguments[1], arguments[2], arguments[3]],
            libc::SYS_madvise => vec![arguments[1], arguments[2]],
            libc::SYS_memfd_create => vec![arguments[1]],
            libc::SYS_ppoll => vec![arguments[0], arguments[1], arguments[3], arguments[4]],
            _ => Vec::new(),
        };
        for (number, arguments) in made {
            assert!(
                asked.iter().any(|call| call.0 == number && telling(number, call.2) == telling(number, arguments)),
                "{number} {arguments:x?}"
            );
        }
    }

    #[test]
    fn every_byte_of_a_script_is_an_instruction() {
        let request = MappingRequest {
            image: 0x7f12_3456_0000,
            text_bytes: 0x8000,
            image_bytes: 0x2_0000,
            switch_offset: 0x8000,
            header_offset: 0x9000,
            islands: vec![0x7f12_3455_0000; 8],
            shared_bytes: 1 << 30,
        };
        let resume = ResumePoint { rip: 0x40_1234, rax: 219 };
        let at = 0x7f12_0000_0010;
        let unmapped = [
            0x7f00_0000_0000..0x7f00_0010_0000,
            0x7f01_0000_0000..0x7f02_0000_0000,
            0x7f03_0000_0000..0x7f03_0000_1000,
        ];
        for script in [
            mapping_script(at, &request, &unmapped, &registers(), &resume),
            cleaning_script(at, &unmapped, &registers(), &resume),
        ] {
            assert!(script.bytes.len() <= MOST_SCRIPT_BYTES, "{}", script.bytes.len());
            let mut code = (script.entry - at) as usize;
            let mut starts = Vec::new();
            let mut targets = Vec::new();
            while code < script.bytes.len() - 8 {
                let instruction = Instruction::decode(&script.bytes[code..]).expect("an instruction");
                starts.push(code);
                code += instruction.length;
                if let Some(branch) = instruction.branch {
                    targets.push(code.wrapping_add_signed(branch as isize));
                }
            }
            assert_eq!(code, script.bytes.len() - 8, "the address that it jumps to is last");
            assert!(targets.iter().all(|target| starts.contains(target)), "branches lead to instructions");
            assert_eq!(script.bytes[code..], resume.rip.to_le_bytes());
        }
    }
}
