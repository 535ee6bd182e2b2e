//! The functions on bytes that a compiler expects in every program. Single instructions, so that the compiler cannot take them for what they implement.

use core::arch::asm;

/// Copies bytes forwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// Copies bytes that may overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's. If the end of the source would be overwritten first, the copy begins with it.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= count {
            return memcpy(to, from, count);
        }
        asm!("std", "rep movsb", "cld", inout("rcx") count => _, inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// Fills bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// Compares bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    for at in 0..count {
        // SAFETY: the caller's. Volatile, so that the compiler does not make this a call of the same function.
        let (left, right) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}

/// Compares bytes for equality.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { memcmp(one, other, count) }
}

/// The length of a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller's.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
