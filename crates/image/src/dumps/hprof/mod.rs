//! Heap dumps of JVMs in the HPROF format: `jcmd PID GC.heap_dump FILE`, `jmap -dump`, `-XX:+HeapDumpOnOutOfMemoryError`.
//!
//! # Design
//!
//! The file is read twice, from front to back, and not kept: a dump may be larger than the memory. The first reading (`catalog`) collects classes, roots,
//! and the addresses of all objects in a bitmap (`addresses`); an object's number is its rank there. The second one (`objects`) stores its class and its
//! references as numbers. Values are read from the file when they are shown (`locate`, `values`). A compressed dump is decompressed into a temporary
//! file first.
//!
//! * *Sizes* are not in a dump. They are derived from fields and from the distances between objects (`layout`), and equal those of
//!   `jcmd PID GC.class_histogram`.
//! * *Every object counts as live*: a JVM collects garbage before it writes a dump. Objects that no root leads to are kept by something that a dump does not
//!   list (HotSpot leaves out the fields of class objects), or were garbage if the dump was made with `-all`; they are counted apart.
//! * *Roots* are those that the dump lists, and the classes of the boot, platform and application loaders: these are never unloaded, so the static fields of
//!   a program are where its paths begin. An object refers to its class only if that can be unloaded.
//! * *Weak and phantom references do not keep* what they refer to; soft references do.
//! * *An object has the same identity in another dump* if it has the same address and class. A collection moves objects, so only figures by class can be
//!   compared exactly.

mod abilities;
mod addresses;
mod bytes;
mod catalog;
mod classes;
mod layout;
mod lens;
mod locate;
mod objects;
mod records;
mod roots;
mod stream;
mod values;

pub use layout::ObjectLayout;

use super::{DumpError, DumpHeap, DumpKind, DumpSource};
use crate::damage::Damages;
use crate::lens::Root;
use addresses::Addresses;
use bytes::DumpBytes;
use catalog::Catalog;
use classes::Classes;
use layout::Sizes;
use objects::Objects;
use records::DumpHeader;
use rustc_hash::FxHashMap;

/// The kind of dump.
pub struct Hprof;

impl DumpKind for Hprof {
    fn key(&self) -> &'static str {
        "hprof"
    }

    fn title(&self) -> &'static str {
        "Java heap dump (HPROF)"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        records::is_dump(start)
    }

    fn open(&self, source: &DumpSource) -> Result<DumpHeap, DumpError> {
        Ok(Box::new(HprofHeap::open(source)?))
    }
}

/// The heap of a JVM.
pub struct HprofHeap {
    bytes: DumpBytes,
    header: DumpHeader,
    catalog: Catalog,
    classes: Classes,
    addresses: Addresses,
    objects: Objects,
    sizes: Sizes,
    /// Indexes of classes, by the numbers of their class objects.
    class_objects: FxHashMap<u32, u32>,
    roots: Vec<Root>,
    damage: Damages,
}

impl HprofHeap {
    /// Reads a dump.
    pub fn open(source: &DumpSource) -> Result<Self, DumpError> {
        let bytes = DumpBytes::of(source)?;
        let header = records::header(&bytes)?;
        let mut damage = Damages::default();
        let (mut catalog, addresses) = Catalog::read(&bytes, header, &mut damage)?;
        let mut classes = Classes::of(&mut catalog, &addresses, &bytes, header.id_size);
        let class_objects = classes.described().filter_map(|index| Some((classes.get(index).object?, index))).collect();
        roots::note_permanent(&mut classes, &catalog, &addresses, &bytes, header);
        let objects = Objects::read(&bytes, header, &catalog, &classes, &addresses, &mut damage)?;
        let sizes = Sizes::of(&classes, &objects, &addresses, header.id_size);
        let roots = Vec::new();
        let mut heap =
            Self { bytes, header, catalog, classes, addresses, objects, sizes, class_objects, roots, damage };
        heap.roots = heap.find_roots();
        heap.catalog.forget_stacks();
        Ok(heap)
    }

    /// How the JVM laid out its objects.
    pub fn layout(&self) -> ObjectLayout {
        self.sizes.layout
    }
}
