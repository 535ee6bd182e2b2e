//! Long arrays, in large pages if the system has them: they are read in random order, and with small pages most reads would miss twice.

/// Arrays from this size in bytes on ask for large pages.
const LARGE: usize = 4 << 20;

/// An array of `count` zeros. Pages that are never written cost nothing.
#[allow(unsafe_code)]
pub fn zeros<T: Zero>(count: usize) -> Vec<T> {
    let array = T::zeros(count);
    let bytes = size_of_val(array.as_slice());
    if bytes >= LARGE {
        const PAGE: usize = 4096;
        let start = (array.as_ptr() as usize).next_multiple_of(PAGE);
        let length = (bytes - (start - array.as_ptr() as usize)) & !(PAGE - 1);
        // SAFETY: whole pages within the array; the advice changes how they are provided, not what they hold.
        let _ = unsafe { rustix::mm::madvise(start as *mut _, length, rustix::mm::Advice::LinuxHugepage) };
    }
    array
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
