//! Reads `profile.proto`.

use super::content::whole;
use super::messages::{
    LabelMessage, LocationMessage, MappingMessage, ProtoFault, SampleMessage, Tables, ValueType, for_each_sample,
};
use super::sampling::samples_behind;
use crate::error::InputError;
use crate::problems::Problems;
use crate::profile::{Profile, ProfileSite, ProfileState};
use crate::stream::InputStream;
use highwater_model::{
    Catalog, Frame, FrameId, KnownFigures, Module, Nanos, Source, SourceKind, StackId, StringId, Tag, TagId,
};
use std::collections::HashMap;

/// Highwater's name, in its own exports, of a function without one.
const UNKNOWN_FUNCTION: &str = "[unknown]";
/// Limit for the frames of all different stacks, by byte of the file. A location is named by a byte or two, and stands for a call with those inlined into
/// it: a few. Only a forged file has more.
const MOST_FRAMES_PER_BYTE: usize = 4;
/// The same, for a small file.
const FEW_FRAMES: usize = 1 << 16;

pub(super) fn read(input: &mut InputStream<'_>) -> Result<Profile, InputError> {
    input.doing = "reading the profile";
    let bytes = whole(input)?;
    let unusable = |fault: ProtoFault| {
        InputError::unusable(input.path, format!("byte {} of the profile: {}", fault.offset, fault.what))
    };
    let tables = Tables::read(&bytes).map_err(unusable)?;
    let columns = ValueColumns::find(&tables).map_err(|why| InputError::unusable(input.path, why))?;
    let source = source_of(&tables);
    let mut samples = SampleReader::new(&tables, columns, source.sample_rate, bytes.len());
    for_each_sample(&bytes, |offset, sample| samples.take(offset, sample)).map_err(unusable)?;
    let SampleReader { catalog, sites, are_samples_known, .. } = samples;
    let known = KnownFigures {
        live_blocks: columns.live_objects.is_some(),
        allocated: columns.allocated.is_some(),
        own_peaks: false,
        samples: are_samples_known && columns.live_objects.is_some(),
    };
    Ok(Profile {
        known,
        catalog,
        states: vec![ProfileState { at: source.duration, sites }],
        source,
        is_instant: true,
        version: 0,
        problems: Problems::default(),
    })
}

/// The indices of the values that are used.
#[derive(Clone, Copy, Debug)]
struct ValueColumns {
    count: usize,
    live_space: usize,
    live_objects: Option<usize>,
    /// Objects and bytes.
    allocated: Option<(usize, usize)>,
}

impl ValueColumns {
    /// Finds the values of a heap profile by their names; the error says which values a profile has instead.
    fn find(tables: &Tables<'_>) -> Result<Self, String> {
        let position = |kinds: &[&str], unit: &str| {
            let is_wanted =
                |value: &ValueType| kinds.iter().any(|kind| tables.is(value.kind, kind)) && tables.is(value.unit, unit);
            tables.sample_types.iter().position(is_wanted)
        };
        // A profile that was never sampled for what was freed has no prefixes.
        let live_space = position(&["inuse_space"], "bytes").or_else(|| position(&["space"], "bytes"));
        let Some(live_space) = live_space else {
            return Err(format!("no heap profile: it has no live bytes, but {}", sample_types(tables)));
        };
        let live_objects = position(&["inuse_objects"], "count").or_else(|| position(&["objects"], "count"));
        let allocated = position(&["alloc_objects"], "count").zip(position(&["alloc_space"], "bytes"));
        Ok(Self { count: tables.sample_types.len(), live_space, live_objects, allocated })
    }
}

/// What a profile counts: `samples (count), cpu (nanoseconds)`.
fn sample_types(tables: &Tables<'_>) -> String {
    let name = |value: &ValueType| {
        // It becomes part of a message of one line.
        let plain = |text: String| text.chars().filter(|letter| !letter.is_control()).take(64).collect::<String>();
        format!("{} ({})", plain(tables.string(value.kind)), plain(tables.string(value.unit)))
    };
    match tables.sample_types.as_slice() {
        [] => "no values at all".to_owned(),
        types => types.iter().take(8).map(name).collect::<Vec<_>>().join(", "),
    }
}

fn source_of(tables: &Tables<'_>) -> Source {
    let comments: Vec<String> = tables.comments.iter().take(64).map(|index| tables.string(*index)).collect();
    let comment = |key: &str| comments.iter().find_map(|comment| comment.strip_prefix(key)).unwrap_or_default();
    // The first mapping is that of the program, by convention.
    let program = match (comment("program: "), tables.mappings.first()) {
        ("", Some(mapping)) => highwater_model::program_name(None, &tables.string(mapping.path)),
        (named, _) => named.to_owned(),
    };
    let is_by_bytes = tables.is(tables.period_type.unit, "bytes");
    let mut notes = Vec::new();
    if is_by_bytes && tables.period == 0 {
        notes.push("the profile does not say how it was sampled; its figures may be estimates".to_owned());
    }
    Source {
        kind: SourceKind::new("pprof"),
        program,
        pid: comment("pid: ").parse().unwrap_or(0),
        host: comment("host: ").to_owned(),
        // The time of a profile is that of its end.
        start_unix_ns: tables.time_nanos.saturating_sub(tables.duration_nanos),
        duration: Nanos(tables.duration_nanos),
        sample_rate: (is_by_bytes && tables.period > 1).then_some(tables.period),
        notes,
        ..Source::default()
    }
}

/// Turns samples into sites.
struct SampleReader<'a> {
    tables: &'a Tables<'a>,
    columns: ValueColumns,
    sample_rate: Option<u64>,
    catalog: Catalog,
    /// The strings that are in the catalog: a long one may be named by many.
    interned: HashMap<u64, StringId>,
    /// The frames of each location, innermost first: a range in `frames`.
    locations: HashMap<u64, (usize, usize)>,
    frames: Vec<FrameId>,
    /// The stacks that a stack and a location make. Most samples share their outer calls.
    known: HashMap<(StackId, u64), StackId>,
    /// A frame about which nothing is known.
    nothing: FrameId,
    sites: Vec<ProfileSite>,
    are_samples_known: bool,
    frames_left: usize,
}

impl<'a> SampleReader<'a> {
    fn new(tables: &'a Tables<'a>, columns: ValueColumns, sample_rate: Option<u64>, bytes: usize) -> Self {
        let mut catalog = Catalog::default();
        let nothing = catalog.stacks.intern_frame(Frame::default());
        let mut reader = Self {
            tables,
            columns,
            sample_rate,
            catalog,
            interned: HashMap::new(),
            locations: HashMap::new(),
            frames: Vec::new(),
            known: HashMap::new(),
            nothing,
            sites: Vec::new(),
            are_samples_known: sample_rate.is_some(),
            frames_left: bytes.saturating_mul(MOST_FRAMES_PER_BYTE).saturating_add(FEW_FRAMES),
        };
        reader.add_locations();
        reader
    }

    fn intern(&mut self, index: u64) -> StringId {
        let Self { tables, catalog, interned, .. } = self;
        *interned.entry(index).or_insert_with(|| catalog.strings.intern(&tables.string(index)))
    }

    fn add_locations(&mut self) {
        let tables = self.tables;
        let mut modules = HashMap::new();
        for mapping in &tables.mappings {
            let (path, build_id) = (self.intern(mapping.path), self.intern(mapping.build_id));
            let MappingMessage { start, end, file_offset, .. } = *mapping;
            if path != StringId::EMPTY {
                let module = Module { path, build_id, start, end, file_offset, ..Module::default() };
                modules.entry(mapping.id).or_insert_with(|| self.catalog.add_module(module) + 1);
            }
        }
        for location in &tables.locations {
            let from = self.frames.len();
            let module = modules.get(&location.mapping).copied().unwrap_or(0);
            self.add_frames(location, module);
            self.locations.insert(location.id, (from, self.frames.len()));
        }
    }

    fn add_frames(&mut self, location: &LocationMessage, module: u32) {
        let bare = Frame { address: location.address, module, ..Frame::default() };
        if location.lines.is_empty() {
            self.frames.push(self.catalog.stacks.intern_frame(bare));
        }
        for (position, line) in location.lines.iter().enumerate() {
            let function = self.tables.functions.get(&line.function).copied().unwrap_or_default();
            let name = if function.name == 0 { function.system_name } else { function.name };
            let file = self.intern(function.file);
            let is_unknown = file == StringId::EMPTY && self.tables.is(name, UNKNOWN_FUNCTION);
            let is_unnamed = is_unknown || (location.lines.len() == 1 && self.is_offset(name, &bare));
            let frame = Frame {
                function: if is_unnamed { StringId::EMPTY } else { self.intern(name) },
                file,
                line: u32::try_from(line.line).unwrap_or(0),
                inlined: position + 1 < location.lines.len(),
                ..bare
            };
            self.frames.push(self.catalog.stacks.intern_frame(frame));
        }
    }

    /// True for `app+0x1234`, the name that code without one has in Highwater's exports.
    fn is_offset(&self, name: u64, bare: &Frame) -> bool {
        let unnamed = self.catalog.frame_text(bare).unnamed_code();
        unnamed.is_some_and(|code| self.tables.is(name, &code.to_string()))
    }

    fn take(&mut self, offset: usize, sample: &SampleMessage) -> Result<(), ProtoFault> {
        let ValueColumns { count, live_space, live_objects, allocated } = self.columns;
        if sample.values.len() != count {
            let what = format!("a sample has {} values, but the profile {count} types", sample.values.len());
            return Err(ProtoFault::new(offset, what));
        }
        if sample.values.iter().any(|value| (*value as i64) < 0) {
            return Err(ProtoFault::new(
                offset,
                "a value is negative: the profile is a difference of two, and only whole ones can be read",
            ));
        }
        let (allocations, allocated_bytes) =
            allocated.map_or((0, 0), |(objects, space)| (sample.values[objects], sample.values[space]));
        let mut site = ProfileSite {
            live_bytes: sample.values[live_space],
            live_blocks: live_objects.map_or(0, |objects| sample.values[objects]),
            allocated_bytes,
            allocations,
            ..ProfileSite::default()
        };
        if site == ProfileSite::default() {
            return Ok(());
        }
        self.count_samples(sample, &mut site);
        site.stack = self.stack(offset, sample)?;
        site.tag = self.tag(sample);
        self.sites.push(site);
        Ok(())
    }

    /// Go's runtime writes estimates of blocks that have the same size, and the size: the number of samples follows from them.
    fn count_samples(&mut self, sample: &SampleMessage, site: &mut ProfileSite) {
        let Some(rate) = self.sample_rate.filter(|_| self.are_samples_known) else { return };
        let size = sample.labels.iter().find(|label| self.tables.is(label.key, "bytes")).map(|label| label.number);
        let behind = |objects, space| samples_behind(objects, space, size.filter(|size| *size > 0)?, rate);
        match (behind(site.live_blocks, site.live_bytes), behind(site.allocations, site.allocated_bytes)) {
            (Some(live), Some(all)) => (site.live_samples, site.samples) = (live, all),
            _ => self.are_samples_known = false,
        }
    }

    fn stack(&mut self, offset: usize, sample: &SampleMessage) -> Result<StackId, ProtoFault> {
        let mut stack = StackId::UNKNOWN;
        // An unknown stack is exported as one call about which nothing is known.
        if let [only] = sample.locations.as_slice()
            && self.locations.get(only).is_some_and(|&(from, to)| self.frames[from..to] == [self.nothing])
        {
            return Ok(stack);
        }
        for id in sample.locations.iter().rev() {
            if let Some(known) = self.known.get(&(stack, *id)) {
                stack = *known;
                continue;
            }
            let Some(&(from, to)) = self.locations.get(id) else {
                return Err(ProtoFault::new(offset, format!("a sample names location {id}, which is missing")));
            };
            let frames = &self.frames[from..to];
            self.frames_left = self.frames_left.checked_sub(frames.len()).ok_or_else(|| {
                ProtoFault::new(offset, "the stacks have more inlined calls than a real program: the file is forged")
            })?;
            let stacks = &mut self.catalog.stacks;
            let inner = frames.iter().rev().fold(stack, |stack, frame| stacks.intern_child(stack, *frame));
            self.known.insert((stack, *id), inner);
            stack = inner;
        }
        Ok(stack)
    }

    /// The type of the blocks, if a label has it.
    fn tag(&mut self, sample: &SampleMessage) -> TagId {
        let is_type = |label: &&LabelMessage| label.text != 0 && self.tables.is(label.key, "type");
        let Some(label) = sample.labels.iter().find(is_type) else { return TagId::NONE };
        match self.intern(label.text) {
            StringId::EMPTY => TagId::NONE,
            type_name => self.catalog.intern_tag(Tag { type_name, ..Tag::default() }),
        }
    }
}
