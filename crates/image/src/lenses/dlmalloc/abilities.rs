//! The lens for dlmalloc heaps in the registry, and what can be done with such heaps besides walking them.

use super::figures::waste;
use super::heap::Dlmalloc;
use crate::chunks::ChunkFigures;
use crate::damage::Damages;
use crate::examine::Waste;
use crate::heap::{HeapAbilities, ImageHeap};
use crate::image::Image;
use crate::lenses::LensKind;
use crate::sidecar::Sidecar;
use crate::survey::Survey;
use crate::wasm::WasmModule;

/// The lens for heaps of dlmalloc.
pub struct DlmallocLens;

impl LensKind for DlmallocLens {
    fn key(&self) -> &'static str {
        "dlmalloc"
    }

    fn owner(&self) -> &'static str {
        "dlmalloc's"
    }

    fn find<'a>(
        &self,
        image: &'a Image,
        module: Option<&WasmModule>,
        sidecar: &Sidecar,
        damage: &mut Damages,
    ) -> Option<Box<dyn ImageHeap + 'a>> {
        let heap = Dlmalloc::find(image, module, sidecar)?;
        if let Some(module) = module
            && !heap.begins_at_candidate(module, sidecar)
        {
            damage.note(heap.base(), 0, "the module is not this image's: it does not say that the heap begins");
        }
        Some(Box::new(heap))
    }
}

impl HeapAbilities for Dlmalloc<'_> {
    fn key(&self) -> &'static str {
        DlmallocLens.key()
    }

    fn name(&self) -> &'static str {
        if self.alignment == 16 { "dlmalloc of a C library" } else { "dlmalloc of Rust" }
    }

    fn base(&self) -> u64 {
        self.base
    }

    fn object_noun(&self) -> &'static str {
        "chunk"
    }

    fn stated_bytes(&self) -> Option<u64> {
        Some(self.end - self.base)
    }

    fn waste(&self, survey: &Survey) -> Vec<Waste> {
        waste(survey)
    }

    fn chunk_figures(&self) -> Option<ChunkFigures> {
        Some(self.figures())
    }

    fn untyped_contents(&self, chunk: u64) -> Option<&[u8]> {
        Some(self.contents(chunk))
    }
}
