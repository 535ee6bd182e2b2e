//! The sizes of objects. A dump has the fields of objects, not their sizes: these depend on headers, on the width of references, and on padding.
//!
//! * Headers and the width of references are those with which no object reaches into the next one, and most end exactly where the next one begins.
//! * The size of a class's instances is computed as HotSpot lays out fields since JDK 15: wide ones first, narrow ones into gaps, those of superclasses
//!   included. Fields that the JVM adds to a few classes of the JDK are known.
//! * Where instances lie closer together than that, the distance counts; in a heap without gaps, also where several lie further apart by the same distance:
//!   older JVMs, and classes with padding. Arrays, whose sizes are certain, show whether a heap has gaps.
//! * A class object has the size of an instance of `java.lang.Class`, and its static fields.

use super::addresses::Addresses;
use super::classes::{Class, Classes, UNKNOWN_CLASS};
use super::objects::Objects;
use super::records::FieldType;

/// Padding before and after fields that are marked as contended.
const PADDING: u32 = 128;
/// Distances above this are gaps, and not the sizes of instances.
const LARGEST_INSTANCE: u32 = 1 << 20;

/// More bytes of fields than a class can have.
const LARGEST_FIELDS: u32 = 1 << 30;

/// How a JVM lays out objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLayout {
    /// Bytes before the first field.
    pub header: u32,
    /// Bytes before the first element of an array.
    pub array_header: u32,
    /// Bytes of a reference.
    pub reference: u32,
    /// Sizes are multiples of this.
    pub alignment: u32,
}

/// All layouts of JVMs with 64 bits: with compressed class pointers (and references, or without), without them (before JDK 23 and since), with compact headers.
const WIDE: [(u32, u32, u32); 8] =
    [(12, 16, 4), (12, 16, 8), (16, 24, 8), (16, 24, 4), (16, 20, 8), (16, 20, 4), (8, 12, 4), (8, 12, 8)];
/// Layouts with 32 bits: HotSpot, and Android's runtime.
const SHORT: [(u32, u32, u32); 1] = [(8, 12, 4)];

/// The sizes of all objects.
pub(super) struct Sizes {
    pub layout: ObjectLayout,
    /// By class: the size of an instance.
    instances: Vec<u32>,
    /// By class: the size of the class object.
    class_objects: Vec<u32>,
    /// By class: the bytes of an element, if it is an array.
    elements: Vec<u32>,
}

impl Sizes {
    /// Derives sizes from the classes and the distances between objects.
    pub fn of(classes: &Classes, objects: &Objects, addresses: &Addresses, id_size: u32) -> Self {
        let mut distances = Distances::of(classes, objects, addresses);
        let layout = distances.layout(classes, id_size);
        let (_, dense) = distances.array_matches(layout);
        distances.is_dense = dense * 100 >= distances.array_count * DENSE;
        let elements = (0..classes.len() as u32).map(|index| element_bytes(classes, index, layout.reference)).collect();
        let mut sizes = Self { layout, instances: Vec::new(), class_objects: vec![0; classes.len()], elements };
        sizes.instances = instance_sizes(classes, layout, &distances);
        sizes.add_class_objects(classes, addresses);
        sizes
    }

    /// The size of an instance of a class.
    #[inline]
    pub fn instance(&self, class: u32) -> u64 {
        self.instances[class as usize].into()
    }

    /// The size of the class object of a class.
    pub fn class_object(&self, class: u32) -> u64 {
        self.class_objects[class as usize].into()
    }

    /// The bytes of an element; 0 if the class is not one of arrays.
    #[inline]
    pub fn element(&self, class: u32) -> u32 {
        self.elements[class as usize]
    }

    /// The size of an array.
    #[inline]
    pub fn array(&self, class: u32, length: u32) -> u64 {
        let bytes = u64::from(self.layout.array_header) + u64::from(length) * u64::from(self.elements[class as usize]);
        bytes.next_multiple_of(self.layout.alignment.into())
    }

    /// The size of a class object is that of an instance of `java.lang.Class`, which has fields that no dump lists, and the static fields.
    fn add_class_objects(&mut self, classes: &Classes, addresses: &Addresses) {
        let statics: Vec<u32> =
            (0..classes.len() as u32).map(|index| static_bytes(classes.get(index), self.layout)).collect();
        // The least distance to the next object, without static fields.
        let mut base = self.instances[classes.class_class as usize];
        if classes.class_class != UNKNOWN_CLASS && addresses.are_aligned() {
            let own = |index: u32| {
                let object = classes.get(index).object?;
                let distance = addresses.address(object + 1)?.checked_sub(classes.get(index).record.id)?;
                u32::try_from(distance).ok()?.checked_sub(statics[index as usize])
            };
            base = classes.described().filter_map(own).min().map_or(base, |least| least.max(base));
            self.instances[classes.class_class as usize] = base;
        }
        self.class_objects = statics.into_iter().map(|bytes| base.saturating_add(bytes)).collect();
    }
}

/// The bytes of an element of arrays of a class; 0 if it is not one of arrays.
fn element_bytes(classes: &Classes, index: u32, reference: u32) -> u32 {
    match FieldType::PRIMITIVES.get(index as usize) {
        Some(kind) => kind.width(reference),
        None if classes.get(index).name.ends_with("[]") => reference,
        None => 0,
    }
}

/// Fields that the JVM adds to classes of the JDK; they are in no dump. A pointer has eight bytes, as a `long`.
fn added_fields(class: &str) -> &'static [FieldType] {
    use FieldType::{Boolean, Byte, Int, Long, Object, Short};
    match class {
        "java.lang.Class" => &[Long, Long, Int, Int, Object, Object, Object],
        "java.lang.ClassLoader" | "java.lang.Module" => &[Long],
        "java.lang.String" => &[Byte],
        "java.lang.invoke.MemberName" => &[Long],
        "java.lang.invoke.ResolvedMethodName" => &[Object, Long],
        "java.lang.invoke.MethodHandleNatives$CallSiteContext" => &[Long, Long],
        "java.lang.StackFrameInfo" => &[Short],
        "java.lang.InternalError" => &[Boolean],
        _ => &[],
    }
}

/// The fields of an object so far: where they end, and the gaps between them.
#[derive(Clone, Debug)]
struct Fields {
    end: u32,
    /// Offsets and lengths, in order.
    gaps: Vec<(u32, u32)>,
}

impl Fields {
    /// Adds a field into the smallest gap in which it fits, or at the end.
    fn add(&mut self, width: u32) {
        if self.end > LARGEST_FIELDS {
            return;
        }
        let fits = |(offset, length): &(u32, u32)| offset.next_multiple_of(width) - offset + width <= *length;
        // Of several, the last.
        let best = (0..self.gaps.len()).rev().filter(|at| fits(&self.gaps[*at])).min_by_key(|at| self.gaps[*at].1);
        let Some(best) = best else {
            let start = self.end.next_multiple_of(width);
            if start > self.end {
                self.gaps.push((self.end, start - self.end));
            }
            self.end = start + width;
            return;
        };
        let (offset, length) = self.gaps.remove(best);
        let start = offset.next_multiple_of(width);
        let rest = [(offset, start - offset), (start + width, offset + length - start - width)];
        for (at, gap) in rest.into_iter().filter(|gap| gap.1 > 0).enumerate() {
            self.gaps.insert(best + at, gap);
        }
    }

    /// Adds fields, the widest first, and references last.
    fn add_all(&mut self, kinds: impl Iterator<Item = FieldType> + Clone, reference: u32) {
        for width in [8, 4, 2, 1] {
            let same = |kind: &FieldType| *kind != FieldType::Object && kind.width(0) == width;
            kinds.clone().filter(same).for_each(|_| self.add(width));
        }
        kinds.filter(|kind| *kind == FieldType::Object).for_each(|_| self.add(reference));
    }

    /// Adds padding, in which no field is placed.
    fn pad(&mut self) {
        self.end += PADDING;
        self.gaps.clear();
    }
}

/// The size of each class's instances under a layout, as computed, and as the distances say.
fn instance_sizes(classes: &Classes, layout: ObjectLayout, distances: &Distances) -> Vec<u32> {
    let mut known: Vec<Option<Fields>> = vec![None; classes.len()];
    let mut sizes = vec![layout.header.next_multiple_of(layout.alignment); classes.len()];
    for index in classes.described() {
        // Superclasses first.
        let mut missing: Vec<u32> =
            classes.indexes(index).take_while(|index| known[*index as usize].is_none()).collect();
        while let Some(class) = missing.pop() {
            let above = classes.get(class).superclass.and_then(|above| known[above as usize].clone());
            let mut fields = above.unwrap_or(Fields { end: layout.header, gaps: Vec::new() });
            add_own(&mut fields, classes.get(class), layout.reference);
            let computed = fields.end.next_multiple_of(layout.alignment);
            let size = distances.corrected(class, computed);
            if size != computed {
                fields = Fields { end: size, gaps: Vec::new() };
            }
            sizes[class as usize] = size;
            known[class as usize] = Some(fields);
        }
    }
    sizes
}

/// Adds the fields of a class to those of its superclass.
fn add_own(fields: &mut Fields, class: &Class, reference: u32) {
    let own = |contended: bool| {
        let fields = class.record.fields.iter().enumerate();
        fields.filter(move |(at, _)| class.contended.contains(at) == contended).map(|(_, (_, kind))| *kind)
    };
    fields.add_all(own(false).chain(added_fields(&class.name).iter().copied()), reference);
    let contended = own(true);
    if !class.contended.is_empty() {
        fields.pad();
        // Gaps between them stay empty.
        contended
            .for_each(|kind| fields.end = fields.end.next_multiple_of(kind.width(reference)) + kind.width(reference));
        fields.pad();
    }
}

/// The bytes of a class's static fields within its class object: references, then the widest fields first; gaps stay empty.
fn static_bytes(class: &Class, layout: ObjectLayout) -> u32 {
    let kinds = || class.record.statics.iter().take(class.own_statics).map(|field| field.kind);
    let references = kinds().filter(|kind| *kind == FieldType::Object).count() as u32;
    let mut end = references * layout.reference;
    for width in [8, 4, 2, 1] {
        let count = kinds().filter(|kind| *kind != FieldType::Object && kind.width(0) == width).count() as u32;
        if count > 0 {
            end = end.next_multiple_of(width) + count * width;
        }
    }
    end.next_multiple_of(layout.alignment)
}

/// Distances from objects to the next ones.
struct Distances {
    /// By class: the least distance of an instance, and how many have it.
    least: Vec<(u32, u32)>,
    /// By class: the number of instances.
    counts: Vec<u32>,
    /// Arrays of primitive types that reach into the next object, and that end before it, for each size of the header.
    arrays: [(u64, u64); HEADERS.len()],
    /// The same for arrays of references, for each width of a reference.
    object_arrays: [[(u64, u64); HEADERS.len()]; 2],
    /// The number of arrays.
    array_count: u64,
    /// True if almost every array ends where the next object begins.
    is_dense: bool,
    alignment: u32,
}

/// A heap in which this share of arrays ends where the next object begins has no gaps, in percent. Some objects are the last of a region.
const DENSE: u64 = 95;
const HEADERS: [u32; 4] = [12, 16, 20, 24];
const REFERENCES: [u32; 2] = [4, 8];

impl Distances {
    fn of(classes: &Classes, objects: &Objects, addresses: &Addresses) -> Self {
        let mut all = Self {
            least: vec![(u32::MAX, 0); classes.len()],
            counts: vec![0; classes.len()],
            arrays: Default::default(),
            object_arrays: Default::default(),
            array_count: 0,
            is_dense: false,
            alignment: 8,
        };
        if !addresses.are_aligned() {
            return all;
        }
        let elements: Vec<u32> = (0..classes.len() as u32).map(|index| element_bytes(classes, index, 1)).collect();
        let mut bits = 0;
        let next = addresses.iter().skip(1).map(Some).chain(Some(None));
        for ((object, address), next) in (0..).zip(addresses.iter()).zip(next) {
            bits |= address;
            let class = objects.class(object);
            let Some(distance) = next.and_then(|next| u32::try_from(next - address).ok()) else { continue };
            if elements[class as usize] > 0 {
                all.add_array(class, distance, objects.length(object), elements[class as usize]);
            } else if class != classes.class_class {
                let least = &mut all.least[class as usize];
                if distance < least.0 {
                    *least = (distance, 1);
                } else if distance == least.0 {
                    least.1 += 1;
                }
                all.counts[class as usize] += 1;
            }
        }
        // A small dump may be aligned by chance.
        if addresses.len() >= 1000 {
            all.alignment = 1 << bits.trailing_zeros().clamp(3, 8);
        }
        all
    }

    #[inline]
    fn add_array(&mut self, class: u32, distance: u32, length: u32, width: u32) {
        self.array_count += 1;
        let count = |counts: &mut [(u64, u64); HEADERS.len()], width: u32| {
            for (header, counts) in HEADERS.into_iter().zip(counts) {
                let bytes = (u64::from(header) + u64::from(length) * u64::from(width)).next_multiple_of(8);
                counts.0 += u64::from(bytes > u64::from(distance));
                counts.1 += u64::from(bytes == u64::from(distance));
            }
        };
        if class < UNKNOWN_CLASS {
            count(&mut self.arrays, width);
        } else {
            REFERENCES.into_iter().zip(&mut self.object_arrays).for_each(|(width, counts)| count(counts, width));
        }
    }

    /// The layout with which no object reaches into the next one, and most end exactly where it begins.
    fn layout(&self, classes: &Classes, id_size: u32) -> ObjectLayout {
        let candidates: &[(u32, u32, u32)] = if id_size == 8 { &WIDE } else { &SHORT };
        let alignment = self.alignment;
        let layout = |(header, array_header, reference)| ObjectLayout { header, array_header, reference, alignment };
        let score = |layout: &ObjectLayout| {
            let counts = [self.array_matches(*layout), self.matches(classes, *layout)];
            counts.map(|(overlaps, matches)| matches as i64 - 10 * overlaps as i64).iter().sum::<i64>()
        };
        // Of equal ones the first: the most frequent layout is first.
        candidates.iter().copied().map(layout).rev().max_by_key(score).unwrap_or(layout((12, 16, 4)))
    }

    /// The number of arrays that reach into the next object, and of those that end where it begins.
    fn array_matches(&self, layout: ObjectLayout) -> (u64, u64) {
        let header = HEADERS.iter().position(|header| *header == layout.array_header).unwrap_or(0);
        let width = REFERENCES.iter().position(|width| *width == layout.reference).unwrap_or(0);
        let (plain, objects) = (self.arrays[header], self.object_arrays[width][header]);
        (plain.0 + objects.0, plain.1 + objects.1)
    }

    /// The number of classes whose instances are larger than their least distance, and of those for which it is the same.
    fn matches(&self, classes: &Classes, layout: ObjectLayout) -> (u64, u64) {
        let none = Self { least: vec![(u32::MAX, 0); classes.len()], ..Self::empty() };
        let sizes = instance_sizes(classes, layout, &none);
        let mut counts = (0, 0);
        for (size, (least, _)) in sizes.into_iter().zip(&self.least).filter(|(_, least)| least.1 > 0) {
            counts.0 += u64::from(size > *least);
            counts.1 += u64::from(size == *least);
        }
        counts
    }

    fn empty() -> Self {
        Self {
            least: Vec::new(),
            counts: Vec::new(),
            arrays: Default::default(),
            object_arrays: Default::default(),
            array_count: 0,
            is_dense: false,
            alignment: 8,
        }
    }

    /// The size of a class's instances, if the distances contradict the computed one.
    fn corrected(&self, class: u32, computed: u32) -> u32 {
        let (least, times) = self.least[class as usize];
        let is_repeated = times >= 2 && times * 2 > self.counts[class as usize];
        let is_size = least < computed || (self.is_dense && least <= LARGEST_INSTANCE && is_repeated);
        if times > 0 && is_size { least.next_multiple_of(8) } else { computed }
    }
}
