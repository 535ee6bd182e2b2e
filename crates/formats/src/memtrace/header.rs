//! The header of a packet.
//!
//! ```text
//!  v1, v2  v3
//!    0     0   u32  magic number
//!    4     4   u32  size in bits, header included
//!    8     8   i64  time of its first event, microseconds since 1970
//!   16    16   i64  time of its last event
//!   24    24   u32  always 0
//!   28    28   u16  version
//!   30    30   i64  process id
//!         38   u16  domain
//!   38    40   u16  verifier: index, 0xFFFF for none
//!   40    42   u16            the bucket predicted to follow it
//!   42    44   u64            the location in it
//!   50    52   i64  number of its first allocation
//!   58    60   i64  number after its last one
//! ```

use super::bytes::{i64_at, u16_at, u32_at};

/// The first four bytes of every packet.
pub const MAGIC: u32 = 0xC1FC_1FC1;
/// Limit for the length of a packet.
pub const LONGEST_PACKET: usize = 1 << 15;
/// The number of bytes needed to find out how long the header is.
pub const FIXED: usize = 30;
/// The longest header.
pub const LONGEST_HEADER: usize = 68;
/// The known versions.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 1..=3;
/// Events hold the lowest 25 bits of their times, which limits the duration of a packet.
pub const TIME_BITS: u32 = 25;
/// Limit for a step back of the clock within a packet, in microseconds: a day.
const MOST_SET_BACK: i64 = 86_400_000_000;

/// An excerpt of the state with which the packet's backtraces were coded, for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verifier {
    /// The bucket.
    pub index: u16,
    /// The bucket that is predicted to follow it.
    pub prediction: u16,
    /// The location in it.
    pub value: u64,
}

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Length of the packet in bytes, header included.
    pub size: usize,
    /// The time of its first event.
    pub time_begin: i64,
    /// The time of its last event.
    pub time_end: i64,
    /// Its version.
    pub version: u16,
    /// The id of the process that wrote it.
    pub pid: i64,
    /// The domain that wrote it; 0 before version 3.
    pub domain: u16,
    /// An excerpt of the state before this packet, for a check.
    pub verifier: Option<Verifier>,
    /// The number of its first allocation.
    pub alloc_begin: i64,
    /// The number after its last one.
    pub alloc_end: i64,
}

/// Why bytes are not the header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// There are too few bytes.
    Short,
    /// The bytes do not begin with the magic number.
    Magic,
    /// The version is unknown.
    Version(u16),
    /// The length is impossible; in bits.
    Size(u32),
    /// The duration is impossible.
    Times,
    /// The number of allocations is impossible.
    Ids,
}

impl HeaderFault {
    /// A description of the fault.
    pub fn what(self) -> String {
        match self {
            Self::Short => "the trace is cut in a packet's header".to_owned(),
            Self::Magic => "no packet begins here".to_owned(),
            Self::Version(version) => format!("a packet claims to be of version {version}"),
            Self::Size(bits) => format!("a packet claims a size of {} bytes", bits / 8),
            Self::Times => "a packet claims times that cannot be".to_owned(),
            Self::Ids => "a packet claims more allocations than it has room for".to_owned(),
        }
    }
}

/// The length of the header in a version.
pub fn length_of(version: u16) -> usize {
    if version >= 3 { LONGEST_HEADER } else { LONGEST_HEADER - 2 }
}

impl PacketHeader {
    /// Reads a header and checks that its values are possible.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let magic = u32_at(bytes, 0).ok_or(HeaderFault::Short)?;
        if magic != MAGIC {
            return Err(HeaderFault::Magic);
        }
        let version = u16_at(bytes, 28).ok_or(HeaderFault::Short)?;
        if !VERSIONS.contains(&version) {
            return Err(HeaderFault::Version(version));
        }
        Self::parse_as(bytes, version)
    }

    /// Reads a header as one of `version`. Ignores its version and magic number.
    pub fn parse_as(bytes: &[u8], version: u16) -> Result<Self, HeaderFault> {
        let header = Self::read(bytes, version).ok_or(HeaderFault::Short)?;
        let bits = u32_at(bytes, 4).unwrap_or(0);
        if header.size < length_of(version) || header.size > LONGEST_PACKET {
            return Err(HeaderFault::Size(bits));
        }
        header.must_be_possible()
    }

    /// As [`parse_as`](Self::parse_as), with `size` instead of the size in the header.
    pub fn with_size(bytes: &[u8], version: u16, size: usize) -> Result<Self, HeaderFault> {
        let header = Self::read(bytes, version).ok_or(HeaderFault::Short)?;
        Self { size, ..header }.must_be_possible()
    }

    fn must_be_possible(self) -> Result<Self, HeaderFault> {
        let lasts = self.time_end.wrapping_sub(self.time_begin);
        if !(-MOST_SET_BACK..1 << TIME_BITS).contains(&lasts) || self.time_begin < 0 || self.time_end < 0 {
            return Err(HeaderFault::Times);
        }
        let allocations = self.alloc_end.checked_sub(self.alloc_begin).ok_or(HeaderFault::Ids)?;
        if allocations < 0 || allocations > self.size as i64 {
            return Err(HeaderFault::Ids);
        }
        Ok(self)
    }

    fn read(bytes: &[u8], version: u16) -> Option<Self> {
        let after_pid = if version >= 3 { 40 } else { 38 };
        let index = u16_at(bytes, after_pid)?;
        let verifier =
            Verifier { index, prediction: u16_at(bytes, after_pid + 2)?, value: i64_at(bytes, after_pid + 4)? as u64 };
        Some(Self {
            size: u32_at(bytes, 4)? as usize / 8,
            time_begin: i64_at(bytes, 8)?,
            time_end: i64_at(bytes, 16)?,
            version,
            pid: i64_at(bytes, 30)?,
            domain: if version >= 3 { u16_at(bytes, 38)? } else { 0 },
            verifier: (index != u16::MAX).then_some(verifier),
            alloc_begin: i64_at(bytes, after_pid + 12)?,
            alloc_end: i64_at(bytes, after_pid + 20)?,
        })
    }

    /// The length of the header itself.
    pub fn length(&self) -> usize {
        length_of(self.version)
    }

    /// Appends the header.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&(self.size as u32 * 8).to_le_bytes());
        out.extend_from_slice(&self.time_begin.to_le_bytes());
        out.extend_from_slice(&self.time_end.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        if self.version >= 3 {
            out.extend_from_slice(&self.domain.to_le_bytes());
        }
        let verifier = self.verifier.unwrap_or(Verifier { index: u16::MAX, prediction: 0, value: 0 });
        out.extend_from_slice(&verifier.index.to_le_bytes());
        out.extend_from_slice(&verifier.prediction.to_le_bytes());
        out.extend_from_slice(&verifier.value.to_le_bytes());
        out.extend_from_slice(&self.alloc_begin.to_le_bytes());
        out.extend_from_slice(&self.alloc_end.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u16) -> PacketHeader {
        PacketHeader {
            size: 700,
            time_begin: 1 << 40,
            time_end: (1 << 40) + 5,
            version,
            pid: -1,
            domain: if version >= 3 { 7 } else { 0 },
            verifier: Some(Verifier { index: 4242, prediction: 3, value: 1 << 50 }),
            alloc_begin: 10_000,
            alloc_end: 10_009,
        }
    }

    #[test]
    fn every_version_is_read_as_it_was_written() {
        for version in VERSIONS {
            for verifier in [None, header(version).verifier] {
                let header = PacketHeader { verifier, ..header(version) };
                let mut bytes = Vec::new();
                header.put(&mut bytes);
                assert_eq!(bytes.len(), header.length());
                assert_eq!(PacketHeader::parse(&bytes), Ok(header));
                for cut in 0..bytes.len() {
                    assert_eq!(PacketHeader::parse(&bytes[..cut]), Err(HeaderFault::Short));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let parsed = |change: &dyn Fn(&mut PacketHeader)| {
            let mut changed = header(3);
            change(&mut changed);
            let mut bytes = Vec::new();
            changed.put(&mut bytes);
            PacketHeader::parse(&bytes)
        };
        assert_eq!(parsed(&|header| header.size = 0), Err(HeaderFault::Size(0)));
        assert_eq!(parsed(&|header| header.size = 67), Err(HeaderFault::Size(536)));
        assert_eq!(parsed(&|header| header.size = LONGEST_PACKET + 1), Err(HeaderFault::Size(262_152)));
        assert_eq!(parsed(&|header| header.time_end += 1 << 25), Err(HeaderFault::Times));
        assert_eq!(parsed(&|header| header.time_begin = i64::MIN), Err(HeaderFault::Times));
        assert_eq!(parsed(&|header| header.alloc_begin = 20_000), Err(HeaderFault::Ids));
        assert_eq!(
            parsed(&|header| (header.alloc_begin, header.alloc_end) = (i64::MIN, i64::MAX)),
            Err(HeaderFault::Ids)
        );
        // A step back of the clock is no fault of the packet.
        assert!(parsed(&|header| header.time_end -= 200_000).is_ok());
    }
}
