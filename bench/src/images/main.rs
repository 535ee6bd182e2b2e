//! What looking into memory images costs: `bench/images`.
//!
//! `make SHAPE OBJECTS FILE` writes a Motoko heap of so many objects, `walk FILE` goes through it, marks what is live and adds it up by kind, and
//! `report FILE` does all that `highwater image heap` does. Both print nanoseconds of CPU time per object, objects, bytes of heap, and the most
//! memory that was allocated for each live object.

mod counting;
mod make;

use counting::Counting;
use highwater_image::{Damages, Image, Sidecar, find_heap, lenses::motoko::Motoko, survey};
use std::path::Path;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make", shape, objects, file] => {
            make::make(shape, objects.parse().expect("a number of objects"), Path::new(file))
        }
        ["empty", file] => make::empty(Path::new(file)),
        ["walk", file] => walk(file),
        ["report", file] => report(file),
        _ => eprintln!("images-bench: see bench/images"),
    }
}

/// CPU time of this process, in nanoseconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn tell(before: f64, objects: u64, live: u64, heap: u64) {
    let spent = cpu_time() - before;
    let memory = counting::peak() as f64 / live.max(1) as f64;
    println!("{:.1} {objects} {:.2} {memory:.1} {:.2}", spent / objects as f64, heap as f64 / spent, spent / 1e9);
}

fn walk(file: &str) {
    let before = cpu_time();
    let image = Image::open(Path::new(file)).expect("an image");
    let mut damage = Damages::default();
    let heap = Motoko::wide(&image, None, &mut damage);
    let survey = survey(&heap, 10);
    assert!(damage.is_empty() && survey.damage.is_empty(), "{:?}", survey.damage);
    let sum = |figure: fn(&highwater_image::KindFigures) -> u64| survey.kinds.iter().map(figure).sum();
    tell(before, sum(|kind| kind.count), sum(|kind| kind.live_count), survey.walked_bytes);
}

fn report(file: &str) {
    let before = cpu_time();
    let image = Image::open(Path::new(file)).expect("an image");
    let mut damage = Damages::default();
    let heap = find_heap(&image, None, &Sidecar::default(), &mut damage).expect("a heap");
    let examination = heap.examine(10);
    assert!(damage.is_empty() && examination.damage().is_empty(), "{:?}", examination.damage());
    assert_eq!(heap.stated_bytes(), Some(examination.survey.walked_bytes));
    let objects = examination.kinds.iter().map(|(_, figures)| figures.count).sum();
    tell(before, objects, examination.live().0, examination.survey.walked_bytes);
}
