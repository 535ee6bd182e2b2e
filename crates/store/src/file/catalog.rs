//! New entries of the catalog (docs/format.md §5).
//!
//! ```text
//!  for strings, frames, stack nodes, modules, tags, thread names: number of the first entry, count
//!  columns: 0 strings (length, bytes), 1 frames, 2 stack nodes, 3 modules, 4 tags, 5 thread names
//!           6 heaps of tags, 7 resolutions of frames, 8 times of modules, 9 columns of frames, 10 tasks of tags, 11 sizes of types, 12 what frames make, 13 doubtful frames:
//!           remarks on entries, as many as there are bytes for
//! ```
//!
//! Blocks come in the file before the events that refer to them. After damage an entry may be missing: references to it are then shown as unknown, and
//! every later entry keeps its number.

use super::column::{ColumnPacker, ColumnUnpacker};
use super::handles::Handles;
use super::varint::{self, VarintReader};
use highwater_model::{
    Catalog, ColumnRange, Frame, FrameId, Heap, MadeType, Module, Nanos, Resolution, SizeOfType, StackId, StackNode,
    StringId, Tag, TagId, ThreadId, ThreadName,
};
use std::io;
use std::ops::Range;
use std::sync::Arc;

const TABLES: usize = 6;
const STRINGS: usize = 0;
const FRAMES: usize = 1;
const NODES: usize = 2;
const MODULES: usize = 3;
const TAGS: usize = 4;
/// Columns of remarks on entries.
mod remarks {
    pub const HEAPS: u8 = 6;
    pub const RESOLUTIONS: u8 = 7;
    pub const MODULE_TIMES: u8 = 8;
    pub const COLUMNS: u8 = 9;
    pub const TASKS: u8 = 10;
    pub const SIZES: u8 = 11;
    pub const MADE: u8 = 12;
    pub const DOUBTFUL: u8 = 13;
    pub const COUNT: u8 = 14;
}
/// The limit of bytes in one column; the writer starts a new block before it is reached.
const LONGEST_COLUMN: u64 = 1 << 26;
/// The limit of entries of one table in one block.
const MOST_ENTRIES: usize = 1 << 16;
/// The limit of entries of all tables for each byte of the file. It bounds the memory that a small file can make a reader use. If a block's columns
/// are shorter, the writer adds zeros.
pub const MOST_ENTRIES_PER_BYTE: u64 = 2;

/// How much of a catalog is already written: entries per table, resolutions, changes of modules, and facts about types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogExtent {
    tables: [usize; TABLES],
    resolutions: usize,
    module_changes: usize,
    sizes: usize,
    made: usize,
    doubtful: usize,
    is_checked: bool,
}

impl Default for CatalogExtent {
    /// The entries that every catalog has from the start: the empty string, the root stack, the empty tag.
    fn default() -> Self {
        Self {
            tables: [1, 0, 1, 0, 1, 0],
            resolutions: 0,
            module_changes: 0,
            sizes: 0,
            made: 0,
            doubtful: 0,
            is_checked: false,
        }
    }
}

impl CatalogExtent {
    /// The extent of a whole catalog.
    pub fn of(catalog: &Catalog) -> Self {
        let (resolutions, module_changes) = (catalog.stacks.resolutions().len(), catalog.module_changes().len());
        let types = &catalog.types;
        let (sizes, made, doubtful) = (types.sizes().len(), types.made().len(), types.doubtful().len());
        Self {
            tables: extent(catalog),
            resolutions,
            module_changes,
            sizes,
            made,
            doubtful,
            is_checked: types.is_checked(),
        }
    }
}

fn extent(catalog: &Catalog) -> [usize; TABLES] {
    [
        catalog.strings.len(),
        catalog.stacks.frames().len(),
        catalog.stacks.nodes().len(),
        catalog.modules.len(),
        catalog.tags().len(),
        catalog.thread_names().len(),
    ]
}

/// Appends the payload with the next entries of `catalog` after `written`, and advances `written`. Returns false if there are none.
pub fn encode(
    catalog: &Catalog,
    written: &mut CatalogExtent,
    packer: &mut ColumnPacker,
    payload: &mut Vec<u8>,
) -> io::Result<bool> {
    let whole = CatalogExtent::of(catalog);
    if *written == whole {
        return Ok(false);
    }
    let before = *written;
    let start = payload.len();
    let mut entries = 0;
    let mut columns: [Vec<u8>; TABLES] = Default::default();
    for (table, column) in columns.iter_mut().enumerate() {
        let first = written.tables[table];
        let mut next = first;
        while next < whole.tables[table] && next - first < MOST_ENTRIES && column.len() < LONGEST_COLUMN as usize / 2 {
            if table == NODES && !has_frame_below(catalog, next, written.tables[FRAMES]) {
                break;
            }
            put_entry(catalog, table, next, column);
            next += 1;
        }
        written.tables[table] = next;
        entries += (next - first) as u64;
        varint::put(payload, first as u64);
        varint::put(payload, (next - first) as u64);
    }
    for (id, column) in columns.iter().enumerate() {
        packer.add(id as u8, column)?;
    }
    let remarks = [
        (remarks::HEAPS, heaps(catalog, before.tables[TAGS]..written.tables[TAGS])),
        (remarks::RESOLUTIONS, resolutions(catalog, written)),
        (remarks::MODULE_TIMES, module_times(catalog, &before, written)),
        (remarks::COLUMNS, columns_of_frames(catalog, before.tables[FRAMES]..written.tables[FRAMES])),
        (remarks::TASKS, tasks(catalog, before.tables[TAGS]..written.tables[TAGS])),
        (remarks::SIZES, sizes_of_types(catalog, written)),
        (remarks::MADE, made_types(catalog, written)),
        (remarks::DOUBTFUL, doubtful_frames(catalog, written)),
    ];
    for (id, Remarks { column, rows }) in &remarks {
        packer.add(*id, column)?;
        entries += rows;
    }
    packer.finish(payload);
    let least = start + entries.div_ceil(MOST_ENTRIES_PER_BYTE) as usize;
    if payload.len() < least {
        payload.resize(least, 0);
    }
    Ok(true)
}

/// True if the frame of a node is already written, that is, below `written`: a block may hold all its nodes but not all frames.
fn has_frame_below(catalog: &Catalog, node: usize, written: usize) -> bool {
    let frame = catalog.stacks.nodes()[node].frame;
    frame == FrameId::LOST || (frame.0 as usize) < written
}

/// A column of remarks.
#[derive(Default)]
struct Remarks {
    column: Vec<u8>,
    rows: u64,
}

impl Remarks {
    fn put<const COUNT: usize>(&mut self, numbers: [u64; COUNT]) {
        numbers.iter().for_each(|&number| varint::put(&mut self.column, number));
        self.rows += 1;
    }
}

/// The heaps of new tags.
fn heaps(catalog: &Catalog, tags: Range<usize>) -> Remarks {
    let mut remarks = Remarks::default();
    for index in tags {
        let heap = catalog.tags()[index].heap;
        if heap != Heap::Malloc {
            remarks.put([index as u64, heap as u64]);
        }
    }
    remarks
}

/// The tasks of new tags.
fn tasks(catalog: &Catalog, tags: Range<usize>) -> Remarks {
    let mut remarks = Remarks::default();
    for index in tags {
        let task = catalog.tags()[index].task;
        if task != StringId::EMPTY {
            remarks.put([index as u64, task.0.into()]);
        }
    }
    remarks
}

/// The columns of new frames.
fn columns_of_frames(catalog: &Catalog, frames: Range<usize>) -> Remarks {
    let mut remarks = Remarks::default();
    for index in frames {
        let columns = catalog.stacks.frames()[index].columns;
        if columns.are_known() {
            remarks.put([index as u64, columns.start.into(), columns.end.into()]);
        }
    }
    remarks
}

/// New resolutions whose frames are written.
fn resolutions(catalog: &Catalog, written: &mut CatalogExtent) -> Remarks {
    let mut remarks = Remarks::default();
    for resolution in catalog.stacks.resolutions()[written.resolutions..].iter().take(MOST_ENTRIES) {
        let Resolution { frame, first, count } = *resolution;
        let behind = if count == 0 { frame.0 + 1 } else { frame.0.max(first.0 + count - 1) + 1 };
        if behind as usize > written.tables[FRAMES] {
            break;
        }
        remarks.put([frame.0.into(), first.0.into(), count.into()]);
        written.resolutions += 1;
    }
    remarks
}

/// New sizes of types whose names are written.
fn sizes_of_types(catalog: &Catalog, written: &mut CatalogExtent) -> Remarks {
    let mut remarks = Remarks::default();
    for SizeOfType { name, size } in catalog.types.sizes()[written.sizes..].iter().take(MOST_ENTRIES) {
        if name.0 as usize >= written.tables[STRINGS] {
            break;
        }
        remarks.put([name.0.into(), *size]);
        written.sizes += 1;
    }
    remarks
}

/// New facts about what frames make, whose frames and names are written.
fn made_types(catalog: &Catalog, written: &mut CatalogExtent) -> Remarks {
    let mut remarks = Remarks::default();
    for MadeType { frame, name } in catalog.types.made()[written.made..].iter().take(MOST_ENTRIES) {
        if name.0 as usize >= written.tables[STRINGS] || frame.0 as usize >= written.tables[FRAMES] {
            break;
        }
        remarks.put([frame.0.into(), name.0.into()]);
        written.made += 1;
    }
    remarks
}

/// The frame of the remark that says that all frames were looked at: there is no such frame.
const ALL_CHECKED: FrameId = FrameId::LOST;

/// New doubtful frames that are written. Each has a number after it, which is 1.
fn doubtful_frames(catalog: &Catalog, written: &mut CatalogExtent) -> Remarks {
    let mut remarks = Remarks::default();
    for frame in catalog.types.doubtful()[written.doubtful..].iter().take(MOST_ENTRIES) {
        if frame.0 as usize >= written.tables[FRAMES] {
            break;
        }
        remarks.put([frame.0.into(), 1]);
        written.doubtful += 1;
    }
    if catalog.types.is_checked() && !written.is_checked && written.doubtful == catalog.types.doubtful().len() {
        remarks.put([ALL_CHECKED.0.into(), 1]);
        written.is_checked = true;
    }
    remarks
}

/// The times of new modules, and of older ones that were unloaded since the last block.
fn module_times(catalog: &Catalog, before: &CatalogExtent, written: &mut CatalogExtent) -> Remarks {
    let mut remarks = Remarks::default();
    let mut put = |index: usize, module: &Module| {
        remarks.put([index as u64, module.loaded.0, module.unloaded.map_or(0, |time| time.0.saturating_add(1))]);
    };
    let new = before.tables[MODULES]..written.tables[MODULES];
    for index in new.clone() {
        let module = &catalog.modules[index];
        if module.loaded != Nanos(0) || module.unloaded.is_some() {
            put(index, module);
        }
    }
    for &index in catalog.module_changes()[before.module_changes..].iter().take(MOST_ENTRIES) {
        // A module that is not written yet will carry its own times.
        if (index as usize) < new.start {
            put(index as usize, &catalog.modules[index as usize]);
        }
        written.module_changes += 1;
    }
    remarks
}

fn put_entry(catalog: &Catalog, table: usize, index: usize, out: &mut Vec<u8>) {
    let numbers: &[u64] = match table {
        0 => {
            // A name of many megabytes is of no use, and a reader must be able to bound a column.
            let text = catalog.strings.get(StringId(index as u32));
            let cut = text.floor_char_boundary((LONGEST_COLUMN / 4) as usize);
            return varint::put_byte_string(out, &text.as_bytes()[..cut]);
        }
        1 => {
            let frame = catalog.stacks.frames()[index];
            let place = u64::from(frame.module) << 1 | u64::from(frame.inlined);
            &[frame.address, frame.function.0.into(), frame.file.0.into(), frame.line.into(), place]
        }
        2 => {
            let node = catalog.stacks.nodes()[index];
            &[index as u64 - u64::from(node.parent.0), node.frame.0.into()]
        }
        3 => {
            let module = &catalog.modules[index];
            &[module.path.0.into(), module.build_id.0.into(), module.start, module.end, module.file_offset]
        }
        4 => {
            let tag = catalog.tags()[index];
            &[tag.variable.0.into(), tag.type_name.0.into()]
        }
        _ => {
            let entry = catalog.thread_names()[index];
            &[entry.thread.0, entry.name.0.into()]
        }
    };
    numbers.iter().for_each(|&number| varint::put(out, number));
}

/// Adds the entries of a payload at `offset` in its file to `catalog`. `None` if it is malformed; the entries read before the error are added.
pub fn decode(payload: &[u8], offset: u64, catalog: &mut Catalog) -> Option<()> {
    let mut input = VarintReader::new(payload);
    let mut ranges = [(0, 0); TABLES];
    // Missing entries were lost to damage: there must have been room for them before this block.
    let mut earlier_allowed = offset.saturating_mul(MOST_ENTRIES_PER_BYTE);
    let mut allowed = input.length().saturating_mul(MOST_ENTRIES_PER_BYTE);
    for range in &mut ranges {
        let (first, count) = (input.number()?, input.number()?);
        if count > MOST_ENTRIES as u64 {
            return None;
        }
        earlier_allowed = earlier_allowed.checked_sub(first)?;
        allowed = allowed.checked_sub(count)?;
        *range = (first, count);
    }
    let mut unpacker = ColumnUnpacker::new(remarks::COUNT).ok()?;
    unpacker.unpack(input, LONGEST_COLUMN)?;
    for (table, &(first, count)) in ranges.iter().enumerate() {
        fill_gap(catalog, table, first)?;
        let mut column = unpacker.column(table as u8);
        for _ in 0..count {
            read_entry(catalog, table, &mut column)?;
        }
    }
    for id in TABLES as u8..remarks::COUNT {
        let mut column = unpacker.column(id);
        while !column.is_empty() {
            allowed = allowed.checked_sub(1)?;
            read_remark(catalog, id, &mut column)?;
        }
    }
    Some(())
}

/// Reads a remark. A remark on an unknown entry, which damage can cause, is ignored.
fn read_remark(catalog: &mut Catalog, id: u8, input: &mut VarintReader<'_>) -> Option<()> {
    let (subject, number) = (input.number32()?, input.number()?);
    match id {
        remarks::HEAPS => {
            // A later version may know more heaps.
            catalog.set_heap(TagId(subject), Heap::from_number(number).unwrap_or_default());
        }
        remarks::TASKS => {
            catalog.set_task(TagId(subject), StringId(u32::try_from(number).ok()?));
        }
        remarks::RESOLUTIONS => {
            let (first, count) = (FrameId(u32::try_from(number).ok()?), input.number32()?);
            catalog.stacks.push_resolution(Resolution { frame: FrameId(subject), first, count });
        }
        remarks::SIZES => catalog.types.add_size(SizeOfType { name: StringId(subject), size: number }),
        remarks::MADE => {
            let name = StringId(u32::try_from(number).ok()?);
            catalog.types.add_made(MadeType { frame: FrameId(subject), name });
        }
        remarks::DOUBTFUL if FrameId(subject) == ALL_CHECKED => catalog.types.set_checked(),
        remarks::DOUBTFUL => catalog.types.add_doubtful(FrameId(subject)),
        remarks::COLUMNS => {
            let (start, end) = (u16::try_from(number).ok()?, u16::try_from(input.number()?).ok()?);
            catalog.stacks.set_columns(FrameId(subject), ColumnRange { start, end });
        }
        _ => {
            let (loaded, unloaded) = (Nanos(number), input.number()?.checked_sub(1).map(Nanos));
            catalog.set_module_times(subject, loaded, unloaded);
        }
    }
    Some(())
}

/// Reserves the numbers of entries that events refer to although the blocks with these entries are lost, so that no new entry gets those numbers.
pub fn reserve(catalog: &mut Catalog, handles: &Handles) {
    for (table, count) in [(STRINGS, handles.strings), (NODES, handles.stacks), (TAGS, handles.tags)] {
        // A count below the present one is not a gap.
        let _ = fill_gap(catalog, table, count.into());
    }
}

fn fill_gap(catalog: &mut Catalog, table: usize, first: u64) -> Option<()> {
    let lost = first.checked_sub(extent(catalog)[table] as u64)?;
    for _ in 0..lost {
        match table {
            0 => drop(catalog.strings.push(Arc::from("[lost]"))),
            1 => drop(catalog.stacks.push_frame(Frame::default())),
            2 => drop(catalog.stacks.push_node(StackNode { parent: StackId::UNKNOWN, frame: FrameId::LOST })),
            3 => catalog.modules.push(Module::default()),
            4 => drop(catalog.push_tag(Tag::default())),
            _ => {}
        }
    }
    Some(())
}

fn read_entry(catalog: &mut Catalog, table: usize, input: &mut VarintReader<'_>) -> Option<()> {
    match table {
        0 => {
            let text = String::from_utf8_lossy(input.byte_string()?);
            catalog.strings.push(Arc::from(&*text));
        }
        1 => {
            let (address, function, file) = (input.number()?, input.number32()?, input.number32()?);
            let (line, place) = (input.number32()?, input.number32()?);
            catalog.stacks.push_frame(Frame {
                address,
                function: StringId(function),
                file: StringId(file),
                line,
                module: place >> 1,
                inlined: place & 1 != 0,
                columns: ColumnRange::default(),
            });
        }
        2 => {
            let index = catalog.stacks.nodes().len() as u64;
            let parent = index.checked_sub(input.number()?)?;
            let frame = FrameId(input.number32()?);
            let node = StackNode { parent: StackId(u32::try_from(parent).ok()?), frame };
            catalog.stacks.push_node(node).then_some(())?;
        }
        3 => {
            let (path, build_id) = (StringId(input.number32()?), StringId(input.number32()?));
            let (start, end, file_offset) = (input.number()?, input.number()?, input.number()?);
            catalog.modules.push(Module { path, build_id, start, end, file_offset, ..Module::default() });
        }
        4 => {
            let (variable, type_name) = (StringId(input.number32()?), StringId(input.number32()?));
            catalog.push_tag(Tag { variable, type_name, ..Tag::default() });
        }
        _ => {
            let (thread, name) = (ThreadId(input.number()?), StringId(input.number32()?));
            catalog.push_thread_name(ThreadName { thread, name });
        }
    }
    Some(())
}
