//! A lens that only this file knows: what it must say for every question to have an answer.

use super::*;
use crate::bitmap::Bitmap;
use crate::compare::{ComparedImage, compare};
use crate::heap::{HeapAbilities, HeapError};
use crate::lens::{HeapArea, Lens, Root, RootName};
use highwater_model::{Accounts, Source, laws};
use std::ops::Range;

/// The first bytes of a toy image. Cells of eight bytes follow: the address of another cell, or 0. The first cell is the root.
const MARK: &[u8; 8] = b"TOY HEAP";

struct ToyLens;

struct ToyHeap<'a> {
    image: &'a Image,
    roots: Vec<Root>,
}

impl LensKind for ToyLens {
    fn key(&self) -> &'static str {
        "toy"
    }

    fn owner(&self) -> &'static str {
        "a toy's"
    }

    fn find<'a>(
        &self,
        image: &'a Image,
        _: Option<&WasmModule>,
        _: &Sidecar,
        _: &mut Damages,
    ) -> Option<Box<dyn ImageHeap + 'a>> {
        let root = Root { object: 8, name: RootName::Named("first".to_owned()), is_variable: true };
        (image.slice(0, 8) == MARK).then(|| Box::new(ToyHeap { image, roots: vec![root] }) as Box<dyn ImageHeap>)
    }
}

impl HeapAbilities for ToyHeap<'_> {
    fn key(&self) -> &'static str {
        ToyLens.key()
    }

    fn name(&self) -> &'static str {
        "toy"
    }

    fn base(&self) -> u64 {
        8
    }
}

impl Lens for ToyHeap<'_> {
    const UNIT: u64 = 8;
    const KINDS: &'static [&'static str] = &["cell"];

    fn span(&self) -> Range<u64> {
        8..self.image.len()
    }

    fn walk(&self, visit: impl FnMut(HeapArea), _: &mut Damages) {
        let cell = |at| HeapArea { at, bytes: 8, kind: 0, is_object: true };
        self.span().step_by(8).map(cell).for_each(visit);
    }

    fn is_object(&self, address: u64, found: &Bitmap) -> bool {
        address >= 8 && address.is_multiple_of(8) && found.get(address / 8 - 1)
    }

    fn roots(&self) -> &[Root] {
        &self.roots
    }

    fn next_reference(&self, object: u64, slot: u32, _: &Bitmap) -> Option<(u64, u32)> {
        Some((self.image.u64(object), 1)).filter(|(target, _)| slot == 0 && *target != 0)
    }

    fn kind(&self, _: u64) -> u8 {
        0
    }

    fn bytes(&self, _: u64) -> u64 {
        8
    }

    fn is_in_heap(&self, _: u64) -> bool {
        true
    }

    fn shape_key(&self, object: u64) -> u64 {
        u64::from(self.image.u64(object) != 0)
    }

    fn shape_name(&self, object: u64) -> String {
        ["last cell", "cell"][self.shape_key(object) as usize].to_owned()
    }

    fn step(&self, _: u64, _: u32) -> String {
        ".next".to_owned()
    }
}

fn toy_image(cells: &[u64]) -> Image {
    let words = cells.iter().flat_map(|cell| cell.to_le_bytes());
    Image::from_bytes(MARK.iter().copied().chain(words).collect())
}

fn found<'a>(image: &'a Image, damage: &mut Damages) -> Box<dyn ImageHeap + 'a> {
    let lenses: Vec<&dyn LensKind> = LENSES.iter().copied().chain([&ToyLens as &dyn LensKind]).collect();
    find_among(&lenses, image, None, &Sidecar::default(), damage).expect("a toy heap")
}

#[test]
fn a_lens_that_no_other_file_names_answers_every_question() {
    // A list of three cells, and one cell that nothing refers to.
    let images = [toy_image(&[16, 0, 0, 0]), toy_image(&[16, 24, 0, 0])];
    let mut damage = Damages::default();
    let heaps = images.each_ref().map(|image| found(image, &mut damage));
    let examinations = heaps.each_ref().map(|heap| heap.examine(1));
    let (heap, examination) = (&heaps[1], &examinations[1]);
    assert!(damage.is_empty() && examination.damage().is_empty());
    assert_eq!((heap.key(), heap.name(), heap.base(), heap.stated_bytes()), ("toy", "toy", 8, None));
    assert_eq!((examination.live(), examination.waste.len()), ((3, 24), 0));
    assert_eq!(heap.addresses_by_kind(), [[8, 16, 24, 32]]);

    let view = heap.view(examination, "0x18", 3).expect("a cell");
    let path = view.path.map(|path| path.to_string());
    assert_eq!((view.kind, view.shape.as_str(), path.as_deref()), ("cell", "last cell", Some("first.next.next")));
    assert_eq!((view.retained_bytes, view.referrers.count, view.value), (Some(8), 1, None));
    assert_eq!(heap.view(examination, "0x8", 3).expect("the root").retained_bytes, Some(24));
    assert!(heap.view(examination, "0x9", 3).is_err() && heap.view(examination, "first", 3).is_err());

    let mut sides =
        heaps.iter().zip(&examinations).map(|(heap, examination)| ComparedImage { heap: &**heap, examination });
    let sides = [sides.next().expect("one"), sides.next().expect("two")];
    let comparison = compare(&sides, 5).expect("the same kind");
    // The second cell is no longer the last one, so it counts as another object.
    assert_eq!((comparison.came, comparison.went), ((2, 16), (1, 8)));
    assert_eq!(comparison.roots[0].retained_bytes, [16, 24]);

    let accounts = Accounts::from_state(heap.snapshot(examination, Source::default()).accounts);
    assert_eq!((laws::violations(&accounts), accounts.totals().figures.live_bytes()), (Vec::new(), 24));
}

#[test]
fn what_a_kind_of_heap_cannot_do_is_a_typed_error() {
    let image = toy_image(&[0]);
    let heap = found(&image, &mut Damages::default());
    let survey = heap.examine(0).survey;
    let is_unsupported = |error| matches!(error, HeapError::Unsupported { heap: "toy", .. });
    assert!(heap.edit(&survey, "first", "7").is_err_and(is_unsupported));
    assert!(heap.field(&survey, 8, "next").is_err_and(is_unsupported));
    assert!(heap.text_at(&survey, 8, 10).is_none() && heap.guess_contents(8).is_none());
    assert!(heap.chunk_figures().is_none());
}

#[test]
fn lenses_have_different_keys_and_all_are_named_when_none_fits() {
    for (index, lens) in LENSES.iter().enumerate() {
        assert!(LENSES[..index].iter().all(|other| other.key() != lens.key()), "{lens:?}");
        assert!(NoHeap::Unknown.to_string().contains(lens.owner()), "{lens:?}");
    }
    assert_eq!(
        NoHeap::Unknown.to_string(),
        "no heap is found in it: neither a Motoko program's nor dlmalloc's; '--module M.wasm' may show where it begins"
    );
}
