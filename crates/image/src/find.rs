//! Finds the lens that fits an image, by content.

use crate::damage::Damages;
use crate::dlmalloc::Dlmalloc;
use crate::image::Image;
use crate::lens::Lens;
use crate::module::Module;
use crate::motoko::{Motoko, is_wide_heap};
use crate::sidecar::Sidecar;
use std::fmt;

/// The heap of an image, seen through the lens that fits.
pub enum Heap<'a> {
    /// A Motoko heap of 64 bits.
    Wide(Motoko<'a, true>),
    /// A Motoko heap of 32 bits.
    Narrow(Motoko<'a, false>),
    /// A dlmalloc heap.
    Dlmalloc(Dlmalloc<'a>),
}

/// Runs the same code with each lens.
macro_rules! with_lens {
    ($heap:expr, $lens:ident => $body:expr) => {
        match $heap {
            crate::Heap::Wide($lens) => $body,
            crate::Heap::Narrow($lens) => $body,
            crate::Heap::Dlmalloc($lens) => $body,
        }
    };
}
pub(crate) use with_lens;

/// No lens fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeap {
    /// True if the image has no byte at all.
    pub is_empty: bool,
}

impl fmt::Display for NoHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_empty {
            true => "the file is empty",
            false => "no heap is found in it: neither a Motoko program's nor dlmalloc's; '--module M.wasm' may tell where it begins",
        })
    }
}

impl std::error::Error for NoHeap {}

impl<'a> Heap<'a> {
    /// Finds the heap of an image, and records damage in the data that leads to it.
    pub fn find(
        image: &'a Image,
        module: Option<&Module>,
        sidecar: &Sidecar,
        damage: &mut Damages,
    ) -> Result<Self, NoHeap> {
        if is_wide_heap(image) {
            return Ok(Self::Wide(Motoko::wide(image, module, damage)));
        }
        let mut of_narrow = Damages::default();
        if let Some(heap) = Motoko::narrow(image, module, sidecar, &mut of_narrow) {
            damage.append(of_narrow);
            return Ok(Self::Narrow(heap));
        }
        match Dlmalloc::find(image, module, sidecar) {
            Some(heap) => {
                if let Some(module) = module
                    && !heap.begins_where_said(module, sidecar)
                {
                    let base = heap.base();
                    damage.note(base, 0, "the module is not this image's: it does not say that the heap begins");
                }
                Ok(Self::Dlmalloc(heap))
            }
            None => Err(NoHeap { is_empty: image.is_empty() }),
        }
    }

    /// The kind of heap, as text.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wide(_) => "Motoko, 64 bits",
            Self::Narrow(_) => "Motoko, 32 bits",
            Self::Dlmalloc(heap) if heap.alignment() == 16 => "dlmalloc of a C library",
            Self::Dlmalloc(_) => "dlmalloc of Rust",
        }
    }

    /// The kind of heap, for programs: `motoko64`, `motoko32`, `dlmalloc`.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Wide(_) => "motoko64",
            Self::Narrow(_) => "motoko32",
            Self::Dlmalloc(_) => "dlmalloc",
        }
    }

    /// The names of all kinds of objects and areas in it.
    pub fn kinds(&self) -> &'static [&'static str] {
        match self {
            Self::Wide(_) => <Motoko<'_, true> as Lens>::KINDS,
            Self::Narrow(_) => <Motoko<'_, false> as Lens>::KINDS,
            Self::Dlmalloc(_) => <Dlmalloc<'_> as Lens>::KINDS,
        }
    }

    /// The address at which it begins.
    pub fn base(&self) -> u64 {
        match self {
            Self::Wide(heap) => heap.base(),
            Self::Narrow(heap) => heap.base(),
            Self::Dlmalloc(heap) => heap.base(),
        }
    }

    /// Its size in bytes, as the heap itself states it.
    pub fn stated_bytes(&self) -> Option<u64> {
        match self {
            Self::Wide(heap) => heap.stated_bytes(),
            Self::Narrow(heap) => heap.stated_bytes(),
            Self::Dlmalloc(heap) => Some(heap.end() - heap.base()),
        }
    }

    /// True if references are certain, so that unreachable objects are garbage. Otherwise unreachable objects are in use, and count as leaks.
    pub fn is_collected(&self) -> bool {
        !matches!(self, Self::Dlmalloc(_))
    }
}
