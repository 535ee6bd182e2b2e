//! How a snapshot of a live process was made, in words.

use super::bytes::counted;
use super::figures::Units;
use crate::output::{say, warn};
use highwater_collector::protocol::CutInfo;
use highwater_model::{Nanos, Snapshot};

/// Describes the snapshot on standard error, and warns of its limitations.
pub fn tell(snapshot: &Snapshot, name: &str, pid: u32, cut: &CutInfo) {
    say(&in_a_line(snapshot, name, pid, cut));
    warn_of(cut);
}

/// Warns of a snapshot's limitations.
pub fn warn_of(cut: &CutInfo) {
    warnings(cut).iter().for_each(|line| warn(line));
}

fn in_a_line(snapshot: &Snapshot, name: &str, pid: u32, cut: &CutInfo) -> String {
    let units = Units::of_snapshot(snapshot);
    let figures = &snapshot.accounts.totals().figures;
    let (blocks, bytes) = (units.counted(figures.live_blocks(), "block"), units.bytes(figures.live_bytes()));
    let kind = match (cut.exact, snapshot.is_estimate()) {
        (true, false) => "exact",
        (true, true) => "estimates",
        (false, _) => "not exact",
    };
    let verified = if cut.verified { "verified against the process's own counts" } else { "not verified" };
    let (made, read) = (Nanos(cut.cut_ns), Nanos(cut.scan_ns));
    format!("snapshot of {name} (pid {pid}): {blocks}, {bytes}; {kind}, {verified}; cut in {made}, read in {read}")
}

fn warnings(cut: &CutInfo) -> Vec<String> {
    let mut lines = Vec::new();
    if cut.exited {
        lines.push("the process has exited; this is what it held at its end".to_owned());
    }
    if !cut.exact {
        lines.push(
            "a thread was held up inside of the table: one reallocation for each such thread may be half seen"
                .to_owned(),
        );
    }
    if !cut.verified {
        lines.push(
            "the blocks found are not those that the process's own counts say; the difference is not known".to_owned(),
        );
    }
    if cut.untracked > 0 {
        let blocks = counted(cut.untracked, "block");
        lines.push(format!(
            "{blocks} are not in the table: it was full ('highwater run --max-blocks' sets its limit), or the process got no more memory for it"
        ));
    }
    if cut.unknown_frees > 0 {
        let frees = counted(cut.unknown_frees, "free");
        lines.push(format!("{frees} of blocks that were not in the table"));
    }
    if cut.contents_missing > 0 {
        lines.push(format!(
            "the contents of {} are not there: freed since, or too much to read",
            counted(cut.contents_missing, "block")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> CutInfo {
        CutInfo {
            exact: true,
            verified: true,
            exited: false,
            attempts: 1,
            cut_ns: 400,
            settle_ns: 100,
            scan_ns: 3_000_000,
            untracked: 0,
            unknown_frees: 0,
            contents_missing: 0,
            pages_ns: 0,
            no_pages: String::new(),
        }
    }

    #[test]
    fn a_sound_cut_has_nothing_to_warn_of_and_every_flaw_has_its_line() {
        assert!(warnings(&sound()).is_empty());
        let flawed = CutInfo {
            exact: false,
            verified: false,
            exited: true,
            untracked: 1,
            unknown_frees: 2,
            contents_missing: 3,
            ..sound()
        };
        assert_eq!(warnings(&flawed).len(), 6);
    }
}
