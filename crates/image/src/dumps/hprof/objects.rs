//! The second reading of a dump: the class of each object, and its references, as numbers.
//!
//! An object takes three bytes (five with more than 65,535 classes), and four for each reference. An array takes four more, for its length.

use super::addresses::Addresses;
use super::bytes::DumpBytes;
use super::catalog::Catalog;
use super::classes::{Classes, UNKNOWN_ARRAY, UNKNOWN_CLASS};
use super::records::{ClassRecord, DumpHeader, FieldType, RecordSink, scan};
use crate::damage::Damages;
use crate::dumps::DumpError;
use crate::large::{room, zeros};

/// Marks the last word of an object.
const LAST: u32 = 1 << 31;
/// The most words.
const MOST_WORDS: u64 = 1 << 31;

/// The classes and references of all objects.
pub(super) struct Objects {
    classes: ClassIndexes,
    starts: Starts,
    /// The words of all objects, in the order of the dump: the length of an array, then references.
    words: Vec<u32>,
    /// The number of references to objects that the dump does not list. HotSpot leaves out class objects that it shares between processes, but has not used.
    pub unlisted: u64,
}

/// Where the words of each object begin. A dump lists most objects in the order of their addresses, so the words of eight neighbours follow one another: only
/// the first position is stored, and the marks of last words lead to the others.
struct Starts {
    /// By eight objects: the position of the first word, or [`SCATTERED`] and an index.
    blocks: Vec<u32>,
    /// By eight objects: a bit for each that has words.
    present: Vec<u8>,
    /// Positions of the words of eight objects that do not follow one another.
    scattered: Vec<[u32; 8]>,
    /// The last object that words were added for.
    last: u32,
}

/// Marks eight objects whose words do not follow one another.
const SCATTERED: u32 = 1 << 31;
/// More words than this are not skipped to find those of the next object.
const MOST_SKIPPED: usize = 64;

impl Starts {
    fn new(objects: usize) -> Self {
        let blocks = objects.div_ceil(8);
        Self { blocks: zeros(blocks), present: vec![0; blocks], scattered: Vec::new(), last: u32::MAX }
    }

    #[inline]
    fn get(&self, object: u32, words: &[u32]) -> Option<usize> {
        let (block, nth) = (object as usize / 8, object % 8);
        let present = *self.present.get(block)?;
        if present >> nth & 1 == 0 {
            return None;
        }
        let start = self.blocks[block];
        if start & SCATTERED != 0 {
            return Some(self.scattered[(start & !SCATTERED) as usize][nth as usize] as usize);
        }
        let mut skipped = (u32::from(present) & ((1 << nth) - 1)).count_ones();
        let mut at = start as usize;
        while skipped > 0 {
            skipped -= words.get(at)? >> 31;
            at += 1;
        }
        Some(at)
    }

    /// Adds the position of an object's words, which are the last ones.
    #[inline]
    fn add(&mut self, object: u32, start: usize, words: &[u32]) {
        let (block, nth) = (object as usize / 8, object % 8);
        let is_first = self.present[block] == 0;
        let follows = is_first || (self.last < object && self.last / 8 == object / 8);
        self.last = object;
        if is_first {
            self.blocks[block] = start as u32;
        }
        if self.blocks[block] & SCATTERED == 0 && (!follows || words.len() - start > MOST_SKIPPED) {
            let known = (0..8).map(|nth| self.get(block as u32 * 8 + nth, words).unwrap_or(0) as u32);
            let mut positions = [0; 8];
            positions.iter_mut().zip(known).for_each(|(position, known)| *position = known);
            self.blocks[block] = SCATTERED | self.scattered.len() as u32;
            self.scattered.push(positions);
        }
        if self.blocks[block] & SCATTERED != 0 {
            self.scattered[(self.blocks[block] & !SCATTERED) as usize][nth as usize] = start as u32;
        }
        self.present[block] |= 1 << nth;
    }
}

/// The index of each object's class, and one: 0 is none.
enum ClassIndexes {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl ClassIndexes {
    fn new(objects: usize, classes: usize) -> Self {
        if classes < usize::from(u16::MAX) { Self::Narrow(zeros(objects)) } else { Self::Wide(zeros(objects)) }
    }

    #[inline]
    fn get(&self, object: u32) -> Option<u32> {
        let stored = match self {
            Self::Narrow(all) => u32::from(*all.get(object as usize)?),
            Self::Wide(all) => *all.get(object as usize)?,
        };
        stored.checked_sub(1)
    }

    /// Sets the class of an object that has none yet; false if it has one.
    #[inline]
    fn set(&mut self, object: u32, class: u32) -> bool {
        if self.get(object).is_some() {
            return false;
        }
        match self {
            Self::Narrow(all) => all[object as usize] = class as u16 + 1,
            Self::Wide(all) => all[object as usize] = class + 1,
        }
        true
    }
}

impl Objects {
    pub fn read(
        bytes: &DumpBytes,
        header: DumpHeader,
        catalog: &Catalog,
        classes: &Classes,
        addresses: &Addresses,
        damage: &mut Damages,
    ) -> Result<Self, DumpError> {
        let count = addresses.len() as usize;
        let words = room(catalog.most_words.min(MOST_WORDS) as usize);
        let objects =
            Self { classes: ClassIndexes::new(count, classes.len()), starts: Starts::new(count), words, unlisted: 0 };
        let mut reader = ObjectReader {
            bytes,
            id_size: header.id_size,
            catalog,
            classes,
            addresses,
            objects,
            damage,
            known: (u64::MAX, UNKNOWN_CLASS),
            references: vec![None; classes.len()],
            arrays: (0..classes.len() as u32).map(|index| classes.get(index).is_array()).collect(),
            object: None,
            start: 0,
        };
        // The first reading has noted what is wrong with records.
        scan(bytes, header, &mut reader, &mut Damages::default())?;
        let objects = reader.objects;
        let count = objects.words.len() as u64;
        if count >= MOST_WORDS {
            return Err(DumpError::TooLarge { what: "references", count, limit: MOST_WORDS });
        }
        Ok(objects)
    }

    /// The index of an object's class.
    #[inline]
    pub fn class(&self, object: u32) -> u32 {
        self.classes.get(object).unwrap_or(UNKNOWN_CLASS)
    }

    /// Where the words of an object begin.
    #[inline]
    fn first_word(&self, object: u32) -> Option<usize> {
        self.starts.get(object, &self.words)
    }

    /// The length of an array.
    #[inline]
    pub fn length(&self, array: u32) -> u32 {
        self.first_word(array).and_then(|start| self.words.get(start)).map_or(0, |word| word & !LAST)
    }

    /// A reference of an object, by index. The words of an array begin with its length: `is_array` says whether to skip it.
    #[inline]
    pub fn reference(&self, object: u32, index: u32, is_array: bool) -> Option<u32> {
        let start = self.first_word(object)?;
        let at = start + index as usize + usize::from(is_array);
        if at > start && self.words.get(at - 1)? & LAST != 0 {
            return None;
        }
        self.words.get(at).map(|word| word & !LAST)
    }

    /// The references of an object from an index on.
    #[inline]
    pub fn references(&self, object: u32, index: u32, is_array: bool) -> impl Iterator<Item = u32> + '_ {
        let start = self.first_word(object).unwrap_or(self.words.len());
        let at = start + index as usize + usize::from(is_array);
        let is_over = at > start && self.words.get(at - 1).is_none_or(|word| word & LAST != 0);
        let mut rest = if is_over { [].iter() } else { self.words.get(at..).unwrap_or_default().iter() };
        std::iter::from_fn(move || {
            let word = rest.next()?;
            if word & LAST != 0 {
                rest = [].iter();
            }
            Some(word & !LAST)
        })
    }
}

struct ObjectReader<'a> {
    bytes: &'a DumpBytes,
    id_size: u32,
    catalog: &'a Catalog,
    classes: &'a Classes,
    addresses: &'a Addresses,
    objects: Objects,
    damage: &'a mut Damages,
    /// The class of the last instance, and its index: the next one often has the same.
    known: (u64, u32),
    /// The offsets of references in the instances of each class that has any.
    references: Vec<Option<Box<[u32]>>>,
    /// By class: whether its instances are arrays.
    arrays: Vec<bool>,
    /// The array whose elements are read.
    object: Option<u32>,
    start: usize,
}

impl ObjectReader<'_> {
    /// Begins the words of an object; false if the object was listed before.
    #[inline]
    fn begin(&mut self, id: u64, class: u32) -> Option<u32> {
        let number = self.addresses.number(id)?;
        if !self.objects.classes.set(number, class) {
            return None;
        }
        self.start = self.objects.words.len();
        Some(number)
    }

    #[inline]
    fn end(&mut self, object: u32) {
        if self.objects.words.len() > self.start
            && let Some(last) = self.objects.words.last_mut()
        {
            *last |= LAST;
            self.objects.starts.add(object, self.start, &self.objects.words);
        }
    }

    #[inline]
    fn refer(&mut self, target: u64) {
        if target == 0 {
            return;
        }
        match self.addresses.number(target) {
            Some(number) => self.objects.words.push(number),
            None => self.objects.unlisted += 1,
        }
    }

    #[inline]
    fn class_index(&mut self, id: u64) -> u32 {
        if self.known.0 != id {
            self.known = (id, self.classes.index(id).unwrap_or(UNKNOWN_CLASS));
        }
        self.known.1
    }

    /// An object keeps its class, unless that is never unloaded: then the reference tells nothing.
    #[inline]
    fn refer_to_class(&mut self, class: u32) {
        let class = self.classes.get(class);
        if !class.is_permanent
            && let Some(object) = class.object
        {
            self.objects.words.push(object);
        }
    }

    fn fields(&mut self, fields: &[u8], offsets: &[u32]) {
        for &offset in offsets {
            let id = identifier(fields, offset as usize, self.id_size);
            self.refer(id);
        }
    }
}

/// An identifier in the fields of an object; 0 beyond their end.
#[inline]
pub(super) fn identifier(fields: &[u8], offset: usize, id_size: u32) -> u64 {
    let rest = fields.get(offset..).unwrap_or_default();
    if id_size == 8 {
        rest.first_chunk().copied().map_or(0, u64::from_be_bytes)
    } else {
        rest.first_chunk().copied().map_or(0, u32::from_be_bytes).into()
    }
}

impl RecordSink for ObjectReader<'_> {
    fn class(&mut self, class: ClassRecord, _: u64) {
        let Some(object) = self.begin(class.id, self.classes.class_class) else { return };
        for target in class_references(&class) {
            self.refer(target);
        }
        self.end(object);
    }

    #[inline]
    fn instance(&mut self, id: u64, class: u64, fields: &[u8], at: u64) {
        let mut index = self.class_index(class);
        if self.arrays[index as usize] {
            index = UNKNOWN_CLASS;
        }
        let Some(object) = self.begin(id, index) else { return };
        let stated = self.classes.get(index).field_bytes;
        if index == UNKNOWN_CLASS || stated != fields.len() as u64 {
            self.damage.note(
                at,
                fields.len() as u64,
                format!("the fields of an instance do not fit its class {class:#x}:"),
            );
            return;
        }
        self.refer_to_class(index);
        let offsets = self.references[index as usize].take();
        let offsets = offsets.unwrap_or_else(|| {
            self.classes.references(index, self.catalog, self.bytes, self.id_size).into_boxed_slice()
        });
        self.fields(fields, &offsets);
        self.references[index as usize] = Some(offsets);
        self.end(object);
    }

    fn object_array(&mut self, id: u64, class: u64, length: u32, _: u64) {
        let mut index = self.class_index(class);
        if !self.arrays[index as usize] {
            index = UNKNOWN_ARRAY;
        }
        self.object = self.begin(id, index);
        if self.object.is_some() {
            self.objects.words.push(length & !LAST);
            self.refer_to_class(index);
        }
    }

    fn elements(&mut self, elements: &[u8]) {
        if self.object.is_some() {
            for at in (0..elements.len()).step_by(self.id_size as usize) {
                self.refer(identifier(elements, at, self.id_size));
            }
        }
    }

    fn array_end(&mut self) {
        if let Some(object) = self.object.take() {
            self.end(object);
        }
    }

    fn is_done(&self) -> bool {
        self.objects.words.len() as u64 >= MOST_WORDS
    }

    fn primitive_array(&mut self, id: u64, kind: FieldType, length: u32, _: u64) {
        if let Some(object) = self.begin(id, primitive_array_class(kind)) {
            self.objects.words.push(length & !LAST);
            self.end(object);
        }
    }
}

/// The index of the class of arrays of a primitive type.
pub(super) fn primitive_array_class(kind: FieldType) -> u32 {
    FieldType::PRIMITIVES.iter().position(|known| *known == kind).map_or(UNKNOWN_CLASS, |index| index as u32)
}

/// The references of a class object, in order.
pub(super) fn class_references(class: &ClassRecord) -> impl Iterator<Item = u64> + '_ {
    let statics = class.statics.iter().filter(|field| field.kind == FieldType::Object).map(|field| field.value);
    [class.superclass, class.loader, class.signers, class.protection_domain].into_iter().chain(statics)
}
