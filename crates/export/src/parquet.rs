//! One row for each site, as Parquet: the columns of the lake's table `sites`, then names, for engines and data frames.

use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use highwater_lake::identity::{FrameIdentity, process_id, site_id, stack_id};
use highwater_lake::parquet::TableWriter;
use highwater_lake::rows::{FrameRow, Labels, LakeProcess, SiteRow, StackRow};
use highwater_lake::{NamedSite, bounded_name, stack_text};
use highwater_model::groups::{GroupBy, GroupKey, rows};
use highwater_model::{FrameText, Naming, SiteTypes, Snapshot};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// `highwater export --to parquet`.
pub struct ParquetExport;

impl ExportFormat for ParquetExport {
    fn key(&self) -> &'static str {
        "parquet"
    }

    fn about(&self) -> &'static str {
        "One row for each call site, with the columns of a lake's sites and their names, for SQL engines"
    }

    fn ending(&self) -> &'static str {
        ".parquet"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self) -> Write {
        Write::Figures(write)
    }
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let source = &snapshot.source;
    let (knows_allocated, knows_blocks) = (source.knows_allocated(), source.knows_live_blocks());
    let naming = options.naming.cloned().unwrap_or_default();
    let mut types =
        source.has_site_types(&snapshot.catalog).then(|| SiteTypes::new(&snapshot.catalog, &Naming::default()));
    let process = Arc::new(process_of(snapshot));
    let slot = signed(source.start_unix_ns.saturating_add(snapshot.at.0) / 1_000_000_000);
    let mut sites: BTreeMap<(i64, i64), NamedSite> = BTreeMap::new();
    for row in rows(snapshot, GroupBy::Site, options.metric, options.keep) {
        let GroupKey::Site(stack) = row.key else { continue };
        let frames: Vec<FrameText<'_>> = snapshot.catalog.frame_texts(stack).collect();
        let names: Vec<String> = frames.iter().map(shown_name).collect();
        let ids = (
            stack_id(frames.iter().zip(&names).filter(|(frame, _)| !frame.inlined).map(identity)),
            site_id(names.iter().map(String::as_str)),
        );
        let figures = &row.figures;
        let site = sites.entry(ids).or_insert_with(|| {
            let own = naming.passing_frames(&frames).min(frames.len().saturating_sub(1));
            let frame = frames.get(own).copied().unwrap_or_default();
            let site_type = types.as_mut().map(|types| types.of(&snapshot.catalog, stack)).filter(|one| one.is_known);
            NamedSite {
                site: SiteRow {
                    slot,
                    process: Arc::clone(&process),
                    stack_id: ids.0,
                    site_id: ids.1,
                    sample_period: source.sample_rate.map_or(0, signed),
                    live_bytes: 0,
                    live_blocks: 0,
                    alloc_bytes: knows_allocated.then_some(0),
                    alloc_blocks: (knows_allocated && knows_blocks).then_some(0),
                },
                stack: StackRow {
                    function: names.get(own).cloned().unwrap_or_default(),
                    type_name: site_type.map(|one| bounded_name(&one.name).to_owned()).unwrap_or_default(),
                    stack: stack_text(names.iter().map(String::as_str)),
                    ..StackRow::default()
                },
                frame: FrameRow {
                    file: bounded_name(frame.file).to_owned(),
                    line: i32::try_from(frame.line).unwrap_or(0),
                    ..FrameRow::default()
                },
            }
        });
        let site = &mut site.site;
        add(&mut site.live_bytes, figures.live_bytes());
        add(&mut site.live_blocks, figures.live_blocks());
        site.alloc_bytes.iter_mut().for_each(|sum| add(sum, figures.allocated_bytes));
        site.alloc_blocks.iter_mut().for_each(|sum| add(sum, figures.allocations));
    }
    let failed = |problem| ExportError::Write(io::Error::other(format!("{problem}")));
    let mut writer = TableWriter::new(Vec::new(), true).map_err(failed)?;
    // By site, as compacted files are.
    let mut sites: Vec<NamedSite> = sites.into_values().collect();
    sites.sort_by_key(|row| (row.site.site_id, row.site.stack_id));
    writer.extend(sites).map_err(failed)?;
    out.write_all(&writer.finish().map_err(failed)?.0)?;
    Ok(())
}

fn add(sum: &mut i64, more: u64) {
    *sum = sum.saturating_add(signed(more));
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The module of code that its program made: its place differs from run to run.
const JIT_MODULE: &str = "[JIT]";

/// As `highwater ship` names frames.
fn shown_name(frame: &FrameText<'_>) -> String {
    if !frame.function.is_empty() {
        return bounded_name(frame.function).to_owned();
    }
    match frame.unnamed_code() {
        Some(code) => code.to_string(),
        None if frame.module.is_empty() => "[unknown]".to_owned(),
        None => frame.module.rsplit('/').next().unwrap_or(frame.module).to_owned(),
    }
}

/// Code where it is known, a name otherwise. A recording with names has both; its code decides, as it does for `highwater ship`.
fn identity<'a>((frame, name): (&FrameText<'a>, &'a String)) -> FrameIdentity<'a> {
    match frame.offset.filter(|_| !frame.module.is_empty() && frame.module != JIT_MODULE) {
        Some(offset) => {
            let module = if frame.build_id.is_empty() { frame.module } else { frame.build_id };
            FrameIdentity::Code { module: module.as_bytes(), offset }
        }
        None => FrameIdentity::Named { function: name, file: frame.file, line: frame.line },
    }
}

fn process_of(snapshot: &Snapshot) -> LakeProcess {
    let source = &snapshot.source;
    let program = source.program.split_whitespace().next().unwrap_or_default();
    let service = program.rsplit('/').next().unwrap_or_default().to_owned();
    let pid = i32::try_from(source.pid).unwrap_or(0);
    let start_us = signed(source.start_unix_ns / 1000);
    // Files do not know the boot of their host.
    let process_id = process_id(&source.host, "", pid, start_us);
    let labels = Labels { service, host: source.host.clone(), ..Labels::default() };
    LakeProcess { labels, pid, start_us, process_id }
}
