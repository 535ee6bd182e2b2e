//! The lenses for Motoko heaps in the registry, and what can be done with such heaps besides walking them.

use super::heap::Motoko;
use super::kind::MotokoKind;
use super::waste::waste;
use super::wide::is_wide_heap;
use crate::damage::Damages;
use crate::edit::ImageEdit;
use crate::examine::Waste;
use crate::heap::{FieldValue, HeapAbilities, HeapError, ImageHeap, RegionObject};
use crate::image::Image;
use crate::lens::Lens;
use crate::lenses::LensKind;
use crate::sidecar::Sidecar;
use crate::survey::Survey;
use crate::wasm::WasmModule;

/// The bytes of a 64-bit number's box in a 64-bit heap: what is longer is slack.
const WIDE_BOX: u64 = 24;

/// The lens for heaps of 64 bits: enhanced orthogonal persistence.
pub struct Motoko64;

/// The lens for heaps of 32 bits: classical persistence.
pub struct Motoko32;

const OWNER: &str = "a Motoko program's";

impl LensKind for Motoko64 {
    fn key(&self) -> &'static str {
        "motoko64"
    }

    fn owner(&self) -> &'static str {
        OWNER
    }

    fn find<'a>(
        &self,
        image: &'a Image,
        module: Option<&WasmModule>,
        _: &Sidecar,
        damage: &mut Damages,
    ) -> Option<Box<dyn ImageHeap + 'a>> {
        if !is_wide_heap(image) {
            return None;
        }
        Some(Box::new(Motoko::wide(image, module, damage)))
    }
}

impl LensKind for Motoko32 {
    fn key(&self) -> &'static str {
        "motoko32"
    }

    fn owner(&self) -> &'static str {
        OWNER
    }

    fn find<'a>(
        &self,
        image: &'a Image,
        module: Option<&WasmModule>,
        sidecar: &Sidecar,
        damage: &mut Damages,
    ) -> Option<Box<dyn ImageHeap + 'a>> {
        Some(Box::new(Motoko::narrow(image, module, sidecar, damage)?))
    }
}

impl<const WIDE: bool> HeapAbilities for Motoko<'_, WIDE> {
    fn key(&self) -> &'static str {
        if WIDE { Motoko64.key() } else { Motoko32.key() }
    }

    fn name(&self) -> &'static str {
        if WIDE { "Motoko, 64 bits" } else { "Motoko, 32 bits" }
    }

    fn base(&self) -> u64 {
        self.base
    }

    fn stated_bytes(&self) -> Option<u64> {
        self.stated_bytes
    }

    /// The runtime of 64 bits counts from address 0.
    fn occupied_heap_size(&self, heap_bytes: u64) -> u64 {
        if WIDE { self.base + heap_bytes } else { heap_bytes }
    }

    fn waste(&self, survey: &Survey) -> Vec<Waste> {
        waste(&survey.kinds, if WIDE { WIDE_BOX } else { 0 })
    }

    fn regions(&self, survey: &Survey) -> Vec<RegionObject> {
        self.region_objects(survey)
    }

    fn field(&self, survey: &Survey, object: u64, name: &str) -> Result<FieldValue, HeapError> {
        self.field_value(survey, object, name)
    }

    fn text_at(&self, survey: &Survey, address: u64, limit: u64) -> Option<Vec<u8>> {
        let is_text = self.is_object(address, &survey.found)
            && matches!(self.kind_of(address), MotokoKind::Text | MotokoKind::Concat);
        is_text.then(|| self.text(address, limit))
    }

    fn edit(&self, survey: &Survey, path: &str, value: &str) -> Result<ImageEdit, HeapError> {
        self.edit_value(survey, path, value)
    }
}
