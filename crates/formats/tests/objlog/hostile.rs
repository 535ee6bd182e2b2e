//! Input that is not a log: counted, never fatal, in bounded memory.

use crate::fixtures::read;
use highwater_formats::objlog::{
    MAX_LINE_BYTES, ObjectLineFault, ObjectLogReader, ReadUntil, SurvivingObjects, Trust, TrustVerdict,
};
use proptest::prelude::*;
use std::io::{self, Read};

fn verdict(reader: &ObjectLogReader) -> TrustVerdict {
    Trust::of(reader, &SurvivingObjects::of(reader.matcher())).verdict
}

#[test]
fn what_is_no_log_has_no_objects() {
    for input in [b"".as_slice(), b"\n\n\n", b"hello\nworld", b"\x7fELF\x02\x01\0\0@\xff\n", b"@\n@\n@", &[0xff; 5000]]
    {
        let reader = read(input, ReadUntil::End);
        assert_eq!(reader.matcher().ids(), 0);
        assert_eq!(verdict(&reader), TrustVerdict::Nothing);
        let counts = reader.counts();
        assert_eq!(counts.lines, counts.object_lines + counts.noise_lines + counts.malformed);
    }
}

/// A line that never ends.
struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(buffer.len() <= 2 * MAX_LINE_BYTES, "the buffer grows with the line");
        let count = buffer.len().min(self.0 as usize);
        buffer[..count].fill(b'@');
        self.0 -= count as u64;
        Ok(count)
    }
}

#[test]
fn a_gigantic_line_is_counted_and_the_rest_is_used() {
    let input = Endless(300 << 20).chain(b"\n@ ALLOCATE 8 a.rs:1 T 0\n".as_slice());
    let mut reader = ObjectLogReader::default();
    reader.read_all(input, &mut ()).unwrap();
    assert_eq!(reader.counts().by_fault().collect::<Vec<_>>(), [(ObjectLineFault::TooLong, 1)]);
    assert_eq!((reader.counts().lines, reader.matcher().total().live()), (2, 1));
}

#[test]
fn names_that_are_not_utf8_are_shown_as_well_as_can_be_and_counted() {
    let reader = read(b"@ ALLOCATE 8 a\xff.rs:1 T\xfe 0\n@ DROP 8 T\xfe 0\n@ ALLOCATE 8 b.rs:1 U 1\n", ReadUntil::End);
    let (site, _) = reader.matcher().sites().next().unwrap();
    assert_eq!(reader.matcher().type_of(site), "T\u{fffd}");
    assert_eq!(reader.matcher().place_of(site), "a\u{fffd}.rs:1");
    assert_eq!((reader.matcher().invalid_names(), reader.matcher().total().dropped), (2, 1));
}

#[test]
fn sizes_that_do_not_add_up_are_cut() {
    let most = u64::MAX;
    let log = format!(
        "@ ALLOCATE {most} a.rs:1 T 0\n@ ALLOCATE {most} a.rs:1 T 1\n@ RESIZE {most} T 1\n@ DROP {most} T 0\n@ RESIZE 0 T 1\n@ DROP 0 T 1\n"
    );
    let reader = read(log.as_bytes(), ReadUntil::End);
    let total = reader.matcher().total();
    assert_eq!((total.allocated_bytes, total.live(), total.live_bytes()), (u64::MAX, 0, 0));
    assert!(reader.matcher().clamped_sizes > 0);
}

#[test]
fn the_end_of_a_log_that_was_cut_inside_of_an_id_is_not_believed() {
    let whole = "@ ALLOCATE 8 a.rs:1 T 1\n@ ALLOCATE 8 a.rs:1 T 12\n@ DROP 8 T 12";
    let reader = read(whole.as_bytes(), ReadUntil::End);
    assert_eq!((reader.counts().malformed, reader.matcher().total().dropped), (0, 1), "no line end, but it fits");
    let birth = read(b"@ ALLOCATE 8 a.rs:1 T 1\n@ ALLOCATE 9 a.rs:1 U 1", ReadUntil::End);
    assert_eq!(birth.counts().by_fault().collect::<Vec<_>>(), [(ObjectLineFault::Cut, 1)]);
    assert!(birth.counts().last_line_truncated);
    assert_eq!(birth.matcher().contradictions().count(), 0);
    let drop = read(b"@ ALLOCATE 8 a.rs:1 T 1\n@ ALLOCATE 9 a.rs:1 U 12\n@ DROP 9 U 1", ReadUntil::End);
    assert_eq!((drop.counts().last_line_truncated, drop.matcher().total().dropped), (true, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_bytes_are_counted_line_by_line(pieces in prop::collection::vec(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..30),
        "@ (ALLOCATE|DROP|RESIZE|MEMORY|MARK) ?[0-9]{0,21} ?[ab:/.0-9 ]{0,12} [0-9]{0,21}\r?\n?".prop_map(String::into_bytes),
        "@ \\{\"event\":\"(ALLOCATE|DROP|MEMORY)\",\"(bytes|id|time)\":[0-9.e]{1,5}[},\"]{1,3}\n".prop_map(String::into_bytes),
    ], 0..60)) {
        let input = pieces.concat();
        let reader = read(&input, ReadUntil::End);
        let counts = reader.counts();
        prop_assert_eq!(counts.lines, counts.object_lines + counts.noise_lines + counts.malformed);
        let lines = input.split_inclusive(|&byte| byte == b'\n').count() as u64;
        prop_assert_eq!(counts.lines, lines);
        let total = reader.matcher().total();
        let mut live = (0, 0u128);
        reader.matcher().for_each_survivor(|one| live = (live.0 + 1, live.1 + u128::from(one.bytes)));
        prop_assert_eq!((total.live(), u128::from(total.live_bytes())), live);
        prop_assert_eq!(reader.matcher().live(), (total.live(), total.live_bytes()));
    }
}
