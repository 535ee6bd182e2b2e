//! Sites and groups of sites, with the pages that they keep in RAM.

use super::answer::{RssFigures, RssGroup, RssSite};
use super::{RssOptions, RssOrder};
use crate::error::QueryError;
use crate::grouping::owner_key;
use crate::names::{details_of, key_text, own_frame_of, pool_of};
use crate::stacks::{MOST_FRAMES, no_stacks};
use highwater_formats::json::StackTableAnswer;
use highwater_model::groups::{Addend, GroupBy, GroupKey, rows_by_frame};
use highwater_model::{Catalog, Heap, Naming, SitePages, SiteTypes, StackId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Where the names of sites are.
#[derive(Clone, Copy, Debug)]
pub struct SiteNames<'a> {
    /// The catalog that the sites of a breakdown refer to.
    pub catalog: &'a Catalog,
    /// How rows are named.
    pub naming: &'a Naming,
    /// Whether stacks show types: [`Source::has_site_types`](highwater_model::Source::has_site_types).
    pub has_site_types: bool,
}

/// The blocks of a stack, or its mappings.
pub type SiteKey = (StackId, bool);

impl RssFigures {
    /// The figures of a site.
    fn of(site: &SitePages) -> Self {
        Self {
            blocks: site.blocks,
            live_bytes: site.live,
            resident_bytes: site.resident,
            slack_bytes: site.usable.saturating_sub(site.live),
            pinned_bytes: site.pinned,
        }
    }

    fn measure(&self, order: RssOrder) -> u64 {
        match order {
            RssOrder::Resident => self.resident_bytes,
            RssOrder::Pinned => self.pinned_bytes,
            RssOrder::Live => self.live_bytes,
            RssOrder::Slack => self.slack_bytes,
            RssOrder::Untouched => self.live_bytes.saturating_sub(self.resident_bytes),
        }
    }

    fn rank(&self, order: RssOrder) -> Reverse<(u64, u64, u64)> {
        Reverse((self.measure(order), self.resident_bytes, self.blocks))
    }
}

impl Addend for RssFigures {
    fn add(&mut self, other: &Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        self.resident_bytes = self.resident_bytes.saturating_add(other.resident_bytes);
        self.slack_bytes = self.slack_bytes.saturating_add(other.slack_bytes);
        self.pinned_bytes = self.pinned_bytes.saturating_add(other.pinned_bytes);
    }
}

/// Whether the pages of a site are those of mappings.
pub fn is_mapping(catalog: &Catalog, site: &SitePages) -> bool {
    catalog.tag(site.tag).heap == Heap::Mapped
}

/// The figures of each site, with all its tasks together.
pub fn figures_by_site(catalog: &Catalog, sites: &[SitePages]) -> FxHashMap<SiteKey, RssFigures> {
    let mut sums: FxHashMap<SiteKey, RssFigures> = FxHashMap::default();
    for site in sites {
        sums.entry((site.stack, is_mapping(catalog, site))).or_default().add(&RssFigures::of(site));
    }
    sums
}

/// The name of a site.
pub fn site_name(names: SiteNames<'_>, stack: StackId) -> String {
    key_text(names.naming, names.catalog, &GroupKey::Site(stack))
}

/// The largest sites, with their stacks.
pub fn site_table(
    names: SiteNames<'_>,
    sums: &FxHashMap<SiteKey, RssFigures>,
    options: &RssOptions,
) -> Result<(Vec<RssSite>, StackTableAnswer), QueryError> {
    let SiteNames { catalog, naming, .. } = names;
    let mut shown: Vec<(SiteKey, RssFigures)> = sums.iter().map(|(key, figures)| (*key, *figures)).collect();
    shown.sort_unstable_by_key(|(key, figures)| (figures.rank(options.order), *key));
    shown.truncate(options.limit);
    let mut stacks = no_stacks([catalog]);
    shown.iter().try_for_each(|((stack, _), _)| stacks.add(0, *stack))?;
    let details = details_of(naming, shown.iter().map(|((stack, _), _)| Some((catalog, *stack))));
    let mut types = SiteTypes::new(catalog, naming);
    let site = |(((stack, is_mapping), figures), detail): ((SiteKey, RssFigures), Option<String>)| RssSite {
        id: stack.0,
        key: site_name(names, stack),
        frame: own_frame_of(naming, catalog, stack),
        pool: pool_of(naming, catalog, stack),
        detail,
        stack: stacks.number(0, stack),
        type_name: if names.has_site_types && !is_mapping {
            types.of(catalog, stack).name.clone()
        } else {
            String::new()
        },
        is_mapping,
        figures,
    };
    let sites = shown.into_iter().zip(details).map(site).collect();
    Ok((sites, stacks.table()))
}

/// The groups of sites, the largest first, and how many there are.
pub fn group_table(names: SiteNames<'_>, sites: &[SitePages], options: &RssOptions) -> (Vec<RssGroup>, usize) {
    let mut groups: Vec<(GroupKey, RssFigures)> = groups_of(names, sites, options.by).into_iter().collect();
    groups.sort_by(|(a, left), (b, right)| left.rank(options.order).cmp(&right.rank(options.order)).then(a.cmp(b)));
    let count = groups.len();
    groups.truncate(options.limit);
    let group = |(key, figures)| RssGroup { key: key_text(names.naming, names.catalog, &key), figures };
    (groups.into_iter().map(group).collect(), count)
}

fn groups_of(names: SiteNames<'_>, sites: &[SitePages], by: GroupBy) -> BTreeMap<GroupKey, RssFigures> {
    let SiteNames { catalog, naming, has_site_types } = names;
    if by.has_callees() {
        let each = sites.iter().map(|site| (site.stack, RssFigures::of(site)));
        let rows = rows_by_frame(catalog, naming, by, each, MOST_FRAMES, || Ok::<_, Infallible>(()));
        let rows = rows.unwrap_or_else(|never| match never {});
        return rows.into_iter().filter(|row| row.figures.blocks > 0).map(|row| (row.key, row.figures)).collect();
    }
    let mut types = SiteTypes::new(catalog, naming);
    let mut groups: BTreeMap<GroupKey, RssFigures> = BTreeMap::new();
    for site in sites {
        let key = match by {
            GroupBy::Type if has_site_types => GroupKey::Name(types.of(catalog, site.stack).name.clone()),
            GroupBy::Type | GroupBy::Heap | GroupBy::Task => owner_key(catalog, by, catalog.tag(site.tag)),
            _ => GroupKey::Site(site.stack),
        };
        groups.entry(key).or_default().add(&RssFigures::of(site));
    }
    groups
}
