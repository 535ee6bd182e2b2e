//! Which bytes of which functions become a jump, and the code that they jump to.

use crate::allocators::{Allocator, is_needed};
use crate::decode::Instruction;
use crate::modules::TargetModule;
use crate::refusal::Refusal;
use crate::relocate::{FAR_JUMP_BYTES, Immovable, JUMP_BYTES, MovedStart, relocate};
use crate::target_memory::TargetMemory;
use highwater_shm::attach_v1::{FUNCTIONS, Hook, ISLAND_MAGIC};

/// The size of an island.
pub(crate) const ISLAND_BYTES: u64 = 4096;
/// An island's code for one function: `lea rsp, [rsp + n]`, `mov r11, n`, `jmp [rip]`.
const SLOT_BYTES: usize = 8 + 10 + FAR_JUMP_BYTES;
/// How many jumps from one function to the next are followed.
const MOST_JUMPS: usize = 3;
/// How much of a function is searched for branches into its beginning.
const SEARCHED: usize = 4000;

/// A function that will be hooked.
#[derive(Clone, Debug)]
pub(crate) struct PlannedHook {
    pub allocator: usize,
    pub function: usize,
    pub entry: u64,
    /// The island's code.
    pub slot: u64,
    pub trampoline: u64,
    pub moved: MovedStart,
    /// The first bytes of the function, as its file has them.
    pub original: Vec<u8>,
    /// Whether its first instruction has another probe.
    pub is_probed: bool,
}

impl PlannedHook {
    /// Where the jump goes.
    fn jump_address(&self) -> u64 {
        self.entry + self.moved.skip as u64
    }

    /// The hook as the agent's header has it.
    pub(crate) fn describe(&self) -> Hook {
        let mut original = [0; 16];
        let from = self.original.get(self.moved.skip..).unwrap_or_default();
        let length = from.len().min(16);
        original[..length].copy_from_slice(&from[..length]);
        let mut patched = original;
        let displacement = self.slot.wrapping_sub(self.jump_address() + JUMP_BYTES as u64) as u32;
        patched[0] = 0xe9;
        patched[1..JUMP_BYTES].copy_from_slice(&displacement.to_le_bytes());
        Hook {
            address: self.jump_address(),
            length: JUMP_BYTES as u64,
            original,
            patched,
            entry: self.entry,
            island: self.slot,
            trampoline: self.trampoline,
            implementation: self.allocator as u64,
            function: self.function as u64,
            moved: self.moved.covered as u64,
        }
    }

    /// Writes slot and trampoline into the island's page. `implementation` and `entry` are addresses in the image.
    pub(crate) fn write_island(&self, island: u64, page: &mut [u8], implementation: u64, entry: u64) {
        let mut slot = vec![0x48, 0x8d, 0xa4, 0x24];
        slot.extend(self.moved.undo.to_le_bytes());
        slot.extend([0x49, 0xbb]);
        slot.extend(implementation.to_le_bytes());
        slot.extend([0xff, 0x25, 0, 0, 0, 0]);
        slot.extend(entry.to_le_bytes());
        for (address, code) in [(self.slot, &slot), (self.trampoline, &self.moved.code)] {
            let at = (address - island) as usize;
            if let Some(room) = page.get_mut(at..at + code.len()) {
                room.copy_from_slice(code);
            }
        }
    }
}

/// What the functions of one allocator come to.
#[derive(Debug, Default)]
pub(crate) struct AllocatorHooks {
    pub hooks: Vec<PlannedHook>,
    /// Where to call each function that is not hooked itself: it leads to one that is, or is not needed.
    pub real: Vec<(usize, u64)>,
}

/// Where a function begins that may be nothing but jumps to another one.
struct Beginning {
    entry: u64,
    size: usize,
    code: Vec<u8>,
    jumped: bool,
}

fn bytes_at(pid: i32, module: &TargetModule, memory: &TargetMemory, address: u64, size: usize) -> Option<Vec<u8>> {
    // The file has what was there before any breakpoint. A file that has been replaced since is no help, nor is one that cannot be opened.
    let from_file = (!module.path.ends_with(" (deleted)") || module.is_program)
        .then(|| module.bytes_of_file(pid, address, SEARCHED))
        .flatten();
    from_file.or_else(|| memory.read_vec(address, size.clamp(32, SEARCHED)).ok())
}

fn follow_jumps(pid: i32, module: &TargetModule, memory: &TargetMemory, address: u64, size: u64) -> Option<Beginning> {
    let size = usize::try_from(size).unwrap_or(SEARCHED).clamp(1, SEARCHED);
    let mut at = Beginning { entry: address, size, code: bytes_at(pid, module, memory, address, size)?, jumped: false };
    for _ in 0..MOST_JUMPS {
        // `endbr64` may stand in front of the jump of a linkage stub.
        let Some(instruction) = Instruction::decode(&at.code).filter(Instruction::is_jump) else { break };
        let entry = at.entry.wrapping_add(instruction.length as u64).wrapping_add_signed(instruction.branch?);
        at = Beginning { entry, size: SEARCHED, code: bytes_at(pid, module, memory, entry, SEARCHED)?, jumped: true };
    }
    Some(at)
}

/// The address that a linkage stub jumps to.
fn stub_target(memory: &TargetMemory, at: &Beginning) -> Option<u64> {
    let mut skip = 0;
    let mut instruction = Instruction::decode(&at.code)?;
    if instruction.repeat && instruction.opcode == 0x1e {
        skip = instruction.length;
        instruction = Instruction::decode(at.code.get(skip..)?)?;
    }
    let is_jump = instruction.opcode == 0xff && instruction.modrm == Some(0x25);
    let offset = instruction.relative_displacement.filter(|_| is_jump)?;
    let displacement = i32::from_le_bytes(at.code.get(skip + offset..skip + offset + 4)?.try_into().ok()?);
    memory
        .read_u64(at.entry.wrapping_add((skip + instruction.length) as u64).wrapping_add_signed(displacement.into()))
        .ok()
}

/// Plans the hooks of all allocators. `islands` has a page for each.
pub(crate) fn plan_hooks(
    pid: i32,
    memory: &TargetMemory,
    modules: &[TargetModule],
    allocators: &[Allocator],
    islands: &[u64],
) -> Result<Vec<AllocatorHooks>, Refusal> {
    let known: Vec<u64> = allocators
        .iter()
        .flat_map(|allocator| allocator.functions.iter().flatten().map(|symbol| symbol.address))
        .collect();
    let mut all: Vec<AllocatorHooks> = Vec::new();
    for ((index, allocator), &island) in allocators.iter().enumerate().zip(islands) {
        let mut planned = AllocatorHooks::default();
        let module = &modules[allocator.module];
        // Its first two words are its magic and the header's address.
        let mut free = island + 16;
        for (function, symbol) in
            allocator.functions.iter().enumerate().filter_map(|(function, symbol)| Some((function, (*symbol)?)))
        {
            let name = FUNCTIONS[function].name;
            // libstdc++ in a program that has its own malloc calls that.
            let refuse = |reason: Immovable| Refusal::Immovable {
                function: name,
                module: module.file_name().to_owned(),
                reason,
            };
            let mut beginning = follow_jumps(pid, module, memory, symbol.address, symbol.size)
                .ok_or_else(|| refuse(Immovable::Undecodable(0)))?;
            if beginning.jumped
                && let Some(target) = stub_target(memory, &beginning)
            {
                if known.contains(&target) {
                    planned.real.push((function, symbol.address));
                    continue;
                }
                let size = usize::try_from(symbol.size).unwrap_or(SEARCHED).clamp(1, SEARCHED);
                let code = bytes_at(pid, module, memory, symbol.address, size)
                    .ok_or_else(|| refuse(Immovable::Undecodable(0)))?;
                beginning = Beginning { entry: symbol.address, size, code, jumped: false };
            }
            let same = |hook: &&PlannedHook| hook.entry == beginning.entry;
            if let Some(hook) = planned.hooks.iter().chain(all.iter().flat_map(|other| &other.hooks)).find(same) {
                planned.real.push((function, hook.trampoline));
                continue;
            }
            if beginning.jumped
                && let Some(other) = allocator.functions.iter().flatten().find(|other| other.address == beginning.entry)
            {
                beginning.size = usize::try_from(other.size).unwrap_or(SEARCHED).clamp(1, SEARCHED);
            }
            let slot = free.next_multiple_of(16);
            let trampoline = (slot + SLOT_BYTES as u64).next_multiple_of(16);
            let moved = match relocate(
                beginning.entry,
                beginning.size,
                &beginning.code,
                trampoline,
                FUNCTIONS[function].arguments.into(),
            ) {
                Ok(moved) => moved,
                Err(_) if !is_needed(function) => {
                    planned.real.push((function, symbol.address));
                    continue;
                }
                Err(reason) => return Err(refuse(reason)),
            };
            let end = trampoline + moved.code.len() as u64;
            if end > island + ISLAND_BYTES {
                return Err(Refusal::NoRoom(module.file_name().to_owned()));
            }
            let original: Vec<u8> = beginning
                .code
                .get(..moved.covered.max(moved.skip + 16).min(beginning.code.len()))
                .unwrap_or_default()
                .to_vec();
            let found = memory
                .read_vec(beginning.entry, moved.covered)
                .map_err(|source| Refusal::Unreadable { pid, source })?;
            // Ours, of an earlier attach, are restored before these are written.
            let jump = beginning.entry + moved.skip as u64;
            if found.get(moved.skip..) != original.get(moved.skip..moved.covered) && !is_our_jump(memory, jump) {
                return Err(Refusal::ForeignHook { function: name, module: module.file_name().to_owned() });
            }
            let is_probed = moved.skip > 0 && found.get(..moved.skip) != original.get(..moved.skip);
            free = end;
            planned.hooks.push(PlannedHook {
                allocator: index,
                function,
                entry: beginning.entry,
                slot,
                trampoline,
                moved,
                original,
                is_probed,
            });
        }
        all.push(planned);
    }
    Ok(all)
}

/// Whether a jump leads to an island.
fn is_our_jump(memory: &TargetMemory, address: u64) -> bool {
    let Ok(jump) = memory.read_vec(address, JUMP_BYTES) else { return false };
    let Some(instruction) = Instruction::decode(&jump).filter(Instruction::is_jump) else { return false };
    let slot = address.wrapping_add(JUMP_BYTES as u64).wrapping_add_signed(instruction.branch.unwrap_or(0));
    memory.read_u64(slot & !(ISLAND_BYTES - 1)).is_ok_and(|word| word == ISLAND_MAGIC)
}
