//! One snapshot of all live processes: a table, or one pprof file.

use super::delivery::Delivery;
use super::socket::Asking;
use super::taken::TakenSnapshot;
use crate::commands::export::is_uncompressed;
use crate::failure::Failure;
use crate::output::{Output, warn};
use crate::print::bytes::{bytes, count};
use crate::print::colour::Style;
use crate::print::table::{Align, Cell, Table};
use crate::target::write_file;
use highwater_collector::protocol::{Detail, ProcessInfo, ProcessState};
use highwater_collector::{CollectorClient, Taken};
use highwater_formats::json;
use highwater_formats::pprof::{PprofOptions, PprofProcess, PprofWriter};
use serde_json::json;
use std::path::Path;

/// Takes the snapshots one right after the other, then shows or writes them.
pub fn run(delivery: &Delivery, collector: &Asking, output: &mut Output) -> Result<(), Failure> {
    let target = delivery.profile_of_all()?;
    let mut client = collector.connect()?;
    let processes = client.processes().map_err(Failure::fault)?;
    let live: Vec<&ProcessInfo> = processes.iter().filter(|process| process.state == ProcessState::Live).collect();
    if live.is_empty() {
        return Err(Failure::fault("no live process is registered; 'highwater run PROGRAM' starts one that is"));
    }
    let detail = if target.is_some() || !delivery.filters().is_empty() { Detail::Blocks } else { Detail::Sites };
    let taken = take(&mut client, &live, detail)?;
    match target {
        Some(path) => write(path, delivery, taken, output),
        None => show(delivery, taken, output),
    }
}

/// The snapshots of processes that are still there. The others are warned of.
fn take<'a>(
    client: &mut CollectorClient,
    live: &[&'a ProcessInfo],
    detail: Detail,
) -> Result<Vec<(&'a ProcessInfo, Taken)>, Failure> {
    let mut all = Vec::new();
    for process in live {
        match client.snapshot(process.pid, detail, None) {
            Ok(taken) => all.push((*process, taken)),
            Err(error) => warn(&format!("process {} ({}) is left out: {error}", process.pid, process.name)),
        }
    }
    if all.is_empty() { Err(Failure::fault("no process could be read")) } else { Ok(all) }
}

fn write(
    path: &Path,
    delivery: &Delivery,
    taken: Vec<(&ProcessInfo, Taken)>,
    output: &mut Output,
) -> Result<(), Failure> {
    let keep = delivery.keep();
    let keep = keep.as_ref().map(|keep| keep as &dyn Fn(&str) -> bool);
    let options = PprofOptions {
        metric: delivery.metric(),
        keep,
        per_block: delivery.is_per_block(),
        uncompressed: is_uncompressed(path),
    };
    let number = taken.len();
    write_file(path, delivery.overwrite(), |out| {
        let cannot_write = |error: std::io::Error| Failure::writing_file(path, &error);
        let mut symbolizer = delivery.symbolizer();
        let mut writer = PprofWriter::new(out, options);
        for (process, taken) in taken {
            let opened = TakenSnapshot::open(taken.file, &delivery.filters(), &mut symbolizer)?;
            let process = PprofProcess { name: &process.name, pid: process.pid };
            writer.add(&opened.snapshot, Some(process)).map_err(cannot_write)?;
        }
        writer.finish().map_err(cannot_write)
    })?;
    let processes = if number == 1 { "1 process".to_owned() } else { format!("{} processes", count(number as u64)) };
    output.line(&format!("{}: {processes}", path.display()))
}

fn show(delivery: &Delivery, taken: Vec<(&ProcessInfo, Taken)>, output: &mut Output) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (process, taken) in taken {
        let cut = taken.cut;
        let opened = TakenSnapshot::open(taken.file, &delivery.filters(), &mut delivery.symbolizer())?;
        let figures = opened.snapshot.accounts.totals().figures;
        let is_estimate = opened.snapshot.is_estimate();
        rows.push((process, cut, figures.live_bytes(), figures.live_blocks(), is_estimate));
    }
    rows.sort_by_key(|(process, _, live_bytes, ..)| (std::cmp::Reverse(*live_bytes), process.pid));
    let all_bytes = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.2));
    let all_blocks = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.3));
    let any_estimate = rows.iter().any(|row| row.4);
    if delivery.is_json() {
        let list: Vec<_> = rows
            .iter()
            .map(|(process, cut, live_bytes, live_blocks, is_estimate)| {
                json!({
                    "pid": process.pid,
                    "name": process.name,
                    "live_bytes": live_bytes,
                    "live_blocks": live_blocks,
                    "is_estimate": is_estimate,
                    "cut": cut.to_json(),
                })
            })
            .collect();
        return output.json(json!({
            "schema": json::SCHEMA,
            "command": "snapshot",
            "live_bytes": all_bytes,
            "live_blocks": all_blocks,
            "processes": list,
        }));
    }
    let mut table = Table::default()
        .column(Align::Right, "share")
        .column(Align::Right, "live")
        .column(Align::Right, "blocks")
        .column(Align::Right, "pid")
        .column(Align::Left, "process");
    let about = |is_estimate: bool| if is_estimate { "~" } else { "" };
    let mut row = |live_bytes: u64, blocks: u64, is_estimate: bool, pid: String, name: Cell| {
        let share = live_bytes as f64 * 100.0 / all_bytes.max(1) as f64;
        let about = about(is_estimate);
        table.row(vec![
            format!("{share:.1}%").into(),
            format!("{about}{}", bytes(live_bytes)).into(),
            format!("{about}{}", count(blocks)).into(),
            pid.into(),
            name,
        ]);
    };
    for (process, _, live_bytes, live_blocks, is_estimate) in &rows {
        row(*live_bytes, *live_blocks, *is_estimate, process.pid.to_string(), process.name.as_str().into());
    }
    row(all_bytes, all_blocks, any_estimate, String::new(), Cell::new(Style::Bold, "all"));
    output.text(&table.render(output.paint, output.width))
}
