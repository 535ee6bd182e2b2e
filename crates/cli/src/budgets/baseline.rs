//! Earlier runs, and how the processes of a run are compared with theirs: by the name of their program.

use super::incomplete::{Incomplete, missing_in};
use super::{JudgedLimit, LimitOrigin, Limits, Verdict};
use crate::failure::Failure;
use crate::naming::NameArgs;
use crate::open::{self, OnDamage, Opened};
use crate::print::bytes::bytes;
use crate::process_files::recordings_of_children;
use highwater_model::{Source, without_cargo_hash};
use highwater_query::Query;
use highwater_query::budget::{CheckedLimit, ProcessFigures, Suppressions, comparable, judge_against};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A child that held less at its peak is small: without limits, `record` does not keep its recording, and programs of small processes need no earlier run.
pub const SMALL_CHILD: u64 = 1 << 20;

/// A process, and its figures.
pub(super) struct MeasuredProcess {
    pub source: Source,
    pub figures: ProcessFigures,
    /// Its position in the verdict; of earlier runs 0.
    pub position: usize,
}

/// The processes of a run by the name of their program, without the hash that cargo adds.
pub(super) type ByProgram = BTreeMap<String, Vec<MeasuredProcess>>;

/// Adds a process.
pub(super) fn add_process(all: &mut ByProgram, process: MeasuredProcess) {
    all.entry(without_cargo_hash(&process.source.program).to_owned()).or_default().push(process);
}

/// The earlier runs of a program.
#[derive(Default)]
pub(super) struct EarlierRuns {
    runs: Vec<ByProgram>,
    /// False if there is nothing to compare with, and that is as it should be.
    pub is_compared: bool,
}

/// The recordings of earlier runs: of a folder, the one with the file name of this run's.
fn baseline_files(baselines: &[PathBuf], path: &Path) -> Vec<(PathBuf, bool)> {
    let name = path.file_name().unwrap_or_default();
    let file = |baseline: &PathBuf| match baseline.is_dir() {
        true => Some((baseline.join(name), true)).filter(|(file, _)| file.exists()),
        false => Some((baseline.clone(), false)),
    };
    baselines.iter().filter_map(file).collect()
}

impl Limits {
    /// Reads the earlier runs. One that cannot be compared is refused.
    pub(super) fn earlier_runs(
        &self,
        path: &Path,
        names: &NameArgs,
        verdict: &mut Verdict,
    ) -> Result<EarlierRuns, Failure> {
        let mut earlier = EarlierRuns::default();
        if self.baselines.is_empty() {
            return Ok(earlier);
        }
        let own = open::open(path, OnDamage::Warn)?;
        for (baseline, is_in_folder) in baseline_files(&self.baselines, path) {
            let main = open::open(&baseline, OnDamage::Warn)?;
            let own_name = without_cargo_hash(&own.source().program);
            if self.ran.is_some() && !is_in_folder && without_cargo_hash(&main.source().program) != own_name {
                continue;
            }
            comparable(own.source(), main.source()).map_err(|why| {
                Failure::in_file(&baseline, format_args!("cannot be the baseline of {}: {why}", path.display()))
            })?;
            if !is_in_folder {
                verdict.baselines_used.insert(baseline.clone());
            }
            let children =
                recordings_of_children(&baseline).into_iter().map(|child| open::open(&child, OnDamage::Warn));
            let mut run = ByProgram::new();
            for opened in [Ok(main)].into_iter().chain(children) {
                let opened = opened?;
                if let Some(missing) = missing_in(&opened)?.first() {
                    let line = format_args!("cannot be a baseline: {missing}");
                    return Err(Failure::in_file(opened.path(), line));
                }
                // What a suppression takes out of an earlier run does not make it used in this one.
                let figures = self.figures_of(&opened, names, &mut self.suppressions.clone())?;
                add_process(&mut run, MeasuredProcess { source: opened.source().clone(), figures, position: 0 });
            }
            earlier.runs.push(run);
        }
        let has_folder = self.baselines.iter().any(|baseline| baseline.is_dir());
        earlier.is_compared = self.ran.is_none() || has_folder || !earlier.runs.is_empty();
        if !earlier.is_compared {
            let name = without_cargo_hash(&own.source().program);
            verdict.not_judged.insert(format!("'{name}' is not compared: no baseline is a recording of it"));
        }
        Ok(earlier)
    }

    /// The figures of a process that are compared.
    pub(super) fn figures_of(
        &self,
        opened: &Opened,
        names: &NameArgs,
        suppressions: &mut Suppressions,
    ) -> Result<ProcessFigures, Failure> {
        let naming = names.of(opened)?;
        opened.ask_history(|history, work| {
            let query = Query { naming, ..Query::new(Arc::clone(history)) };
            ProcessFigures::measure(&query, &self.filters, suppressions, work)
        })
    }

    /// Compares the processes of a run with those of the same name in earlier runs.
    pub(super) fn compare(
        &self,
        run: &mut ByProgram,
        earlier: EarlierRuns,
        verdict: &mut Verdict,
    ) -> Result<(), Failure> {
        let mut runs = earlier.runs;
        let names: BTreeSet<String> = run.keys().chain(runs.iter().flat_map(BTreeMap::keys)).cloned().collect();
        for name in names {
            let own = run.remove(&name).unwrap_or_default();
            let known: Vec<Vec<MeasuredProcess>> = runs.iter_mut().filter_map(|run| run.remove(&name)).collect();
            if own.is_empty() || known.is_empty() {
                self.one_sided(&name, &own, &known, runs.len(), verdict);
                continue;
            }
            if let Some(why) = not_comparable(&own, &known) {
                verdict.incomplete.push(Incomplete::not_compared(&name, format!("'{name}' is not compared: {why}")));
                continue;
            }
            let positions: Vec<usize> = own.iter().map(|process| process.position).collect();
            let figures: Vec<ProcessFigures> = own.into_iter().map(|process| process.figures).collect();
            let known: Vec<Vec<ProcessFigures>> =
                known.into_iter().map(|run| run.into_iter().map(|process| process.figures).collect()).collect();
            let compared = judge_against(&figures, &known, &self.filters, self.allowance);
            for one in compared.map_err(Failure::fault)? {
                if let Some(process) = positions.get(one.process).and_then(|at| verdict.processes.get_mut(*at)) {
                    let judged = self.judged(process, one.checked);
                    process.checks.push(judged);
                }
            }
        }
        Ok(())
    }

    /// A program that ran in this run only, or in earlier ones only. It is incomplete, unless its processes are small, or the budget says what is expected of it:
    /// limits of its own, or that it is optional.
    fn one_sided(
        &self,
        name: &str,
        own: &[MeasuredProcess],
        known: &[Vec<MeasuredProcess>],
        runs: usize,
        verdict: &mut Verdict,
    ) {
        let sum = |processes: &[MeasuredProcess]| {
            processes.iter().try_fold(0u64, |sum, process| Some(sum.saturating_add(process.figures.peak().ok()?)))
        };
        let peaks = known.iter().map(Vec::as_slice).chain([own]).map(sum);
        // Unknown is more than any number.
        let most = peaks.map(|peak| peak.unwrap_or(u64::MAX)).max().unwrap_or_default();
        let is_new = known.is_empty();
        let sentence = match (is_new, runs) {
            (true, 0) => format!("there is no baseline for '{name}'"),
            (true, 1) => format!("there is no baseline for '{name}': it did not run in the earlier run"),
            (true, _) => format!("there is no baseline for '{name}': it ran in none of {runs} earlier runs"),
            (false, _) if known.len() == runs => format!("'{name}' ran in the baseline only"),
            (false, _) => format!("'{name}' ran in {} of {} earlier runs only", known.len(), runs),
        };
        let expected = match () {
            () if self.file.optional.contains(name) => Some("it is optional".to_owned()),
            () if self.file.own_name(name).is_some() => Some("it has limits of its own".to_owned()),
            () if most < SMALL_CHILD => Some(format!("its processes held at most {} together", bytes(most))),
            () if !is_new && known.len() < runs => Some("it does not run each time".to_owned()),
            () => None,
        };
        match expected {
            Some(why) => _ = verdict.not_judged.insert(format!("{sentence}, but {why}")),
            None => verdict.incomplete.push(Incomplete::not_compared(
                name,
                format!("{sentence}; [budget] may list it as optional, or have limits for it"),
            )),
        }
    }

    fn judged(&self, process: &super::JudgedProcess, checked: CheckedLimit) -> JudgedLimit {
        JudgedLimit { key: (LimitOrigin::Baseline, checked.limit), lines: process.lines_of(&checked), checked }
    }
}

/// Why processes of one name cannot be compared.
fn not_comparable(own: &[MeasuredProcess], known: &[Vec<MeasuredProcess>]) -> Option<String> {
    let first = &own.first()?.source;
    let others = own.iter().skip(1).chain(known.iter().flatten());
    others.into_iter().find_map(|other| comparable(first, &other.source).err())
}
