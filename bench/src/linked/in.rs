//! A program with the crate's allocator, which does not record.

mod calls;

use std::alloc::System;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

fn main() {
    calls::measure();
}
