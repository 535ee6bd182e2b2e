//! A program whose allocator, mimalloc, is linked into it: for the tests of what cannot be recorded.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let kept: Vec<Vec<u8>> = (0..100_000).map(|number| vec![number as u8; 16 + number % 64]).collect();
    println!("{}", kept.len());
}
