//! The allocators of a process: all modules but the loader that define `malloc` and `free`, also with a prefix that jemalloc is built with.

use crate::elf::{DefinedSymbol, SymbolTable};
use crate::modules::{TargetModule, symbols_of_program};
use crate::refusal::Refusal;
use highwater_shm::attach_v1::{FUNCTION_COUNT, FUNCTIONS, FunctionIndex};

/// One allocator.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Index of its module.
    pub module: usize,
    /// Which of the functions it has.
    pub functions: [Option<DefinedSymbol>; FUNCTION_COUNT],
    /// `malloc_usable_size`.
    pub usable_size: Option<u64>,
    /// Whether it is the C library of GNU.
    pub is_glibc: bool,
}

/// Prefixes of jemalloc's functions in programs that have it beside the C library's: `tikv-jemallocator` of Rust, and others.
const PREFIXES: [&str; 2] = ["_rjem_", "je_"];

/// Finds all. If the program has no dynamic symbols, those of its file are read.
pub(crate) fn find_allocators(pid: i32, modules: &mut [TargetModule]) -> Result<Vec<Allocator>, Refusal> {
    if let Some(tool) = other_tool(modules) {
        return Err(Refusal::OtherTool { pid, tool });
    }
    let is_dynamic = modules.iter().any(|module| {
        module.has_interpreter || !module.is_program && !module.is_vdso && !module.symbols.entries.is_empty()
    });
    if !is_dynamic
        && let Some(program) = modules.iter_mut().find(|module| module.is_program)
        && let Some(symbols) = symbols_of_program(pid)
    {
        program.symbols = symbols;
    }
    let mut names: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.push("malloc_usable_size");
    let mut allocators = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        if module.is_loader || module.is_vdso {
            continue;
        }
        let found = module.symbols.find(module.bias, &names);
        let function = |name: &str| {
            found.get(name).copied().filter(|symbol| symbol.is_function && module.text.contains(&symbol.address))
        };
        if function("malloc").is_none() || function("free").is_none() {
            continue;
        }
        allocators.push(Allocator {
            module: index,
            functions: FUNCTIONS.map(|hookable| function(hookable.name)),
            usable_size: function("malloc_usable_size").map(|symbol| symbol.address),
            is_glibc: is_glibc(module),
        });
    }
    allocators.extend(prefixed_allocators(pid, modules));
    if allocators.is_empty() {
        let program = modules.iter().find(|module| module.is_program).map(|module| module.symbols.clone());
        return Err(if is_go(pid, program.as_ref()) { Refusal::Go(pid) } else { Refusal::NoAllocator(pid) });
    }
    Ok(allocators)
}

/// Allocators that the program has under names with a prefix. These are often no dynamic symbols.
fn prefixed_allocators(pid: i32, modules: &[TargetModule]) -> Vec<Allocator> {
    let Some((index, program)) = modules.iter().enumerate().find(|(_, module)| module.is_program) else {
        return Vec::new();
    };
    let Some(symbols) = symbols_of_program(pid) else { return Vec::new() };
    let mut found = Vec::new();
    for prefix in PREFIXES {
        let prefixed = |name: &str| format!("{prefix}{name}");
        let mut names: Vec<String> = FUNCTIONS.iter().map(|function| prefixed(function.name)).collect();
        names.push(prefixed("malloc_usable_size"));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let symbols = symbols.find(program.bias, &names);
        let function = |name: &str| {
            let symbol = symbols.get(prefixed(name).as_str()).copied()?;
            (symbol.is_function && program.text.contains(&symbol.address)).then_some(symbol)
        };
        let functions = FUNCTIONS.map(|hookable| function(hookable.name));
        let allocates = function("malloc").or(function("mallocx"));
        let frees = function("free").or(function("dallocx")).or(function("sdallocx"));
        if allocates.is_some() && frees.is_some() {
            let usable_size = function("malloc_usable_size").map(|symbol| symbol.address);
            found.push(Allocator { module: index, functions, usable_size, is_glibc: false });
        }
    }
    found
}

fn is_glibc(module: &TargetModule) -> bool {
    let name = module.file_name();
    name == "libc.so.6" || name.starts_with("libc-2")
}

/// Whether a program was written in Go: its runtime's symbols, or the section with which Go marks programs.
fn is_go(pid: i32, symbols: Option<&SymbolTable>) -> bool {
    let named = symbols.is_some_and(|symbols| !symbols.find(0, &["runtime.main", "runtime.mallocgc"]).is_empty());
    named
        || std::fs::read(format!("{}/exe", crate::look::living_folder(pid)))
            .is_ok_and(|file| has(&file, b".go.buildinfo\0") || has(&file, b".gopclntab\0"))
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// A tool that has put its own allocator into the program.
fn other_tool(modules: &[TargetModule]) -> Option<&'static str> {
    modules.iter().find_map(|module| {
        // A runtime that is linked into the program looks for this.
        if module.is_program && module.symbols.mentions("__sanitizer_malloc_hook") {
            return Some("a sanitizer");
        }
        let name = module.file_name();
        match name {
            _ if name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan") => Some("AddressSanitizer"),
            _ if name.starts_with("libtsan.so") || name.starts_with("libclang_rt.tsan") => Some("ThreadSanitizer"),
            _ if name.starts_with("vgpreload_") => Some("valgrind"),
            _ if name.starts_with("libheaptrack") => Some("heaptrack"),
            _ => None,
        }
    })
}

/// Whether Highwater's own library is there: it hooks calls by their names. It has the functions of `highwater.h`, whatever its file and its folder are called.
pub(crate) fn is_preloaded(modules: &[TargetModule]) -> bool {
    modules.iter().any(|module| {
        !module.is_program
            && ["malloc", "highwater_mark"].iter().all(|name| !module.symbols.find(0, &[*name]).is_empty())
    })
}

/// Whether a function gives or takes blocks. The others only tell the agent more.
pub(crate) fn is_needed(function: usize) -> bool {
    !(FunctionIndex::Dlclose as usize..=FunctionIndex::Syscall as usize).contains(&function)
}
