//! Functions that only pass requests for memory on: allocators, and the parts of language libraries that call them.
//!
//! Every native stack begins with some of them, and they do not show which code needed the memory. Reports therefore name a site after its first
//! function that is not plumbing, and not a [wrapper](crate::is_wrapper) either. The list errs towards showing too much: a function that is not listed here counts as the program's own.

use crate::catalog::FrameText;

/// True for an allocator's own function.
pub(crate) fn is_allocator(frame: &FrameText<'_>) -> bool {
    let function = frame.function;
    let is_known = is_of_c(function) || is_rust_symbol(function) || function.starts_with("operator new");
    // Our own allocator, in programs that record themselves.
    is_known || is_in_allocator(frame) || frame.file.ends_with("highwater/src/alloc.rs")
}

/// True for a part of a language's library that uses an allocator.
pub(crate) fn is_library(frame: &FrameText<'_>) -> bool {
    is_library_source(frame.file) || is_plumbing(frame.function)
}

/// True for a frame of which only the address is known.
pub(crate) fn is_nameless(frame: &FrameText<'_>) -> bool {
    frame.function.is_empty() && frame.file.is_empty() && frame.module.is_empty()
}

/// True for a frame that a programmer need not see among the callers of a site: the language's library, and functions that run before `main` or below
/// a thread's function.
pub fn is_background(frame: &FrameText<'_>) -> bool {
    const STARTS: [&str; 10] = [
        "_start",
        "__libc_start_main",
        "__libc_start_main_impl",
        "__libc_start_call_main",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__GI___clone3",
        "lang_start",
    ];
    is_library_source(frame.file)
        || is_plumbing(frame.function)
        || is_in_allocator(frame)
        || STARTS.contains(&frame.function)
}

/// True for code of an allocator that replaces the system's: its samples begin inside of it. Functions of a library without symbols have no names, and
/// those of jemalloc inside of a program have names of many kinds.
fn is_in_allocator(frame: &FrameText<'_>) -> bool {
    const LIBRARIES: [&str; 3] = ["libjemalloc.so", "libtcmalloc", "libmimalloc"];
    let library = frame.module.rsplit('/').next().unwrap_or_default();
    LIBRARIES.iter().any(|name| library.starts_with(name))
        || ["_rjem_", "je_"].iter().any(|prefix| frame.function.starts_with(prefix))
        || ["/jemalloc/internal/", "/jemalloc/src/", "jemalloc-sys-"].iter().any(|part| frame.file.contains(part))
}

/// True for source files of a language's own library. In programs with line numbers only, the names of inlined functions are bare (`alloc`, `grow`),
/// and only their files show where they belong.
fn is_library_source(file: &str) -> bool {
    const RUST: [&str; 3] = ["/library/alloc/src/", "/library/core/src/", "/library/std/src/"];
    let rust = file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/");
    // Collections of the standard library that are developed outside of it.
    let outside = file.starts_with("/rust/deps/hashbrown-");
    outside || (rust && (RUST.iter().any(|part| file.contains(part)) || file.contains("/hashbrown-")))
        || file.contains("/include/c++/")
        // Our own allocator, in programs that record themselves.
        || file.ends_with("highwater/src/alloc.rs")
}

/// True for an allocator's function, and for library functions between it and the program, by its demangled name.
///
/// ```
/// use highwater_model::is_plumbing;
///
/// assert!(is_plumbing("operator new(unsigned long)") && is_plumbing("alloc::raw_vec::finish_grow"));
/// assert!(!is_plumbing("parse") && !is_plumbing("malloc_trim_thread") && !is_plumbing(""));
/// ```
pub fn is_plumbing(function: &str) -> bool {
    is_of_c(function) || is_of_rust(function) || is_of_cpp(function)
}

const C: [&str; 34] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mmap",
    "mmap64",
    "mremap",
    "strdup",
    "strndup",
    "wcsdup",
    "asprintf",
    "vasprintf",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "__libc_reallocarray",
    "__mmap",
    "__mmap64",
    "__mremap",
    "__strdup",
    "__strndup",
    "__wcsdup",
    "__asprintf",
    "__asprintf_chk",
    "__vasprintf",
    "__vasprintf_chk",
    "__vasprintf_internal",
    "__posix_memalign",
];

/// Whether a C function is plumbing. Its name may carry the version of its symbol, or the name of the table through which it was called.
fn is_of_c(function: &str) -> bool {
    let name = function.split('@').next().unwrap_or_default();
    C.contains(&name)
}

const RUST_SYMBOLS: [&str; 4] = ["alloc", "alloc_zeroed", "realloc", "exchange_malloc"];
const RUST_MODULES: [&str; 24] = [
    "alloc::alloc::",
    "alloc::borrow::",
    "alloc::boxed::",
    "alloc::collections::",
    "alloc::ffi::",
    "alloc::fmt::",
    "alloc::raw_vec::",
    "alloc::rc::",
    "alloc::slice::",
    "alloc::str::",
    "alloc::string::",
    "alloc::sync::",
    "alloc::vec::",
    "core::alloc::",
    "core::fmt::",
    "core::iter::",
    "hashbrown::map::",
    "hashbrown::raw::",
    "hashbrown::rustc_entry::",
    "hashbrown::set::",
    "std::alloc::",
    "std::collections::hash::",
    "std::sys::alloc::",
    "std::sys::pal::unix::alloc::",
];

/// Whether a Rust function is plumbing. This includes methods of library types, `<alloc::vec::Vec<T> as core::clone::Clone>::clone`, and
/// implementations of library traits for other types, `<T as alloc::slice::hack::ConvertVec>::to_vec`.
fn is_of_rust(function: &str) -> bool {
    if is_rust_symbol(function) {
        return true;
    }
    let in_library = |path: &str| RUST_MODULES.iter().any(|module| path.starts_with(module));
    let path = function.trim_start_matches('<');
    in_library(path) || function.starts_with('<') && function.split(" as ").skip(1).any(in_library)
}

/// Whether a function is one of those through which Rust's allocator is called.
pub(crate) fn is_rust_symbol(function: &str) -> bool {
    let symbol = function.strip_prefix("__rustc::").unwrap_or(function);
    let stripped = ["__rust_", "__rdl_", "__rg_"].iter().find_map(|prefix| symbol.strip_prefix(prefix));
    stripped.is_some_and(|name| RUST_SYMBOLS.contains(&name))
}

/// The most functions of a program's own allocator, `#[global_allocator]`, that are looked through.
const MOST_OF_ALLOCATOR: usize = 8;

/// How many frames of a Rust program's own allocator a stack begins with, innermost first, with the function through which the library calls it. With line
/// tables only, their names are bare (`alloc`), and only that function shows what they are.
///
/// `is_symbol` says whether the frame with an index [is that function](is_rust_symbol); `None` after the last frame.
pub(crate) fn own_allocator(is_symbol: impl FnMut(usize) -> Option<bool>) -> usize {
    (0..MOST_OF_ALLOCATOR).map_while(is_symbol).position(|is_symbol| is_symbol).map_or(0, |at| at + 1)
}

/// Templates of the namespace `std`.
const CPP_STANDARD: [&str; 31] = [
    "allocator<",
    "allocator_traits<",
    "__new_allocator<",
    "pmr::polymorphic_allocator<",
    "_Vector_base<",
    "vector<",
    "_Deque_base<",
    "deque<",
    "_Rb_tree<",
    "map<",
    "multimap<",
    "set<",
    "multiset<",
    "_Hashtable<",
    "__detail::_Hashtable_alloc<",
    "__detail::_Map_base<",
    "__hash_table<",
    "__tree<",
    "unordered_map<",
    "unordered_set<",
    "basic_string<",
    "basic_stringbuf<",
    "list<",
    "_List_base<",
    "make_unique<",
    "make_shared<",
    "allocate_shared<",
    "__allocate_guarded<",
    "__shared_count<",
    "__shared_ptr<",
    "shared_ptr<",
];
const CPP_OTHERS: [&str; 3] =
    ["__gnu_cxx::new_allocator<", "__gnu_cxx::__alloc_traits<", "__gnu_cxx::malloc_allocator<"];

/// Whether a C++ function is plumbing. The name of a template begins with its result type: `void std::vector<int>::reserve(unsigned long)`.
fn is_of_cpp(function: &str) -> bool {
    if function.starts_with("operator new") {
        return true;
    }
    let name = without_result_type(function);
    let Some(standard) = name.strip_prefix("std::") else {
        return CPP_OTHERS.iter().any(|prefix| name.starts_with(prefix));
    };
    // Two libraries put their contents into an inner namespace.
    let standard = ["__1::", "__cxx11::"].iter().find_map(|inner| standard.strip_prefix(inner)).unwrap_or(standard);
    CPP_STANDARD.iter().any(|prefix| standard.starts_with(prefix))
}

/// The text after the last space that is neither in angle brackets nor in or after the arguments.
fn without_result_type(function: &str) -> &str {
    let mut depth = 0u32;
    let mut start = 0;
    for (at, byte) in function.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b'(' if depth == 0 => break,
            b' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &function[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::Naming;

    fn leading_plumbing(frames: &[FrameText<'_>]) -> usize {
        Naming::default().passing_frames(frames)
    }

    #[test]
    fn allocators_and_what_calls_them_for_others_are_plumbing() {
        for function in [
            "malloc",
            "malloc@@GLIBC_2.2.5",
            "realloc@plt",
            "__strdup",
            "mmap64",
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::align_val_t)",
            "__rust_alloc",
            "__rustc::__rust_alloc_zeroed",
            "__rdl_realloc",
            "alloc::alloc::exchange_malloc",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "alloc::raw_vec::RawVecInner<A>::reserve::do_reserve_and_handle",
            "<alloc::raw_vec::RawVec<u8>>::grow_one",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "<T as alloc::slice::hack::ConvertVec>::to_vec",
            "<str as alloc::string::SpecToString>::spec_to_string",
            "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
            "std::collections::hash::map::HashMap<K,V,S>::insert",
            "std::allocator<int>::allocate(unsigned long)",
            "std::__new_allocator<char>::allocate(unsigned long, void const*)",
            "__gnu_cxx::new_allocator<std::pair<int const, char> >::allocate(unsigned long)",
            "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int const&)",
            "std::vector<Node, std::allocator<Node>>::push_back(Node const&)",
            "std::__1::vector<Node, std::__1::allocator<Node>>::push_back[abi:v160006](Node const&)",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create",
            "std::unique_ptr<Node, std::default_delete<Node> > std::make_unique<Node, int>(int&&)",
        ] {
            assert!(is_plumbing(function), "{function}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        for function in [
            "",
            "main",
            "my_malloc",
            "malloc_stats_print",
            "xmalloc",
            "allocator::grow",
            "alloc::Pool::get",
            "allocate(std::vector<int>&)",
            "load(std::allocator<int> const&)",
            "Vec::push",
            "app::alloc::vec::build",
            "<app::Parser as core::clone::Clone>::clone",
            "<app::Parser as app::alloc::string::X>::make",
            "operator<<(std::ostream&, Node const&)",
            "Node::operator new(unsigned long)",
            "std::thread::spawn",
            "std::sort<int*>(int*, int*)",
            "std::__1::thread::thread<void (*)()>(void (*)())",
            "std::vector_like::push",
            "hashbrown_user::insert",
        ] {
            assert!(!is_plumbing(function), "{function}");
        }
    }

    #[test]
    fn files_of_the_language_s_library_are_plumbing_whatever_their_functions_are_called() {
        let frame = |function, file| FrameText { function, file, ..FrameText::default() };
        let frames = [
            frame("alloc", "/rustc/59807616/library/alloc/src/alloc.rs"),
            frame("do_alloc", "/rust/deps/hashbrown-0.17.1/src/raw.rs"),
            frame("_M_allocate", "/usr/include/c++/12/bits/stl_vector.h"),
            frame("alloc", "/home/me/alloc/src/alloc.rs"),
        ];
        assert_eq!(leading_plumbing(&frames), 3);
    }

    #[test]
    fn allocators_that_replace_the_system_s_are_plumbing_wherever_they_are() {
        let frames = [
            FrameText { module: "/usr/lib/libjemalloc.so.2", address: 7, ..FrameText::default() },
            FrameText {
                function: "prof_alloc_prep",
                file: "/build/include/jemalloc/internal/prof_inlines.h",
                ..FrameText::default()
            },
            FrameText { function: "_rjem_je_malloc_default", ..FrameText::default() },
            FrameText { function: "prof_alloc_prep", file: "/home/me/jemalloc-tool/main.c", ..FrameText::default() },
        ];
        assert_eq!(leading_plumbing(&frames), 3);
        assert!(is_background(&frames[0]) && !is_background(&frames[3]));
    }

    #[test]
    fn the_first_own_frame_is_found_and_a_stack_of_plumbing_alone_keeps_its_innermost() {
        let frames = |names: &[&'static str]| -> Vec<FrameText<'static>> {
            names.iter().map(|function| FrameText { function, ..FrameText::default() }).collect()
        };
        assert_eq!(leading_plumbing(&frames(&["malloc", "operator new(unsigned long)", "load", "malloc", "main"])), 2);
        assert_eq!(leading_plumbing(&frames(&["malloc", "strdup"])), 0);
        // If only an address is known of a frame, its caller is more useful. A module is useful enough, and many unknown frames are not skipped.
        assert_eq!(leading_plumbing(&frames(&["malloc", "", "main"])), 2);
        assert_eq!(leading_plumbing(&frames(&["malloc", ""])), 1);
        assert_eq!(leading_plumbing(&frames(&["malloc", "", "", "", "main"])), 1);
        let mut of_a_module = frames(&["malloc", "", "main"]);
        of_a_module[1].module = "libclosed.so";
        assert_eq!(leading_plumbing(&of_a_module), 1);
        assert_eq!(leading_plumbing(&[]), 0);
    }
}
