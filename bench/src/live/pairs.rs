//! A free and an allocation: of few blocks again and again, and of random ones among many.

use crate::predecessor::Predecessor;
use highwater_agent as agent;
use std::hint::black_box;

/// Addresses as an allocator would give them out for blocks of 48 bytes.
fn address(number: u64) -> u64 {
    0x5555_0000_0000 + number * 64
}

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The least of several rounds: what is more than that was somebody else's doing.
fn least(rounds: usize, pairs: u64, mut work: impl FnMut()) -> f64 {
    let times = (0..rounds).map(|_| {
        let begin = cpu_ns();
        work();
        (cpu_ns() - begin) as f64 / pairs as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

const WINDOW: u64 = 1000;

/// A block that lives for a thousand others.
pub fn hot() {
    const PAIRS: u64 = 2_000_000;
    let live = least(7, PAIRS, || {
        for number in 0..PAIRS {
            agent::allocated_at(address(number % WINDOW), 48, 1);
            if number >= WINDOW / 2 {
                agent::freeing(address((number - WINDOW / 2) % WINDOW) as *mut u8);
            }
        }
        for number in PAIRS - WINDOW / 2..PAIRS {
            agent::freeing(address(number % WINDOW) as *mut u8);
        }
    });
    let mut before = Predecessor::new(4096);
    let predecessor = least(7, PAIRS, || {
        for number in 0..PAIRS {
            before.insert(address(number % WINDOW), 48);
            if number >= WINDOW / 2 {
                before.remove(address((number - WINDOW / 2) % WINDOW));
            }
        }
        for number in PAIRS - WINDOW / 2..PAIRS {
            before.remove(address(number % WINDOW));
        }
    });
    println!("hot {live:.1}");
    println!("hot_predecessor {predecessor:.1}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Frees a random block and allocates a new one, while `blocks` are live. The cost of choosing one is taken off.
pub fn random(blocks: u64) {
    const PAIRS: u64 = 1_000_000;
    let mut random = Random(88_172_645_463_325_252);
    let mut held: Vec<u64> = (0..blocks).collect();
    let mut next = blocks;
    let mut choose = |held: &mut Vec<u64>, next: &mut u64| {
        let at = random.below(held.len() as u64) as usize;
        *next += 1;
        std::mem::replace(&mut held[at], *next - 1)
    };
    let choosing = least(5, PAIRS, || {
        for _ in 0..PAIRS {
            black_box(choose(&mut held, &mut next));
        }
    });
    for &number in &held {
        agent::allocated_at(address(number), 48, 1);
    }
    let live = least(5, PAIRS, || {
        for _ in 0..PAIRS {
            let gone = choose(&mut held, &mut next);
            agent::freeing(address(gone) as *mut u8);
            agent::allocated_at(address(next - 1), 48, 1);
        }
    });
    println!("random {:.1}", live - choosing);
    let mut before = Predecessor::new(blocks as usize + 4096);
    held.iter().for_each(|&number| before.push(address(number), 48));
    const FEW: u64 = 3000;
    let predecessor = least(3, FEW, || {
        for _ in 0..FEW {
            let gone = choose(&mut held, &mut next);
            before.remove(address(gone));
            before.insert(address(next - 1), 48);
        }
    });
    println!("random_predecessor {predecessor:.1}");
}
