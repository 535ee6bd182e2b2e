//! Finds metadata, partitions and roots of a 64-bit heap.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::names::{MotokoNames, Variable, variables};
use super::room::Room;
use crate::damage::Damages;
use crate::image::Image;
use crate::lens::{Root, RootName};
use crate::wasm::WasmModule;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

const STATIC_DATA: Range<u64> = 0x40_0000..METADATA;
const METADATA: u64 = 0x48_0000;
const HEAP_BASE: u64 = 0x50_0000;
const FINGERPRINT: &str = "MOTOKO ORTHOGONAL PERSISTENCE 64";
const PARTITION: u64 = 64 << 20;
const ENTRIES: u64 = 128;
const ENTRY: u64 = 56;
/// The most arrays that the runtime's data may refer to; there are two.
const MOST_ARRAYS: usize = 16;
/// The most partition tables: more than any memory needs, because each is for 8 GiB.
const MOST_TABLES: u64 = 64;
/// The runtime's own variables, which lie before those of the program: offset in the metadata, and name.
const VALUES: [(u64, &str); 6] = [
    (0x88, "stable actor"),
    (0x90, "stable types"),
    (0x98, "stable type offsets"),
    (0x1d88, "weak references"),
    (0x1d90, "deduplication table"),
    (0x1d98, "migrations"),
];

/// True if an image has the mark of a 64-bit Motoko heap.
pub fn is_wide_heap(image: &Image) -> bool {
    FINGERPRINT.chars().zip(0..).all(|(character, index)| image.u32(METADATA + index * 4) == u32::from(character))
}

/// The phase of the collector between messages.
pub fn collector_phase(image: &Image) -> Option<&'static str> {
    ["stop", "pause", "mark", "evacuate", "update"].get(image.u32(METADATA + 0xa0) as usize).copied()
}

/// A partition that holds objects.
struct Partition {
    index: u64,
    objects: Range<u64>,
}

/// The partitions in use, in order.
fn partitions(image: &Image, damage: &mut Damages) -> Vec<Partition> {
    let mut partitions = Vec::new();
    let mut table = METADATA + 0xa8;
    for tables in 0..MOST_TABLES {
        for number in 0..ENTRIES {
            let entry = table + number * ENTRY;
            let [is_free, is_temporary] =
                [8, 48].map(|at| image.slice(entry + at, 1).first().is_some_and(|&flag| flag != 0));
            let (fixed, dynamic) = (image.u64(entry + 24), image.u64(entry + 32));
            if is_free || is_temporary || dynamic == 0 {
                continue;
            }
            let index = tables * ENTRIES + number;
            if fixed > PARTITION || dynamic > PARTITION - fixed {
                damage.note(entry, ENTRY, format!("partition {index} claims {dynamic} bytes behind {fixed}"));
                continue;
            }
            let start = index * PARTITION + fixed;
            partitions.push(Partition { index, objects: start..start + dynamic });
        }
        table = image.u64(table + ENTRIES * ENTRY);
        if table == 0 {
            return partitions;
        }
        if !table.is_multiple_of(8) || table < METADATA || table >= image.len() {
            damage.note(METADATA + 0x1ca8, 8, "the table of partitions goes on outside of the image");
            return partitions;
        }
    }
    partitions
}

/// The room after the last object of the partition in which the program allocates. While a collection runs there is none: its marks would not cover a new
/// object.
fn room(image: &Image, module: Option<&WasmModule>) -> Room {
    if !matches!(collector_phase(image), Some("stop" | "pause")) {
        return Room::Unknown("a collection is running; call the program until it has ended, and take the image then");
    }
    let index = image.u64(METADATA + 0x1cc0);
    let mut table = METADATA + 0xa8;
    for _ in 0..(index / ENTRIES).min(MOST_TABLES) {
        table = image.u64(table.wrapping_add(ENTRIES * ENTRY));
    }
    let entry = table.wrapping_add(index % ENTRIES * ENTRY);
    let flag = |at: u64| image.slice(entry.wrapping_add(at), 1).first().is_none_or(|&flag| flag != 0);
    let (fixed, size) = (image.u64(entry.wrapping_add(24)), image.u64(entry.wrapping_add(32)));
    // Free, large, temporary, being evacuated.
    let is_sound = index < MOST_TABLES * ENTRIES
        && image.u64(entry) == index
        && ![8, 9, 48, 49].into_iter().any(flag)
        && fixed.checked_add(size).is_some_and(|used| used <= PARTITION)
        && size.is_multiple_of(8);
    let end = index.saturating_mul(PARTITION).saturating_add(fixed.saturating_add(size));
    if !is_sound || end > image.len() {
        return Room::Unknown("the partition in which the program allocates is damaged");
    }
    let limit = ((index + 1) * PARTITION).min(most_memory(module));
    Room::Partition { size_at: entry + 32, size, end, limit }
}

/// The size to which a module's memory can grow.
pub(super) fn most_memory(module: Option<&WasmModule>) -> u64 {
    let memory = module.and_then(WasmModule::memory);
    memory.and_then(|memory| memory.maximum_pages?.checked_mul(memory.page_bytes)).unwrap_or(u64::MAX)
}

/// The ranges that hold objects: adjacent ones are joined, and cut at the end of the image.
fn ranges(partitions: &[Partition], image: &Image, damage: &mut Damages) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for Partition { index, objects } in partitions {
        let mut objects = objects.clone();
        if objects.end > image.len() {
            let missing = objects.end - objects.start.max(image.len());
            damage.note(image.len(), 0, format!("the image ends here, {missing} bytes before partition {index} does"));
            objects.end = image.len() & !7;
        }
        if objects.is_empty() {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end == objects.start => last.end = objects.end,
            _ => ranges.push(objects),
        }
    }
    ranges
}

impl<'a> Motoko<'a, true> {
    /// The heap of an image for which [`is_wide_heap`] is true.
    pub fn wide(image: &'a Image, module: Option<&WasmModule>, damage: &mut Damages) -> Self {
        let version = image.u64(METADATA + 0x80);
        if version != 1 {
            damage.note(METADATA + 0x80, 8, format!("layout version {version} is not known, 1 is"));
        }
        let partitions = partitions(image, damage);
        let ranges = ranges(&partitions, image, damage);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(HEAP_BASE);
        let allocating = image.u64(METADATA + 0x1cc0);
        let allocated = partitions.iter().find(|partition| partition.index == allocating);
        let allocated = allocated.map_or(0, |partition| partition.objects.end - partition.objects.start);
        let stated = image.u64(METADATA + 0x1cf0).saturating_add(allocated).checked_sub(HEAP_BASE);
        let mut heap = Self {
            image,
            header: 2,
            ranges,
            span: HEAP_BASE..end.max(HEAP_BASE),
            base: HEAP_BASE,
            stated_bytes: stated,
            roots: Vec::new(),
            names: MotokoNames::of(module, true, 2),
            room: room(image, module),
            has_moved: AtomicBool::new(false),
        };
        if module.is_some_and(|module| !module.is_wide()) {
            damage.note(METADATA, 0, "the module is not this image's: it has 32 bits, the heap 64;");
        }
        heap.roots = heap.find_roots(module, damage);
        if heap.roots.is_empty() {
            damage.note(STATIC_DATA.start, METADATA - STATIC_DATA.start, "no roots are found; nothing counts as live");
        }
        heap
    }

    /// The roots of the runtime: the array of static variables, whose elements are roots themselves, and a few others.
    fn find_roots(&self, module: Option<&WasmModule>, damage: &mut Damages) -> Vec<Root> {
        let mut roots = Vec::new();
        let (mut arrays, mut others) = (Vec::new(), Vec::new());
        for range in self.image.data_in(STATIC_DATA) {
            for at in (range.start..range.end & !7).step_by(8) {
                match self.referred_kind(at) {
                    Some((MotokoKind::MutableArray, object)) => arrays.push(object),
                    Some((MotokoKind::Region, object)) if self.region_id(object) == 0 => {
                        others.push((object, "region 0"));
                    }
                    _ => {}
                }
            }
        }
        arrays.sort_unstable();
        arrays.dedup();
        arrays.truncate(MOST_ARRAYS);
        // Free slots of the table of continuations hold numbers.
        let is_of_variables = |&array: &u64| self.slots(array).all(|slot| Self::is_reference(self.nth(array, slot)));
        let variables_at = arrays.iter().position(is_of_variables).map(|at| arrays.remove(at));
        if let Some(array) = variables_at {
            let variables = self.variables_of(array, module, damage);
            self.add_static_variables(array, &variables, &mut roots);
        }
        for (number, array) in arrays.into_iter().enumerate() {
            let name = if number == 0 { "continuations".to_owned() } else { format!("continuations {}", number + 1) };
            roots.push(Root { object: array, name: RootName::Named(name), is_variable: false });
        }
        for (offset, name) in VALUES {
            if let Some((_, object)) = self.referred_kind(METADATA + offset) {
                others.push((object, name));
            }
        }
        roots.extend(others.into_iter().map(|(object, name)| Root {
            object,
            name: RootName::Named(name.to_owned()),
            is_variable: false,
        }));
        roots
    }

    /// The program's variables; none if the names in the module are not those in the image.
    fn variables_of(&self, array: u64, module: Option<&WasmModule>, damage: &mut Damages) -> Vec<Variable> {
        let Some(module) = module else { return Vec::new() };
        let variables = variables(module, true, self.header);
        let Some(index) = variables.hashes_at else { return variables.list };
        let blob = self.current_address(self.nth(array, self.header + 1 + index).wrapping_add(1));
        let known: Vec<u8> = variables.hashes.iter().flat_map(|hash| u64::from(*hash).to_le_bytes()).collect();
        if index < self.length(array) && self.contents(blob) == known {
            return variables.list;
        }
        damage.note(blob, 0, "the module is not this image's: other variables are");
        Vec::new()
    }

    fn add_static_variables(&self, array: u64, variables: &[Variable], roots: &mut Vec<Root>) {
        let first = self.header + 1;
        for slot in self.slots(array) {
            let word = self.nth(array, slot);
            if !Self::is_reference(word) {
                continue;
            }
            let object = self.current_address(word.wrapping_add(1));
            let index = slot - first;
            let name =
                variables.iter().find(|variable| variable.location == index).map(|variable| variable.name.clone());
            let is_variable = self.kind_of(object) == MotokoKind::MutBox;
            roots.push(Root {
                object,
                name: RootName::Named(name.unwrap_or_else(|| format!("static[{index}]"))),
                is_variable,
            });
        }
        roots.push(Root { object: array, name: RootName::Named("static".to_owned()), is_variable: false });
    }

    /// The kind and address of the object to which a word of the runtime's data refers, if it refers to one.
    fn referred_kind(&self, at: u64) -> Option<(MotokoKind, u64)> {
        let word = self.word(at);
        if !Self::is_reference(word) {
            return None;
        }
        let object = word.wrapping_add(1);
        let is_within = object.is_multiple_of(8) && self.ranges.iter().any(|range| range.contains(&object));
        let (kind, moved) = self.header_at(object).filter(|_| is_within)?;
        let current = if moved { self.nth(object, 1).wrapping_add(1) } else { object };
        let end = self.span.end;
        (self.words(current, kind)?.checked_mul(8)? <= end.checked_sub(current)?).then_some((kind, current))
    }
}
