//! Writes the seeds of the corpus `lake_file`: small files of each table, by the writer. `cargo run --bin make_lake_seeds`.

use highwater_lake::parquet::{FileProblem, RowCells, TableWriter};
use highwater_lake::rows::{FrameRow, HourRow, Labels, LakeProcess, ProcessRow, ServiceFrame, SiteRow, StackRow};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const SLOT: i64 = 1_763_380_800;

/// A file after the byte that chooses its reader: the number of the table, and 1 if the service is in the path.
fn seed<R: RowCells>(name: &str, table: u8, is_compacted: bool, rows: Vec<R>) -> Result<(), Box<dyn Error>> {
    let mut bytes = vec![table * 2 + u8::from(is_compacted)];
    bytes.extend(file(rows, is_compacted)?);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/lake_file");
    std::fs::create_dir_all(&folder)?;
    Ok(std::fs::write(folder.join(format!("seed-{name}")), bytes)?)
}

fn file<R: RowCells>(rows: Vec<R>, is_compacted: bool) -> Result<Vec<u8>, FileProblem> {
    let mut writer = TableWriter::new(Vec::new(), !is_compacted)?.with_row_group(12);
    writer.extend(rows)?;
    Ok(writer.finish()?.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let labels = Labels { service: "s".into(), version: "1".into(), host: "h".into(), ..Labels::default() };
    let process = Arc::new(LakeProcess { labels, pid: 7, start_us: SLOT * 1_000_000, process_id: -5 });
    let site = |at: i64| SiteRow {
        slot: SLOT + 60 * (at % 3),
        process: Arc::clone(&process),
        stack_id: at / 3,
        site_id: -at,
        sample_period: 0,
        live_bytes: at * 100,
        live_blocks: at,
        alloc_bytes: (at % 2 == 0).then_some(at * 1000),
        alloc_blocks: None,
    };
    let hour = |at: i64| HourRow {
        hour: SLOT,
        process: Arc::clone(&process),
        stack_id: at,
        site_id: -at,
        sample_period: 512,
        n: 60,
        min_bytes: at,
        max_bytes: at * 9,
        sum_bytes: at * 60,
        sum_blocks: at,
        sx: 106_200,
        sxx: 252_756_000,
        sxy: Some(at),
        syy: (at > 4).then_some(at * at),
    };
    let held = |at: i64| ProcessRow {
        slot: SLOT + 60 * at,
        process: Arc::clone(&process),
        sample_period: 0,
        live_bytes: at,
        live_blocks: 1,
        rss_bytes: Some(at * 2),
        limit_bytes: None,
    };
    let stack = |at: i64| StackRow {
        stack_id: at,
        site_id: -at,
        service: "s".into(),
        function: format!("f{}", at % 4),
        type_name: String::new(),
        stack: format!("main;f{}", at % 4),
    };
    let frame = |at: i64| ServiceFrame {
        service: "s".into(),
        frame: FrameRow {
            stack_id: at / 2,
            site_id: -at,
            depth: (at % 2) as i32,
            function: "f".into(),
            line: 3,
            ..FrameRow::default()
        },
    };
    seed("sites", 0, false, (0..30).map(site).collect())?;
    seed("sites-compacted", 0, true, (0..9).map(site).collect())?;
    seed("hours", 1, true, (0..9).map(hour).collect())?;
    seed("processes", 2, false, (0..9).map(held).collect())?;
    seed("stacks", 3, false, (0..20).map(stack).collect())?;
    seed("frames", 4, true, (0..20).map(frame).collect())?;
    seed("nothing", 0, true, Vec::<SiteRow>::new())
}
