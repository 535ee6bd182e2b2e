//! Pools: allocators that take large blocks and hand out parts of them.
//!
//! The block belongs to the pool. The function that asked for a part when the pool was empty is accidental, so a site inside of a pool is named after the pool.

use crate::catalog::FrameText;
use crate::wrappers::bare;

/// A kind of pool.
struct Pool {
    name: &'static str,
    /// The functions that take a block for the pool. `*` at the end stands for any text.
    functions: &'static [&'static str],
}

const POOLS: [Pool; 10] = [
    Pool {
        name: "Python arena",
        functions: &["new_arena", "_PyObject_Arena*", "_PyMem_ArenaAlloc", "allocate_from_new_pool"],
    },
    Pool {
        name: "GCC garbage collector",
        functions: &["alloc_anon", "alloc_page", "ggc_internal_alloc", "ggc_internal_cleared_alloc", "ggc_realloc"],
    },
    Pool { name: "V8 heap", functions: &["v8::internal::MemoryAllocator::*"] },
    Pool { name: "obstack", functions: &["_obstack_*", "call_chunkfun"] },
    Pool {
        name: "Apache pool",
        functions: &["apr_allocator_alloc", "allocator_alloc", "apr_palloc", "apr_pcalloc", "apr_pool_create*"],
    },
    Pool { name: "nginx pool", functions: &["ngx_create_pool", "ngx_palloc_block"] },
    Pool {
        name: "PostgreSQL memory context",
        functions: &[
            "AllocSet*",
            "GenerationAlloc*",
            "GenerationContextCreate",
            "SlabAlloc*",
            "SlabContextCreate",
            "MemoryContextAlloc*",
            "palloc*",
            "repalloc*",
        ],
    },
    Pool {
        name: "GLib slices",
        functions: &["slab_allocator_alloc_chunk", "allocator_add_slab", "allocator_memalign"],
    },
    Pool { name: "SQLite page cache", functions: &["pcache1InitBulk"] },
    Pool { name: "libstdc++ emergency pool", functions: &["(anonymous namespace)::pool::pool"] },
];

/// The pool that a frame takes a block for. Its caller tells the pool of libstdc++ where the library has no symbols: it is made when the library is loaded.
pub(crate) fn pool_of(frame: &FrameText<'_>, caller: Option<&FrameText<'_>>) -> Option<&'static str> {
    let name = bare(frame.function);
    let is_one = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *pattern,
    };
    let known = POOLS.iter().find(|pool| !name.is_empty() && pool.functions.iter().any(is_one));
    known.map(|pool| pool.name).or_else(|| is_emergency_pool(frame, caller).then_some("libstdc++ emergency pool"))
}

/// Whether a frame is the initialization of libstdc++, which takes memory for exceptions that are thrown when there is none left.
fn is_emergency_pool(frame: &FrameText<'_>, caller: Option<&FrameText<'_>>) -> bool {
    let library = frame.module.rsplit('/').next().unwrap_or_default();
    library.starts_with("libstdc++.so")
        && caller.is_some_and(|caller| matches!(caller.function, "call_init" | "_dl_init"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::{Naming, SiteName};

    fn named(functions: &[&str]) -> SiteName {
        let frame = |function| FrameText { function, ..FrameText::default() };
        Naming::default().site(&functions.iter().copied().map(frame).collect::<Vec<_>>())
    }

    #[test]
    fn a_pool_names_its_sites_whoever_emptied_it() {
        let pool = |passing, pool| SiteName { passing, pool: Some(pool) };
        let python = ["_PyObject_ArenaMmap", "new_arena", "_PyObject_Malloc", "PyUnicode_New", "main"];
        assert_eq!(named(&python), pool(0, "Python arena"));
        let gcc = [
            "xmalloc",
            "ggc_internal_alloc(unsigned long, void (*)(void*), unsigned long, unsigned long)",
            "make_node",
        ];
        assert_eq!(named(&gcc), pool(1, "GCC garbage collector"));
        assert_eq!(named(&["ngx_memalign", "ngx_create_pool", "ngx_http_init_connection"]), pool(1, "nginx pool"));
    }

    #[test]
    fn what_is_too_large_for_a_pool_belongs_to_the_caller() {
        let passing = |passing| SiteName { passing, pool: None };
        assert_eq!(named(&["PyMem_RawMalloc", "_PyObject_Malloc", "PyUnicode_New", "main"]), passing(2));
        assert_eq!(named(&["ngx_alloc", "ngx_palloc_large", "ngx_pnalloc", "ngx_http_parse"]), passing(3));
    }

    #[test]
    fn the_emergency_pool_of_a_library_without_symbols_is_known_by_its_caller() {
        let library = FrameText { module: "/usr/lib/libstdc++.so.6.0.30", address: 7, ..FrameText::default() };
        let start = FrameText { function: "call_init", ..FrameText::default() };
        assert_eq!(Naming::default().site(&[library, start]).pool, Some("libstdc++ emergency pool"));
        assert_eq!(Naming::default().site(&[library, FrameText { function: "main", ..start }]).pool, None);
    }
}
