//! The real functions of one allocator.

use core::ffi::{c_int, c_void};
use highwater_agent::expected_usable;
use highwater_shm::attach_v1::{FunctionIndex, Implementation};

/// The address of a block.
pub type BlockPointer = *mut u8;

/// One of the allocators of the process, as an island names it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Allocator(*const Implementation);

/// What `operator new` takes to choose the form that does not throw. It has no content.
static NOTHROW: u8 = 0;

/// Functions by the number of their arguments. The caller of a hook has seen to it that the real function has this type.
macro_rules! call {
    ($self:ident, $function:ident, ($($argument:expr => $type:ty),*) -> $result:ty) => {{
        let address = $self.address(FunctionIndex::$function);
        // SAFETY: the function of this name has this type; its arguments are the program's.
        unsafe {
            let function: unsafe extern "C" fn($($type),*) -> $result = core::mem::transmute(address as *const ());
            function($($argument),*)
        }
    }};
}
pub(crate) use call;

impl Allocator {
    /// The address of a real function; 0 if the allocator has none.
    #[inline(always)]
    pub fn address(self, function: FunctionIndex) -> u64 {
        // SAFETY: the island passes the address of an implementation in the header, which is complete before any function is patched.
        unsafe { (*self.0).real[function as usize] }
    }

    /// Bytes that a live block can hold.
    #[inline(always)]
    pub fn usable_size(self, block: BlockPointer, size: usize) -> usize {
        // SAFETY: as above.
        let address = unsafe { (*self.0).usable_size } as *const ();
        if address.is_null() {
            return expected_usable(size);
        }
        // SAFETY: the allocator's `malloc_usable_size`, asked about a live block of its own.
        unsafe {
            let function: unsafe extern "C" fn(*mut c_void) -> usize = core::mem::transmute(address);
            function(block.cast())
        }
    }

    /// `operator new` in the form that does not throw; null also if the allocator has no such form.
    pub fn new_nothrow(self, function: FunctionIndex, size: usize) -> BlockPointer {
        let address = self.address(function) as *const ();
        if address.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: the function of this name has this type.
        unsafe {
            let function: unsafe extern "C" fn(usize, *const u8) -> BlockPointer = core::mem::transmute(address);
            function(size, &raw const NOTHROW)
        }
    }

    /// The same with an alignment.
    pub fn new_aligned_nothrow(self, function: FunctionIndex, size: usize, alignment: usize) -> BlockPointer {
        let address = self.address(function) as *const ();
        if address.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: the function of this name has this type.
        unsafe {
            let function: unsafe extern "C" fn(usize, usize, *const u8) -> BlockPointer = core::mem::transmute(address);
            function(size, alignment, &raw const NOTHROW)
        }
    }

    /// The real `posix_memalign`.
    pub fn posix_memalign(self, out: *mut BlockPointer, alignment: usize, size: usize) -> c_int {
        call!(self, PosixMemalign, (out => *mut BlockPointer, alignment => usize, size => usize) -> c_int)
    }
}
