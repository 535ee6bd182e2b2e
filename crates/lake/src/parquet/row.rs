//! Rows as values of columns, and back.

use super::write::MAX_TEXT;
use super::{Cell, CellChunk, FileProblem, limit};
use crate::keys::{HOUR, LAST_SLOT};
use crate::rows::{FrameRow, HourRow, Labels, LakeProcess, ProcessRow, ServiceFrame, SiteRow, StackRow};
use crate::table::{ColumnSpec, Table};
use parquet::data_type::ByteArray;
use std::collections::HashMap;
use std::sync::Arc;

/// Live bytes and blocks of one site or process are below it (a pebibyte), so that sums over an hour have 63 bits.
const MAX_FIGURE: i64 = 1 << 50;

/// A row that can be written.
pub trait RowCells {
    /// The table.
    fn table() -> Table;

    /// Columns after those of the table. Readers of the table ignore them.
    #[doc(hidden)]
    fn more_columns() -> &'static [ColumnSpec] {
        &[]
    }

    #[doc(hidden)]
    fn cell(&self, column: usize) -> Cell<'_>;
}

/// A row of a table.
pub trait LakeRow: RowCells + Sized + Send {
    /// The table.
    const TABLE: Table;

    /// By which rows are sorted in a file. Two rows with the same key say the same thing twice.
    type Key: Ord + Copy + Send;

    /// Its key.
    fn key(&self) -> Self::Key;

    /// The service to which it belongs.
    fn service(&self) -> &str;

    /// Its slot, where rows have one.
    fn slot(&self) -> Option<i64>;

    /// Refuses values that cannot be.
    fn check(&self) -> Result<(), FileProblem>;

    /// Bytes that it takes in memory, about, without its process.
    fn weight(&self) -> usize;

    /// Its process, which it shares with other rows.
    fn process(&self) -> Option<&Arc<LakeProcess>> {
        None
    }

    #[doc(hidden)]
    fn assemble(
        chunk: &CellChunk,
        service: Option<&str>,
        names: &mut RowNames,
        rows: &mut Vec<Self>,
    ) -> Result<(), FileProblem>;
}

/// Processes that were read from a file: their rows share them.
#[derive(Default)]
pub struct RowNames {
    processes: HashMap<i64, Arc<LakeProcess>>,
    /// Bytes of their labels.
    bytes: usize,
}

/// What a reader keeps of a file's processes. A file may claim any number of them, with labels of any length.
const MAX_NAMES: usize = 1 << 16;
const MAX_NAME_BYTES: usize = 32 << 20;

struct ProcessCells<'a> {
    service: &'a str,
    version: &'a str,
    region: &'a str,
    host: &'a str,
    container: &'a str,
    pid: i32,
    start_us: i64,
    process_id: i64,
}

impl RowNames {
    fn process(&mut self, cells: &ProcessCells<'_>) -> Arc<LakeProcess> {
        if let Some(known) = self.processes.get(&cells.process_id) {
            let labels = &known.labels;
            if (known.pid, known.start_us) == (cells.pid, cells.start_us)
                && labels.host == cells.host
                && labels.version == cells.version
                && labels.region == cells.region
                && labels.service == cells.service
                && labels.container == cells.container
            {
                return Arc::clone(known);
            }
        }
        let labels = Labels {
            service: cells.service.to_owned(),
            version: cells.version.to_owned(),
            region: cells.region.to_owned(),
            host: cells.host.to_owned(),
            container: cells.container.to_owned(),
        };
        let (pid, start_us, process_id) = (cells.pid, cells.start_us, cells.process_id);
        let process = Arc::new(LakeProcess { labels, pid, start_us, process_id });
        let texts = [cells.service, cells.version, cells.region, cells.host, cells.container];
        self.bytes += texts.iter().map(|text| text.len()).sum::<usize>();
        if self.processes.len() >= MAX_NAMES || self.bytes > MAX_NAME_BYTES {
            self.processes.clear();
            self.bytes = 0;
        }
        self.processes.insert(process_id, Arc::clone(&process));
        process
    }
}

fn utf8<'a>(bytes: &'a ByteArray, column: &'static str) -> Result<&'a str, FileProblem> {
    std::str::from_utf8(bytes.data()).map_err(|_| FileProblem::Damaged(format!("column '{column}' is no UTF-8")))
}

fn impossible(column: &'static str, value: i64) -> Result<(), FileProblem> {
    Err(FileProblem::Impossible { column, value })
}

fn figure(column: &'static str, value: i64) -> Result<(), FileProblem> {
    if (0..MAX_FIGURE).contains(&value) { Ok(()) } else { impossible(column, value) }
}

fn slot_of(value: i64) -> Result<(), FileProblem> {
    if (0..=LAST_SLOT).contains(&value) { Ok(()) } else { impossible("slot", value) }
}

/// The writer refuses longer texts: a row that is read can be written.
fn short_texts(texts: &[&str]) -> Result<(), FileProblem> {
    texts.iter().try_for_each(|text| limit("a text", text.len() as u64, MAX_TEXT))
}

fn short_labels(labels: &Labels) -> Result<(), FileProblem> {
    short_texts(&[&labels.service, &labels.version, &labels.region, &labels.host, &labels.container])
}

fn not_negative(column: &'static str, value: i64) -> Result<(), FileProblem> {
    if value >= 0 { Ok(()) } else { impossible(column, value) }
}

/// The service of a row: that of the path, or of its column.
fn service_of<'a>(
    chunk: &'a CellChunk,
    service: Option<&'a str>,
    column: usize,
    row: usize,
) -> Result<&'a str, FileProblem> {
    match service {
        Some(service) => Ok(service),
        None => utf8(&chunk.texts(column)[row], "service"),
    }
}

impl RowCells for SiteRow {
    fn table() -> Table {
        Table::Sites
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        let labels = &self.process.labels;
        match column {
            0 => Cell::Long(self.slot),
            1 => Cell::Text(&labels.version),
            2 => Cell::Text(&labels.region),
            3 => Cell::Text(&labels.host),
            4 => Cell::Int(self.process.pid),
            5 => Cell::Long(self.process.start_us),
            6 => Cell::Long(self.process.process_id),
            7 => Cell::Long(self.stack_id),
            8 => Cell::Long(self.site_id),
            9 => Cell::Long(self.sample_period),
            10 => Cell::Long(self.live_bytes),
            11 => Cell::Long(self.live_blocks),
            12 => Cell::Optional(self.alloc_bytes),
            13 => Cell::Optional(self.alloc_blocks),
            _ => Cell::Text(&labels.service),
        }
    }
}

impl LakeRow for SiteRow {
    const TABLE: Table = Table::Sites;
    // A series stays together, so that most values are those of the row before, or differ from them by little.
    type Key = (i64, i64, i64, i64);

    fn key(&self) -> Self::Key {
        (self.site_id, self.process.process_id, self.stack_id, self.slot)
    }

    fn service(&self) -> &str {
        &self.process.labels.service
    }

    fn slot(&self) -> Option<i64> {
        Some(self.slot)
    }

    fn check(&self) -> Result<(), FileProblem> {
        slot_of(self.slot)?;
        not_negative("sample_period", self.sample_period)?;
        figure("live_bytes", self.live_bytes)?;
        figure("live_blocks", self.live_blocks)?;
        not_negative("alloc_bytes", self.alloc_bytes.unwrap_or(0))?;
        not_negative("alloc_blocks", self.alloc_blocks.unwrap_or(0))?;
        short_labels(&self.process.labels)
    }

    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    fn process(&self) -> Option<&Arc<LakeProcess>> {
        Some(&self.process)
    }

    fn assemble(
        chunk: &CellChunk,
        service: Option<&str>,
        names: &mut RowNames,
        rows: &mut Vec<Self>,
    ) -> Result<(), FileProblem> {
        let (slots, versions, regions, hosts) = (chunk.longs(0), chunk.texts(1), chunk.texts(2), chunk.texts(3));
        let (pids, starts, processes) = (chunk.ints(4), chunk.longs(5), chunk.longs(6));
        let (stacks, sites, periods) = (chunk.longs(7), chunk.longs(8), chunk.longs(9));
        let (bytes, blocks) = (chunk.longs(10), chunk.longs(11));
        let (alloc_bytes, alloc_blocks) = (chunk.optionals(12), chunk.optionals(13));
        for row in 0..chunk.rows {
            let process = names.process(&ProcessCells {
                service: service_of(chunk, service, 14, row)?,
                version: utf8(&versions[row], "version")?,
                region: utf8(&regions[row], "region")?,
                host: utf8(&hosts[row], "host")?,
                container: "",
                pid: pids[row],
                start_us: starts[row],
                process_id: processes[row],
            });
            rows.push(Self {
                slot: slots[row],
                process,
                stack_id: stacks[row],
                site_id: sites[row],
                sample_period: periods[row],
                live_bytes: bytes[row],
                live_blocks: blocks[row],
                alloc_bytes: alloc_bytes[row],
                alloc_blocks: alloc_blocks[row],
            });
        }
        Ok(())
    }
}

impl RowCells for HourRow {
    fn table() -> Table {
        Table::SitesHour
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        let labels = &self.process.labels;
        match column {
            0 => Cell::Long(self.hour),
            1 => Cell::Text(&labels.version),
            2 => Cell::Text(&labels.region),
            3 => Cell::Text(&labels.host),
            4 => Cell::Int(self.process.pid),
            5 => Cell::Long(self.process.start_us),
            6 => Cell::Long(self.process.process_id),
            7 => Cell::Long(self.stack_id),
            8 => Cell::Long(self.site_id),
            9 => Cell::Long(self.sample_period),
            10 => Cell::Long(self.n),
            11 => Cell::Long(self.min_bytes),
            12 => Cell::Long(self.max_bytes),
            13 => Cell::Long(self.sum_bytes),
            14 => Cell::Long(self.sum_blocks),
            15 => Cell::Long(self.sx),
            16 => Cell::Long(self.sxx),
            17 => Cell::Optional(self.sxy),
            18 => Cell::Optional(self.syy),
            _ => Cell::Text(&labels.service),
        }
    }
}

impl LakeRow for HourRow {
    const TABLE: Table = Table::SitesHour;
    type Key = (i64, i64, i64, i64);

    fn key(&self) -> Self::Key {
        (self.site_id, self.process.process_id, self.stack_id, self.hour)
    }

    fn service(&self) -> &str {
        &self.process.labels.service
    }

    fn slot(&self) -> Option<i64> {
        Some(self.hour)
    }

    fn check(&self) -> Result<(), FileProblem> {
        slot_of(self.hour)?;
        for (column, value) in [
            ("sample_period", self.sample_period),
            ("n", self.n),
            ("min_bytes", self.min_bytes),
            ("max_bytes", self.max_bytes),
            ("sum_bytes", self.sum_bytes),
            ("sum_blocks", self.sum_blocks),
            ("sx", self.sx),
            ("sxx", self.sxx),
            ("sxy", self.sxy.unwrap_or(0)),
            ("syy", self.syy.unwrap_or(0)),
        ] {
            not_negative(column, value)?;
        }
        short_labels(&self.process.labels)?;
        if self.hour % HOUR == 0 { Ok(()) } else { impossible("hour", self.hour) }
    }

    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    fn process(&self) -> Option<&Arc<LakeProcess>> {
        Some(&self.process)
    }

    fn assemble(
        chunk: &CellChunk,
        service: Option<&str>,
        names: &mut RowNames,
        rows: &mut Vec<Self>,
    ) -> Result<(), FileProblem> {
        let (hours, versions, regions, hosts) = (chunk.longs(0), chunk.texts(1), chunk.texts(2), chunk.texts(3));
        let (pids, starts, processes) = (chunk.ints(4), chunk.longs(5), chunk.longs(6));
        for row in 0..chunk.rows {
            let process = names.process(&ProcessCells {
                service: service_of(chunk, service, 19, row)?,
                version: utf8(&versions[row], "version")?,
                region: utf8(&regions[row], "region")?,
                host: utf8(&hosts[row], "host")?,
                container: "",
                pid: pids[row],
                start_us: starts[row],
                process_id: processes[row],
            });
            let sum = |column: usize| chunk.longs(column)[row];
            rows.push(Self {
                hour: hours[row],
                process,
                stack_id: chunk.longs(7)[row],
                site_id: chunk.longs(8)[row],
                sample_period: sum(9),
                n: sum(10),
                min_bytes: sum(11),
                max_bytes: sum(12),
                sum_bytes: sum(13),
                sum_blocks: sum(14),
                sx: sum(15),
                sxx: sum(16),
                sxy: chunk.optionals(17)[row],
                syy: chunk.optionals(18)[row],
            });
        }
        Ok(())
    }
}

impl RowCells for ProcessRow {
    fn table() -> Table {
        Table::Processes
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        let labels = &self.process.labels;
        match column {
            0 => Cell::Long(self.slot),
            1 => Cell::Text(&labels.version),
            2 => Cell::Text(&labels.region),
            3 => Cell::Text(&labels.host),
            4 => Cell::Text(&labels.container),
            5 => Cell::Int(self.process.pid),
            6 => Cell::Long(self.process.start_us),
            7 => Cell::Long(self.process.process_id),
            8 => Cell::Long(self.sample_period),
            9 => Cell::Long(self.live_bytes),
            10 => Cell::Long(self.live_blocks),
            11 => Cell::Optional(self.rss_bytes),
            12 => Cell::Optional(self.limit_bytes),
            _ => Cell::Text(&labels.service),
        }
    }
}

impl LakeRow for ProcessRow {
    const TABLE: Table = Table::Processes;
    type Key = (i64, i64);

    fn key(&self) -> Self::Key {
        (self.process.process_id, self.slot)
    }

    fn service(&self) -> &str {
        &self.process.labels.service
    }

    fn slot(&self) -> Option<i64> {
        Some(self.slot)
    }

    fn check(&self) -> Result<(), FileProblem> {
        slot_of(self.slot)?;
        not_negative("sample_period", self.sample_period)?;
        figure("live_bytes", self.live_bytes)?;
        figure("live_blocks", self.live_blocks)?;
        not_negative("rss_bytes", self.rss_bytes.unwrap_or(0))?;
        not_negative("limit_bytes", self.limit_bytes.unwrap_or(0))?;
        short_labels(&self.process.labels)
    }

    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    fn process(&self) -> Option<&Arc<LakeProcess>> {
        Some(&self.process)
    }

    fn assemble(
        chunk: &CellChunk,
        service: Option<&str>,
        names: &mut RowNames,
        rows: &mut Vec<Self>,
    ) -> Result<(), FileProblem> {
        for row in 0..chunk.rows {
            let text = |column: usize, name| utf8(&chunk.texts(column)[row], name);
            let process = names.process(&ProcessCells {
                service: service_of(chunk, service, 13, row)?,
                version: text(1, "version")?,
                region: text(2, "region")?,
                host: text(3, "host")?,
                container: text(4, "container")?,
                pid: chunk.ints(5)[row],
                start_us: chunk.longs(6)[row],
                process_id: chunk.longs(7)[row],
            });
            rows.push(Self {
                slot: chunk.longs(0)[row],
                process,
                sample_period: chunk.longs(8)[row],
                live_bytes: chunk.longs(9)[row],
                live_blocks: chunk.longs(10)[row],
                rss_bytes: chunk.optionals(11)[row],
                limit_bytes: chunk.optionals(12)[row],
            });
        }
        Ok(())
    }
}

impl RowCells for StackRow {
    fn table() -> Table {
        Table::Stacks
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        match column {
            0 => Cell::Long(self.stack_id),
            1 => Cell::Long(self.site_id),
            2 => Cell::Text(&self.function),
            3 => Cell::Text(&self.type_name),
            4 => Cell::Text(&self.stack),
            _ => Cell::Text(&self.service),
        }
    }
}

impl LakeRow for StackRow {
    const TABLE: Table = Table::Stacks;
    type Key = (i64, i64);

    fn key(&self) -> Self::Key {
        (self.site_id, self.stack_id)
    }

    fn service(&self) -> &str {
        &self.service
    }

    fn slot(&self) -> Option<i64> {
        None
    }

    fn check(&self) -> Result<(), FileProblem> {
        short_texts(&[&self.service, &self.function, &self.type_name, &self.stack])
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.service.len() + self.function.len() + self.type_name.len() + self.stack.len()
    }

    fn assemble(
        chunk: &CellChunk,
        service: Option<&str>,
        _: &mut RowNames,
        rows: &mut Vec<Self>,
    ) -> Result<(), FileProblem> {
        for row in 0..chunk.rows {
            let text = |column: usize, name| utf8(&chunk.texts(column)[row], name).map(str::to_owned);
            rows.push(Self {
                stack_id: chunk.longs(0)[row],
                site_id: chunk.longs(1)[row],
                service: service_of(chunk, service, 5, row)?.to_owned(),
                function: text(2, "function")?,
                type_name: text(3, "type_name")?,
                stack: text(4, "stack")?,
            });
        }
        Ok(())
    }
}

impl RowCells for ServiceFrame {
    fn table() -> Table {
        Table::Frames
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        let frame = &self.frame;
        match column {
            0 => Cell::Long(frame.stack_id),
            1 => Cell::Long(frame.site_id),
            2 => Cell::Int(frame.depth),
            3 => Cell::Text(&frame.function),
            4 => Cell::Text(&frame.file),
            5 => Cell::Int(frame.line),
            6 => Cell::Text(&frame.module),
            7 => Cell::Text(&frame.build_id),
            _ => Cell::Text(&self.service),
        }
    }
}

impl LakeRow for ServiceFrame {
    const TABLE: Table = Table::Frames;
    type Key = (i64, i64, i32);

    fn key(&self) -> Self::Key {
        (self.frame.site_id, self.frame.stack_id, self.frame.depth)
    }

    fn service(&self) -> &str {
        &self.service
    }

    fn slot(&self) -> Option<i64> {
        None
    }

    fn check(&self) -> Result<(), FileProblem> {
        not_negative("depth", self.frame.depth.into())?;
        not_negative("line", self.frame.line.into())?;
        let frame = &self.frame;
        short_texts(&[&self.service, &frame.function, &frame.file, &frame.module, &frame.build_id])
    }

    fn weight(&self) -> usize {
        let frame = &self.frame;
        let texts = [&self.service, &frame.function, &frame.file, &frame.module, &frame.build_id];
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    fn assemble(
        chunk: &CellChunk,
        service: Option<&str>,
        _: &mut RowNames,
        rows: &mut Vec<Self>,
    ) -> Result<(), FileProblem> {
        for row in 0..chunk.rows {
            let text = |column: usize, name| utf8(&chunk.texts(column)[row], name).map(str::to_owned);
            rows.push(Self {
                service: service_of(chunk, service, 8, row)?.to_owned(),
                frame: FrameRow {
                    stack_id: chunk.longs(0)[row],
                    site_id: chunk.longs(1)[row],
                    depth: chunk.ints(2)[row],
                    function: text(3, "function")?,
                    file: text(4, "file")?,
                    line: chunk.ints(5)[row],
                    module: text(6, "module")?,
                    build_id: text(7, "build_id")?,
                },
            });
        }
        Ok(())
    }
}
