//! Code without unwind tables: the walk goes on by the frame pointer, and checks each step.
//!
//! Compilers at run time (V8, HotSpot, CPython's trampolines) write no unwind tables, and so do some assemblers: V8's builtins lie in the text of `node` itself.
//! But they keep frame pointers: a function pushes the caller's, and makes its own point there. So the caller's frame pointer is the word at the frame
//! pointer, the return address is the next one, and the caller's stack begins after it. That is an ordinary rule ([`Rule::FRAME_POINTER`]), and it is remembered and
//! compared like others.
//!
//! In code that uses the register otherwise, the rule is wrong. So a step must lead to a higher address of the same stack, and the return address must lie in
//! executable memory; in code that has tables it must also follow a call. If not, the stack is truncated there.

use super::cfi;
use super::code_ranges;
use super::memory::StackWindow;
use super::objects::LoadedModule;
use super::rules::Rule;
use super::walk::FrameState;

/// The largest frame that is believed on a stack whose bounds are not known.
const LARGEST_FRAME: u64 = 1 << 20;

/// The rule for code at an address that has no table; `None` if there is no code.
pub fn rule_at(address: u64, module: Option<&LoadedModule>) -> Option<Rule> {
    let is_code = match module {
        Some(module) => module.code_at(address).is_some(),
        None => code_ranges::contain(address),
    };
    is_code.then_some(Rule::FRAME_POINTER)
}

/// The caller's state, on any stack.
#[cold]
pub fn step(sp: u64, bp: u64, window: &StackWindow) -> Option<FrameState> {
    let is_near = match window.contains(sp) {
        true => window.contains(bp) && window.contains(bp.wrapping_add(8)),
        false => bp.wrapping_sub(sp) < LARGEST_FRAME,
    };
    if bp < sp || !is_near {
        return None;
    }
    Some(FrameState { pc: window.word(bp + 8)?, sp: bp + 16, bp: window.word(bp)? })
}

/// Whether an address in a module, found by a frame pointer, can be one to which a call returns. Code without tables may be entered by returning to its
/// beginning, as V8 does with code that it replaces; compiled code follows a call.
pub fn is_return_address(pc: u64, has_tables: bool, module: &LoadedModule) -> bool {
    // SAFETY: the tables of a loaded module.
    let is_function = || unsafe { cfi::begins_at(&module.tables, pc) };
    if has_tables { follows_call(pc, module) } else { !is_function() }
}

fn follows_call(pc: u64, module: &LoadedModule) -> bool {
    const LONGEST: u64 = 8;
    let Some(code) = module.code_at(pc.wrapping_sub(1)) else { return false };
    if pc - code.start < LONGEST {
        return false;
    }
    // SAFETY: within a readable segment of a loaded module.
    let bytes = unsafe { ((pc - LONGEST) as *const [u8; LONGEST as usize]).read_unaligned() };
    ends_with_call(&bytes)
}

/// Whether the last bytes may be a call: to a displacement, or through a register or memory.
fn ends_with_call(bytes: &[u8; 8]) -> bool {
    const NEAR: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    const INDIRECT_LENGTHS: [usize; 5] = [2, 3, 4, 6, 7];
    let is_indirect = |length: usize| bytes[8 - length] == INDIRECT && bytes[9 - length] >> 3 & 7 == 2;
    bytes[3] == NEAR || INDIRECT_LENGTHS.into_iter().any(is_indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_all_forms_are_recognized() {
        for call in [
            &[0xe8u8, 0x10, 0, 0, 0][..],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd4],
            &[0xff, 0x50, 0x18],
            &[0xff, 0x54, 0x24, 0x08],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x94, 0xc1, 1, 2, 3, 4],
        ] {
            let mut bytes = [0x90; 8];
            bytes[8 - call.len()..].copy_from_slice(call);
            assert!(ends_with_call(&bytes), "{call:x?}");
        }
        assert!(!ends_with_call(&[0x90; 8]));
        assert!(!ends_with_call(&[0x55, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x53, 0xc3]));
    }

    #[test]
    fn a_step_stays_on_its_stack_and_leads_outwards() {
        let words = [7u64, 0x1000, 0x2000, 9, 9, 9, 9, 9];
        let low = words.as_ptr() as u64;
        let window = StackWindow::over(low, low + 64);
        let found = step(low, low + 8, &window);
        assert_eq!(found, Some(FrameState { pc: 0x2000, sp: low + 24, bp: 0x1000 }));
        for bp in [0, 1, low - 8, low + 12, low + 56, low + 64, u64::MAX, u64::MAX - 7] {
            assert_eq!(step(low, bp, &window), None, "{bp:x}");
        }
        assert_eq!(step(low + 16, low + 8, &window), None);
    }
}
