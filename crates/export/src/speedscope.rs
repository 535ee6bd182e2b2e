//! Profiles for <https://www.speedscope.app>.
//!
//! Each metric is a profile of its own, of type "sampled": one sample for each site, weighted with its bytes or blocks. The chosen metric comes first,
//! and the viewer opens it. Samples are in the order of a walk through the tree of calls, so that the view "time order" is a flame graph too.
//!
//! Format: <https://www.speedscope.app/file-format-schema.json>.

use crate::call_tree::{CallTree, Interned, frame_name};
use crate::format::{ExportError, ExportFormat, ExportOptions, Write};
use crate::json_stream::{list, value, values};
use highwater_model::Snapshot;
use highwater_model::groups::Metric;
use serde::Serialize;
use serde_json::json;
use std::io;

/// A speedscope file.
pub struct SpeedscopeExport;

impl ExportFormat for SpeedscopeExport {
    fn key(&self) -> &'static str {
        "speedscope"
    }

    fn about(&self) -> &'static str {
        "JSON for speedscope.app: live bytes, allocated bytes and allocations, by call stack"
    }

    fn ending(&self) -> &'static str {
        ".speedscope.json"
    }

    fn write(&self) -> Write {
        Write::Figures(write)
    }
}

/// A frame as the format has it: what is not known is left out.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct SpeedscopeFrame {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// The chosen metric, then the others that a snapshot has.
fn metrics(snapshot: &Snapshot, chosen: Metric) -> Vec<Metric> {
    let mut metrics = vec![chosen];
    for other in [Metric::Live, Metric::Allocated, Metric::Allocations] {
        let is_same = other == chosen || (other == Metric::Live && chosen.is_live());
        let is_known = other == Metric::Live || snapshot.source.knows_allocated();
        if !is_same && is_known {
            metrics.push(other);
        }
    }
    metrics
}

fn write(snapshot: &Snapshot, options: &ExportOptions<'_>, out: &mut dyn io::Write) -> Result<(), ExportError> {
    let mut frames = Interned::default();
    let tree = CallTree::of(snapshot, options.metric, options.keep, |frame| {
        let line = (frame.line != 0).then_some(frame.line);
        frames.place(SpeedscopeFrame { name: frame_name(frame), file: frame.file.to_owned(), line })
    })?;
    let order = tree.depth_first();
    write!(out, r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","name":"#)?;
    value(&snapshot.source.program, out)?;
    write!(
        out,
        r#","exporter":"highwater {}","activeProfileIndex":0,"shared":{{"frames":"#,
        env!("CARGO_PKG_VERSION")
    )?;
    values(frames.values(), out)?;
    out.write_all(b"},\"profiles\":")?;
    list(metrics(snapshot, options.metric), out, |metric, out| write_profile(&tree, &order, metric, out))?;
    out.write_all(b"}\n")?;
    Ok(())
}

fn write_profile(tree: &CallTree, order: &[u32], metric: Metric, out: &mut dyn io::Write) -> io::Result<()> {
    let sums = tree.sums(|figures| metric.of(figures));
    let total = sums.iter().fold(0, |total: u64, sum| total.saturating_add(*sum));
    let unit = if metric.is_bytes() { "bytes" } else { "none" };
    let samples = || order.iter().copied().filter(|call| sums[*call as usize] != 0);
    write!(
        out,
        r#"{{"type":"sampled","name":{},"unit":"{unit}","startValue":0,"endValue":{total},"samples":"#,
        json!(metric.in_words())
    )?;
    let mut stack = Vec::new();
    list(samples(), out, |call, out| {
        stack.clear();
        stack.extend(tree.frames_of(call));
        values(stack.iter().rev(), out)
    })?;
    out.write_all(b",\"weights\":")?;
    values(samples().map(|call| sums[call as usize]), out)?;
    out.write_all(b"}")
}
