//! A snapshot: the state of one memory at one instant.

use crate::accounts::Accounts;
use crate::blocks::Block;
use crate::byte_sum::ByteSum;
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::figures::Figures;
use crate::heap::Heap;
use crate::ids::{Nanos, StoreId, StringId};
use crate::known::KnownFigures;
use crate::laws;
use crate::word_sampling::WordSampling;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a [note](Source::notes) begins that says that a recording ended before its program did, although no user asked for that.
pub const ENDED_EARLY: &str = "recording ended at ";

/// Where a recording or snapshot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The kind of source.
    pub kind: SourceKind,
    /// The program's name, as it was called, or its command line.
    pub program: String,
    /// The path of its executable, which may have been started through a link; empty if not known.
    pub executable: String,
    /// Its process id, 0 if there is none. If a source gives a negative number to programs without a process id, the 64 bits of that number are kept.
    pub pid: u64,
    /// The process id of the program that started it, 0 if not known.
    pub parent_pid: u64,
    /// True if it was forked from its parent while that was recorded, and goes on in the same program: it began with the parent's blocks, which are in the
    /// parent's recording alone.
    pub forked: bool,
    /// The command line: the program and its arguments; empty if not known.
    pub command: Vec<String>,
    /// The machine it ran on.
    pub host: String,
    /// When it began, in nanoseconds since the Unix epoch; 0 where not known.
    pub start_unix_ns: u64,
    /// How long it lasted.
    pub duration: Nanos,
    /// Mean bytes per sample; `None` when every allocation was recorded and the figures are exact.
    pub sample_rate: Option<u64>,
    /// The parameters of sampling by words, if words were sampled.
    pub word_sampling: Option<WordSampling>,
    /// A description by the program itself, or by the process that started it; empty if there is none.
    pub context: String,
    /// How the program's runtime was set up; empty where not known.
    pub runtime_parameters: String,
    /// True if the usable size of every block of [`Heap::Malloc`] is known.
    pub usable_sizes: bool,
    /// True if only one instant is known, not the events that led to it: there is no earlier instant, and peaks are not known.
    pub snapshot: bool,
    /// True for a snapshot that was taken of a recorded history: unlike a snapshot of a live process, it knows the counters of each row and the peaks
    /// until its instant.
    pub has_past: bool,
    /// The store that numbered the allocations; `None` if it is not known. Numbers of two sources are comparable only if both have the same one.
    pub store: Option<StoreId>,
    /// True if only figures are known, not single blocks. If there are several instants, these are all that is known: no events lead from one to the next.
    pub aggregated: bool,
    /// Mapped address space that is in no figure, at the instant of a snapshot.
    pub address_space: AddressSpace,
    /// What every [`Nanos`] counts: nanoseconds, or lines of a log that has no times.
    pub clock: Clock,
    /// Figures known besides live bytes, if another tool added them up; `None` for sources that know what [`Source`] says otherwise.
    pub known: Option<KnownFigures>,
    /// Facts that the reader must know of the recording: that it ended before the program did, that children are missing. A sentence each.
    pub notes: Vec<String>,
}

impl Source {
    /// True if the types of blocks are those that their [stacks show](crate::SiteTypes): stacks are of native code, and the source names no types.
    pub fn has_site_types(&self, catalog: &Catalog) -> bool {
        self.kind.is_native_code() && !catalog.has_named_types()
    }
}

/// Address space of a program, beside its live bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressSpace {
    /// Reserved: the program cannot touch it (`PROT_NONE`). Not in live bytes.
    pub reserved_bytes: u64,
    /// Mapped files. Not in live bytes.
    pub mapped_file_bytes: u64,
    /// Bytes of mappings that the program gave back to the kernel (`madvise`) since it last mapped, moved or protected them. It may have touched them again:
    /// no call shows that. So they are in live bytes, and this is an upper bound of what is not resident for this reason.
    pub returned_bytes: u64,
}

/// The display name of a program: the name that was typed (the file name of `argv[0]`), or else that of its executable. A program that has changed its
/// title (`nginx: worker process`) is shown by that title.
///
/// ```
/// # use highwater_model::program_name;
/// assert_eq!(program_name(Some("redis-server"), "/usr/bin/redis-check-rdb"), "redis-server");
/// assert_eq!(program_name(Some("./bin/app"), "/srv/bin/app"), "app");
/// assert_eq!(program_name(Some("-bash"), "/bin/bash"), "bash");
/// assert_eq!(program_name(Some("nginx: master process /usr/sbin/nginx"), "/usr/sbin/nginx"), "nginx: master process /usr/sbin/nginx");
/// assert_eq!(program_name(Some(""), "/usr/bin/jq"), "jq");
/// ```
pub fn program_name(called: Option<&str>, executable: &str) -> String {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let called = called.unwrap_or_default();
    // A login shell is called with a dash.
    let called = called.strip_prefix('-').unwrap_or(called);
    let name = if called.contains(": ") { called.to_owned() } else { file_name(called) };
    if name.is_empty() { file_name(executable) } else { name }
}

/// A program's name without the hash that cargo adds to the executables of tests and benchmarks. It changes with the code and with the compiler, so it is no
/// part of the name by which two runs are compared.
///
/// ```
/// # use highwater_model::without_cargo_hash;
/// assert_eq!(without_cargo_hash("index-0123456789abcdef"), "index");
/// assert_eq!(without_cargo_hash("index-0123456789ABCDEF"), "index-0123456789ABCDEF");
/// assert_eq!(without_cargo_hash("python3-config"), "python3-config");
/// assert_eq!(without_cargo_hash("-0123456789abcdef"), "-0123456789abcdef");
/// ```
pub fn without_cargo_hash(name: &str) -> &str {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    name.rsplit_once('-').filter(|(name, hash)| !name.is_empty() && is_hash(hash)).map_or(name, |(name, _)| name)
}

/// A number with thousands separators: `1,204`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The kind of source of a recording: a short key such as `native` or `memtrace`.
///
/// Each input has its own key, and recordings store it as text. An input can therefore be added without a new version of the file format. A recording
/// with an unknown key is treated as plain events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceKind(Cow<'static, str>);

impl SourceKind {
    /// A native process.
    pub const NATIVE: Self = Self::new("native");
    /// An OCaml program's memtrace.
    pub const MEMTRACE: Self = Self::new("memtrace");
    /// An object log.
    pub const OBJLOG: Self = Self::new("objlog");
    /// Events fed through the library or as JSON lines.
    pub const EVENTS: Self = Self::new("events");
    /// A memory image.
    pub const IMAGE: Self = Self::new("image");
    /// The processes of a fleet, added up.
    pub const FLEET: Self = Self::new("fleet");

    /// True if blocks are the live objects of a heap, and stacks the paths of their dominators: there is one instant, and no history.
    pub fn is_object_graph(&self) -> bool {
        *self == Self::IMAGE || Self::DUMPS.contains(self)
    }

    /// True if stacks have functions of compiled programs, as their symbols name them.
    pub fn is_native_code(&self) -> bool {
        const NATIVE_CODE: [SourceKind; 5] = [
            SourceKind::NATIVE,
            SourceKind::FLEET,
            SourceKind::new("heaptrack"),
            SourceKind::new("massif"),
            SourceKind::new("dhat"),
        ];
        NATIVE_CODE.contains(self)
    }

    /// Heap dumps, by the keys of their formats.
    const DUMPS: [Self; 2] = [Self::new("v8-heapsnapshot"), Self::new("hprof")];

    /// The longest key, in bytes.
    pub const LONGEST: usize = 32;

    /// The kind with a key that is known when the program is compiled.
    pub const fn new(key: &'static str) -> Self {
        Self(Cow::Borrowed(key))
    }

    /// Its name in recordings and in JSON.
    pub fn key(&self) -> &str {
        &self.0
    }

    /// The kind with this key; `None` if the text is not a valid key. Keys have lower-case letters, digits, `-` and `_`, at most
    /// [`LONGEST`](Self::LONGEST) bytes.
    pub fn from_key(key: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        let is_key = (1..=Self::LONGEST).contains(&key.len()) && key.bytes().all(is_plain);
        is_key.then(|| Self(Cow::Owned(key.to_owned())))
    }
}

impl Default for SourceKind {
    fn default() -> Self {
        Self::EVENTS
    }
}

/// The live blocks at one instant, their owners, and the counters up to that instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The source of the memory.
    pub source: Source,
    /// The instant.
    pub at: Nanos,
    /// Blocks and figures.
    pub accounts: Accounts,
    /// The catalog that the handles in `accounts` refer to.
    pub catalog: Arc<Catalog>,
}

impl Snapshot {
    /// A copy without blocks: code that needs only figures then takes a fraction of the memory. The source is unchanged: it does not say
    /// that blocks are missing.
    pub fn figures_alone(&self) -> Self {
        let (source, catalog) = (self.source.clone(), Arc::clone(&self.catalog));
        Self { source, at: self.at, accounts: self.accounts.figures_alone(), catalog }
    }

    /// True when the figures are estimates, made from samples (law 6).
    pub fn is_estimate(&self) -> bool {
        self.source.sample_rate.is_some() || self.accounts.totals().figures.is_estimate()
    }

    /// See [`Source::knows_every_block`].
    pub fn knows_every_block(&self) -> bool {
        self.source.knows_every_block(&self.accounts.totals().figures)
    }

    /// See [`Source::knows_reallocations`].
    pub fn knows_reallocations(&self) -> bool {
        self.source.knows_reallocations(&self.accounts.totals().figures)
    }

    /// The usable bytes of the live blocks of [`Heap::Malloc`], which are more than were requested; `None` if the source does not report them.
    pub fn usable_bytes(&self) -> Option<u64> {
        (self.source.usable_sizes && !self.source.aggregated).then(|| {
            let of_block = |block: Block| block.weight.amount(block.usable_size());
            self.blocks_of(Heap::Malloc).map(of_block).sum::<ByteSum>().rounded()
        })
    }

    /// The figures of each heap that ever held something. Figures are kept by tag only, so the figures of the first heap are the totals minus those of
    /// the other heaps.
    pub fn figures_by_heap(&self) -> BTreeMap<Heap, Figures> {
        let mut heaps: BTreeMap<Heap, Figures> = BTreeMap::new();
        let mut first = self.accounts.totals().figures;
        // A promotion does not change the totals, but it changes the figures of both heaps. Sums may exceed 64 bits in between.
        if let Some(moved) = self.accounts.tags().first() {
            first.wrapping_add(moved);
        }
        for (tag, figures) in self.catalog.tags().iter().zip(self.accounts.tags()) {
            if tag.heap != Heap::Malloc {
                heaps.entry(tag.heap).or_default().add(figures);
                first.wrapping_sub(figures);
            }
        }
        // Promotions into the other heaps belong to those heaps. Promotions into the first heap cannot be distinguished.
        (first.promotions, first.unrecorded_promotions) = (0, 0);
        heaps.insert(Heap::Malloc, first);
        heaps
    }

    /// The figures of each task, and those of the rest under [`StringId::EMPTY`]. Empty if no block ever belonged to a task.
    pub fn figures_by_task(&self) -> BTreeMap<StringId, Figures> {
        let mut tasks: BTreeMap<StringId, Figures> = BTreeMap::new();
        let mut rest = self.accounts.totals().figures;
        if let Some(moved) = self.accounts.tags().first() {
            rest.wrapping_add(moved);
        }
        for (tag, figures) in self.catalog.tags().iter().zip(self.accounts.tags()) {
            if tag.task != StringId::EMPTY && !figures.is_empty() {
                tasks.entry(tag.task).or_default().add(figures);
                rest.wrapping_sub(figures);
            }
        }
        if !tasks.is_empty() {
            (rest.promotions, rest.unrecorded_promotions) = (0, 0);
            tasks.insert(StringId::EMPTY, rest);
        }
        tasks
    }

    /// The bytes of the live blocks of a heap.
    pub fn live_bytes_of(&self, heap: Heap) -> u64 {
        self.figures_by_heap().get(&heap).map_or(0, Figures::live_bytes)
    }

    /// See [`Source::has_site_types`].
    pub fn has_site_types(&self) -> bool {
        self.source.has_site_types(&self.catalog)
    }

    /// All violations of the laws, in words. Laws of single blocks are not checked if blocks are not known.
    pub fn violations(&self) -> Vec<String> {
        if self.source.aggregated {
            laws::violations_of_figures(&self.accounts)
        } else {
            laws::violations(&self.accounts)
        }
    }

    /// The live blocks of a heap; none if only figures are known ([`Source::aggregated`]).
    pub fn blocks_of(&self, heap: Heap) -> impl Iterator<Item = Block> {
        self.accounts.blocks().filter(move |block| self.catalog.tag(block.tag).heap == heap)
    }

    /// The true address of a block. A mapping is recorded under its [`mapped_address`](crate::mapped_address).
    pub fn address_of(&self, block: &Block) -> u64 {
        self.catalog.tag(block.tag).heap.true_address(block.address)
    }
}
