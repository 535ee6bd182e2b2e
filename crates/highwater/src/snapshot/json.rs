//! Snapshots and their differences for serde.
//!
//! A snapshot is written with what its handles stand for, and with the figures of every thread, site and tag. So it can be read, compared and saved as
//! a file in another process. What is read must be consistent: the blocks must add up to the figures.

use super::diff::intern_frames;
use super::types::{
    ActiveAllocation, MemoryAnomalies, MemorySnapshot, SnapshotOrigin, SnapshotStats, StackFrame, ThreadMemoryStats,
};
use super::{DiffBasis, SnapshotDiff, UsageChange};
use crate::event_name::Name;
use highwater_model::{
    Accounts, AccountsState, AddressLedger, AllocId, Anomaly, Block, Catalog, Figures, Heap, Nanos, Rests, Source,
    SourceKind, StackId, StoreId, StringId, Tag, TagId, ThreadAccount, ThreadId, Totals, Weight, laws,
};
use highwater_store::{Cursor, SharedCatalog};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// Handles of stacks as plain numbers: the model does not depend on serde.
pub(super) mod stack_handle {
    use super::*;

    pub fn serialize<S: Serializer>(stack: &Option<StackId>, serializer: S) -> Result<S::Ok, S::Error> {
        stack.map(|stack| stack.0).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StackId>, D::Error> {
        Ok(Option::<u32>::deserialize(deserializer)?.map(StackId))
    }
}

/// A snapshot as it is written.
#[derive(Serialize, Deserialize)]
struct SnapshotDocument<'a> {
    timestamp: u64,
    origin: OriginDocument,
    stats: Cow<'a, SnapshotStats>,
    anomalies: MemoryAnomalies,
    thread_stats: BTreeMap<u64, Cow<'a, ThreadMemoryStats>>,
    active_allocations: BTreeMap<usize, Cow<'a, ActiveAllocation>>,
    /// The calls of each stack, innermost first.
    stacks: BTreeMap<u32, Vec<StackFrame>>,
    accounts: AccountsDocument,
}

#[derive(Serialize, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct OriginDocument {
    kind: String,
    program: String,
    pid: u64,
    host: String,
    start_unix_ns: u64,
    sample_rate: Option<u64>,
    /// Peaks and counters of the past are known.
    has_past: bool,
    /// `active_allocations` are not all that is known of the blocks: their weights or heaps are not written, so they cannot be checked against the figures.
    figures_only: bool,
    /// In hexadecimal.
    store: Option<String>,
}

/// The figures of all owners.
#[derive(Serialize, Deserialize)]
struct AccountsDocument {
    events: u64,
    next_id: u64,
    totals: FiguresDocument,
    peak_blocks: u64,
    peak_at: u64,
    peak_event: u64,
    peak_bytes_inside_reallocation: u64,
    anomalies: BTreeMap<String, u64>,
    threads: Vec<ThreadDocument>,
    sites: Vec<SiteDocument>,
    tags: Vec<TagDocument>,
}

#[derive(Serialize, Deserialize)]
struct ThreadDocument {
    thread_id: u64,
    #[serde(default)]
    name: String,
    last_allocation: Option<u64>,
    figures: FiguresDocument,
}

#[derive(Serialize, Deserialize)]
struct SiteDocument {
    stack: Option<u32>,
    figures: FiguresDocument,
}

#[derive(Serialize, Deserialize)]
struct TagDocument {
    var_name: Option<String>,
    type_name: Option<String>,
    heap: String,
    figures: FiguresDocument,
}

/// Counts that are nearly always 0 are left out then.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct FiguresDocument {
    allocations: u64,
    frees: u64,
    reallocations: u64,
    reallocated_away: u64,
    allocated_bytes: u64,
    freed_bytes: u64,
    peak_bytes: u64,
    cross_thread_frees: u64,
    temporary_allocations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated: Option<EstimateDocument>,
}

/// What figures of samples have besides.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct EstimateDocument {
    allocated_rest: i32,
    freed_rest: i32,
    promotions: u64,
    unrecorded_promotions: u64,
    unrecorded: u64,
    unrecorded_gone: u64,
    more_samples: u64,
    more_samples_gone: u64,
}

impl From<&Figures> for FiguresDocument {
    fn from(figures: &Figures) -> Self {
        let estimated = EstimateDocument {
            allocated_rest: figures.rests.allocated,
            freed_rest: figures.rests.freed,
            promotions: figures.promotions,
            unrecorded_promotions: figures.unrecorded_promotions,
            unrecorded: figures.unrecorded,
            unrecorded_gone: figures.unrecorded_gone,
            more_samples: figures.more_samples,
            more_samples_gone: figures.more_samples_gone,
        };
        Self {
            allocations: figures.allocations,
            frees: figures.frees,
            reallocations: figures.reallocations,
            reallocated_away: figures.reallocated_away,
            allocated_bytes: figures.allocated_bytes,
            freed_bytes: figures.freed_bytes,
            peak_bytes: figures.peak_bytes,
            cross_thread_frees: figures.cross_thread_frees,
            temporary_allocations: figures.temporary_allocations,
            estimated: (estimated != EstimateDocument::default()).then_some(estimated),
        }
    }
}

/// No recording has this many blocks or samples; below it, no sum of counts can wrap.
const MOST_BLOCKS: u64 = 1 << 40;

impl FiguresDocument {
    /// The figures; `None` if a sum of them could wrap, or they freed more than they had.
    fn figures(&self) -> Option<Figures> {
        let more = self.estimated.clone().unwrap_or_default();
        let figures = Figures {
            allocations: self.allocations,
            frees: self.frees,
            reallocations: self.reallocations,
            reallocated_away: self.reallocated_away,
            allocated_bytes: self.allocated_bytes,
            freed_bytes: self.freed_bytes,
            peak_bytes: self.peak_bytes,
            cross_thread_frees: self.cross_thread_frees,
            temporary_allocations: self.temporary_allocations,
            rests: Rests { allocated: more.allocated_rest, freed: more.freed_rest },
            promotions: more.promotions,
            unrecorded_promotions: more.unrecorded_promotions,
            unrecorded: more.unrecorded,
            unrecorded_gone: more.unrecorded_gone,
            more_samples: more.more_samples,
            more_samples_gone: more.more_samples_gone,
        };
        let counts = [
            figures.allocations,
            figures.frees,
            figures.reallocations,
            figures.reallocated_away,
            figures.cross_thread_frees,
            figures.temporary_allocations,
            figures.promotions,
            figures.unrecorded_promotions,
            figures.unrecorded,
            figures.unrecorded_gone,
        ];
        let has_blocks = figures.allocations.checked_add(figures.reallocations)?
            >= figures.frees.checked_add(figures.reallocated_away)?;
        let is_sound = counts.iter().all(|count| *count <= MOST_BLOCKS)
            && figures.more_samples <= 1 << 62
            && figures.more_samples_gone <= figures.more_samples
            && has_blocks
            && figures.freed_bytes <= figures.allocated_bytes;
        is_sound.then_some(figures)
    }
}

fn optional(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Serialize for MemorySnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The document is complete before any of it is written: no lock is held while the serializer works.
        self.origin.catalog.read(|catalog| self.document(catalog)).serialize(serializer)
    }
}

impl MemorySnapshot {
    fn document(&self, catalog: &Catalog) -> SnapshotDocument<'_> {
        let accounts = self.ledger.accounts();
        let source = &self.origin.source;
        let is_plain =
            |block: &Block| block.weight.is_one() && block.surplus == 0 && catalog.tag(block.tag).heap == Heap::Malloc;
        let of_sites = accounts.sites().iter().map(|(stack, _)| stack);
        let of_blocks = self.active_allocations.values().filter_map(|block| block.stack);
        let used = of_sites.chain(of_blocks).filter(|stack| *stack != StackId::UNKNOWN);
        SnapshotDocument {
            timestamp: self.timestamp,
            origin: OriginDocument {
                kind: source.kind.key().to_owned(),
                program: source.program.clone(),
                pid: source.pid,
                host: source.host.clone(),
                start_unix_ns: source.start_unix_ns,
                sample_rate: source.sample_rate,
                has_past: !source.lacks_past(),
                figures_only: source.aggregated || !accounts.blocks().all(|block| is_plain(&block)),
                store: self.origin.store.map(|StoreId(id)| format!("{id:032x}")),
            },
            stats: Cow::Borrowed(&self.stats),
            anomalies: self.anomalies,
            thread_stats: self.thread_stats.iter().map(|(id, stats)| (*id, Cow::Borrowed(stats))).collect(),
            active_allocations: self.active_allocations.iter().map(|(key, one)| (*key, Cow::Borrowed(one))).collect(),
            stacks: used.map(|stack| (stack.0, super::types::frames_of(catalog, stack))).collect(),
            accounts: accounts_document(accounts, catalog),
        }
    }
}

fn accounts_document(accounts: &Accounts, catalog: &Catalog) -> AccountsDocument {
    let totals = accounts.totals();
    let thread = |thread: &ThreadAccount| ThreadDocument {
        thread_id: thread.id.0,
        name: catalog.thread_name(thread.id).to_owned(),
        last_allocation: Some(thread.last_allocation).filter(|id| *id != AllocId::default()).map(|id| id.0),
        figures: (&thread.figures).into(),
    };
    let site = |(stack, figures): (StackId, &Figures)| SiteDocument {
        stack: (stack != StackId::UNKNOWN).then_some(stack.0),
        figures: figures.into(),
    };
    let tag = |(tag, figures): (&Tag, &Figures)| TagDocument {
        var_name: optional(catalog.strings.get(tag.variable)),
        type_name: optional(catalog.strings.get(tag.type_name)),
        heap: tag.heap.name().to_owned(),
        figures: figures.into(),
    };
    AccountsDocument {
        events: accounts.events(),
        next_id: accounts.next_id().0,
        totals: (&totals.figures).into(),
        peak_blocks: totals.peak_blocks,
        peak_at: totals.peak_at.0,
        peak_event: totals.peak_event,
        peak_bytes_inside_reallocation: totals.peak_bytes_inside_reallocation,
        anomalies: Anomaly::ALL.map(|kind| (kind.key().to_owned(), accounts.anomalies().get(kind))).into(),
        threads: accounts.threads().iter().map(thread).collect(),
        sites: accounts.sites().iter().map(site).collect(),
        tags: catalog.tags().iter().zip(accounts.tags()).filter(|(_, figures)| !figures.is_empty()).map(tag).collect(),
    }
}

impl<'de> Deserialize<'de> for MemorySnapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = SnapshotDocument::deserialize(deserializer)?;
        document.snapshot().map_err(|what| D::Error::custom(format_args!("not a memory snapshot: {what}")))
    }
}

impl SnapshotDocument<'_> {
    /// The snapshot, or the reason why there is none, in words.
    fn snapshot(self) -> Result<MemorySnapshot, String> {
        let mut catalog = Catalog::default();
        let stacks: HashMap<u32, StackId> =
            self.stacks.iter().map(|(number, frames)| (*number, intern_frames(frames, &mut catalog))).collect();
        let mut state = self.state(&mut catalog, &stacks)?;
        let mut active: HashMap<usize, ActiveAllocation> = HashMap::new();
        for (key, block) in &self.active_allocations {
            let stack = translate(&stacks, block.stack.map(|stack| stack.0))?;
            active.insert(*key, ActiveAllocation { stack, ..ActiveAllocation::clone(block) });
        }
        if !self.origin.figures_only {
            add_blocks(&mut state, &mut catalog, &active)?;
        }
        let origin = SnapshotOrigin {
            source: Arc::new(self.source()),
            catalog: SharedCatalog::from(catalog),
            store: self.store()?,
            has_own_handles: true,
        };
        let accounts = Accounts::from_state(state);
        let violations = match self.origin.figures_only {
            true => laws::violations_of_figures(&accounts),
            false => laws::violations(&accounts),
        };
        if let Some(first) = violations.into_iter().next() {
            return Err(first);
        }
        let ledger = AddressLedger::from_accounts(accounts);
        let mut snapshot = MemorySnapshot::of_ledger(ledger, Cursor::default(), origin);
        snapshot.active_allocations = active;
        let has_same_threads = snapshot.thread_stats.len() == self.thread_stats.len()
            && self.thread_stats.iter().all(|(id, stats)| snapshot.thread_stats.get(id) == Some(stats));
        let is_consistent = snapshot.timestamp == self.timestamp
            && snapshot.stats == *self.stats
            && snapshot.anomalies == self.anomalies
            && has_same_threads;
        if !is_consistent {
            return Err("stats, thread_stats or anomalies contradict the accounts".to_owned());
        }
        Ok(snapshot)
    }

    fn store(&self) -> Result<Option<StoreId>, String> {
        let Some(text) = &self.origin.store else { return Ok(None) };
        let id = u128::from_str_radix(text, 16).map_err(|_| format!("store '{text}' is not hexadecimal"))?;
        Ok(Some(StoreId(id)))
    }

    fn source(&self) -> Source {
        let origin = &self.origin;
        Source {
            kind: SourceKind::from_key(&origin.kind).unwrap_or_default(),
            program: origin.program.clone(),
            pid: origin.pid,
            host: origin.host.clone(),
            start_unix_ns: origin.start_unix_ns,
            duration: Nanos(self.timestamp),
            sample_rate: origin.sample_rate,
            snapshot: true,
            has_past: origin.has_past,
            aggregated: origin.figures_only,
            ..Source::default()
        }
    }

    /// The figures, without blocks.
    fn state(&self, catalog: &mut Catalog, stacks: &HashMap<u32, StackId>) -> Result<AccountsState, String> {
        let accounts = &self.accounts;
        let figures = |document: &FiguresDocument, what: &str| {
            document.figures().ok_or_else(|| format!("impossible figures of {what}"))
        };
        let mut state = AccountsState {
            totals: Totals {
                figures: figures(&accounts.totals, "the whole")?,
                peak_blocks: accounts.peak_blocks,
                peak_at: Nanos(accounts.peak_at),
                peak_event: accounts.peak_event,
                peak_bytes_inside_reallocation: accounts.peak_bytes_inside_reallocation,
            },
            events: accounts.events,
            next_id: accounts.next_id,
            last_time: Nanos(self.timestamp),
            ..AccountsState::default()
        };
        if accounts.next_id > MOST_BLOCKS || accounts.events > MOST_BLOCKS {
            return Err("it has more events than any program".to_owned());
        }
        for kind in Anomaly::ALL {
            state.anomalies.add(kind, accounts.anomalies.get(kind.key()).copied().unwrap_or(0));
        }
        for thread in &accounts.threads {
            let id = ThreadId(thread.thread_id);
            if !thread.name.is_empty() {
                catalog.name_thread(id, &thread.name);
            }
            let last_allocation = thread.last_allocation.map_or_else(AllocId::default, AllocId);
            state.threads.push(ThreadAccount { figures: figures(&thread.figures, "a thread")?, id, last_allocation });
        }
        let is_repeated = {
            let ids: std::collections::HashSet<u64> = accounts.threads.iter().map(|thread| thread.thread_id).collect();
            ids.len() != accounts.threads.len()
        };
        if is_repeated {
            return Err("a thread is there twice".to_owned());
        }
        for site in &accounts.sites {
            let stack = translate(stacks, site.stack)?.unwrap_or(StackId::UNKNOWN);
            state.sites.at(stack).add(&figures(&site.figures, "a site")?);
        }
        for tag in &accounts.tags {
            let heap = Heap::from_name(&tag.heap).ok_or_else(|| format!("there is no heap '{}'", tag.heap))?;
            let names = [&tag.var_name, &tag.type_name].map(|name| name.as_deref().unwrap_or_default());
            let id = intern_tag(catalog, names, heap);
            let rows = &mut state.tags;
            rows.resize(rows.len().max(id.0 as usize + 1), Figures::default());
            rows[id.0 as usize].add(&figures(&tag.figures, "a tag")?);
        }
        Ok(state)
    }
}

fn intern_tag(catalog: &mut Catalog, [variable, type_name]: [&str; 2], heap: Heap) -> TagId {
    let [variable, type_name]: [StringId; 2] = [variable, type_name].map(|name| catalog.strings.intern(name));
    catalog.intern_tag(Tag { variable, type_name, heap, ..Tag::default() })
}

fn translate(stacks: &HashMap<u32, StackId>, stack: Option<u32>) -> Result<Option<StackId>, String> {
    let Some(number) = stack else { return Ok(None) };
    let known = stacks.get(&number).ok_or_else(|| format!("stack {number} is not among the stacks"))?;
    Ok(Some(*known))
}

/// Adds the live blocks in the order of their numbers.
fn add_blocks(
    state: &mut AccountsState,
    catalog: &mut Catalog,
    active: &HashMap<usize, ActiveAllocation>,
) -> Result<(), String> {
    let threads: HashMap<u64, u32> = state.threads.iter().map(|thread| thread.id.0).zip(0..).collect();
    let mut blocks: Vec<&ActiveAllocation> = active.values().collect();
    blocks.sort_unstable_by_key(|block| block.id);
    let is_ordered = blocks.is_sorted_by(|a, b| a.id < b.id && a.allocated_at <= b.allocated_at);
    let is_inside = blocks.last().is_none_or(|last| last.id < state.next_id && last.allocated_at <= state.last_time.0);
    if !is_ordered || !is_inside || active.iter().any(|(key, block)| *key != block.ptr) {
        return Err("the numbers, times or addresses of the blocks contradict each other".to_owned());
    }
    for block in blocks {
        let names = [&block.var_name, &block.type_name].map(|name| name.as_deref().unwrap_or_default());
        let thread = threads.get(&block.thread_id);
        state.blocks.push(Block {
            id: AllocId(block.id),
            address: block.ptr as u64,
            size: block.size as u64,
            time: Nanos(block.allocated_at),
            thread: *thread.ok_or_else(|| format!("thread {} of a block is not known", block.thread_id))?,
            stack: block.stack.unwrap_or(StackId::UNKNOWN),
            tag: intern_tag(catalog, names, Heap::Malloc),
            surplus: 0,
            weight: Weight::ONE,
        });
    }
    Ok(())
}

/// A difference as it is written. A map whose keys are no text becomes a list.
#[derive(Serialize, Deserialize)]
struct DiffDocument<'a> {
    basis: DiffBasis,
    appeared: Cow<'a, [ActiveAllocation]>,
    gone: Cow<'a, [ActiveAllocation]>,
    resized: Cow<'a, [(ActiveAllocation, ActiveAllocation)]>,
    sites: Vec<SiteChange>,
    threads: BTreeMap<u64, UsageChange>,
    types: BTreeMap<String, UsageChange>,
    variables: BTreeMap<String, UsageChange>,
}

#[derive(Serialize, Deserialize)]
struct SiteChange {
    stack: Option<u32>,
    /// Innermost first.
    frames: Vec<StackFrame>,
    #[serde(flatten)]
    change: UsageChange,
}

fn ordered<K, T: Ord>(map: &HashMap<K, UsageChange>, key: impl Fn(&K) -> T) -> BTreeMap<T, UsageChange> {
    map.iter().map(|(owner, change)| (key(owner), *change)).collect()
}

fn unordered<K, T: Eq + Hash>(map: BTreeMap<K, UsageChange>, key: impl Fn(K) -> T) -> HashMap<T, UsageChange> {
    map.into_iter().map(|(owner, change)| (key(owner), change)).collect()
}

impl Serialize for SnapshotDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let site = |(stack, change): (Option<StackId>, UsageChange)| SiteChange {
            stack: stack.map(|stack| stack.0),
            frames: stack.map_or_else(Vec::new, |stack| self.frames(stack)),
            change,
        };
        let document = DiffDocument {
            basis: self.basis,
            appeared: Cow::Borrowed(&self.appeared),
            gone: Cow::Borrowed(&self.gone),
            resized: Cow::Borrowed(&self.resized),
            sites: ordered(&self.sites, |stack| *stack).into_iter().map(site).collect(),
            threads: ordered(&self.threads, |thread| *thread),
            types: ordered(&self.types, ToString::to_string),
            variables: ordered(&self.variables, ToString::to_string),
        };
        document.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SnapshotDiff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = DiffDocument::deserialize(deserializer)?;
        let mut catalog = Catalog::default();
        let mut stacks: HashMap<u32, StackId> = HashMap::new();
        let mut sites: HashMap<Option<StackId>, UsageChange> = HashMap::new();
        for site in document.sites {
            let stack = site
                .stack
                .map(|number| *stacks.entry(number).or_insert_with(|| intern_frames(&site.frames, &mut catalog)));
            if sites.insert(stack, site.change).is_some() {
                return Err(D::Error::custom("not a difference of snapshots: a site is there twice"));
            }
        }
        // Stacks of blocks that are no site of the difference have no frames here.
        let translated = |block: &ActiveAllocation| {
            let stack = block.stack.and_then(|stack| stacks.get(&stack.0).copied());
            ActiveAllocation { stack, ..block.clone() }
        };
        Ok(Self {
            basis: document.basis,
            appeared: document.appeared.iter().map(translated).collect(),
            gone: document.gone.iter().map(translated).collect(),
            resized: document.resized.iter().map(|(old, new)| (translated(old), translated(new))).collect(),
            sites,
            threads: unordered(document.threads, |thread| thread),
            types: unordered(document.types, Name::from),
            variables: unordered(document.variables, Name::from),
            catalog: catalog.into(),
        })
    }
}
