//! Names for the call stacks of a measure: found when they are asked for, in the files of the running program.

use super::accounts::HeapUse;
use highwater_model::{FrameText, Naming, is_background, short_name};
use highwater_symbols::{ModuleMapping, SourceFrame, Symbolizer};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A call in the stack of a [`Site`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SiteFrame {
    /// The function; the address, if it has no name.
    pub function: String,
    /// The source file; empty if there is no debug information.
    pub file: String,
    /// The line in it; 0 if there is no debug information.
    pub line: u32,
}

impl fmt::Display for SiteFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        if self.line > 0 { write!(f, "  {}:{}", self.file, self.line) } else { Ok(()) }
    }
}

/// A call stack that allocated, resized or grew blocks in a measure, and what it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// The calls, innermost first: from the function that needed the memory to the work that was measured. Without the frames of allocators, of the standard
    /// library's containers and of Highwater.
    pub frames: Vec<SiteFrame>,
    /// What it took.
    pub used: HeapUse,
    /// Whether it prints: `println!` in a test writes into a buffer of the test harness.
    pub(super) is_captured_output: bool,
}

/// A file that is mapped into this process.
struct MappedFile {
    path: PathBuf,
    /// The lowest address, and the offset in the file that is mapped there.
    start: u64,
    offset: u64,
}

/// A range of addresses and the number of its file.
type MappedRange = (std::ops::Range<u64>, usize);

/// The files that are mapped into this process, and where.
fn mapped_files() -> (Vec<MappedFile>, Vec<MappedRange>) {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let (mut files, mut ranges) = (Vec::<MappedFile>::new(), Vec::new());
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(offset), Some(path)) = (fields.next(), fields.nth(1), fields.nth(2)) else { continue };
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((Some(start), Some(end))) = range.split_once('-').map(|(start, end)| (hex(start), hex(end))) else {
            continue;
        };
        let (path, Some(offset)) = (Path::new(path.trim_start()), hex(offset)) else { continue };
        if !path.is_absolute() {
            continue;
        }
        let number = files.iter().position(|file| file.path == path).unwrap_or_else(|| {
            files.push(MappedFile { path: path.to_owned(), start, offset });
            files.len() - 1
        });
        ranges.push((start..end, number));
    }
    (files, ranges)
}

/// The names of all addresses of some stacks.
struct Names {
    of_address: HashMap<u64, Vec<SourceFrame>>,
}

impl Names {
    fn find(addresses: impl Iterator<Item = u64>) -> Self {
        static SYMBOLIZER: Mutex<Option<Symbolizer>> = Mutex::new(None);
        let mut symbolizer = SYMBOLIZER.lock().unwrap_or_else(PoisonError::into_inner);
        let symbolizer = symbolizer.get_or_insert_with(Symbolizer::new);
        let (files, ranges) = mapped_files();
        let mut of_address = HashMap::new();
        for address in addresses {
            of_address.entry(address).or_insert_with(|| {
                // A return address lies after its call.
                let call = address.wrapping_sub(1);
                let file = ranges.iter().find(|(range, _)| range.contains(&call)).map(|(_, number)| &files[*number]);
                let Some(MappedFile { path, start, offset }) = file else { return Vec::new() };
                let mapping = ModuleMapping { path, build_id: "", start: *start, file_offset: *offset };
                symbolizer.module(&mapping).map(|module| module.lookup(call).to_vec()).unwrap_or_default()
            });
        }
        Self { of_address }
    }
}

/// What the allocator calls.
const HOOKS: [&str; 2] = ["highwater::testing::measure::allocated", "highwater::testing::measure::reallocated"];
/// What `println!` and `eprintln!` call, and what writes into the buffer of the test harness.
const PRINTING: [&str; 2] = ["stdio::_print", "stdio::_eprint"];
const CAPTURING: &str = "print_to_buffer_if_capture_used";
/// What the compiler calls for an allocation: inside of it is the program's allocator.
const ALLOCATOR_CALLS: [&str; 4] = ["__rust_alloc", "__rust_realloc", "__rg_alloc", "__rg_realloc"];
/// This crate's functions: what begins a measure, and the allocator.
const OWN: [&str; 4] = ["highwater::testing::", "highwater_agent::", "<highwater::", "highwater::alloc::"];

/// Whether a frame is one of this crate's. Without full debug information, the names of inlined functions are bare, and only their files show it.
fn is_own(frame: &SourceFrame) -> bool {
    let folder = file!().strip_suffix("names.rs").filter(|folder| !folder.is_empty());
    OWN.iter().any(|own| frame.function.starts_with(own)) || folder.is_some_and(|folder| frame.file.contains(folder))
}

/// Whether a frame is of the standard library: by its file, or by its name if it has no debug information.
fn is_of_std(frame: &SourceFrame) -> bool {
    if !frame.file.is_empty() {
        let folders = ["/rustc/", "/lib/rustlib/src/rust/library/", "/rust/deps/"];
        return folders.iter().any(|folder| frame.file.contains(folder));
    }
    let name = frame.function.trim_start_matches(['<', '&', '*']);
    ["std::", "core::", "alloc::"].iter().any(|library| name.starts_with(library))
}

/// Whether a frame is in the standard library's module `io`.
fn is_of_io(frame: &SourceFrame) -> bool {
    frame.file.contains("/std/src/io/") || frame.function.contains("std::io::")
}

/// Whether a block is of the buffer in which the test harness keeps output, and not of the values that are printed. The frames begin outside of the allocator's hook.
///
/// Only the standard library is at work between the printing and the buffer; or a value's own code is, too, and the buffer takes what that has formatted. The code may
/// write into a buffer of its own by the same functions, which begin with a call of the module `io`.
fn keeps_captured_output(frames: &[SourceFrame]) -> bool {
    // Without debug information, the inner one of both is not visible.
    let prints = |frame: &SourceFrame| {
        frame.function.contains(CAPTURING)
            || frame.file.is_empty() && PRINTING.iter().any(|name| frame.function.contains(name))
    };
    let Some(printing) = frames.iter().position(prints) else { return false };
    let frames = &frames[..printing];
    let allocator = frames.iter().rposition(|frame| ALLOCATOR_CALLS.iter().any(|call| frame.function.contains(call)));
    let frames = &frames[allocator.map_or(0, |at| at + 1)..];
    let Some(own) = frames.iter().position(|frame| !is_of_std(frame) && !is_own(frame)) else { return true };
    let adapter = frames[..own].iter().rposition(|frame| frame.function.contains("Adapter"));
    adapter.is_some_and(|adapter| !frames[adapter + 1..own].iter().any(is_of_io))
}

/// A path as a reader looks for it: below the current folder, if it is there.
fn shown_path(file: &str) -> String {
    let current = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file).strip_prefix(current).unwrap_or(Path::new(file));
    path.display().to_string()
}

/// The frames that a reader wants to see of a stack, and whether it keeps the output of a test.
fn shown_frames(stack: &[u64], names: &Names) -> (Vec<SiteFrame>, bool) {
    let mut all = Vec::new();
    for address in stack {
        match &names.of_address[address][..] {
            [] => all.push(SourceFrame {
                function: format!("{address:#x}").into(),
                file: "".into(),
                line: 0,
                inlined: false,
                sizes: Box::default(),
            }),
            known => all.extend_from_slice(known),
        }
    }
    // From the allocator's caller to what is measured.
    let hook = all.iter().position(|frame| HOOKS.iter().any(|hook| frame.function.contains(hook)));
    let inner = hook.map_or(0, |at| at + 1);
    let is_captured_output = keeps_captured_output(&all[inner..]);
    let outer = all.iter().rposition(is_own).filter(|at| *at > inner).unwrap_or(all.len());
    let texts: Vec<FrameText<'_>> = all[inner..outer]
        .iter()
        .filter(|frame| !is_own(frame))
        .map(|frame| FrameText {
            function: &frame.function,
            file: &frame.file,
            line: frame.line,
            inlined: frame.inlined,
            ..FrameText::default()
        })
        .collect();
    let passing = Naming::default().passing_frames(&texts);
    let shown = texts[passing..].iter().enumerate();
    let shown = shown.filter(|(at, frame)| *at == 0 || !is_background(frame)).map(|(_, frame)| SiteFrame {
        function: short_name(frame.function).into_owned(),
        file: shown_path(frame.file),
        line: frame.line,
    });
    (shown.collect(), is_captured_output)
}

/// The sites of these stacks, one for each.
pub(super) fn named_stacks(stacks: &[(Box<[u64]>, HeapUse)]) -> Vec<Site> {
    let names = Names::find(stacks.iter().flat_map(|(stack, _)| stack.iter().copied()));
    let named = stacks.iter().map(|(stack, used)| {
        let (frames, is_captured_output) = shown_frames(stack, &names);
        Site { frames, used: *used, is_captured_output }
    });
    named.collect()
}

/// The sites of a measure. Stacks that look the same are one site, except for those that print.
pub(super) fn named_sites(stacks: &[(Box<[u64]>, HeapUse)]) -> Vec<Site> {
    let mut numbers = HashMap::<(Vec<SiteFrame>, bool), usize>::new();
    let mut sites = Vec::<Site>::new();
    for site in named_stacks(stacks) {
        match numbers.entry((site.frames.clone(), site.is_captured_output)) {
            Entry::Occupied(number) => sites[*number.get()].used.add(&site.used),
            Entry::Vacant(vacant) => {
                vacant.insert(sites.len());
                sites.push(site);
            }
        }
    }
    sites
}
