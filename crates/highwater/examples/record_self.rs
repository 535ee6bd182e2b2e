//! A program that records itself: `HIGHWATER_RECORD=self.hw cargo run --example record_self`.

use std::alloc::System;
use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

#[inline(never)]
fn load(count: usize) -> HashMap<usize, String> {
    (0..count).map(|number| (number, format!("value of {number}"))).collect()
}

fn main() {
    let table = load(10_000);
    highwater::mark("loaded");
    let longest = table.values().map(String::len).max();
    println!("{} values, the longest of {} bytes", table.len(), longest.unwrap_or(0));
    std::mem::forget(table);
}
