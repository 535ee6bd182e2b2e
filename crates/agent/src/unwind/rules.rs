//! The unwind rule of each return address, cached in 31 bits.
//!
//! A cache is one table for the whole process, of lines of eight words. A word is the rule, and the part of the address that does not follow
//! from its line. Reading and writing a word is one access, so no lock is needed: each word
//! is a right answer for the address it names. The session's cache is emptied when a module is unloaded.

use super::cfi::{BP, CfaRule, CfiRow, RA, RegisterRule, SP};
use crate::memory_source;
use crate::private_memory::{self, AreaUse};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// How to get from a frame to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(u32);

/// The kind of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum RuleKind {
    /// The tables must be read again.
    Complex = 0,
    /// The CFA is the stack or frame pointer plus an offset. The return address lies below it. The frame pointer is unchanged, or saved
    /// below it as well. Nearly all code.
    Simple = 1,
    /// There is no caller.
    Outermost = 2,
    /// As `Simple`, but not from a table: code without one is assumed to keep a frame pointer. Both have the lowest bit.
    Assumed = 3,
}

const BASE_IS_BP: u32 = 1 << 2;
const OFFSET_SHIFT: u32 = 3;
const OFFSET_BITS: u32 = 20;
const SAVED_SHIFT: u32 = OFFSET_SHIFT + OFFSET_BITS;
const RULE_BITS: u32 = 31;

impl Rule {
    /// There is no caller.
    pub const OUTERMOST: Self = Self(RuleKind::Outermost as u32);
    /// The rule for code that has no table: by the frame pointer.
    pub const FRAME_POINTER: Self = Self(RuleKind::Assumed as u32 | BASE_IS_BP | 2 << OFFSET_SHIFT | 2 << SAVED_SHIFT);
    /// The tables must be read again.
    pub const COMPLEX: Self = Self(RuleKind::Complex as u32);

    /// The rule that a row reduces to.
    pub fn of(row: &CfiRow) -> Self {
        if row.registers[RA] == RegisterRule::Undefined {
            return Self::OUTERMOST;
        }
        Self::simple(row).unwrap_or(Self::COMPLEX)
    }

    fn simple(row: &CfiRow) -> Option<Self> {
        let CfaRule::Register(base, offset) = row.cfa else { return None };
        let base = match base {
            SP => 0,
            BP => BASE_IS_BP,
            _ => return None,
        };
        let words = u32::try_from(offset / 8).ok().filter(|&words| words < 1 << OFFSET_BITS)?;
        let saved = match row.registers[BP] {
            RegisterRule::Same | RegisterRule::Undefined => 0,
            RegisterRule::At(at) if at % 8 == 0 => {
                u32::try_from(-at / 8).ok().filter(|slot| (2..256).contains(slot))?
            }
            _ => return None,
        };
        let plain = offset % 8 == 0
            && row.registers[RA] == RegisterRule::At(-8)
            && row.registers[SP] == RegisterRule::Is(0)
            && !row.signal;
        plain.then_some(Self(RuleKind::Simple as u32 | base | words << OFFSET_SHIFT | saved << SAVED_SHIFT))
    }

    /// True for the usual kind, whose parts the other methods return.
    #[inline(always)]
    pub fn is_simple(self) -> bool {
        self.0 & RuleKind::Simple as u32 != 0
    }

    /// True for a simple rule that is not from a table, so that its steps must be checked.
    #[inline(always)]
    pub fn is_assumed(self) -> bool {
        self.0 & 3 == RuleKind::Assumed as u32
    }

    /// True if there is no caller.
    #[inline(always)]
    pub fn is_outermost(self) -> bool {
        self.0 & 3 == RuleKind::Outermost as u32
    }

    /// The CFA of a simple rule.
    #[inline(always)]
    pub fn cfa(self, sp: u64, bp: u64) -> u64 {
        let base = if self.0 & BASE_IS_BP == 0 { sp } else { bp };
        base.wrapping_add(u64::from(self.0 >> OFFSET_SHIFT & ((1 << OFFSET_BITS) - 1)) * 8)
    }

    /// Whether a simple rule uses the frame pointer.
    #[inline(always)]
    pub fn goes_by_bp(self) -> bool {
        self.0 & BASE_IS_BP != 0
    }

    /// How far below the CFA a simple rule finds the frame pointer, 0 if it is unchanged.
    #[inline(always)]
    pub fn saved_bp(self) -> u64 {
        u64::from(self.0 >> SAVED_SHIFT) * 8
    }
}

const LINE_BITS: u32 = 14;
const LINE: usize = 8;
const TABLE_BYTES: usize = (1 << LINE_BITS) * LINE * 8;

/// A table of rules by return address.
#[derive(Default)]
pub struct RuleCache(AtomicPtr<AtomicU64>);

/// The cache of the session. An address in it has announced its module.
static OF_SESSION: RuleCache = RuleCache::new();

/// Takes memory for the session's cache; false if there is none.
pub fn prepare() -> bool {
    OF_SESSION.prepare()
}

/// Empties the session's cache.
pub fn forget() {
    OF_SESSION.forget();
}

/// The rule of a return address in the session's cache.
#[inline(always)]
pub fn get(pc: u64) -> Option<Rule> {
    OF_SESSION.get(pc)
}

/// Puts a rule into the session's cache.
pub fn put(pc: u64, rule: Rule) {
    OF_SESSION.put(pc, rule);
}

/// The line of an address, and the rest of it that is stored in the word: together they identify the address.
#[inline(always)]
fn line_and_rest(pc: u64) -> (usize, u64) {
    let rest = pc >> LINE_BITS;
    let line = (pc ^ rest.wrapping_mul(0x9e37_79b9) >> 3) & ((1 << LINE_BITS) - 1);
    (line as usize * LINE, rest)
}

impl RuleCache {
    /// A cache without memory.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Takes memory for the cache; false if there is none.
    pub fn prepare(&self) -> bool {
        if self.0.load(Ordering::Relaxed).is_null() {
            let Some(memory) = private_memory::take(TABLE_BYTES, AreaUse::Various) else { return false };
            self.0.store(memory.cast(), Ordering::Release);
        }
        true
    }

    /// Empties the cache, which has memory.
    pub fn forget(&self) {
        // Its pages are zero when they are touched again.
        memory_source::give_back_pages(self.0.load(Ordering::Acquire).cast(), TABLE_BYTES);
    }

    /// The cached rule of a return address. The cache has memory.
    #[inline(always)]
    pub fn get(&self, pc: u64) -> Option<Rule> {
        let (line, rest) = line_and_rest(pc);
        let table = self.0.load(Ordering::Relaxed);
        for index in 0..LINE {
            // SAFETY: within the table, which exists before any thread walks.
            let word = unsafe { (*table.add(line + index)).load(Ordering::Relaxed) };
            if word >> RULE_BITS == rest {
                return Some(Rule(word as u32 & ((1 << RULE_BITS) - 1)));
            }
        }
        None
    }

    /// Caches a rule. The cache has memory.
    pub fn put(&self, pc: u64, rule: Rule) {
        let (line, rest) = line_and_rest(pc);
        if rest == 0 || rest >> (64 - RULE_BITS) != 0 {
            return;
        }
        let table = self.0.load(Ordering::Relaxed);
        // SAFETY: within the table.
        let word = |index: usize| unsafe { &*table.add(line + index) };
        let free = (0..LINE).find(|&index| word(index).load(Ordering::Relaxed) == 0);
        // A full line replaces one of its words, any.
        let index = free.unwrap_or((pc as usize >> 1) % LINE);
        word(index).store(rest << RULE_BITS | u64::from(rule.0), Ordering::Relaxed);
    }
}
