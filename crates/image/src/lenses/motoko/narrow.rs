//! Finds start, end and roots of a 32-bit heap. The image does not state them; they come from the module, or are found by trying.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::names::{MotokoNames, Variable, variables};
use super::room::Room;
use super::wide::most_memory;
use crate::damage::Damages;
use crate::image::Image;
use crate::lens::{Root, RootName};
use crate::sidecar::Sidecar;
use crate::wasm::{Instruction, WasmModule};
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// The end of the shadow stack; nothing else lies below it.
const STACK: u64 = 2 << 20;
/// Heaps begin at multiples of this.
const ALIGNMENT: u64 = 32;
/// Without a module, the fewest objects in a row that count as a heap.
const FEWEST_OBJECTS: u64 = 64;
/// The most arrays that are tried as the array of variables, and the most variables in it: programs have fewer.
const MOST_ARRAYS: usize = 64;
const MOST_VARIABLES: u64 = 4096;
/// The end of the memory in which programs may allocate; the runtime keeps the rest in reserve.
const MOST_HEAP: u64 = 0xefff_0000;
/// How far after the stack a heap is searched for.
const SEARCHED: u64 = 16 << 20;

/// The addresses that a module of the classical kind states.
struct ClassicalLayout {
    base: u64,
    header: u64,
    static_roots: Option<u64>,
    /// The index of the global that holds the end of the heap.
    end: Option<u32>,
}

impl ClassicalLayout {
    fn of(module: &WasmModule) -> Option<Self> {
        let base_global = module.global_returned_by("get_heap_base")?;
        let base = u64::try_from(module.global(base_global)?).ok()?.next_multiple_of(ALIGNMENT);
        let roots = module.instructions_of("get_static_roots").and_then(|code| match code.first()? {
            Instruction::Constant(reference) => Some(u64::from(*reference as u32).wrapping_add(1)),
            _ => None,
        });
        let header = if module.has_function("schedule_incremental_gc") { 2 } else { 1 };
        let end = ["__get_hp", "get_hp", "getHP", "get_heap_pointer"]
            .into_iter()
            .find_map(|name| module.global_returned_by(name));
        Some(Self { base, header, static_roots: roots, end })
    }
}

/// The end of the heap, and the difference between it and the value of the global.
#[derive(Clone, Copy)]
struct HeapEnd {
    at: u64,
    skew: u64,
}

/// The room after the last object. A generational collector would not find a young object to which an old one refers.
fn room(module: &WasmModule, global: u32, end: HeapEnd) -> Room {
    let start = module.instructions_of("rts_start").unwrap_or_default();
    let calls = |name| module.function_named(name).is_some_and(|function| start.contains(&Instruction::Call(function)));
    if calls("initialize_copying_gc") || calls("initialize_compacting_gc") {
        return Room::Pointer { global, end: end.at, skew: end.skew, limit: most_memory(Some(module)).min(MOST_HEAP) };
    }
    Room::Unknown("the collector (generational, 32 bits) would not find it")
}

/// The address of the last byte of an image that is not zero.
fn last_used(image: &Image) -> u64 {
    for range in image.data().iter().rev() {
        let contents = image.slice(range.start, range.end - range.start);
        if let Some(at) = contents.iter().rposition(|&byte| byte != 0) {
            return range.start + at as u64;
        }
    }
    0
}

impl<'a> Motoko<'a, false> {
    /// The heap of an image with a classical heap; `None` if none is found.
    pub fn narrow(
        image: &'a Image,
        module: Option<&WasmModule>,
        sidecar: &Sidecar,
        damage: &mut Damages,
    ) -> Option<Self> {
        if image.len() > 1 << 32 || module.is_some_and(|module| module.is_wide()) {
            return None;
        }
        let layout = module.and_then(ClassicalLayout::of);
        let used = last_used(image);
        let (base, header) = match &layout {
            Some(layout) => (layout.base, layout.header),
            None => Self::search(image, used, module)?,
        };
        let end = layout.as_ref().and_then(|layout| layout.end).and_then(|global| sidecar.global(global));
        // The runtime keeps it as a reference, which is one less than the address; older ones as an address.
        let end = end.map(|end| {
            if end & 3 == 3 {
                HeapEnd { at: end.saturating_add(1), skew: 1 }
            } else {
                HeapEnd { at: end & !3, skew: 0 }
            }
        });
        let heap_end = end.filter(|end| (base..=image.len()).contains(&end.at));
        let end = heap_end.map(|end| end.at);
        let mut heap = Self::between(image, base, header, end.unwrap_or(base), MotokoNames::of(module, false, header));
        heap.stated_bytes = end.map(|end| end - base);
        if end.is_none() {
            heap.set_end(heap.find_end(used));
        }
        heap.room = match (module, layout.as_ref().and_then(|layout| layout.end), heap_end) {
            _ if header == 2 => Room::Unknown("the state of this collector (incremental, 32 bits) is not known"),
            (Some(module), Some(global), Some(end)) => room(module, global, end),
            _ => heap.room,
        };
        if base > image.len() {
            damage.note(image.len(), 0, format!("the image ends before its heap begins, at {base:#x}"));
        }
        let stated = layout.and_then(|layout| layout.static_roots).filter(|&array| heap.is_array_of_boxes(array));
        // If the module's statement does not fit, it is the module of another image. Then there must be other evidence, or there is no heap.
        let static_roots = match stated {
            Some(array) => Some(array),
            None => Some(heap.search_static_roots()?),
        };
        heap.roots = {
            let variables = heap.variables_of(module, damage);
            heap.find_roots(static_roots, &variables)
        };
        if heap.roots.is_empty() {
            damage.note(base, 0, "no roots are found; nothing counts as live");
        }
        Some(heap)
    }

    fn between(image: &'a Image, base: u64, header: u64, end: u64, names: MotokoNames) -> Self {
        let mut heap = Self {
            image,
            header,
            ranges: Vec::new(),
            span: 0..0,
            base,
            stated_bytes: None,
            roots: Vec::new(),
            names,
            room: Room::Unknown("the end of the heap is not known without the module and the sidecar"),
            has_moved: AtomicBool::new(false),
        };
        heap.set_end(end);
        heap
    }

    fn set_end(&mut self, end: u64) {
        self.span = 0..end.max(self.base);
        self.ranges = Vec::from_iter(Some(self.base..end).filter(|range| !range.is_empty()));
    }

    /// The end of a heap if the image does not state it: the point after which all bytes are zero.
    fn find_end(&self, used: u64) -> u64 {
        let limit = self.image.len() & !3;
        let mut at = self.base;
        while at < limit && at <= used {
            // Words that are not an object are skipped: they may be damage, which the walk will report.
            let object = self.header_at(at).and_then(|(kind, _)| self.words(at, kind));
            let words = object.filter(|words| *words <= (limit - at) / 4).unwrap_or(1);
            at += words * 4;
        }
        at.min(limit)
    }

    /// Searches for a heap: the first address after the stack, and after an array of variables, from which objects follow one another.
    fn search(image: &'a Image, used: u64, module: Option<&WasmModule>) -> Option<(u64, u64)> {
        if module.is_some() || used < STACK {
            return None;
        }
        let limit = used.min(STACK + SEARCHED);
        for header in [2, 1] {
            let everything = Self::between(image, limit, header, image.len() & !3, MotokoNames::default());
            let Some(roots) = everything.search_static_roots() else { continue };
            // Even a heap that is damaged further on begins with objects in a row.
            for base in (roots.next_multiple_of(ALIGNMENT)..limit).step_by(ALIGNMENT as usize) {
                if image.u32(base) == 0 || (header == 2 && u64::from(image.u32(base + 4)) + 1 != base) {
                    continue;
                }
                let heap = Self::between(image, base, header, image.len() & !3, MotokoNames::default());
                if heap.objects_in_a_row(base, used) && heap.is_array_of_boxes(roots) {
                    return Some((base, header));
                }
            }
        }
        None
    }

    /// True if `FEWEST_OBJECTS` objects follow one another, which cannot be an accident.
    fn objects_in_a_row(&self, mut at: u64, used: u64) -> bool {
        let mut count = 0;
        while at <= used && count < FEWEST_OBJECTS {
            let sound = self.header_at(at).and_then(|(kind, _)| self.words(at, kind)).filter(|words| *words < 1 << 24);
            let Some(words) = sound else { return false };
            at += words * 4;
            count += 1;
        }
        count == FEWEST_OBJECTS
    }

    /// Searches static data for the array of the program's variables: a mutable array of boxes that also lie there.
    fn search_static_roots(&self) -> Option<u64> {
        let mut arrays = (STACK.min(self.base)..self.base).step_by(4).filter(|&at| self.is_array_of_boxes(at));
        // An array of one element may lie before it, but hardly any more: so the longest of the first few is taken.
        arrays.by_ref().take(MOST_ARRAYS).max_by_key(|&at| self.nth(at, self.header))
    }

    fn is_array_of_boxes(&self, at: u64) -> bool {
        let is_box = |word: u64| {
            let object = word.wrapping_add(1);
            word & 3 == 3 && object < self.base && self.kind_of(object) == MotokoKind::MutBox
        };
        let length = self.nth(at, self.header);
        self.word(at) == 5
            && (1..MOST_VARIABLES).contains(&length)
            && (0..length).all(|index| is_box(self.nth(at, self.header + 1 + index)))
    }

    /// The program's variables; none if the names in the module are not those in the image.
    fn variables_of(&self, module: Option<&WasmModule>, damage: &mut Damages) -> Vec<Variable> {
        let Some(module) = module else { return Vec::new() };
        let variables = variables(module, false, self.header);
        let Some(address) = variables.hashes_at else { return variables.list };
        let known: Vec<u8> = variables.hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        if self.image.slice(address, known.len() as u64) == known {
            return variables.list;
        }
        damage.note(address, 0, "the module is not this image's: other variables are");
        Vec::new()
    }

    fn find_roots(&self, static_roots: Option<u64>, variables: &[Variable]) -> Vec<Root> {
        let mut roots = Vec::new();
        let Some(array) =
            static_roots.filter(|&array| array < self.base && self.kind_of(array) == MotokoKind::MutableArray)
        else {
            return roots;
        };
        let length = self.length(array).min((self.base - array) / 4);
        for index in 0..length {
            let word = self.nth(array, self.header + 1 + index);
            if !Self::is_reference(word) {
                continue;
            }
            let object = word.wrapping_add(1);
            let name =
                variables.iter().find(|variable| variable.location == object).map(|variable| variable.name.clone());
            let name = name.unwrap_or_else(|| format!("static[{index}]"));
            roots.push(Root {
                object,
                name: RootName::Named(name),
                is_variable: self.kind_of(object) == MotokoKind::MutBox,
            });
        }
        roots.extend(self.runtime_roots(&roots));
        roots
    }

    /// The table of continuations and region 0: found as words of static data, outside of the program's variables, that refer to an array or a region on the
    /// heap.
    fn runtime_roots(&self, variables: &[Root]) -> Vec<Root> {
        let Some(heap) = self.ranges.first() else { return Vec::new() };
        let mut roots = Vec::new();
        let value_at = |root: &Root| root.object.wrapping_add(self.header * 4);
        let variables: FxHashSet<u64> = variables.iter().filter(|root| root.is_variable).map(value_at).collect();
        let static_data: Range<u64> = STACK.min(self.base)..self.base;
        for at in static_data.step_by(4) {
            let word = self.word(at);
            let object = word.wrapping_add(1);
            if variables.contains(&at)
                || !Self::is_reference(word)
                || !heap.contains(&object)
                || !object.is_multiple_of(4)
            {
                continue;
            }
            let name = match self.header_at(object).filter(|(kind, _)| self.words(object, *kind).is_some()) {
                Some((MotokoKind::MutableArray, _)) => "continuations",
                Some((MotokoKind::Region, _)) if self.region_id(object) == 0 => "region 0",
                _ => continue,
            };
            roots.push(Root { object, name: RootName::Named(name.to_owned()), is_variable: false });
        }
        roots
    }
}
