//! Files of valgrind's massif: text.
//!
//! ```text
//! desc: --time-unit=i
//! cmd: ./server --port 1
//! time_unit: i
//! #-----------
//! snapshot=2
//! #-----------
//! time=137703
//! mem_heap_B=2223
//! mem_heap_extra_B=345
//! mem_stacks_B=0
//! heap_tree=detailed
//! n2: 2223 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
//!  n1: 2190 0x109196: buffer (demo.c:9)
//!   n0: 2190 0x1091CB: main (demo.c:15)
//!  n0: 33 in 1 place, below massif's threshold (1.00%)
//! ```
//!
//! A line of a tree has the number of its children, its bytes and a frame; children are callers. Each leaf is a site. What a node has more than its
//! children is a site that ends at that node. The overhead of the heap (`extra`) and the stacks are in the total of a snapshot and in no tree: they are
//! sites of their own. Of a snapshot without a tree only the sums are known: its heap belongs to the unknown stack.
//!
//! Other tools of valgrind write the same syntax as *xtree reports*: their snapshots are figures, not instants, and they are refused.
//!
//! Lines are read one by one. The indentation of a node must be its depth, so that the work is in proportion to the length of the file.

mod tree;

use crate::error::InputError;
use crate::format::{Format, Read};
use crate::problems::Problems;
use crate::profile::{Profile, ProfileSite, ProfileState};
use crate::stream::InputStream;
use highwater_model::{
    Catalog, Clock, FrameText, KnownFigures, Nanos, Source, SourceKind, StackId, grouped, program_name,
};
use std::io::{self, BufRead, BufReader, Read as _};
use tree::Tree;

/// Limit for the length of a line, in bytes.
const LONGEST_LINE: u64 = 1 << 20;
/// The most instants that a note names.
const MOST_NAMED: usize = 12;
/// The name of the site that stands for the allocator's overhead: headers and rounding.
const EXTRA_HEAP: &str = "[extra heap: allocator overhead]";
/// The name of the site that stands for the stacks of all threads.
const STACKS: &str = "[thread stacks]";

/// A file of massif.
pub struct MassifFormat;

impl Format for MassifFormat {
    fn key(&self) -> &'static str {
        "massif"
    }

    fn title(&self) -> &'static str {
        "massif profile"
    }

    fn source_title(&self) -> &'static str {
        "massif"
    }

    fn advice(&self) -> &'static str {
        "'highwater report --at peak' and 'highwater timeline' show it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        let mut lines = start.split(|byte| *byte == b'\n');
        lines.next().is_some_and(|line| line.starts_with(b"desc: "))
            && lines.take(8).any(|line| line.starts_with(b"time_unit: "))
    }

    fn read(&self) -> Read {
        Read::Profile(read)
    }
}

/// What the times of a file count.
#[derive(Clone, Copy)]
struct TimeUnit {
    clock: Clock,
    /// What a time is multiplied with.
    factor: u64,
}

impl TimeUnit {
    fn of(name: &str) -> Option<Self> {
        let (clock, factor) = match name {
            "i" => (Clock::Instructions, 1),
            "B" => (Clock::Bytes, 1),
            "ms" => (Clock::Time, 1_000_000),
            _ => return None,
        };
        Some(Self { clock, factor })
    }
}

/// The snapshot that is being read.
#[derive(Default)]
struct MassifSnapshot {
    time: Option<u64>,
    heap: Option<u64>,
    extra: u64,
    stacks: u64,
    tree: Option<Tree>,
}

/// The state of reading.
struct MassifReader {
    catalog: Catalog,
    unit: Option<TimeUnit>,
    command: String,
    snapshot: Option<MassifSnapshot>,
    states: Vec<ProfileState>,
    /// The times of the states that have a tree.
    detailed: Vec<Nanos>,
    extra: StackId,
    stacks: StackId,
    problems: Problems,
    line: u64,
}

fn read(input: &mut InputStream<'_>) -> Result<Profile, InputError> {
    input.doing = "reading the massif profile";
    let path = input.path;
    let mut reader = MassifReader::new();
    let mut lines = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    while next_line(&mut lines, &mut line).map_err(|error| InputError::unreadable(path, error))? {
        reader.line += 1;
        let text = String::from_utf8_lossy(&line);
        match reader.take(text.trim_end_matches(['\n', '\r'])) {
            Ok(()) => {}
            Err(Fault::OfLine(fault)) => reader.problems.add_bad_line(reader.line, fault),
            Err(Fault::OfFile(fault)) => {
                return Err(InputError::unusable(path, format!("line {}: {fault}", reader.line)));
            }
        }
    }
    reader.end_snapshot();
    match reader.unit {
        Some(unit) => Ok(reader.into_profile(unit)),
        None => Err(InputError::unusable(path, "the file ends before its snapshots")),
    }
}

/// Reads a line; false at the end. The rest of a line beyond the limit is skipped.
fn next_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    lines.by_ref().take(LONGEST_LINE).read_until(b'\n', line)?;
    if line.len() as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
        lines.skip_until(b'\n')?;
    }
    Ok(!line.is_empty())
}

/// The fault of a line, and whether the rest of the file is of use.
enum Fault {
    OfLine(&'static str),
    OfFile(&'static str),
}

impl MassifReader {
    fn new() -> Self {
        let mut catalog = Catalog::default();
        let mut site = |function| catalog.intern_stack(&[FrameText { function, ..FrameText::default() }]);
        let (extra, stacks) = (site(EXTRA_HEAP), site(STACKS));
        Self {
            catalog,
            unit: None,
            command: String::new(),
            snapshot: None,
            states: Vec::new(),
            detailed: Vec::new(),
            extra,
            stacks,
            problems: Problems::default(),
            line: 0,
        }
    }

    fn take(&mut self, line: &str) -> Result<(), Fault> {
        if line.starts_with('#') || line.is_empty() {
            return Ok(());
        }
        if line.starts_with("snapshot=") {
            if self.unit.is_none() {
                return Err(Fault::OfFile("a time_unit is expected before the first snapshot"));
            }
            self.end_snapshot();
            self.snapshot = Some(MassifSnapshot::default());
            return Ok(());
        }
        match &mut self.snapshot {
            None => self.take_header(line),
            Some(snapshot) => snapshot.take(line, &mut self.catalog).map_err(Fault::OfLine),
        }
    }

    fn take_header(&mut self, line: &str) -> Result<(), Fault> {
        match line.split_once(": ") {
            Some(("time_unit", unit)) => {
                let unknown = "the time_unit is none of i, ms and B";
                self.unit = Some(TimeUnit::of(unit).ok_or(Fault::OfFile(unknown))?);
            }
            Some(("cmd", command)) => self.command = command.to_owned(),
            Some(("desc", about)) if about.starts_with("xtree") => {
                return Err(Fault::OfFile(
                    "an xtree report has several figures of one instant, and is no profile of massif",
                ));
            }
            Some(("desc", _)) => {}
            _ => return Err(Fault::OfLine("it is of no known kind")),
        }
        Ok(())
    }

    /// Makes a state of the snapshot that was read. A file may end within one.
    fn end_snapshot(&mut self) {
        let (Some(snapshot), Some(unit)) = (self.snapshot.take(), self.unit) else { return };
        let (Some(time), Some(heap)) = (snapshot.time, snapshot.heap) else {
            self.problems.add_bad_line(self.line, "the snapshot ends here without a time or its bytes");
            return;
        };
        let mut at = Nanos(time.saturating_mul(unit.factor));
        if let Some(last) = self.states.last().map(|state| state.at).filter(|last| *last > at) {
            self.problems.add_bad_line(self.line, "the snapshot that ends here is earlier than the one before");
            at = last;
        }
        let mut sites = vec![site(self.extra, snapshot.extra), site(self.stacks, snapshot.stacks)];
        let mut in_tree = 0u64;
        if let Some(tree) = snapshot.tree {
            if !tree.is_complete() {
                self.problems.add_bad_line(self.line, "the tree ends here, and lacks lines");
            }
            for (stack, bytes) in tree.finish(&mut self.catalog) {
                in_tree = in_tree.saturating_add(bytes);
                sites.push(site(stack, bytes));
            }
            self.detailed.push(at);
        }
        if in_tree > heap {
            self.problems.add_bad_line(self.line, "the tree that ends here has more bytes than the heap");
        }
        sites.push(site(StackId::UNKNOWN, heap.saturating_sub(in_tree)));
        sites.retain(|site| site.live_bytes > 0);
        self.states.push(ProfileState { at, sites });
    }

    fn into_profile(self, unit: TimeUnit) -> Profile {
        let command: Vec<String> = self.command.split_whitespace().map(str::to_owned).collect();
        let mut source = Source {
            kind: SourceKind::new("massif"),
            program: program_name(command.first().map(String::as_str), ""),
            command,
            clock: unit.clock,
            duration: self.states.last().map_or(Nanos(0), |state| state.at),
            ..Source::default()
        };
        source.notes = self.note(&source).into_iter().collect();
        Profile {
            source,
            known: KnownFigures::default(),
            catalog: self.catalog,
            states: self.states,
            is_instant: false,
            version: 0,
            problems: self.problems,
        }
    }

    /// Which snapshots have call stacks; `None` if all have.
    fn note(&self, source: &Source) -> Option<String> {
        let (detailed, all) = (self.detailed.len(), self.states.len());
        if detailed == all {
            return None;
        }
        let mut named: Vec<String> = self.detailed.iter().take(MOST_NAMED).map(|at| source.instant(*at)).collect();
        if detailed > MOST_NAMED {
            named.push(format!("{} more", grouped((detailed - MOST_NAMED) as u64)));
        }
        // `instruction 12, 34 and 56`: the unit stands once.
        let unit = if source.is_untimed() { format!("{} ", source.clock.unit().0) } else { String::new() };
        let named: Vec<&str> = named.iter().map(|time| time.strip_prefix(&unit).unwrap_or(time)).collect();
        let times = match named.split_last() {
            None => String::new(),
            Some((last, [])) => format!(", at {unit}{last}"),
            Some((last, others)) => format!(", at {unit}{} and {last}", others.join(", ")),
        };
        let (detailed, all) = (grouped(detailed as u64), grouped(all as u64));
        Some(format!("Only {detailed} of {all} snapshots of massif have call stacks{times}."))
    }
}

fn site(stack: StackId, live_bytes: u64) -> ProfileSite {
    ProfileSite { stack, live_bytes, ..ProfileSite::default() }
}

impl MassifSnapshot {
    fn take(&mut self, line: &str, catalog: &mut Catalog) -> Result<(), &'static str> {
        if let Some(tree) = &mut self.tree {
            return tree.take(line, catalog);
        }
        let (key, value) = line.split_once('=').ok_or("it is of no known kind")?;
        let number = || value.parse::<u64>().map_err(|_| "a number is expected");
        match key {
            "time" => self.time = Some(number()?),
            "mem_heap_B" => self.heap = Some(number()?),
            "mem_heap_extra_B" => self.extra = number()?,
            "mem_stacks_B" => self.stacks = number()?,
            "heap_tree" if value == "empty" => {}
            "heap_tree" if value == "detailed" || value == "peak" => self.tree = Some(Tree::default()),
            "heap_tree" => return Err("the tree is none of empty, detailed and peak"),
            _ => return Err("it is of no known kind"),
        }
        Ok(())
    }
}
