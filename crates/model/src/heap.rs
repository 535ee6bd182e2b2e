//! The heaps of a program's blocks, and the sizes that an allocator really allocates.

/// The heap of a block; part of its [`Tag`](crate::Tag). Files store these numbers: append only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Heap {
    /// The allocator's: `malloc` and its family.
    #[default]
    Malloc,
    /// Memory mapped by the program itself.
    Mapped,
    /// OCaml's minor heap.
    Minor,
    /// OCaml's major heap.
    Major,
    /// Memory outside of OCaml's heaps that is owned by its blocks.
    External,
}

impl Heap {
    /// All heaps, in stored order.
    pub const ALL: [Self; 5] = [Self::Malloc, Self::Mapped, Self::Minor, Self::Major, Self::External];

    /// Its name, for people and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Mapped => "mmap",
            Self::Minor => "minor",
            Self::Major => "major",
            Self::External => "external",
        }
    }

    /// The heap with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|heap| heap.name() == name)
    }

    /// The heap stored as `number`.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The address under which a block of this heap is recorded, from its true address. See [`mapped_address`].
    pub fn recorded_address(self, address: u64) -> u64 {
        if self == Self::Mapped { mapped_address(address) } else { address }
    }

    /// The true address of a block of this heap, from the address under which it is recorded.
    pub fn true_address(self, recorded: u64) -> u64 {
        if self == Self::Mapped { recorded & !1 } else { recorded }
    }
}

/// The address under which a mapping is recorded, in all its events: its address with the lowest bit set.
///
/// A mapping and a block that an allocator placed at its beginning have the same address at the same time. Mappings begin at a page, so this bit is
/// free. It keeps the two apart wherever blocks are found by address.
#[inline]
pub fn mapped_address(address: u64) -> u64 {
    address | 1
}

/// The usable bytes of a block of `size` bytes in the most common C library (glibc, 64 bits): its chunks are multiples of 16 bytes with 8 of overhead,
/// and at least 32.
///
/// ```
/// assert_eq!([0, 24, 25, 40, 41, 100].map(highwater_model::usable_of_size), [24, 24, 40, 40, 56, 104]);
/// ```
#[inline]
pub fn usable_of_size(size: u64) -> u64 {
    let chunk = size.saturating_add(8 + 15) & !15;
    (chunk - 8).max(24)
}
