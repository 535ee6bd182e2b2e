//! Reading for somebody who may go away.

use std::io::{self, Read};

/// An input that ends with an error where nobody wants it any more.
pub struct Wanted<'a, R> {
    /// What is read.
    pub input: R,
    /// Whether anybody does.
    pub is_wanted: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for Wanted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (self.is_wanted)() {
            true => self.input.read(buffer),
            false => Err(io::Error::other("nobody waits for it any more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::open::{OnDamage, open_while};
    use std::cell::Cell;
    use std::fmt::Write;

    #[test]
    fn whatever_a_file_is_reading_it_ends_when_nobody_waits() {
        let path = std::env::temp_dir().join(format!("highwater-wanted-{}", std::process::id()));
        let (mut events, mut log) = (String::new(), String::new());
        for number in 1..20_000 {
            writeln!(events, r#"{{"event":"allocate","address":{number},"size":1,"time_ns":{number}}}"#).unwrap();
            writeln!(log, "@ ALLOCATE 10 a.rs:1 Node {number}").unwrap();
        }
        for content in [events, log] {
            std::fs::write(&path, content).unwrap();
            let looks = Cell::new(0);
            let is_wanted = |most| {
                looks.set(looks.get() + 1);
                looks.get() < most
            };
            assert!(open_while(&path, OnDamage::Collect, &|| is_wanted(u32::MAX)).is_ok());
            assert!(looks.get() > 5, "{}", looks.get());
            looks.set(0);
            let Err(failure) = open_while(&path, OnDamage::Collect, &|| is_wanted(5)) else { panic!("it was read") };
            assert!(failure.line().unwrap().contains("nobody waits"), "{failure:?}");
            assert_eq!(looks.get(), 5);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
