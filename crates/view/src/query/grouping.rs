//! Groups a measurement by site, function, file, module, place, thread, type or heap.

use super::names::{own_frame, place};
use super::stacks::MOST_FRAMES;
use crate::measure::{Amount, Amounts, Measured, amount_of};
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::groups::{self, FrameKey, GroupBy, GroupKey};
use highwater_model::{Catalog, Figures, FrameText, StackId};
use std::collections::BTreeMap;

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Whole stacks.
    Site,
    /// Functions.
    Function,
    /// Source files.
    File,
    /// Executables and libraries.
    Module,
    /// Source lines.
    Place,
    /// Threads.
    Thread,
    /// Types.
    Type,
    /// Heaps.
    Heap,
}

impl By {
    /// Their names in requests.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("site", Self::Site),
        ("function", Self::Function),
        ("file", Self::File),
        ("module", Self::Module),
        ("place", Self::Place),
        ("thread", Self::Thread),
        ("type", Self::Type),
        ("heap", Self::Heap),
    ];

    /// True for groupings that figures by stack cannot answer.
    pub fn is_owner(self) -> bool {
        matches!(self, Self::Thread | Self::Type | Self::Heap)
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The group that it stands for.
    pub key: GroupKey,
    /// The amount that it allocated itself.
    pub own: Amount,
    /// The amount including everything that was called from it.
    pub total: Amount,
    /// Its figures, where they are known.
    pub figures: Option<Figures>,
}

impl Row {
    /// The stack that it stands for, if it is a site.
    pub fn site(&self) -> Option<StackId> {
        match self.key {
            GroupKey::Site(stack) => Some(stack),
            _ => None,
        }
    }
}

/// The rows of a measurement, without empty ones; in no particular order.
pub fn rows_of(measured: &Measured, catalog: &Catalog, by: By, work: &Work<'_>) -> Result<Vec<Row>, Problem> {
    let by_frame = |key: &dyn Fn(&FrameText<'_>) -> GroupKey| by_frame(measured, catalog, key, work);
    let mut rows: Vec<Row> = match by {
        By::Site => sites(measured).map(|(stack, own, figures)| row(GroupKey::Site(stack), own, figures)).collect(),
        By::Function => by_frame(&|frame| frame.function_key().into())?,
        By::File => by_frame(&|frame| GroupKey::Name(frame.file.to_owned()))?,
        By::Module => by_frame(&|frame| GroupKey::Name(frame.module.to_owned()))?,
        By::Place => by_frame(&|frame| GroupKey::Name(place(frame)))?,
        By::Thread | By::Type | By::Heap => by_owner(measured, catalog, by),
    };
    rows.retain(|row| !row.total.is_nothing());
    Ok(rows)
}

fn row(key: GroupKey, own: Amount, figures: Option<Figures>) -> Row {
    Row { key, own, total: own, figures }
}

/// The amount of each stack.
pub fn sites(measured: &Measured) -> Box<dyn Iterator<Item = (StackId, Amount, Option<Figures>)> + '_> {
    match &measured.amounts {
        Amounts::Figures { figured, sieve } => {
            let all = figured.snapshot().accounts.sites().iter();
            let wanted = all.filter(|(stack, _)| sieve.passes_stack(*stack));
            let measure = |(stack, figures)| (stack, amount_of(measured.metric, figures), Some(*figures));
            Box::new(wanted.map(measure).filter(|(_, amount, _)| !amount.is_nothing()))
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<StackId, Amount> = BTreeMap::new();
            amounts.iter().for_each(|(owners, amount)| sums.entry(owners.stack).or_default().add(*amount));
            Box::new(sums.into_iter().map(|(stack, amount)| (stack, amount, None)))
        }
    }
}

fn by_frame(
    measured: &Measured,
    catalog: &Catalog,
    key: &dyn Fn(&FrameText<'_>) -> GroupKey,
    work: &Work<'_>,
) -> Result<Vec<Row>, Problem> {
    let mut groups: BTreeMap<GroupKey, Row> = BTreeMap::new();
    let empty = |key: GroupKey| Row { key, own: Amount::default(), total: Amount::default(), figures: None };
    for (stack, amount, figures) in sites(measured) {
        work.go_on()?;
        let frames: Vec<FrameText<'_>> = catalog.frame_texts(stack).take(MOST_FRAMES).collect();
        let own = own_frame(&frames).map_or_else(|| FrameKey::UNKNOWN.into(), |frame| key(&frame));
        let own = groups.entry(own.clone()).or_insert_with(|| empty(own));
        own.own.add(amount);
        if let Some(figures) = figures {
            own.figures.get_or_insert_default().add(&figures);
        }
        let mut keys: Vec<GroupKey> = frames.iter().map(key).collect();
        if keys.is_empty() {
            keys.push(FrameKey::UNKNOWN.into());
        }
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            groups.entry(key.clone()).or_insert_with(|| empty(key)).total.add(amount);
        }
    }
    Ok(groups.into_values().collect())
}

fn by_owner(measured: &Measured, catalog: &Catalog, by: By) -> Vec<Row> {
    match &measured.amounts {
        Amounts::Figures { figured, .. } => {
            let group = match by {
                By::Thread => GroupBy::Thread,
                By::Type => GroupBy::Type,
                _ => GroupBy::Heap,
            };
            let all = groups::rows(figured.snapshot(), group, groups::Metric::Live, None);
            all.into_iter()
                .map(|each| row(each.key, amount_of(measured.metric, &each.figures), Some(each.figures)))
                .collect()
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<GroupKey, Amount> = BTreeMap::new();
            for (owners, amount) in amounts {
                let tag = catalog.tag(owners.tag);
                let key = match by {
                    By::Thread => GroupKey::Thread(owners.thread),
                    By::Type => GroupKey::Name(catalog.strings.get(tag.type_name).to_owned()),
                    _ => GroupKey::Name(tag.heap.name().to_owned()),
                };
                // Blocks without a type are not among the types.
                if by != By::Type || key != GroupKey::Name(String::new()) {
                    sums.entry(key).or_default().add(*amount);
                }
            }
            sums.into_iter().map(|(key, amount)| row(key, amount, None)).collect()
        }
    }
}
