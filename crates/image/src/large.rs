//! Long arrays, in large pages if the system has them: they are read in random order, and with small pages most reads would miss twice.

/// Arrays from this size in bytes on ask for large pages.
const LARGE: usize = 4 << 20;

/// An array of `count` zeros. Pages that are never written cost nothing.
pub fn zeros<T: Zero>(count: usize) -> Vec<T> {
    let array = T::zeros(count);
    advise(&array);
    array
}

/// An empty array with room for `count` entries. Pages that are never written cost nothing.
pub fn room<T>(count: usize) -> Vec<T> {
    let array = Vec::with_capacity(count);
    advise(&array);
    array
}

/// Asks for large pages, if the array is long.
#[allow(unsafe_code)]
fn advise<T>(array: &Vec<T>) {
    let bytes = array.capacity() * size_of::<T>();
    if bytes >= LARGE {
        const PAGE: usize = 4096;
        let start = (array.as_ptr() as usize).next_multiple_of(PAGE);
        let length = (bytes - (start - array.as_ptr() as usize)) & !(PAGE - 1);
        // SAFETY: whole pages within the array's own memory; the advice changes how they are provided, not what they hold.
        let _ = unsafe { rustix::mm::madvise(start as *mut _, length, rustix::mm::Advice::LinuxHugepage) };
    }
}

/// Numbers whose zero has all bits clear.
pub trait Zero: Copy {
    /// An array of `count` zeros. The system provides its pages when they are first written to.
    fn zeros(count: usize) -> Vec<Self>;
}

impl Zero for u16 {
    fn zeros(count: usize) -> Vec<Self> {
        vec![0; count]
    }
}

impl Zero for u32 {
    fn zeros(count: usize) -> Vec<Self> {
        vec![0; count]
    }
}

impl Zero for u64 {
    fn zeros(count: usize) -> Vec<Self> {
        vec![0; count]
    }
}
