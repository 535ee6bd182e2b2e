//! Structures of plain words as bytes, and back.

/// A structure of which every pattern of bytes is a value, and which has no padding.
///
/// # Safety
/// Only for `repr(C)` structures of integers and arrays of them, without padding.
pub(crate) unsafe trait PlainWords: Copy {}

/// The bytes of a value.
pub(crate) fn bytes_of<T: PlainWords>(value: &T) -> &[u8] {
    // SAFETY: `PlainWords` has no padding, so all bytes are initialized; they live as long as the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A value from the first bytes of a slice.
pub(crate) fn from_bytes<T: PlainWords>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, every pattern of them is a value, and the read need not be aligned.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
