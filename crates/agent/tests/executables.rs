//! Classifying executables: real ones, and files that claim anything.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater_agent::children::Reason;
use highwater_agent::executable::{ExecutableKind, look_at, sanitizer};
use std::cell::Cell;
use std::path::Path;

/// Classifies bytes as if they were a file; also returns the number of reads.
fn look(bytes: &[u8]) -> (ExecutableKind, u32) {
    let reads = Cell::new(0);
    let kind = look_at(&|offset, buffer| {
        reads.set(reads.get() + 1);
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    });
    (kind, reads.get())
}

fn read(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(path).expect("a program")
}

#[test]
fn real_files_are_known() {
    assert_eq!(look(&read("/bin/ls")).0, ExecutableKind::Fit);
    assert_eq!(look(&read(std::env::current_exe().expect("this program"))).0, ExecutableKind::Fit);
    for (text, path) in
        [("#!/bin/sh -e\necho", "/bin/sh"), ("#!  /usr/bin/env python3\n", "/usr/bin/env"), ("#!\n", "")]
    {
        let ExecutableKind::Script(found, length) = look(text.as_bytes()).0 else { panic!("{text}") };
        assert_eq!(&found[..length], path.as_bytes());
    }
    // A file that the kernel does not know is left to the shell.
    for text in ["", "echo", "\x7fELF"] {
        assert_eq!(look(text.as_bytes()).0, ExecutableKind::Fit, "{text:?}");
    }
    let mut other = read("/bin/ls");
    other[18] = 183;
    assert_eq!(look(&other).0, ExecutableKind::Unfit(Reason::OtherMachine));
}

#[test]
fn runtimes_are_known_by_their_names() {
    assert_eq!(sanitizer(b"/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so"), Some(Reason::AddressSanitizer));
    assert_eq!(sanitizer(b"libtsan.so.2"), Some(Reason::ThreadSanitizer));
    assert_eq!(sanitizer(b"libclang_rt.asan-x86_64.so"), Some(Reason::AddressSanitizer));
    assert_eq!(sanitizer(b"/libasan.so/libc.so.6"), None);
    assert_eq!(sanitizer(b"libubsan.so.1"), None);
}

/// Neither a panic nor an endless search, whatever the headers and tables say.
#[test]
fn files_that_claim_anything_are_looked_at_and_left() {
    // Enough for every header and table that is read.
    let sound = read("/bin/ls");
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..4000 {
        let mut bytes = sound.clone();
        for _ in 0..1 + random(12) {
            // Mostly where the headers and the dynamic tables are.
            let at = if random(4) == 0 { random(bytes.len()) } else { random(bytes.len().min(12_000)) };
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8][random(6)];
        }
        if random(8) == 0 {
            bytes.truncate(random(sound.len()));
        }
        let (_, reads) = look(&bytes);
        assert!(reads < 200_000, "{reads} reads");
    }
}
