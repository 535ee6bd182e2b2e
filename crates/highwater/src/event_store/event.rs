//! The events that a program records.

use crate::event_name::Name;
use highwater_model::StackId;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryEventType {
    /// A block was allocated.
    Allocate,
    /// A block was resized, and perhaps moved.
    Reallocate,
    /// A block was freed.
    Deallocate,
    /// The program named this instant.
    Mark,
    /// The program measured something.
    Gauge,
}

/// One event of the program's memory. Building one does not use the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// What happened.
    pub event_type: MemoryEventType,
    /// When it happened, in nanoseconds since the store was made; `None` for the time at which it is recorded.
    pub timestamp: Option<u64>,
    /// The thread that did it; the program chooses the numbers.
    pub thread_id: u64,
    /// The block's address; after a reallocation, its new one.
    pub ptr: usize,
    /// The block's size in bytes; after a reallocation, its new one. The value of a gauge.
    pub size: usize,
    /// The previous address of a reallocated block; `None` if it was not moved.
    pub old_ptr: Option<usize>,
    /// The previous size of a reallocated block.
    pub old_size: Option<usize>,
    /// The variable the block is for. The name of a mark or gauge.
    pub var_name: Option<Name>,
    /// The type the block holds.
    pub type_name: Option<Name>,
    /// The call stack, from [`EventStore::intern_stack`](super::EventStore::intern_stack) of the same store.
    pub stack: Option<StackId>,
}

impl MemoryEvent {
    const fn new(event_type: MemoryEventType, ptr: usize, size: usize, thread_id: u64) -> Self {
        Self {
            event_type,
            timestamp: None,
            thread_id,
            ptr,
            size,
            old_ptr: None,
            old_size: None,
            var_name: None,
            type_name: None,
            stack: None,
        }
    }

    /// `size` bytes were allocated at `ptr`.
    pub const fn allocate(ptr: usize, size: usize, thread_id: u64) -> Self {
        Self::new(MemoryEventType::Allocate, ptr, size, thread_id)
    }

    /// The block at `ptr` was freed; `size` is its size as the program believes.
    pub const fn deallocate(ptr: usize, size: usize, thread_id: u64) -> Self {
        Self::new(MemoryEventType::Deallocate, ptr, size, thread_id)
    }

    /// A block of `old_size` bytes now has `new_size` bytes and is at `ptr`. See [`moved_from`](Self::moved_from) if it was at another address
    /// before.
    pub const fn reallocate(ptr: usize, old_size: usize, new_size: usize, thread_id: u64) -> Self {
        let mut event = Self::new(MemoryEventType::Reallocate, ptr, new_size, thread_id);
        event.old_size = Some(old_size);
        event
    }

    /// The program gives this instant a name.
    pub fn mark(name: impl Into<Name>, thread_id: u64) -> Self {
        Self { var_name: Some(name.into()), ..Self::new(MemoryEventType::Mark, 0, 0, thread_id) }
    }

    /// The program measured something, such as its resident set.
    pub fn gauge(name: impl Into<Name>, value: usize, thread_id: u64) -> Self {
        Self { var_name: Some(name.into()), ..Self::new(MemoryEventType::Gauge, 0, value, thread_id) }
    }

    /// The reallocated block was at `old_ptr` before.
    pub const fn moved_from(mut self, old_ptr: usize) -> Self {
        self.old_ptr = Some(old_ptr);
        self
    }

    /// Sets the time, in nanoseconds since the store was made.
    pub const fn at(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// The block is for this variable.
    pub fn with_var_name(mut self, name: impl Into<Name>) -> Self {
        self.var_name = Some(name.into());
        self
    }

    /// The block holds this type.
    pub fn with_type_name(mut self, name: impl Into<Name>) -> Self {
        self.type_name = Some(name.into());
        self
    }

    /// The call stack that did it.
    pub const fn with_stack(mut self, stack: StackId) -> Self {
        self.stack = Some(stack);
        self
    }

    /// True for allocations and reallocations.
    pub const fn is_allocation(&self) -> bool {
        matches!(self.event_type, MemoryEventType::Allocate | MemoryEventType::Reallocate)
    }

    /// True for deallocations.
    pub const fn is_deallocation(&self) -> bool {
        matches!(self.event_type, MemoryEventType::Deallocate)
    }
}
