//! A synthetic program: what a busy multi-threaded service does to its allocator.
//!
//! * Four threads serve requests of 200 kinds, some far more often than others. A request runs through the same steps each
//!   time, 20 to 400 of them, but one step in 32 differs: left out, or of another size.
//! * 4,000 call sites with stacks 8 to 31 deep; a site mostly asks for one size, one site in 16 for any.
//! * What a request allocates it mostly frees, youngest first or nearly so; the rest at its end. One block in twenty is
//!   kept, in the place of a random older one once as many are kept as the program is to hold.
//! * Addresses as glibc gives them: what the thread freed last of that chunk size, else the next of its fresh memory.
//! * 2 % of the steps are reallocations, every other one moving.
//! * Threads take turns every fifty events or so; events are 160 ns apart on average, spread as such times are.

use std::collections::HashMap;

use highwater_model::{Catalog, Event, EventKind, FrameText, Nanos, Placement, StackId, ThreadId};

const THREADS: usize = 4;
const SITES: usize = 4000;
const REQUESTS: usize = 200;

/// Random numbers that are the same every time.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // The first numbers of neighbouring seeds are alike.
        for _ in 0..16 {
            random.next();
        }
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (-(1.0 - uniform).ln() * mean) as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    address: u64,
    size: u64,
}

#[derive(Debug)]
struct Site {
    stack: StackId,
    size: u64,
    varies: bool,
}

/// What a request does next.
#[derive(Clone, Copy, Debug)]
enum Action {
    Allocate { site: u16, keep: bool },
    Free { from_youngest: u8 },
    Reallocate { site: u16, moves: bool },
}

#[derive(Debug)]
struct Thread {
    id: ThreadId,
    request: usize,
    action: usize,
    /// What the request holds, the youngest last.
    held: Vec<Live>,
    freed: HashMap<u64, Vec<u64>>,
    arena: u64,
}

/// Makes the program's events, one at a time and for ever.
#[derive(Debug)]
pub struct Workload {
    random: Random,
    sites: Vec<Site>,
    requests: Vec<Vec<Action>>,
    threads: Vec<Thread>,
    thread: usize,
    burst: u64,
    kept: Vec<Live>,
    keep_target: usize,
    time: u64,
}

impl Workload {
    /// A program that keeps about `keep_target` blocks once it is warm; its stacks go into `catalog`.
    pub fn new(seed: u64, keep_target: usize, catalog: &mut Catalog) -> Self {
        let mut random = Random::new(seed);
        let sites = (0..SITES).map(|site| Self::site(site, &mut random, catalog)).collect();
        let requests = (0..REQUESTS).map(|_| Self::request(&mut random)).collect();
        let thread = |index: usize| Thread {
            id: ThreadId(4242 + index as u64),
            request: index,
            action: 0,
            held: Vec::new(),
            freed: HashMap::default(),
            arena: 0x7f00_0000_0010 + ((index as u64) << 36),
        };
        let threads = (0..THREADS).map(thread).collect();
        Self { random, sites, requests, threads, thread: 0, burst: 0, kept: Vec::new(), keep_target, time: 0 }
    }

    fn site(site: usize, random: &mut Random, catalog: &mut Catalog) -> Site {
        let depth = 8 + random.below(24) as usize;
        let name = |level| format!("service::layer{level}::step{}", site >> (level / 2));
        let names: Vec<String> = (0..depth).map(name).collect();
        let frame =
            |(level, name)| FrameText { function: name, file: "service.rs", line: level, ..FrameText::default() };
        let frames: Vec<FrameText<'_>> = (1..).zip(names.iter().map(String::as_str)).map(frame).collect();
        let size = match random.below(10) {
            0..6 => 16 + random.below(15) * 8,
            6..9 => 128 + random.below(60) * 16,
            _ => 1024 << random.below(7),
        };
        Site { stack: catalog.intern_stack(&frames), size, varies: random.once_in(16) }
    }

    fn request(random: &mut Random) -> Vec<Action> {
        let steps = 20 + random.below(380);
        // A request works in one part of the program.
        let home = random.below(SITES as u64 - 64);
        let mut held = 0u64;
        let mut actions = Vec::new();
        for _ in 0..steps {
            let site = (home + random.below(64)) as u16;
            let action = match random.below(100) {
                0..2 if held > 0 => Action::Reallocate { site, moves: random.once_in(2) },
                2..48 if held > 0 => {
                    held -= 1;
                    let from_youngest = if random.once_in(3) { random.below(held.min(31) + 1) as u8 } else { 0 };
                    Action::Free { from_youngest }
                }
                _ => {
                    let keep = random.once_in(20);
                    held += u64::from(!keep);
                    Action::Allocate { site, keep }
                }
            };
            actions.push(action);
        }
        actions.extend((0..held).map(|_| Action::Free { from_youngest: 0 }));
        actions
    }

    /// The next event.
    pub fn next_event(&mut self) -> Event {
        if self.burst == 0 {
            self.thread = self.random.below(THREADS as u64) as usize;
            self.burst = 1 + self.random.exponential(50.0);
        }
        self.burst -= 1;
        let pause = if self.random.once_in(8) { self.random.exponential(900.0) } else { 0 };
        self.time += 10 + self.random.exponential(40.0) + pause;
        let kind = self.next_kind();
        Event { time: Nanos(self.time), thread: self.threads[self.thread].id, kind }
    }

    fn next_kind(&mut self) -> EventKind {
        if self.kept.len() > self.keep_target {
            let at = self.random.below(self.kept.len() as u64) as usize;
            let block = self.kept.swap_remove(at);
            return self.free(block);
        }
        loop {
            let thread = &mut self.threads[self.thread];
            let Some(&action) = self.requests[thread.request].get(thread.action) else {
                thread.action = 0;
                let part = self.random.below(1 << 20) as f64 / f64::from(1 << 20);
                thread.request = (part * part * REQUESTS as f64) as usize;
                if let Some(block) = thread.held.pop() {
                    thread.action = usize::MAX / 2;
                    return self.free(block);
                }
                continue;
            };
            thread.action += 1;
            let differs = self.random.once_in(32);
            let held = self.threads[self.thread].held.len();
            match action {
                Action::Free { from_youngest } if held > 0 && !differs => {
                    let at = held - 1 - usize::from(from_youngest).min(held - 1);
                    let block = self.threads[self.thread].held.remove(at);
                    return self.free(block);
                }
                Action::Reallocate { site, moves } if held > 0 => return self.reallocate(site, moves),
                Action::Allocate { site, keep } => return self.allocate(site, keep, differs),
                _ => {}
            }
        }
    }

    fn allocate(&mut self, site: u16, keep: bool, differs: bool) -> EventKind {
        let site = &self.sites[usize::from(site)];
        let stack = site.stack;
        let size = if site.varies || differs { 8 + self.random.below(site.size * 2) } else { site.size };
        let address = self.fresh_address(size);
        let block = Live { address, size };
        let owner = if keep { &mut self.kept } else { &mut self.threads[self.thread].held };
        owner.push(block);
        EventKind::Allocate(Placement { address, size, stack, ..Placement::default() })
    }

    fn reallocate(&mut self, site: u16, moves: bool) -> EventKind {
        let at = self.threads[self.thread].held.len() - 1;
        let old = self.threads[self.thread].held[at];
        let size = (old.size * 2).min(1 << 20);
        let stack = self.sites[usize::from(site)].stack;
        let mut new = Placement { address: old.address, size, stack, ..Placement::default() };
        if moves {
            new.address = self.fresh_address(size);
            self.threads[self.thread].freed.entry(chunk(old.size)).or_default().push(old.address);
        }
        self.threads[self.thread].held[at] = Live { address: new.address, size };
        EventKind::Reallocate { old_address: old.address, claimed_old_size: None, new }
    }

    fn fresh_address(&mut self, size: u64) -> u64 {
        let thread = &mut self.threads[self.thread];
        let reused = thread.freed.get_mut(&chunk(size)).and_then(Vec::pop);
        reused.unwrap_or_else(|| {
            let address = thread.arena;
            thread.arena += chunk(size);
            address
        })
    }

    fn free(&mut self, block: Live) -> EventKind {
        self.threads[self.thread].freed.entry(chunk(block.size)).or_default().push(block.address);
        EventKind::free(block.address, None)
    }
}

/// What glibc cuts for a request.
fn chunk(size: u64) -> u64 {
    ((size + 23) & !15).max(32)
}
