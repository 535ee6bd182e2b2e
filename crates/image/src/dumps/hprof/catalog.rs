//! The first reading of a dump: names, classes, threads, roots, and the addresses of all objects.

use super::addresses::{Added, AddressCollector, Addresses};
use super::bytes::DumpBytes;
use super::records::{ClassRecord, DumpHeader, FieldType, RecordSink, RootRecord, scan};
use crate::damage::Damages;
use crate::dumps::DumpError;
use rustc_hash::FxHashMap;

/// The most objects: numbers have 31 bits, and one bit marks the last reference of an object.
const MOST_OBJECTS: u64 = (1 << 31) - 1;

/// The number of objects from one checkpoint to the next.
pub(super) const CHECKPOINT_EVERY: u32 = 128;

/// What the first reading finds.
pub(super) struct Catalog {
    id_size: u32,
    /// Where the bytes of each name are.
    names: FxHashMap<u64, (u64, u32)>,
    /// The identifiers of the names of classes, by class.
    pub class_names: FxHashMap<u64, u64>,
    /// The identifiers of classes, by their serial numbers.
    class_serials: FxHashMap<u32, u64>,
    /// Methods and serial numbers of classes, by frame.
    frames: FxHashMap<u64, (u64, u32)>,
    /// The frames of each stack trace.
    traces: FxHashMap<u32, Vec<u64>>,
    /// Classes, and where their records are.
    pub classes: Vec<(ClassRecord, u64)>,
    pub roots: Vec<RootRecord>,
    /// Addresses of objects, and where their records are: about one of [`CHECKPOINT_EVERY`], and each that has a lower address than the object before it.
    pub checkpoints: Vec<(u64, u64)>,
    /// No more words than this are needed for the references and lengths of all objects.
    pub most_words: u64,
    last: u64,
    until_checkpoint: u32,
    addresses: AddressCollector,
    objects: u64,
    /// The number of objects that are listed more than once.
    repeated: u64,
    is_unaligned: bool,
}

impl Catalog {
    /// Reads a dump. Objects are aligned to eight bytes in all runtimes that are known; if not, the dump is read again.
    pub fn read(bytes: &DumpBytes, header: DumpHeader, damage: &mut Damages) -> Result<(Self, Addresses), DumpError> {
        for shift in [3, 0] {
            let mut found = Damages::default();
            let mut catalog = Self::new(shift, header.id_size);
            scan(bytes, header, &mut catalog, &mut found)?;
            if catalog.is_unaligned {
                continue;
            }
            if catalog.objects > MOST_OBJECTS {
                return Err(DumpError::TooLarge { what: "objects", count: catalog.objects, limit: MOST_OBJECTS });
            }
            if catalog.repeated > 0 {
                found.note(0, 0, format!("{} objects are listed twice; the first counts", catalog.repeated));
            }
            damage.append(found);
            catalog.checkpoints.sort_unstable();
            let addresses = std::mem::replace(&mut catalog.addresses, AddressCollector::new(0)).finish();
            return Ok((catalog, addresses));
        }
        Err(DumpError::damaged(0, "its objects have no addresses"))
    }

    fn new(shift: u32, id_size: u32) -> Self {
        Self {
            id_size,
            names: FxHashMap::default(),
            class_names: FxHashMap::default(),
            class_serials: FxHashMap::default(),
            frames: FxHashMap::default(),
            traces: FxHashMap::default(),
            classes: Vec::new(),
            roots: Vec::new(),
            checkpoints: Vec::new(),
            most_words: 0,
            last: 0,
            until_checkpoint: 0,
            addresses: AddressCollector::new(shift),
            objects: 0,
            repeated: 0,
            is_unaligned: false,
        }
    }

    #[inline]
    fn add(&mut self, id: u64) {
        match self.addresses.add(id) {
            Added::New => self.objects += 1,
            Added::Known => self.repeated += 1,
            Added::Unaligned => self.is_unaligned = true,
        }
    }

    /// Adds an object that is not a class.
    #[inline]
    fn add_at(&mut self, id: u64, at: u64) {
        if self.until_checkpoint == 0 || id < self.last {
            self.checkpoints.push((id, at));
            self.until_checkpoint = CHECKPOINT_EVERY;
        }
        self.until_checkpoint -= 1;
        self.last = id;
        self.add(id);
    }

    /// The text of a name, at most `LONGEST_NAME` bytes of it. Names are in Java's variant of UTF-8.
    pub fn name(&self, bytes: &DumpBytes, id: u64) -> Option<String> {
        const LONGEST_NAME: u32 = 4096;
        let (at, length) = *self.names.get(&id)?;
        let mut text = vec![0; length.min(LONGEST_NAME) as usize];
        let count = bytes.read_at(&mut text, at).ok()?;
        Some(String::from_utf8_lossy(&text[..count]).into_owned())
    }

    /// The method of a frame in a stack trace: `java.lang.Object.wait`.
    pub fn method(&self, bytes: &DumpBytes, trace: u32, index: u32) -> Option<String> {
        let frame = self.traces.get(&trace)?.get(index as usize)?;
        let (method, class_serial) = self.frames.get(frame)?;
        let method = self.name(bytes, *method)?;
        let class = self.class_serials.get(class_serial).and_then(|class| self.class_names.get(class));
        let class = class.and_then(|name| self.name(bytes, *name));
        Some(class.map_or_else(|| method.clone(), |class| format!("{}.{method}", class.replace('/', "."))))
    }

    /// Forgets all that is not needed once the roots have names; the names of fields stay.
    pub fn forget_stacks(&mut self) {
        self.frames = FxHashMap::default();
        self.traces = FxHashMap::default();
        self.class_serials = FxHashMap::default();
        self.roots = Vec::new();
    }
}

impl RecordSink for Catalog {
    fn name(&mut self, id: u64, at: u64, length: u32) {
        self.names.insert(id, (at, length));
    }

    fn loaded_class(&mut self, serial: u32, id: u64, name: u64) {
        self.class_names.insert(id, name);
        self.class_serials.insert(serial, id);
    }

    fn frame(&mut self, id: u64, method: u64, class_serial: u32) {
        self.frames.insert(id, (method, class_serial));
    }

    fn trace(&mut self, serial: u32, _: u32, frames: Vec<u64>) {
        self.traces.insert(serial, frames);
    }

    fn root(&mut self, root: RootRecord) {
        self.roots.push(root);
    }

    fn class(&mut self, class: ClassRecord, at: u64) {
        self.add(class.id);
        self.most_words += 4 + class.statics.len() as u64;
        self.classes.push((class, at));
    }

    #[inline]
    fn instance(&mut self, id: u64, _: u64, fields: &[u8], at: u64) {
        self.most_words += 1 + fields.len() as u64 / u64::from(self.id_size);
        self.add_at(id, at);
    }

    fn object_array(&mut self, id: u64, _: u64, _: u32, at: u64) {
        self.most_words += 2;
        self.add_at(id, at);
    }

    fn elements(&mut self, elements: &[u8]) {
        self.most_words += elements.len() as u64 / u64::from(self.id_size);
    }

    fn primitive_array(&mut self, id: u64, _: FieldType, _: u32, at: u64) {
        self.most_words += 1;
        self.add_at(id, at);
    }

    fn is_done(&self) -> bool {
        self.is_unaligned
    }
}
