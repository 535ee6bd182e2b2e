//! The heap of an image behind one object-safe trait, whatever its lens is.

use crate::chunks::ChunkFigures;
use crate::compare::{GrownObject, LiveObjects, UnmatchedObjects, grown_objects, unmatched_objects};
use crate::damage::Damages;
use crate::edit::ImageEdit;
use crate::examine::{Examination, Waste, examine};
use crate::guess::{Guess, guess};
use crate::highlights::Highlight;
use crate::lens::{HeapArea, Lens, Root};
use crate::path::ObjectPath;
use crate::snapshot::{ImageSnapshot, snapshot};
use crate::survey::Survey;
use crate::view::{ObjectView, view_object};
use highwater_model::Source;

/// Facts about a heap as a whole, and what only some kinds of heaps can do. All methods but three have defaults.
pub trait HeapAbilities {
    /// The key of the lens that found it, or of the dump that it was read from: `motoko64`.
    fn key(&self) -> &'static str;

    /// The kind of heap, as text: `Motoko, 64 bits`.
    fn name(&self) -> &'static str;

    /// The address at which it begins.
    fn base(&self) -> u64;

    /// The word for one of its objects.
    fn object_noun(&self) -> &'static str {
        "object"
    }

    /// The word for a group of its objects.
    fn shape_noun(&self) -> &'static str {
        "shape"
    }

    /// Why an object in use is one to which nothing refers, as half a sentence; for heaps that are not [collected](ImageHeap::is_collected).
    fn unreferred(&self) -> &'static str {
        "to which nothing seems to refer"
    }

    /// Tables of objects that are of interest in this kind of heap only, each with at most `top` rows.
    fn highlights(&self, _: &Examination, _top: usize) -> Vec<Highlight> {
        Vec::new()
    }

    /// Its size in bytes, as the heap itself states it.
    fn stated_bytes(&self) -> Option<u64> {
        None
    }

    /// The figure that its runtime calls the size of the heap, which has `heap_bytes` from its base on.
    fn occupied_heap_size(&self, heap_bytes: u64) -> u64 {
        heap_bytes
    }

    /// Memory that holds no data of the program.
    fn waste(&self, _: &Survey) -> Vec<Waste> {
        Vec::new()
    }

    /// Used and free chunks by size, if an allocator hands them out.
    fn chunk_figures(&self) -> Option<ChunkFigures> {
        None
    }

    /// The bytes of an object of which the lens knows nothing but its length.
    fn untyped_contents(&self, _object: u64) -> Option<&[u8]> {
        None
    }

    /// The objects that stand for regions of stable memory.
    fn regions(&self, _: &Survey) -> Vec<RegionObject> {
        Vec::new()
    }

    /// The value of an object's field.
    fn field(&self, _: &Survey, _object: u64, _name: &str) -> Result<FieldValue, HeapError> {
        Err(HeapError::Unsupported { heap: self.name(), what: "objects have no fields" })
    }

    /// The first `limit` bytes of the text object at an address, if there is one.
    fn text_at(&self, _: &Survey, _address: u64, _limit: u64) -> Option<Vec<u8>> {
        None
    }

    /// What to write to change a value that a path names. Fails if there is no room for the new value, or if another path would see the change.
    fn edit(&self, _: &Survey, _path: &str, _value: &str) -> Result<ImageEdit, HeapError> {
        Err(HeapError::Unsupported { heap: self.name(), what: "values cannot be changed" })
    }
}

/// The heap of an image. Every [`Lens`] with [`HeapAbilities`] is one: each method runs code that is compiled for the lens, so there is one dynamic call for a
/// question, and none for an object.
pub trait ImageHeap: HeapAbilities {
    /// The names of all kinds of objects and areas in it.
    fn kinds(&self) -> &'static [&'static str];

    /// True if references are certain, so that unreachable objects are garbage. Otherwise unreachable objects are in use, and count as leaks.
    fn is_collected(&self) -> bool;

    /// The objects that are always live.
    fn roots(&self) -> &[Root];

    /// Walks it, and computes dominators and retained sizes; the `top` largest objects are kept.
    fn examine(&self, top: usize) -> Examination;

    /// The addresses of all objects and areas in order, by kind.
    fn addresses_by_kind(&self) -> Vec<Vec<u64>>;

    /// Shows what a text names: an address, or a path from a root; `depth` levels deep.
    fn view(&self, examination: &Examination, text: &str, depth: u32) -> Result<ObjectView, HeapError>;

    /// The probable content of an object of which the lens knows nothing but its length, and its bytes.
    fn guess_contents(&self, object: u64) -> Option<(Guess, &[u8])>;

    /// The name of an object for users: its address, or its number in a dump.
    fn object_name(&self, object: u64) -> String;

    /// The live objects by what identifies them in another image of the program.
    fn live_objects<'e>(&self, examination: &'e Examination) -> LiveObjects<'e>;

    /// The live objects that another image does not have, with the `top` shapes that have most bytes.
    fn unmatched_objects(&self, own: &Examination, other: &LiveObjects<'_>, top: usize) -> UnmatchedObjects;

    /// The `top` objects in both images whose retained sizes grew most, apart from growth below other such objects.
    fn grown_objects(&self, own: &Examination, before: &LiveObjects<'_>, top: usize) -> Vec<GrownObject>;

    /// The live objects as a snapshot.
    fn snapshot(&self, examination: &Examination, source: Source) -> ImageSnapshot;
}

impl<L: Lens + HeapAbilities> ImageHeap for L {
    fn kinds(&self) -> &'static [&'static str] {
        L::KINDS
    }

    fn is_collected(&self) -> bool {
        L::IS_COLLECTED
    }

    fn roots(&self) -> &[Root] {
        Lens::roots(self)
    }

    fn examine(&self, top: usize) -> Examination {
        examine(self, top)
    }

    fn addresses_by_kind(&self) -> Vec<Vec<u64>> {
        let mut addresses = vec![Vec::new(); L::KINDS.len()];
        let visit = |area: HeapArea| addresses[usize::from(area.kind)].push(area.at);
        self.walk(visit, &mut Damages::default());
        addresses
    }

    fn view(&self, examination: &Examination, text: &str, depth: u32) -> Result<ObjectView, HeapError> {
        let located = self.locate(text, depth, &examination.survey.found)?;
        Ok(view_object(self, examination, located))
    }

    fn guess_contents(&self, object: u64) -> Option<(Guess, &[u8])> {
        let bytes = self.untyped_contents(object)?;
        Some((guess(bytes, self.span()), bytes))
    }

    fn object_name(&self, object: u64) -> String {
        Lens::object_name(self, object)
    }

    fn live_objects<'e>(&self, examination: &'e Examination) -> LiveObjects<'e> {
        LiveObjects::of(self, examination)
    }

    fn unmatched_objects(&self, own: &Examination, other: &LiveObjects<'_>, top: usize) -> UnmatchedObjects {
        unmatched_objects(self, own, other, top)
    }

    fn grown_objects(&self, own: &Examination, before: &LiveObjects<'_>, top: usize) -> Vec<GrownObject> {
        grown_objects(self, own, before, top)
    }

    fn snapshot(&self, examination: &Examination, source: Source) -> ImageSnapshot {
        snapshot(self, examination, source)
    }
}

/// An object that stands for a region of stable memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionObject {
    /// The object.
    pub object: u64,
    /// The region's id.
    pub id: u64,
    /// Its size in pages of 64 KiB.
    pub pages: u64,
    /// The shortest path to it; none if nothing refers to it any more.
    pub path: Option<ObjectPath>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// `null`
    Null,
    /// A boolean, or unit: they are the same word.
    Bool(bool),
    /// A whole number, in digits.
    Number(String),
    /// A floating point number.
    Float(f64),
    /// A character.
    Char(char),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// Another object, by its address.
    Object(u64),
}

/// Why a question about a heap has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapError {
    /// This kind of heap cannot do that.
    #[error("in a heap of this kind ({heap}) {what}")]
    Unsupported {
        /// The kind of heap.
        heap: &'static str,
        /// What cannot be done, as a sentence.
        what: &'static str,
    },
    /// The question does not fit the heap's contents: the reason.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for HeapError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}
