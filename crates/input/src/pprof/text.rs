//! Reads heap profiles that are texts.
//!
//! ```text
//! heap profile: 3300: 6613350 [8313: 18176378] @ heapprofile       gperftools: live blocks and bytes [allocated], exact
//!    300: 6014850 [300: 6014850] @ 0x5599a4ab0247 0x5599a4ab0316   a site: the same, and return addresses, innermost first
//!
//! heap profile: 175: 509095 [175: 509095] @ heap_v2/16384          tcmalloc: samples, one for each 16,384 bytes on average
//! heap profile: 3: 48 [30: 480] @ heap/8192                        Go with debug=1: samples, one for each 4,096 bytes
//! #  0x4b6395  main.link+0x35  ./heap.go:26                       and names of the calls of the site before
//!
//! heap_v2/16384                                                    jemalloc: samples
//!   t*: 369: 1213184 [954: 2314251]                                all threads; lines of single threads follow
//! @ 0x7efe4f0a2630 0x7efe4f0a2d21                                  a site
//!   t*: 0: 0 [531: 1147710]
//!
//! MAPPED_LIBRARIES:                                                the mappings
//! ```
//!
//! jemalloc counts what was allocated only with `prof_accum`; tcmalloc repeats what is live.

use super::content::whole;
use super::sampling::{Rounding, scaled};
use super::text_maps::{TextMapping, hexadecimal, mapping};
use crate::error::InputError;
use crate::problems::Problems;
use crate::profile::{Profile, ProfileSite, ProfileState};
use crate::stream::InputStream;
use highwater_model::{
    Catalog, Frame, FrameId, FrameText, KnownFigures, Module, Source, SourceKind, StackId, program_name,
};
use std::collections::HashMap;

/// The fault of a line.
type TextFault = &'static str;

/// The first words of such texts.
const PLAIN: &str = "heap profile:";
const THREADED: &str = "heap_v2/";

pub(super) fn is_heap_text(start: &[u8]) -> bool {
    [PLAIN, THREADED].iter().any(|words| start.starts_with(words.as_bytes()))
}

pub(super) fn read(input: &mut InputStream<'_>) -> Result<Profile, InputError> {
    input.doing = "reading the profile";
    let bytes = whole(input)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = (1..).zip(text.lines());
    let header = lines.next().map(|(_, line)| line).unwrap_or_default();
    let header = HeapHeader::parse(header).map_err(|why| InputError::unusable(input.path, why))?;
    let mut reader = TextReader::new(header);
    let mut problems = Problems::default();
    for (number, line) in lines {
        if let Err(fault) = reader.take(line) {
            problems.add_bad_line(number, fault);
        }
    }
    Ok(reader.finish(problems))
}

/// Blocks and bytes that are live, and that were ever allocated, as they stand in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    live_blocks: u64,
    live_bytes: u64,
    allocations: u64,
    allocated_bytes: u64,
}

impl Counts {
    /// Reads `1: 2 [3: 4]`, and returns what follows.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let (live_blocks, rest) = decimal(text)?;
        let (live_bytes, rest) = decimal(rest.strip_prefix(':')?)?;
        let (allocations, rest) = decimal(rest.trim_start().strip_prefix('[')?)?;
        let (allocated_bytes, rest) = decimal(rest.strip_prefix(':')?)?;
        let rest = rest.trim_start().strip_prefix(']')?;
        Some((Self { live_blocks, live_bytes, allocations, allocated_bytes }, rest))
    }

    fn are_allocations_live(&self) -> bool {
        (self.live_blocks, self.live_bytes) == (self.allocations, self.allocated_bytes)
    }
}

/// The number at the beginning of a text, after blanks, and what follows it.
fn decimal(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeapHeader {
    style: HeapStyle,
    /// Mean bytes per sample; at most 1 if figures are exact.
    rate: u64,
    /// The sums of all sites; those of jemalloc follow in a line of their own.
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeapStyle {
    /// `heapprofile` of gperftools.
    Exact,
    /// `heap_v2` of tcmalloc.
    Sampled,
    /// `heap` of Go.
    Go,
    /// `heap_v2` of jemalloc, with lines of threads.
    Threaded,
}

impl HeapHeader {
    fn parse(line: &str) -> Result<Self, String> {
        if let Some(rate) = line.strip_prefix(THREADED) {
            let rate = rate.trim().parse().map_err(|_| "line 1: a number of bytes is expected after heap_v2/")?;
            return Ok(Self { style: HeapStyle::Threaded, rate, counts: Counts::default() });
        }
        let counts = line.strip_prefix(PLAIN).and_then(Counts::parse);
        let (counts, rest) = counts.ok_or("line 1: sums such as '1: 2 [1: 2] @ heap_v2/4096' are expected")?;
        let kind = rest.trim_start().strip_prefix('@').map(str::trim).unwrap_or_default();
        let (kind, rate) = kind.split_once('/').unwrap_or((kind, ""));
        let rate = rate.split_whitespace().next().unwrap_or("0").parse().unwrap_or(0);
        let (style, rate) = match kind {
            "heapprofile" => (HeapStyle::Exact, 1),
            "heap_v2" | "heapz_v2" => (HeapStyle::Sampled, rate),
            // Go doubles it for readers of the first version of the format.
            "heap" => (HeapStyle::Go, rate / 2),
            "growth" | "growthz" | "fragmentation" | "fragmentationz" => {
                let what = "what the allocator took from the system, not blocks of the program";
                return Err(format!("no heap profile but a {} profile: it counts {what}", kind.trim_end_matches('z')));
            }
            _ => return Err("line 1: the kind of heap profile is none that is known".to_owned()),
        };
        Ok(Self { style, rate, counts })
    }
}

/// A site as it stands in the text.
struct TextSite {
    counts: Counts,
    /// Return addresses, innermost first: a range in `addresses`.
    addresses: (usize, usize),
    /// Calls with names, innermost first: a range in `calls`.
    calls: (usize, usize),
}

/// A call with its name.
#[derive(Clone, Copy)]
struct NamedCall<'a> {
    address: u64,
    function: &'a str,
    /// The offset of the call in its function.
    offset: u64,
    file: &'a str,
    line: u32,
}

impl<'a> NamedCall<'a> {
    /// Reads `# 0x4b6395 main.link+0x35 ./heap.go:26`, with tabs between the words; names are missing where Go does not know them.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.strip_prefix('#')?.split('\t').filter(|word| !word.is_empty());
        let address = hexadecimal(words.next()?.strip_prefix("0x")?)?;
        let (function, offset) = words.next().and_then(|name| name.rsplit_once("+0x")).unwrap_or_default();
        let place = words.next().unwrap_or_default();
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        let (offset, line) = (hexadecimal(offset).unwrap_or(0), line.parse().unwrap_or(0));
        Some(Self { address, function, offset, file, line })
    }

    /// True if the code of this call is part of the caller's function.
    fn is_inlined_into(&self, caller: &Self) -> bool {
        let start = |call: &Self| call.address.wrapping_sub(call.offset);
        !self.function.is_empty() && self.function != caller.function && start(self) == start(caller)
    }
}

/// The state of reading.
struct TextReader<'a> {
    header: HeapHeader,
    sites: Vec<TextSite>,
    addresses: Vec<u64>,
    calls: Vec<NamedCall<'a>>,
    mappings: Vec<TextMapping<'a>>,
    /// The addresses of a site of jemalloc, until its figures follow.
    pending: Option<(usize, usize)>,
    is_in_mappings: bool,
}

impl<'a> TextReader<'a> {
    fn new(header: HeapHeader) -> Self {
        Self {
            header,
            sites: Vec::new(),
            addresses: Vec::new(),
            calls: Vec::new(),
            mappings: Vec::new(),
            pending: None,
            is_in_mappings: false,
        }
    }

    fn take(&mut self, line: &'a str) -> Result<(), TextFault> {
        let trimmed = line.trim();
        if ["MAPPED_LIBRARIES:", "--- Memory map: ---"].contains(&trimmed) {
            self.is_in_mappings = true;
        } else if self.is_in_mappings {
            // Lines of other forms are remarks, as `build=/opt`, or mappings of data.
            self.mappings.extend(mapping(trimmed));
        } else if trimmed.starts_with('#') {
            self.call(trimmed);
        } else if !trimmed.is_empty() && !trimmed.starts_with('%') {
            return match self.header.style {
                HeapStyle::Threaded => self.threaded(trimmed),
                _ => self.site(trimmed),
            };
        }
        Ok(())
    }

    fn call(&mut self, line: &'a str) {
        if let (Some(call), Some(site)) = (NamedCall::parse(line), self.sites.last_mut()) {
            self.calls.push(call);
            site.calls.1 = self.calls.len();
        }
    }

    fn site(&mut self, line: &str) -> Result<(), TextFault> {
        if line.starts_with('-') {
            return Err("the profile is a difference of two: a count is negative");
        }
        let (counts, rest) = Counts::parse(line).ok_or("counts such as '1: 2 [1: 2] @' are expected")?;
        let addresses = rest.trim_start().strip_prefix('@').ok_or("addresses are expected after an @")?;
        let addresses = self.add_addresses(addresses)?;
        self.add_site(counts, addresses);
        Ok(())
    }

    fn threaded(&mut self, line: &str) -> Result<(), TextFault> {
        if let Some(addresses) = line.strip_prefix('@') {
            self.pending = None;
            self.pending = Some(self.add_addresses(addresses)?);
            return Ok(());
        }
        let (thread, counts) = line.split_once(':').ok_or("an @ or a thread is expected")?;
        if !thread.starts_with('t') {
            return Err("an @ or a thread is expected");
        }
        let (counts, _) = Counts::parse(counts).ok_or("counts such as '1: 2 [0: 0]' are expected")?;
        // The sum of the threads. What each has is not used.
        if thread == "t*" {
            match self.pending.take() {
                Some(addresses) => self.add_site(counts, addresses),
                None if self.sites.is_empty() => self.header.counts = counts,
                None => return Err("a thread without a site"),
            }
        }
        Ok(())
    }

    fn add_addresses(&mut self, words: &str) -> Result<(usize, usize), TextFault> {
        let from = self.addresses.len();
        for word in words.split_whitespace() {
            let Some(address) = hexadecimal(word) else {
                self.addresses.truncate(from);
                return Err("an address is no hexadecimal number");
            };
            self.addresses.push(address);
        }
        Ok((from, self.addresses.len()))
    }

    fn add_site(&mut self, counts: Counts, addresses: (usize, usize)) {
        let calls = (self.calls.len(), self.calls.len());
        self.sites.push(TextSite { counts, addresses, calls });
    }

    /// True if the file says what was ever allocated.
    fn knows_allocated(&self) -> bool {
        let is_any = self.sites.iter().any(|site| site.counts.allocations > 0);
        // tcmalloc's sampler forgets freed blocks, and repeats the live ones.
        let is_repeated =
            self.header.style == HeapStyle::Sampled && self.sites.iter().all(|site| site.counts.are_allocations_live());
        is_any && !is_repeated
    }

    fn finish(self, problems: Problems) -> Profile {
        let HeapHeader { style, rate, .. } = self.header;
        let is_estimate = style != HeapStyle::Exact && rate > 1;
        let known = KnownFigures {
            live_blocks: true,
            allocated: self.knows_allocated(),
            own_peaks: false,
            samples: is_estimate,
        };
        let mut stacks = StackMaker::new(&self.mappings);
        let mut sites = Vec::with_capacity(self.sites.len());
        for site in &self.sites {
            if site.counts != Counts::default() {
                let (addresses, calls) = (site.addresses, site.calls);
                let stack = match &self.calls[calls.0..calls.1] {
                    [] => stacks.of_addresses(&self.addresses[addresses.0..addresses.1]),
                    calls => stacks.of_calls(calls),
                };
                sites.push(ProfileSite { stack, ..figures(&site.counts, self.header) });
            }
        }
        let mut notes = Vec::new();
        if style == HeapStyle::Sampled && rate == 0 {
            let remedy = "TCMALLOC_SAMPLE_PARAMETER=524288 in the environment of the program turns it on";
            notes.push(format!("heap sampling was off when the profile was made; {remedy}"));
        }
        let is_file = |mapping: &&TextMapping<'_>| !mapping.path.starts_with('[');
        let program = self.mappings.iter().find(is_file).map_or("", |mapping| mapping.path);
        let source = Source {
            kind: SourceKind::new("heap-text"),
            program: program_name(None, program),
            sample_rate: is_estimate.then_some(rate),
            notes,
            ..Source::default()
        };
        Profile {
            source,
            known,
            catalog: stacks.catalog,
            states: vec![ProfileState { sites, ..ProfileState::default() }],
            is_instant: true,
            version: 0,
            problems,
        }
    }
}

/// The figures of a site: estimates of the whole, if its counts are samples.
fn figures(counts: &Counts, header: HeapHeader) -> ProfileSite {
    let Counts { live_blocks, live_bytes, allocations, allocated_bytes } = *counts;
    let of = |count, bytes| match header.style {
        HeapStyle::Exact => (count, bytes),
        HeapStyle::Threaded => scaled(count, bytes, header.rate, Rounding::Nearest),
        HeapStyle::Sampled | HeapStyle::Go => scaled(count, bytes, header.rate, Rounding::Down),
    };
    let (live, all) = (of(live_blocks, live_bytes), of(allocations, allocated_bytes));
    ProfileSite {
        live_blocks: live.0,
        live_bytes: live.1,
        allocations: all.0,
        allocated_bytes: all.1,
        live_samples: live_blocks,
        samples: allocations,
        ..ProfileSite::default()
    }
}

/// Makes stacks of addresses and names.
struct StackMaker<'a> {
    catalog: Catalog,
    /// In the order of their addresses, with their numbers in frames.
    modules: Vec<(TextMapping<'a>, u32)>,
    frames: HashMap<u64, FrameId>,
}

impl<'a> StackMaker<'a> {
    fn new(mappings: &[TextMapping<'a>]) -> Self {
        let mut catalog = Catalog::default();
        let mut modules = Vec::with_capacity(mappings.len());
        for mapping in mappings {
            let (path, build_id) = (catalog.strings.intern(mapping.path), catalog.strings.intern(mapping.build_id));
            let TextMapping { start, end, file_offset, .. } = *mapping;
            let module = Module { path, build_id, start, end, file_offset, ..Module::default() };
            modules.push((*mapping, catalog.add_module(module) + 1));
        }
        modules.sort_by_key(|(mapping, _)| mapping.start);
        Self { catalog, modules, frames: HashMap::new() }
    }

    fn of_addresses(&mut self, innermost_first: &[u64]) -> StackId {
        let mut stack = StackId::UNKNOWN;
        for address in innermost_first.iter().rev() {
            let frame = self.frame(*address);
            stack = self.catalog.stacks.intern_child(stack, frame);
        }
        stack
    }

    fn frame(&mut self, address: u64) -> FrameId {
        if let Some(known) = self.frames.get(&address) {
            return *known;
        }
        // A return address may lie after the last byte of its module.
        let before = self.modules.partition_point(|(mapping, _)| mapping.start < address);
        let last = before.checked_sub(1).and_then(|last| self.modules.get(last));
        let module = last.filter(|(mapping, _)| address <= mapping.end).map_or(0, |(_, module)| *module);
        let frame = self.catalog.stacks.intern_frame(Frame { address, module, ..Frame::default() });
        self.frames.insert(address, frame);
        frame
    }

    fn of_calls(&mut self, innermost_first: &[NamedCall<'_>]) -> StackId {
        let mut stack = StackId::UNKNOWN;
        for (position, call) in innermost_first.iter().enumerate().rev() {
            let caller = innermost_first.get(position + 1);
            let text = FrameText {
                function: call.function,
                file: call.file,
                line: call.line,
                address: call.address,
                inlined: caller.is_some_and(|caller| call.is_inlined_into(caller)),
                ..FrameText::default()
            };
            let frame = self.catalog.intern_frame(&text);
            let frame = self.catalog.stacks.intern_frame(frame);
            stack = self.catalog.stacks.intern_child(stack, frame);
        }
        stack
    }
}
