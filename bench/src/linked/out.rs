//! The same program without it.

mod calls;

use std::alloc::System;

#[global_allocator]
static ALLOCATOR: System = System;

fn main() {
    calls::measure();
}
