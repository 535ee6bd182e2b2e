//! Functions that only pass memory on from an allocator to their callers, known by name.
//!
//! Most large programs in C have some: `xmalloc` ends the program if there is no memory, `zmalloc` counts. A site that is named after one of them says
//! nothing, so reports name it after the first caller that is none. A name decides in two ways: it belongs to a known family, or its last words say that
//! it is an allocator (`my_malloc`, `bufRealloc`). Words in the middle do not count: `handle_alloc_call` and `gimple_call_alloc_size` of GCC are no wrappers.
//! Nor does `alloc` alone: `connection_alloc` makes connections, and is what a reader wants to see.

use crate::short_name::without_suffixes;

/// Whether a function is a wrapper by its demangled name. Marks of copies (`.constprop.0`), versions and argument lists do not matter.
///
/// ```
/// use highwater_model::is_wrapper;
///
/// assert!(is_wrapper("ztrymalloc_usable_internal.constprop.0") && is_wrapper("my_malloc") && is_wrapper("sqlite3Malloc"));
/// assert!(!is_wrapper("handle_alloc_call") && !is_wrapper("dictCreate") && !is_wrapper("malloc_stats"));
/// ```
pub fn is_wrapper(function: &str) -> bool {
    let name = bare(function);
    !name.is_empty() && (is_of_family(name) || has_shape(name))
}

/// The name without version, marks of copies and arguments.
pub(crate) fn bare(function: &str) -> &str {
    let name = without_suffixes(function.split('@').next().unwrap_or_default());
    let arguments =
        name.find('(').filter(|at| *at > 0 && name[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    arguments.map_or(name, |at| &name[..at])
}

/// Wrappers of programs and libraries that Debian has. `*` at the end stands for any text.
const FAMILIES: &[&str] = &[
    // Functions of many programs that end the program if there is no memory.
    "xmalloc*",
    "xcalloc*",
    "xrealloc*",
    "xstrdup*",
    "xstrndup*",
    "xzalloc*",
    "xmemdup*",
    "xnmalloc*",
    "xnrealloc*",
    "xcharalloc*",
    "x2realloc*",
    "x2nrealloc*",
    "ximalloc*",
    "xicalloc*",
    "xirealloc*",
    "xasprintf*",
    "xvasprintf*",
    "xmmap*",
    "xnew*",
    "emalloc*",
    "ecalloc*",
    "erealloc*",
    "estrdup*",
    "_emalloc*",
    "_ecalloc*",
    "_erealloc*",
    "_estrdup*",
    "bb_xmalloc*",
    "safe_malloc*",
    "llvm::safe_malloc*",
    "llvm::safe_calloc*",
    "llvm::safe_realloc*",
    "llvm::allocate_buffer*",
    // Redis and its relatives.
    "zmalloc*",
    "zcalloc*",
    "zrealloc*",
    "zstrdup*",
    "ztrymalloc*",
    "ztrycalloc*",
    "ztryrealloc*",
    "valkey_malloc*",
    "valkey_calloc*",
    "valkey_realloc*",
    "hi_malloc*",
    "hi_calloc*",
    "hi_realloc*",
    "luaM_*",
    "l_alloc",
    // GLib.
    "g_malloc*",
    "g_realloc*",
    "g_try_malloc*",
    "g_try_realloc*",
    "g_memdup*",
    "g_strdup*",
    "g_strndup*",
    "g_slice_alloc*",
    "g_slice_copy*",
    "g_aligned_alloc*",
    // Python.
    "PyMem_*",
    "_PyMem_*",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "_PyObject_Malloc",
    "_PyObject_Calloc",
    "_PyObject_Realloc",
    "pymalloc_*",
    // FFmpeg.
    "av_malloc*",
    "av_mallocz*",
    "av_calloc*",
    "av_realloc*",
    "av_strdup*",
    "av_strndup*",
    "av_memdup*",
    "av_fast_malloc*",
    "av_fast_realloc*",
    // OpenSSL and its relatives.
    "CRYPTO_malloc*",
    "CRYPTO_zalloc*",
    "CRYPTO_realloc*",
    "CRYPTO_clear_realloc*",
    "CRYPTO_strdup*",
    "CRYPTO_memdup*",
    "CRYPTO_strndup*",
    "CRYPTO_secure_malloc*",
    "CRYPTO_secure_zalloc*",
    "OPENSSL_malloc*",
    "OPENSSL_zalloc*",
    "OPENSSL_realloc*",
    "OPENSSL_memdup*",
    "OPENSSL_strdup*",
    "gcry_xmalloc*",
    "_gcry_malloc*",
    "_gcry_xmalloc*",
    // SQLite.
    "sqlite3Malloc*",
    "sqlite3_malloc*",
    "sqlite3Realloc*",
    "sqlite3_realloc*",
    "sqlite3MemMalloc",
    "sqlite3MemRealloc",
    "sqlite3DbMalloc*",
    "sqlite3DbRealloc*",
    "sqlite3DbReallocOrFree*",
    "sqlite3DbStrDup",
    "sqlite3DbStrNDup",
    "dbMallocRaw*",
    "mallocWithAlarm",
    // PostgreSQL outside of its memory contexts, nginx for what does not fit into a pool.
    "pg_malloc*",
    "pg_realloc*",
    "pg_strdup*",
    "guc_malloc*",
    "ngx_alloc",
    "ngx_calloc",
    "ngx_memalign",
    "ngx_palloc_large",
    "ngx_palloc",
    "ngx_pnalloc",
    "ngx_pcalloc",
    "ngx_pmemalign",
    // Engines and toolkits.
    "QArrayData::allocate*",
    "QArrayData::reallocate*",
    "QListData::realloc*",
    "v8::base::OS::Allocate",
    "v8::base::OS::SetPermissions",
    "v8::base::BoundedPageAllocator::*",
    "v8::base::PageAllocator::*",
    "v8::internal::VirtualMemory::*",
    "v8::internal::SetPermissions",
    "v8::base::Malloc",
    "v8::base::Calloc",
    "v8::base::AlignedAlloc",
    "v8::internal::Malloced::operator new",
    "v8::internal::AlignedAlloc*",
    "v8::internal::AllocWithRetry",
    "v8::internal::AlignedAllocWithRetry",
    "v8::internal::AllocatePages",
    "v8::internal::NewArray",
    "node::UncheckedMalloc",
    "node::UncheckedRealloc",
    "node::Malloc",
    "node::Realloc",
    "node::Calloc",
    "uv__malloc",
    "uv__calloc",
    "uv__realloc",
    "uv__strdup",
    "xmlMalloc*",
    "xmlRealloc*",
    "xmlStrdup",
    "xmlStrndup",
    "xmlMemMalloc*",
    "Curl_saferealloc",
    "Curl_memdup",
    "curl_dostrdup",
    "curl_domalloc",
    "talloc_*",
    "_talloc_*",
    "json_malloc",
    "jvp_alloc*",
    "jv_mem_alloc*",
    "jv_mem_calloc*",
    "jv_mem_realloc*",
    "do_xmalloc",
    "os::malloc",
    "os::realloc",
    // Entry points of allocators that replace the system's.
    "tc_malloc*",
    "tc_calloc*",
    "tc_realloc*",
    "tc_new*",
    "tc_memalign*",
    "mi_malloc*",
    "mi_calloc*",
    "mi_realloc*",
    "mi_zalloc*",
    "mi_new*",
    "_mi_malloc*",
    "_mi_heap_*",
    "mi_heap_malloc*",
    "mi_heap_zalloc*",
];

fn is_of_family(name: &str) -> bool {
    let is_one = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.strip_prefix(start).is_some_and(|rest| !rest.contains("::")),
        None => name == *pattern,
    };
    FAMILIES.iter().any(is_one)
}

/// Last words of a name that make it an allocator's.
const WORDS: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "reallocarray",
    "mallocarray",
    "malloc0",
    "mallocz",
    "zalloc",
    "zmalloc",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "strdup",
    "strndup",
    "memdup",
];
/// Words that may follow them.
const ENDINGS: [&str; 14] = [
    "0", "n", "z", "array", "zero", "zeroed", "aligned", "safe", "checked", "internal", "usable", "nofail", "wrapper",
    "impl",
];
/// First words of functions that try an allocator out, and are what their author looks for.
const TRIALS: [&str; 6] = ["test", "tests", "bench", "benchmark", "check", "main"];

/// Whether the last words of a name are an allocator's.
fn has_shape(name: &str) -> bool {
    let words = words(name);
    if words.first().is_some_and(|first| TRIALS.contains(&first.as_str())) {
        return false;
    }
    let ending = words.iter().rev().take_while(|word| ENDINGS.contains(&word.as_str())).count();
    words[..words.len() - ending].last().is_some_and(|word| WORDS.contains(&word.as_str()))
}

/// The words of the last part of a path, in lower case: `app::bufRealloc_n` has `buf`, `realloc` and `n`.
fn words(name: &str) -> Vec<String> {
    let last = name.rsplit("::").next().unwrap_or(name);
    let mut words: Vec<String> = Vec::new();
    let mut previous = '_';
    for c in last.chars() {
        let is_new = previous == '_' || (c.is_uppercase() && !previous.is_uppercase());
        if c != '_' && is_new {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        previous = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_names_of_their_shape_are_wrappers() {
        for function in [
            "zmalloc",
            "ztrymalloc_usable_internal",
            "zmalloc_usable.constprop.0",
            "xmalloc.part.0",
            "xstrdup",
            "g_malloc0_n",
            "g_strdup_printf",
            "PyMem_RawMalloc",
            "_PyObject_Malloc",
            "av_mallocz",
            "CRYPTO_zalloc@@OPENSSL_3.0.0",
            "sqlite3DbMallocRawNN",
            "v8::base::OS::Allocate(void*, unsigned long)",
            "QArrayData::allocate(QArrayData**, long long)",
            "my_malloc",
            "foo_calloc",
            "bufRealloc",
            "app::Pool::safe_realloc(unsigned long)",
            "do_xmalloc",
            "buffer_realloc_array",
            "_my_strdup",
        ] {
            assert!(is_wrapper(function), "{function}");
        }
    }

    #[test]
    fn words_in_the_middle_and_constructors_are_not() {
        for function in [
            "",
            "main",
            "gimple_call_alloc_size",
            "handle_alloc_call",
            "make_pass_walloca",
            "mem_alloc_description",
            "dictCreate",
            "sdsnewlen",
            "lua_setfield",
            "connection_alloc",
            "alloc_page",
            "malloc_stats",
            "malloc_trim_thread",
            "test_malloc",
            "premalloc",
            "allocate",
            "app::alloc::vec::build",
            "xmalloc_users::count",
        ] {
            assert!(!is_wrapper(function), "{function}");
        }
    }
}
