//! How the addresses of a running program relate to those in its file.

use std::ops::Range;

/// A part of the file that the loader maps (`PT_LOAD`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadSegment {
    pub(crate) file_offset: u64,
    pub(crate) file_size: u64,
    /// The address that the linker gave it.
    pub(crate) address: u64,
}

/// The loader maps whole pages; a larger page size only makes more mappings start at the same offset.
const PAGE: u64 = 4096;

/// What has to be subtracted from a runtime address to get the address that the linker gave, if the file's byte
/// `file_offset` is mapped at `start`.
///
/// Two segments can share a page of the file, which is then mapped twice. A mapping *begins* with such a page only if it
/// is the later segment's, hence the last segment that has the offset. If several begin with the same page,
/// `start` is by definition the lowest address.
pub(crate) fn bias(segments: &[LoadSegment], start: u64, file_offset: u64) -> Option<u64> {
    let segment = segments
        .iter()
        .filter(|segment| segment.file_size > 0 && segment.pages().contains(&file_offset))
        .max_by(|a, b| a.first_page().cmp(&b.first_page()).then(b.address.cmp(&a.address)))?;
    let address_of_offset = segment.address.wrapping_sub(segment.file_offset).wrapping_add(file_offset);
    Some(start.wrapping_sub(address_of_offset))
}

impl LoadSegment {
    fn first_page(&self) -> u64 {
        self.file_offset & !(PAGE - 1)
    }

    /// The file offsets that are mapped with it.
    fn pages(&self) -> Range<u64> {
        let end = self.file_offset.saturating_add(self.file_size);
        self.first_page()..end.saturating_add(PAGE - 1) & !(PAGE - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(file_offset: u64, address: u64, file_size: u64) -> LoadSegment {
        LoadSegment { file_offset, file_size, address }
    }

    #[test]
    fn a_program_at_a_fixed_address_has_no_bias() {
        let segments = [segment(0, 0x40_0000, 0x500), segment(0x1000, 0x40_1000, 0x200)];
        assert_eq!(bias(&segments, 0x40_0000, 0), Some(0));
        assert_eq!(bias(&segments, 0x40_1000, 0x1000), Some(0));
    }

    #[test]
    fn every_segment_of_a_library_gives_the_same_bias() {
        let base = 0x7f12_3456_0000;
        let segments = [segment(0, 0, 0x618), segment(0x1000, 0x1000, 0x161), segment(0x2dd0, 0x3dd0, 0x250)];
        assert_eq!(bias(&segments, base, 0), Some(base));
        assert_eq!(bias(&segments, base + 0x1000, 0x1000), Some(base));
        assert_eq!(bias(&segments, base + 0x3000, 0x2000), Some(base));
    }

    #[test]
    fn a_page_shared_by_two_segments_begins_the_later_one() {
        let segments = [segment(0, 0, 0x1c00), segment(0x1c00, 0x2c00, 0x800)];
        assert_eq!(bias(&segments, 0x50_2000, 0x1000), Some(0x50_0000));
    }

    #[test]
    fn a_segment_that_ends_before_the_offset_is_passed_over() {
        let segments = [segment(0x2000, 0x2000, 0x100), segment(0x2dd0, 0x3dd0, 0x400)];
        assert_eq!(bias(&segments, 0x50_4000, 0x3000), Some(0x50_0000));
        assert_eq!(bias(&segments, 0x50_2000, 0x2000), Some(0x50_0000));
    }

    #[test]
    fn an_offset_outside_all_segments_has_no_bias() {
        assert_eq!(bias(&[segment(0, 0, 0x39c), segment(0, 0x1000, 0)], 0x1000, 0x1000), None);
        assert_eq!(bias(&[], 0x1000, 0), None);
        assert_eq!(bias(&[segment(u64::MAX, u64::MAX, u64::MAX)], u64::MAX, u64::MAX), None);
    }
}
