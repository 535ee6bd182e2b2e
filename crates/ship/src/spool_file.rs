//! A batch as a file of the spool: compressed, with a checksum.
//!
//! The content is a list of processes, then the rows of each table; numbers are little-endian, texts and lists have their length before them. The file is read by the
//! version that wrote it, or by its successor after an update; the first bytes tell formats apart.

use highwater_lake::rows::{Batch, FrameRow, Labels, LakeProcess, ProcessRow, SiteRow, StackRow};
use rustc_hash::FxHashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"HWspool1";
/// Fast: a spool file lives for minutes.
const LEVEL: i32 = 1;
/// A file that expands to more is not read.
const MOST_BYTES: u64 = 4 << 30;

/// Why a file of the spool is not used.
#[derive(Debug, thiserror::Error)]
pub enum SpoolFileError {
    /// It is incomplete, damaged, or no file of a spool.
    #[error("is incomplete or damaged")]
    Damaged,
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A batch as the bytes of a file.
pub fn encode_batch(batch: &Batch) -> io::Result<Vec<u8>> {
    let mut numbers: FxHashMap<&LakeProcess, u64> = FxHashMap::default();
    let mut processes: Vec<&LakeProcess> = Vec::new();
    let rows = batch.processes.iter().map(|row| &row.process).chain(batch.sites.iter().map(|row| &row.process));
    // Neighbours have the same process; only the first of them is looked up.
    let mut last: Option<(&Arc<LakeProcess>, u64)> = None;
    let of_rows: Vec<u64> = rows
        .map(|process| {
            if let Some((known, number)) = last
                && Arc::ptr_eq(known, process)
            {
                return number;
            }
            let number = *numbers.entry(process).or_insert_with(|| {
                processes.push(process);
                processes.len() as u64 - 1
            });
            last = Some((process, number));
            number
        })
        .collect();
    let mut out = Content(Vec::with_capacity(64 * (batch.sites.len() + batch.frames.len()) + 4096));
    out.number(processes.len() as u64);
    for process in processes {
        let Labels { service, version, region, host, container } = &process.labels;
        [service, version, region, host, container].into_iter().for_each(|text| out.text(text));
        [process.pid.into(), process.start_us, process.process_id].into_iter().for_each(|number| out.signed(number));
    }
    let (of_processes, of_sites) = of_rows.split_at(batch.processes.len());
    out.number(batch.processes.len() as u64);
    for (row, process) in batch.processes.iter().zip(of_processes) {
        out.number(*process);
        [row.slot, row.sample_period, row.live_bytes, row.live_blocks]
            .into_iter()
            .for_each(|number| out.signed(number));
        [row.rss_bytes, row.limit_bytes].into_iter().for_each(|number| out.perhaps(number));
    }
    out.number(batch.sites.len() as u64);
    for (row, process) in batch.sites.iter().zip(of_sites) {
        out.number(*process);
        [row.slot, row.stack_id, row.site_id, row.sample_period, row.live_bytes, row.live_blocks]
            .into_iter()
            .for_each(|number| out.signed(number));
        [row.alloc_bytes, row.alloc_blocks].into_iter().for_each(|number| out.perhaps(number));
    }
    out.number(batch.stacks.len() as u64);
    for row in &batch.stacks {
        [row.stack_id, row.site_id].into_iter().for_each(|number| out.signed(number));
        [&row.service, &row.function, &row.type_name, &row.stack].into_iter().for_each(|text| out.text(text));
    }
    out.number(batch.frames.len() as u64);
    for row in &batch.frames {
        [row.stack_id, row.site_id, row.depth.into(), row.line.into()]
            .into_iter()
            .for_each(|number| out.signed(number));
        [&row.function, &row.file, &row.module, &row.build_id].into_iter().for_each(|text| out.text(text));
    }
    let mut encoder = zstd::Encoder::new(MAGIC.to_vec(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.write_all(&out.0)?;
    encoder.finish()
}

/// A batch from the bytes of a file.
pub fn decode_batch(bytes: &[u8]) -> Result<Batch, SpoolFileError> {
    let compressed = bytes.strip_prefix(&MAGIC).ok_or(SpoolFileError::Damaged)?;
    let mut content = Vec::new();
    let decoder = zstd::Decoder::new(compressed).map_err(|_| SpoolFileError::Damaged)?;
    decoder.take(MOST_BYTES).read_to_end(&mut content).map_err(|_| SpoolFileError::Damaged)?;
    parse(&content).ok_or(SpoolFileError::Damaged)
}

fn parse(content: &[u8]) -> Option<Batch> {
    let mut rest = ContentReader(content);
    let mut batch = Batch::default();
    let mut processes: Vec<Arc<LakeProcess>> = Vec::new();
    for _ in 0..rest.number()? {
        let labels = Labels {
            service: rest.text()?,
            version: rest.text()?,
            region: rest.text()?,
            host: rest.text()?,
            container: rest.text()?,
        };
        let pid = rest.small()?;
        processes.push(Arc::new(LakeProcess { labels, pid, start_us: rest.signed()?, process_id: rest.signed()? }));
    }
    let process = |number: u64| processes.get(usize::try_from(number).ok()?).map(Arc::clone);
    for _ in 0..rest.number()? {
        batch.processes.push(ProcessRow {
            process: process(rest.number()?)?,
            slot: rest.signed()?,
            sample_period: rest.signed()?,
            live_bytes: rest.signed()?,
            live_blocks: rest.signed()?,
            rss_bytes: rest.perhaps()?,
            limit_bytes: rest.perhaps()?,
        });
    }
    for _ in 0..rest.number()? {
        batch.sites.push(SiteRow {
            process: process(rest.number()?)?,
            slot: rest.signed()?,
            stack_id: rest.signed()?,
            site_id: rest.signed()?,
            sample_period: rest.signed()?,
            live_bytes: rest.signed()?,
            live_blocks: rest.signed()?,
            alloc_bytes: rest.perhaps()?,
            alloc_blocks: rest.perhaps()?,
        });
    }
    for _ in 0..rest.number()? {
        batch.stacks.push(StackRow {
            stack_id: rest.signed()?,
            site_id: rest.signed()?,
            service: rest.text()?,
            function: rest.text()?,
            type_name: rest.text()?,
            stack: rest.text()?,
        });
    }
    for _ in 0..rest.number()? {
        let (stack_id, site_id) = (rest.signed()?, rest.signed()?);
        let (depth, line) = (rest.small()?, rest.small()?);
        let (function, file) = (rest.text()?, rest.text()?);
        let (module, build_id) = (rest.text()?, rest.text()?);
        batch.frames.push(FrameRow { stack_id, site_id, depth, function, file, line, module, build_id });
    }
    rest.0.is_empty().then_some(batch)
}

struct Content(Vec<u8>);

impl Content {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn signed(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn perhaps(&mut self, number: Option<i64>) {
        self.0.push(number.is_some().into());
        number.into_iter().for_each(|number| self.signed(number));
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// What is left of the content.
struct ContentReader<'a>(&'a [u8]);

impl ContentReader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn signed(&mut self) -> Option<i64> {
        self.number().map(|number| number as i64)
    }

    fn small(&mut self) -> Option<i32> {
        i32::try_from(self.signed()?).ok()
    }

    fn perhaps(&mut self) -> Option<Option<i64>> {
        let (&known, rest) = self.0.split_first()?;
        self.0 = rest;
        match known {
            0 => Some(None),
            1 => self.signed().map(Some),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Writes a file as a whole: it is there with all of its bytes, or not at all, even after a power failure.
pub fn write_durably(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = file.with_extension("unfinished");
    let write = || {
        let mut written = File::create(&unfinished)?;
        written.write_all(bytes)?;
        written.sync_all()?;
        fs::rename(&unfinished, file)
    };
    // A full disk is not made fuller.
    write().inspect_err(|_| _ = fs::remove_file(&unfinished))?;
    sync_folder(file.parent().unwrap_or(Path::new(".")))
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process() -> impl Strategy<Value = Arc<LakeProcess>> {
        (prop::collection::vec(".{0,6}", 5), any::<i32>(), any::<i64>()).prop_map(|(labels, pid, start_us)| {
            let mut labels = labels.into_iter();
            let mut label = || labels.next().unwrap_or_default();
            let labels =
                Labels { service: label(), version: label(), region: label(), host: label(), container: label() };
            Arc::new(LakeProcess { labels, pid, start_us, process_id: start_us ^ 7 })
        })
    }

    prop_compose! {
        fn batch()(
            processes in prop::collection::vec(process(), 1..4),
            rows in prop::collection::vec((any::<usize>(), any::<[i64; 6]>(), any::<[Option<i64>; 2]>()), 0..20),
            texts in prop::collection::vec((any::<[i64; 2]>(), any::<[i32; 2]>(), prop::collection::vec(".{0,9}", 4)), 0..5),
        ) -> Batch {
            let process = |at: usize| Arc::clone(&processes[at % processes.len()]);
            let mut batch = Batch::default();
            for (at, [slot, stack_id, site_id, sample_period, live_bytes, live_blocks], [one, other]) in rows {
                batch.processes.push(ProcessRow {
                    slot, process: process(at), sample_period, live_bytes, live_blocks, rss_bytes: one, limit_bytes: other,
                });
                batch.sites.push(SiteRow {
                    slot, process: process(at / 2), stack_id, site_id, sample_period, live_bytes, live_blocks,
                    alloc_bytes: other, alloc_blocks: one,
                });
            }
            for ([stack_id, site_id], [depth, line], texts) in texts {
                let text = |at: usize| texts[at].clone();
                batch.stacks.push(StackRow { stack_id, site_id, service: text(0), function: text(1), type_name: text(2), stack: text(3) });
                batch.frames.push(FrameRow { stack_id, site_id, depth, function: text(3), file: text(2), line, module: text(1), build_id: text(0) });
            }
            batch
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_damage_is_noticed(batch in batch(), at in any::<usize>(), cut in any::<usize>()) {
            let bytes = encode_batch(&batch).unwrap();
            prop_assert_eq!(decode_batch(&bytes).unwrap(), batch);
            prop_assert!(decode_batch(&bytes[..cut % bytes.len()]).is_err());
            let mut damaged = bytes.clone();
            let at = at % bytes.len();
            damaged[at] ^= 0x10;
            // A bit of the header of the compression may be unused; what is read is then the same.
            if let Ok(read) = decode_batch(&damaged) {
                prop_assert_eq!(read, decode_batch(&bytes).unwrap());
            }
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
            let _ = decode_batch(&[&MAGIC[..], &bytes].concat());
        }
    }
}
