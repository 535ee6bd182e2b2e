//! Identities that are the same on every host: content hashes, of 64 bits, signed.
//!
//! Each part is hashed with its length, so that no two lists of parts have the same bytes.

use sha2::{Digest, Sha256};

/// A frame, as far as the identity of its stack depends on it.
#[derive(Clone, Copy, Debug)]
pub enum FrameIdentity<'a> {
    /// Machine code: the build id of its module, and the offset in the module's file.
    Code {
        /// The build id, or the module's path if it has none.
        module: &'a [u8],
        /// The offset.
        offset: u64,
    },
    /// A frame that the source had no address of: managed code, or a file of another tool.
    Named {
        /// The function.
        function: &'a str,
        /// The source file.
        file: &'a str,
        /// The line.
        line: u32,
    },
}

/// The identity of a stack, innermost frame first.
pub fn stack_id<'a>(frames: impl IntoIterator<Item = FrameIdentity<'a>>) -> i64 {
    let mut hash = Parts::new("stack");
    for frame in frames {
        match frame {
            FrameIdentity::Code { module, offset } => hash.add(b"c").add(module).add(&offset.to_le_bytes()),
            FrameIdentity::Named { function, file, line } => {
                hash.add(b"n").add(function.as_bytes()).add(file.as_bytes()).add(&line.to_le_bytes())
            }
        };
    }
    hash.end()
}

/// The identity of a stack's function names, innermost first: equal for two versions of a program whose code has moved.
pub fn site_id<'a>(functions: impl IntoIterator<Item = &'a str>) -> i64 {
    let mut hash = Parts::new("site");
    for function in functions {
        hash.add(function.as_bytes());
    }
    hash.end()
}

/// The identity of a process: no other process of any host has it, also not one with the same pid after a restart.
pub fn process_id(host: &str, boot_id: &str, pid: i32, start_us: i64) -> i64 {
    let mut hash = Parts::new("process");
    hash.add(host.as_bytes()).add(boot_id.as_bytes()).add(&pid.to_le_bytes()).add(&start_us.to_le_bytes());
    hash.end()
}

struct Parts(Sha256);

impl Parts {
    fn new(kind: &str) -> Self {
        let mut parts = Self(Sha256::new());
        parts.add(kind.as_bytes());
        parts
    }

    fn add(&mut self, part: &[u8]) -> &mut Self {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    fn end(self) -> i64 {
        let digest = self.0.finalize();
        i64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(site_id(["ab", "c"]), site_id(["a", "bc"]));
        assert_ne!(site_id(["a"]), site_id(["a", ""]));
        let named = |function, file| stack_id([FrameIdentity::Named { function, file, line: 1 }]);
        assert_ne!(named("ab", "c"), named("a", "bc"));
    }

    #[test]
    fn numbers_stay_what_they_are() {
        // Lakes of years are compared by these: a change of the hash would be a new schema.
        assert_eq!(site_id(["malloc", "main"]), -6_514_087_727_401_837_829);
        assert_eq!(process_id("host", "boot", 1, 2), -244_550_722_069_563_083);
    }
}
