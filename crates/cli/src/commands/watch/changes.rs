//! The rows of a look, and how they changed since earlier ones.

use super::looks::Look;
use crate::print::bytes::counted;
use crate::print::colour::Style;
use crate::print::figures::{Units, blocks_handed_out};
use crate::print::heading;
use clap::ValueEnum;
use highwater_collector::protocol::ProcessInfo;
use highwater_model::groups::{GroupBy, Metric, Row, rows_named};
use highwater_model::{CatalogIdentities, RowIdentities, RowIdentity, TooManyCalls};
use highwater_query::key_text;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Which rows come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WatchOrder {
    /// Those that hold most
    #[default]
    Live,
    /// Those that grew most since watching began
    Growth,
    /// Those that grew most since the last look
    Lately,
    /// Those with most blocks
    Blocks,
    /// By name
    Name,
}

/// The figures of one look.
pub struct WatchedFigures {
    /// When it was.
    pub at: Instant,
    /// Live bytes of the process.
    pub live_bytes: u64,
    live_blocks: u64,
    handed_out: u64,
    /// The live bytes of each row.
    rows: HashMap<RowIdentity, u64>,
}

/// A row with its changes.
pub struct Watched {
    /// The same in every look.
    pub identity: RowIdentity,
    /// The row.
    pub row: Row,
    /// The change of its live bytes since the first look.
    pub growth: i128,
    /// The same since the last look.
    pub lately: i128,
}

/// The rows of a look. Rows with the same displayed name are merged.
pub fn rows_of(
    look: &Look,
    by: GroupBy,
    identities: &mut RowIdentities,
) -> Result<Vec<(RowIdentity, Row)>, TooManyCalls> {
    let mut merged: Vec<(RowIdentity, Row)> = Vec::new();
    let mut indexes: HashMap<RowIdentity, usize> = HashMap::new();
    let mut known = CatalogIdentities::default();
    for row in rows_named(&look.snapshot, by, Metric::Live, None, &look.naming) {
        let identity = identities.of(&look.snapshot.catalog, &mut known, &row.key)?;
        match indexes.get(&identity) {
            Some(&index) => {
                merged[index].1.figures.add(&row.figures);
                merged[index].1.inclusive.add(&row.inclusive);
            }
            None => {
                indexes.insert(identity, merged.len());
                merged.push((identity, row));
            }
        }
    }
    Ok(merged)
}

impl WatchedFigures {
    /// The figures of a look with these rows.
    pub fn of(look: &Look, rows: &[(RowIdentity, Row)]) -> Self {
        let figures = &look.snapshot.accounts.totals().figures;
        Self {
            at: look.at,
            live_bytes: figures.live_bytes(),
            live_blocks: figures.live_blocks(),
            handed_out: blocks_handed_out(figures),
            rows: rows.iter().map(|(identity, row)| (*identity, row.figures.live_bytes())).collect(),
        }
    }
}

/// The rows with their changes since the first look and since the last one, without those that hold nothing and did not change.
pub fn watched(
    rows: Vec<(RowIdentity, Row)>,
    first: Option<&WatchedFigures>,
    last: Option<&WatchedFigures>,
) -> Vec<Watched> {
    let changed = |(identity, row): (RowIdentity, Row)| {
        let live = row.figures.live_bytes();
        let since = |then: Option<&WatchedFigures>| {
            then.map_or(0, |then| i128::from(live) - i128::from(then.rows.get(&identity).copied().unwrap_or(0)))
        };
        Watched { identity, growth: since(first), lately: since(last.or(first)), row }
    };
    let mut watched: Vec<Watched> = rows.into_iter().map(changed).collect();
    watched.retain(|one| one.row.figures.live_bytes() > 0 || one.growth != 0 || one.lately != 0);
    watched
}

impl WatchOrder {
    /// Sorts rows of a look. Equal rows keep their order.
    pub fn sort(self, rows: &mut [Watched], look: &Look) {
        if self == Self::Name {
            let name = |one: &Watched| key_text(&look.naming, &look.snapshot.catalog, &one.row.key).to_lowercase();
            return rows.sort_by_cached_key(name);
        }
        rows.sort_by_key(|one| {
            let (live, blocks) = (one.row.figures.live_bytes().into(), one.row.figures.live_blocks().into());
            Reverse(match self {
                Self::Live | Self::Name => (live, one.growth),
                Self::Growth => (one.growth, live),
                Self::Lately => (one.lately, live),
                Self::Blocks => (blocks, live),
            })
        });
    }
}

/// What growth refers to, unless the user chose another instant.
pub const SINCE_THE_BEGINNING: &str = "since watching began";

/// A look, with the earlier ones to compare it with.
#[derive(Clone, Copy)]
pub struct Compared<'a> {
    pub process: &'a ProcessInfo,
    pub by: GroupBy,
    pub look: &'a Look,
    pub rows: &'a [Watched],
    pub seen: &'a WatchedFigures,
    pub first: &'a WatchedFigures,
    /// What `first` is, in words.
    pub since: &'static str,
    pub last: Option<&'a WatchedFigures>,
}

impl Compared<'_> {
    /// Time since the first look.
    pub fn elapsed(&self) -> Duration {
        self.seen.at.saturating_duration_since(self.first.at)
    }

    /// The change in bytes and blocks since the first look.
    pub fn growth(&self) -> (i128, i128) {
        let between = |now: u64, then: u64| i128::from(now) - i128::from(then);
        (between(self.seen.live_bytes, self.first.live_bytes), between(self.seen.live_blocks, self.first.live_blocks))
    }

    /// Allocations per second since the last look.
    pub fn rate(&self) -> Option<u64> {
        let then = self.last.unwrap_or(self.first);
        let seconds = self.seen.at.saturating_duration_since(then.at).as_secs_f64();
        let allocations = self.seen.handed_out.saturating_sub(then.handed_out);
        (seconds > 0.0).then(|| (allocations as f64 / seconds) as u64)
    }

    /// How figures are written.
    pub fn units(&self) -> Units {
        Units::of_snapshot(&self.look.snapshot)
    }

    /// What is live: `12.4 MiB in 1,204 blocks`.
    pub fn live(&self) -> String {
        heading::live(self.units(), &self.look.snapshot.accounts.totals().figures)
    }

    /// What limits the figures.
    pub fn flaws(&self) -> Vec<String> {
        let cut = &self.look.cut;
        let untracked = (cut.untracked > 0).then(|| format!("{} not followed", counted(cut.untracked, "block")));
        untracked.into_iter().chain((!cut.verified).then(|| "not verified".to_owned())).collect()
    }
}

/// How a change is shown.
pub fn style_of(change: i128) -> Style {
    match change {
        0 => Style::Dim,
        1.. => Style::Red,
        _ => Style::Green,
    }
}
