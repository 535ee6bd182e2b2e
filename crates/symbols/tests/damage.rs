//! Damaged files: any part may be unknown, but no lookup may fail.

mod workshop;

use std::fs;
use std::path::{Path, PathBuf};

use highwater_symbols::{Symbolizer, build_id_of};
use workshop::{BASE, Workshop, at_base};

/// Rounds for each kind of file. Some ten thousand have been run; this number takes a second.
const ROUNDS: usize = 150;

/// Looks up addresses that the undamaged file knows, and some that it does not.
fn ask_everything(path: &Path, addresses: &[u64]) {
    build_id_of(path);
    let mut symbolizer = Symbolizer::new();
    if let Ok(module) = symbolizer.module(&at_base(path, "")) {
        for address in addresses {
            module.lookup(BASE.wrapping_add(*address));
        }
    }
}

/// Repeatable numbers without a pattern (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

struct Subject {
    bytes: Vec<u8>,
    addresses: Vec<u64>,
    damaged: PathBuf,
}

fn subjects(test: &str) -> (Workshop, Vec<Subject>) {
    let workshop = Workshop::new(test);
    let program = workshop.compile("c++ -g -O2", "templates.cpp", "templates");
    workshop.run("objcopy --compress-debug-sections=zlib templates compressed");
    workshop.run("objcopy --compress-debug-sections=zstd templates compressed-more");
    workshop.run("strip -o stripped templates");
    let functions = workshop.functions(&program);
    let mut addresses: Vec<u64> =
        functions.iter().flat_map(|function| (function.start..function.start + function.size).step_by(7)).collect();
    addresses.extend([0, 1, u64::MAX, 1 << 63]);
    let subjects = ["templates", "compressed", "compressed-more", "stripped"].map(|name| Subject {
        bytes: fs::read(workshop.path(name)).unwrap(),
        addresses: addresses.clone(),
        damaged: workshop.path(&format!("damaged-{name}")),
    });
    (workshop, subjects.into())
}

#[test]
fn a_file_that_was_cut_off_does_no_harm() {
    let (_workshop, subjects) = subjects("cut_off");
    for subject in subjects {
        let length = subject.bytes.len();
        for end in (0..2048).step_by(61).chain((2048..length).step_by(length / 150)).chain([length - 1]) {
            fs::write(&subject.damaged, &subject.bytes[..end.min(length)]).unwrap();
            ask_everything(&subject.damaged, &subject.addresses);
        }
    }
}

#[test]
fn changed_bytes_do_no_harm() {
    let (_workshop, subjects) = subjects("changed_bytes");
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for subject in subjects {
        for round in 0..ROUNDS {
            let mut bytes = subject.bytes.clone();
            for _ in 0..1 << (round % 12) {
                let position = numbers.below(bytes.len());
                bytes[position] = [0, 0xff, 0x80, numbers.below(256) as u8][numbers.below(4)];
            }
            // The headers decide everything else; keep the file recognisable.
            bytes[..16].copy_from_slice(&subject.bytes[..16]);
            if round % 3 > 0 {
                bytes[16..64].copy_from_slice(&subject.bytes[16..64]);
            }
            fs::write(&subject.damaged, &bytes).unwrap();
            ask_everything(&subject.damaged, &subject.addresses);
        }
    }
}
