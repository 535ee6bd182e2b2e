//! A program that offers its own recording: `cargo run --example streamed -- serve 1234 10`, then `highwater connect 1234`. Or one that sends it:
//! `highwater listen 1234`, then `cargo run --example streamed -- connect 1234 10`.

use highwater::stream::{self, Options};
use std::alloc::System;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: highwater::Alloc<System> = highwater::Alloc::new(System);

/// Keeps a cache of words that never gets smaller.
#[inline(never)]
fn remember(cache: &mut Vec<String>, number: usize) {
    cache.push(format!("word {number}"));
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, how, address, seconds] = arguments.as_slice() else {
        eprintln!("usage: streamed serve|connect ADDR SECONDS");
        std::process::exit(2);
    };
    match how.as_str() {
        "connect" => stream::connect(address, Options::new())?,
        _ => println!("highwater connect {}", stream::serve(address, Options::new())?),
    }
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse().unwrap_or(10.0));
    let mut cache = Vec::new();
    while Instant::now() < end {
        for number in 0..100 {
            remember(&mut cache, number);
            drop(std::hint::black_box(format!("request {number}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{} words", cache.len());
    Ok(())
}
