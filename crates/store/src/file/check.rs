//! Checking a recording: every checksum, every keyframe against a replay, every law.

use super::errors::RecordingError;
use super::index::Content;
use super::recording::Recording;
use super::walk::WalkItem;
use highwater_model::{Accounts, AccountsState, Anomaly, Figures, NumberLedger, laws};
use std::ops::ControlFlow;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Events replayed.
    pub events: u64,
    /// Keyframes compared with the replay.
    pub keyframes: u64,
    /// Breakdowns of resident memory.
    pub breakdowns: u64,
    /// All violations found, in words.
    pub violations: Vec<String>,
    /// Source locations that the writer of the recording marked as guesses.
    pub guessed_locations: u64,
}

impl Recording {
    /// Replays everything from the first event, without using keyframes, and compares each keyframe with the replayed state and each block's summary
    /// with its result. The laws are checked at every keyframe and at the end. A snapshot has nothing to replay: its figures are compared with its
    /// blocks.
    ///
    /// Damage is not repeated here: [`damage`](Recording::damage) is complete after a check.
    pub fn check(&self, progress: &mut dyn FnMut(f64)) -> Result<CheckReport, RecordingError> {
        if self.is_snapshot() && self.keyframes().next().is_none() {
            return Err(RecordingError::NothingUsable);
        }
        let mut report = CheckReport::default();
        let mut ledger = NumberLedger::default();
        // After an unreadable block, nothing can be compared until the next keyframe.
        let mut lost = false;
        let entries = self.entries();
        let unlisted = self.unlisted()?;
        let mut skipped = unlisted.iter().peekable();
        let mut sequence = entries.first().map_or(0, |entry| entry.sequence);
        for (at, entry) in entries.iter().enumerate() {
            while let Some(block) = skipped.next_if(|block| block.offset < entry.offset) {
                sequence = sequence.wrapping_add(u32::from(block.header.sequence == sequence));
            }
            // Without an index, an unreadable block shows only as a gap in the sequence numbers.
            lost |= entry.sequence != sequence;
            sequence = entry.sequence.wrapping_add(1);
            progress(at as f64 / entries.len() as f64);
            match entry.content {
                Content::Events(summary) => {
                    self.replay(&mut ledger, &entries[at..=at], |seen| {
                        report.events += u64::from(matches!(seen, WalkItem::Step(_, step) if step.op.is_event()));
                        ControlFlow::Continue(())
                    })?;
                    lost |= is_lossy(ledger.accounts())
                        || ledger.accounts().events() != summary.first_event + summary.events;
                    let figures = &ledger.accounts().totals().figures;
                    let reached = (figures.live_bytes(), figures.live_blocks(), ledger.accounts().last_time());
                    let promised = (summary.live_bytes, summary.live_blocks, summary.last_time);
                    if !lost && reached != promised {
                        let what = "the block's summary differs from what its events lead to";
                        report.violations.push(format!("offset {}: {what}", entry.offset));
                    }
                }
                Content::Keyframe(_) => {
                    let Some(stored) = self.keyframe(at)? else { continue };
                    if lost || self.begins_with(at) || ledger.accounts().events() != stored.accounts().events() {
                        ledger = stored;
                        lost = is_lossy(ledger.accounts());
                    } else {
                        report.keyframes += 1;
                        compare(
                            entry.offset,
                            &ledger.accounts().to_state(),
                            &stored.accounts().to_state(),
                            &mut report.violations,
                        );
                    }
                    report.violations.extend(self.violations(ledger.accounts()));
                }
                _ => {}
            }
        }
        if !lost {
            report.violations.extend(self.violations(ledger.accounts()));
        }
        let (breakdowns, violations) = self.check_breakdowns()?;
        report.breakdowns = breakdowns;
        report.violations.extend(violations);
        progress(1.0);
        report.guessed_locations = ledger.accounts().anomalies().get(Anomaly::GuessedLocation);
        report.violations.dedup();
        Ok(report)
    }

    /// The laws that a state of this recording breaks.
    fn violations(&self, accounts: &Accounts) -> Vec<String> {
        if self.source().aggregated { laws::violations_of_figures(accounts) } else { laws::violations(accounts) }
    }
}

fn is_lossy(accounts: &Accounts) -> bool {
    accounts.anomalies().get(Anomaly::LostToDamage) > 0
}

fn compare(offset: u64, replayed: &AccountsState, stored: &AccountsState, violations: &mut Vec<String>) {
    let parts = [
        ("totals", replayed.totals == stored.totals),
        ("anomalies", replayed.anomalies == stored.anomalies),
        ("threads", replayed.threads == stored.threads),
        ("sites", replayed.sites == stored.sites),
        ("types", same_rows(&replayed.tags, &stored.tags)),
        ("live blocks", replayed.blocks == stored.blocks),
        ("number of events", replayed.events == stored.events),
    ];
    for (what, _) in parts.iter().filter(|(_, same)| !same) {
        violations.push(format!("offset {offset}: the keyframe's {what} differ from the replayed ones"));
    }
}

/// Compares rows. Rows that never held anything need not be stored.
fn same_rows(a: &[Figures], b: &[Figures]) -> bool {
    let (shorter, longer) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let (same, rest) = longer.split_at(shorter.len());
    same == shorter && rest.iter().all(Figures::is_empty)
}
