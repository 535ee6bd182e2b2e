//! Pools: allocators that take large blocks and hand out parts of them.
//!
//! The block belongs to the pool. Whoever asked for a part when the pool was empty is accidental, so a site inside of a pool is named after the pool.

use crate::catalog::FrameText;
use crate::short_name::without_suffixes;

/// A kind of pool.
struct Pool {
    name: &'static str,
    /// The functions that take a block for the pool. `*` at the end stands for any text.
    functions: &'static [&'static str],
}

const POOLS: [Pool; 9] = [
    Pool {
        name: "Python arena",
        functions: &["new_arena", "_PyObject_Arena*", "_PyMem_ArenaAlloc", "allocate_from_new_pool"],
    },
    Pool {
        name: "GCC garbage collector",
        functions: &["alloc_anon", "alloc_page", "ggc_internal_alloc", "ggc_internal_cleared_alloc", "ggc_alloc_*"],
    },
    Pool { name: "obstack", functions: &["_obstack_*", "call_chunkfun"] },
    Pool {
        name: "Apache pool",
        functions: &["apr_allocator_alloc", "allocator_alloc", "apr_palloc", "apr_pcalloc", "apr_pool_create*"],
    },
    Pool { name: "nginx pool", functions: &["ngx_create_pool", "ngx_palloc_block"] },
    Pool {
        name: "PostgreSQL memory context",
        functions: &["AllocSet*", "GenerationAlloc*", "GenerationContextCreate", "SlabAlloc*", "SlabContextCreate"],
    },
    Pool {
        name: "GLib slices",
        functions: &["slab_allocator_alloc_chunk", "allocator_add_slab", "allocator_memalign"],
    },
    Pool { name: "SQLite page cache", functions: &["pcache1InitBulk"] },
    Pool { name: "libstdc++ emergency pool", functions: &["(anonymous namespace)::pool::pool()"] },
];

/// The pool that a frame takes a block for. Its caller tells the pool of libstdc++ where the library has no symbols: it is made when the library is loaded.
pub(crate) fn pool_of(frame: &FrameText<'_>, caller: Option<&FrameText<'_>>) -> Option<&'static str> {
    let name = without_suffixes(frame.function);
    let is_one = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    };
    let known = POOLS.iter().find(|pool| !name.is_empty() && pool.functions.iter().any(|pattern| is_one(&pattern)));
    known.map(|pool| pool.name).or_else(|| is_emergency_pool(frame, caller).then_some("libstdc++ emergency pool"))
}

/// Whether a frame is the initialization of libstdc++, which takes memory for exceptions that are thrown when there is none left.
fn is_emergency_pool(frame: &FrameText<'_>, caller: Option<&FrameText<'_>>) -> bool {
    let library = frame.module.rsplit('/').next().unwrap_or_default();
    library.starts_with("libstdc++.so")
        && caller.is_some_and(|caller| matches!(caller.function, "call_init" | "_dl_init"))
}
