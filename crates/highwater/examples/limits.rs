//! Limits on memory that are broken, for docs/testing.md: `cargo run --example limits -- leaks`, `peak`, `allocations`, `growth` or `figures`.

use highwater::testing;
use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);

/// An index of words. It forgets to forget.
#[derive(Default)]
struct Index {
    words: HashMap<String, Vec<usize>>,
}

impl Index {
    #[inline(never)]
    fn add(&mut self, number: usize, line: &str) {
        for word in line.split(' ') {
            self.words.entry(word.to_owned()).or_default().push(number);
        }
    }

    #[inline(never)]
    fn longest(&self) -> Option<&String> {
        let mut words: Vec<&String> = self.words.keys().collect();
        words.sort_by_key(|word| word.len());
        words.pop()
    }
}

#[inline(never)]
fn read(lines: usize) -> Index {
    let text: String = (0..lines).map(|number| format!("line {number} has words\n")).collect();
    let mut index = Index::default();
    text.lines().enumerate().for_each(|(number, line)| index.add(number, line));
    index
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("leaks") => testing::assert_no_leaks(|| std::mem::forget(read(2))),
        Some("peak") => {
            testing::assert_peak_at_most("64 KiB", || read(1000));
        }
        Some("allocations") => {
            let index = read(10);
            testing::assert_no_allocations(|| index.longest().map(String::len));
        }
        Some("growth") => {
            let (mut index, mut number) = (Index::default(), 0);
            testing::assert_no_growth(32, || {
                number += 1;
                index.add(number, "the same words");
            });
        }
        _ => {
            let used = testing::measure(|| read(1000));
            println!("{used}");
            println!("{:#?}", *used);
        }
    }
}
