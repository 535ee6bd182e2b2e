//! The lenses. Each folder knows one kind of heap: how it is recognized, where its objects are, what they mean.
//!
//! A new lens is a folder here, and two lines in this file: its `mod`, and its entry in [`LENSES`]. Its heap implements [`Lens`](crate::Lens), which says
//! where objects are, and [`HeapAbilities`](crate::HeapAbilities), of which all but three methods have defaults; then it is an [`ImageHeap`], and every
//! command and view can use it.

pub mod dlmalloc;
pub mod motoko;

use crate::damage::Damages;
use crate::heap::ImageHeap;
use crate::image::Image;
use crate::sidecar::Sidecar;
use crate::wasm::WasmModule;

/// All lenses, in the order in which they are tried: those that need less evidence to accept a heap come later.
pub static LENSES: &[&dyn LensKind] = &[&motoko::Motoko64, &motoko::Motoko32, &dlmalloc::DlmallocLens];

/// A kind of heap that can be found in images.
pub trait LensKind: Sync {
    /// Its name for programs: `motoko64`.
    fn key(&self) -> &'static str;

    /// Whose heap it finds, for messages: `a Motoko program's`.
    fn owner(&self) -> &'static str;

    /// Finds the heap of an image by its content, with the help of module and sidecar. Records damage in the data that leads to the heap; it counts only if a
    /// heap is found.
    fn find<'a>(
        &self,
        image: &'a Image,
        module: Option<&WasmModule>,
        sidecar: &Sidecar,
        damage: &mut Damages,
    ) -> Option<Box<dyn ImageHeap + 'a>>;
}

impl std::fmt::Debug for dyn LensKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key())
    }
}

/// No lens fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHeap {
    /// The image has no byte at all.
    #[error("the file is empty")]
    Empty,
    /// No lens recognizes a heap.
    #[error("no heap is found in it: {}; '--module M.wasm' may show where it begins", neither())]
    Unknown,
}

/// `neither a Motoko program's nor dlmalloc's`.
fn neither() -> String {
    let mut owners: Vec<&str> = LENSES.iter().map(|lens| lens.owner()).collect();
    owners.dedup();
    let last = owners.pop().unwrap_or_default();
    format!("neither {} nor {last}", owners.join(", "))
}

/// Finds the heap of an image, and records damage in the data that leads to it.
pub fn find_heap<'a>(
    image: &'a Image,
    module: Option<&WasmModule>,
    sidecar: &Sidecar,
    damage: &mut Damages,
) -> Result<Box<dyn ImageHeap + 'a>, NoHeap> {
    find_among(LENSES, image, module, sidecar, damage)
}

fn find_among<'a>(
    lenses: &[&dyn LensKind],
    image: &'a Image,
    module: Option<&WasmModule>,
    sidecar: &Sidecar,
    damage: &mut Damages,
) -> Result<Box<dyn ImageHeap + 'a>, NoHeap> {
    for lens in lenses {
        let mut of_lens = Damages::default();
        if let Some(heap) = lens.find(image, module, sidecar, &mut of_lens) {
            damage.append(of_lens);
            return Ok(heap);
        }
    }
    Err(if image.is_empty() { NoHeap::Empty } else { NoHeap::Unknown })
}

#[cfg(test)]
mod tests;
