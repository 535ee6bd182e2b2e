//! Groups a measurement by site, function, file, module, line, thread, type, heap or task.

use crate::error::QueryError;
use crate::measure::{Amount, Amounts, Measured, amount_of};
use crate::stacks::MOST_FRAMES;
use highwater_model::groups::{self, Addend, GroupBy, GroupKey, NO_TASK, Row, rows_by_frame};
use highwater_model::{Catalog, ElementSum, Figures, Naming, SiteTypes, StackId, StringId, Tag};
use highwater_store::history::Work;
use std::collections::BTreeMap;

/// The amount of a row, and its figures where they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowAmount {
    /// The amount.
    pub amount: Amount,
    /// The figures.
    pub figures: Option<Figures>,
}

impl Addend for RowAmount {
    fn add(&mut self, other: &Self) {
        self.amount.add(other.amount);
        if let Some(figures) = &other.figures {
            self.figures.get_or_insert_default().add(figures);
        }
    }
}

/// The rows of a measurement, without empty ones; in no particular order.
pub fn rows_of(
    measured: &Measured,
    (catalog, naming): (&Catalog, &Naming),
    by: GroupBy,
    work: &Work<'_>,
) -> Result<Vec<Row<RowAmount>>, QueryError> {
    let mut rows = match by {
        GroupBy::Site => sites(measured).map(|(stack, amount)| row(GroupKey::Site(stack), amount)).collect(),
        GroupBy::Function | GroupBy::File | GroupBy::Module | GroupBy::Line => {
            rows_by_frame(catalog, naming, by, sites(measured), MOST_FRAMES, || work.go_on())?
        }
        GroupBy::Type if measured.has_site_types => by_site_type(measured, catalog, naming),
        GroupBy::Thread | GroupBy::Type | GroupBy::Heap | GroupBy::Task => by_owner(measured, catalog, by),
    };
    rows.retain(|row| !row.inclusive.amount.is_nothing());
    Ok(rows)
}

fn row(key: GroupKey, amount: RowAmount) -> Row<RowAmount> {
    Row { key, figures: amount, inclusive: amount }
}

/// The amount of each stack.
pub fn sites(measured: &Measured) -> Box<dyn Iterator<Item = (StackId, RowAmount)> + '_> {
    match &measured.amounts {
        Amounts::Figures { figured, filter } => {
            let all = figured.snapshot().accounts.sites().iter();
            let wanted = all.filter(|(stack, _)| filter.passes_stack(*stack));
            let measure = |(stack, figures)| {
                (stack, RowAmount { amount: amount_of(measured.metric, figures), figures: Some(*figures) })
            };
            Box::new(wanted.map(measure).filter(|(_, row)| !row.amount.is_nothing()))
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<StackId, Amount> = BTreeMap::new();
            amounts.iter().for_each(|(owners, amount)| sums.entry(owners.stack).or_default().add(*amount));
            Box::new(sums.into_iter().map(|(stack, amount)| (stack, RowAmount { amount, figures: None })))
        }
    }
}

/// The type, task or heap of a tag.
pub fn owner_key(catalog: &Catalog, by: GroupBy, tag: Tag) -> GroupKey {
    let name = match by {
        GroupBy::Type => catalog.strings.get(tag.type_name),
        GroupBy::Task if tag.task == StringId::EMPTY => NO_TASK,
        GroupBy::Task => catalog.strings.get(tag.task),
        _ => tag.heap.name(),
    };
    GroupKey::Name(name.to_owned())
}

/// The rows of the types that stacks show.
fn by_site_type(measured: &Measured, catalog: &Catalog, naming: &Naming) -> Vec<Row<RowAmount>> {
    let mut types = SiteTypes::new(catalog, naming);
    let mut sums: BTreeMap<String, RowAmount> = BTreeMap::new();
    for (stack, amount) in sites(measured) {
        let found = types.of(catalog, stack);
        match sums.get_mut(&found.name) {
            Some(sum) => sum.add(&amount),
            None => _ = sums.insert(found.name.clone(), amount),
        }
    }
    sums.into_iter().map(|(name, amount)| row(GroupKey::Name(name), amount)).collect()
}

/// The number of elements that the blocks of each type have room for; `None` if the size of an element is not known.
pub fn elements_by_type(measured: &Measured, catalog: &Catalog, naming: &Naming) -> BTreeMap<String, Option<u64>> {
    let mut types = SiteTypes::new(catalog, naming);
    let mut sums: BTreeMap<String, ElementSum> = BTreeMap::new();
    for (stack, RowAmount { amount, .. }) in sites(measured) {
        let found = types.of(catalog, stack);
        sums.entry(found.name.clone()).or_default().add(found.elements(amount.value, amount.blocks));
    }
    sums.into_iter().map(|(name, sum)| (name, sum.known())).collect()
}

fn by_owner(measured: &Measured, catalog: &Catalog, by: GroupBy) -> Vec<Row<RowAmount>> {
    match &measured.amounts {
        Amounts::Figures { figured, .. } => {
            let all = groups::rows(figured.snapshot(), by, measured.metric, None);
            let amount =
                |figures: &Figures| RowAmount { amount: amount_of(measured.metric, figures), figures: Some(*figures) };
            all.into_iter().map(|each| row(each.key, amount(&each.figures))).collect()
        }
        Amounts::Blocks(amounts) => {
            let mut sums: BTreeMap<GroupKey, Amount> = BTreeMap::new();
            for (owners, amount) in amounts {
                let key = match by {
                    GroupBy::Thread => GroupKey::Thread(owners.thread),
                    by => owner_key(catalog, by, catalog.tag(owners.tag)),
                };
                // Blocks without a type are not among the types. Where there are no tasks at all, no row says so.
                let is_left_out = by == GroupBy::Task && !catalog.has_tasks();
                if !is_left_out && (by != GroupBy::Type || key != GroupKey::Name(String::new())) {
                    sums.entry(key).or_default().add(*amount);
                }
            }
            sums.into_iter().map(|(key, amount)| row(key, RowAmount { amount, figures: None })).collect()
        }
    }
}
