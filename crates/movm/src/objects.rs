//! The objects of an image's heap, found when a script first asks for one.

use highwater_image::{Damages, Examination, FieldValue, Image, ImageHeap, Sidecar, Survey, WasmModule, find_heap};
use std::collections::HashMap;

/// The most bytes that are read of a text.
const LONGEST_TEXT: u64 = 16 << 20;

/// The heap of an image.
pub struct HeapObjects {
    heap: Box<dyn ImageHeap>,
    /// By kind, in order of addresses.
    by_kind: HashMap<&'static str, Vec<u64>>,
    retained: HashMap<u64, u64>,
    survey: Survey,
}

impl std::fmt::Debug for HeapObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeapObjects")
    }
}

impl HeapObjects {
    /// Returns a function that finds the objects: the image is analysed once, and only if a script needs it.
    pub fn new(
        image: &'static Image,
        sidecar: Sidecar,
        module: Option<WasmModule>,
    ) -> impl FnOnce() -> Result<Self, String> {
        move || {
            let heap = find_heap(image, module.as_ref(), &sidecar, &mut Damages::default());
            let heap = heap.map_err(|problem| problem.to_string())?;
            let Examination { survey, graph, .. } = heap.examine(0);
            let retained = graph.nodes().map(|node| (node.object, node.retained_bytes)).collect();
            let by_kind = heap.kinds().iter().copied().zip(heap.addresses_by_kind()).collect();
            Ok(Self { heap, by_kind, retained, survey })
        }
    }

    /// The kinds that the heap can have.
    pub fn kinds(&self) -> &[&'static str] {
        self.heap.kinds()
    }

    fn must_be_known(&self, kind: &str) -> Result<(), String> {
        if self.heap.kinds().contains(&kind) {
            return Ok(());
        }
        Err(format!("no kind is called '{kind}'; there are: {}", self.heap.kinds().join(", ")))
    }

    /// The objects of a kind.
    pub fn of_kind(&self, kind: &str) -> Result<&[u64], String> {
        self.must_be_known(kind)?;
        Ok(self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default())
    }

    /// The retained bytes of an object, itself included; 0 if it is garbage.
    pub fn retained(&self, object: u64) -> u64 {
        self.retained.get(&object).copied().unwrap_or(0)
    }

    /// The value of an object's field.
    pub fn field(&self, object: u64, name: &str) -> Result<FieldValue, String> {
        self.heap.field(&self.survey, object, name).map_err(|problem| problem.to_string())
    }

    /// The content of the text object at an address, if there is one.
    pub fn text(&self, address: u64) -> Option<String> {
        let bytes = self.heap.text_at(&self.survey, address, LONGEST_TEXT)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
