//! A snapshot: the state of one memory at one instant.

use crate::accounts::Accounts;
use crate::blocks::Block;
use crate::byte_sum::ByteSum;
use crate::catalog::Catalog;
use crate::figures::Figures;
use crate::heap::Heap;
use crate::ids::Nanos;
use crate::interval::Certainty;
use crate::laws;
use crate::word_sampling::WordSampling;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a recording or snapshot comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// What kind of source.
    pub kind: SourceKind,
    /// The program's name, as it was called, or its command line.
    pub program: String,
    /// The path of its executable, which a link may have led to; empty where not known.
    pub executable: String,
    /// Its process id, 0 where there is none. A source that gives programs without one a negative number has that one's 64 bits.
    pub pid: u64,
    /// The process id of the program that started it, 0 where not known.
    pub parent_pid: u64,
    /// What was called: the program and its arguments; empty where not known.
    pub command: Vec<String>,
    /// The machine it ran on.
    pub host: String,
    /// When it began, in nanoseconds since the Unix epoch; 0 where not known.
    pub start_unix_ns: u64,
    /// How long it lasted.
    pub duration: Nanos,
    /// Mean bytes per sample; `None` when every allocation was recorded and the figures are exact.
    pub sample_rate: Option<u64>,
    /// How words were sampled, where it was words.
    pub word_sampling: Option<WordSampling>,
    /// What the program said of itself, or whoever started it; empty where nothing was.
    pub context: String,
    /// How the program's runtime was set up; empty where not known.
    pub runtime_parameters: String,
    /// True when it is known of every block of [`Heap::Malloc`] how many of its bytes can be used.
    pub usable_sizes: bool,
    /// True when only one instant is known, not what led to it: there is no earlier one, and peaks are not known.
    pub snapshot: bool,
    /// True when only figures are known, not single blocks.
    pub aggregated: bool,
    /// Address space that is mapped and in no figure, at the instant of a snapshot.
    pub address_space: AddressSpace,
    /// True when the source tells no times, only an order. All that is [`Nanos`] elsewhere is then a line of the log, or a number of lines.
    pub untimed: bool,
    /// What a reader must know of the recording: that it ended before the program did, that children are missing. A sentence each.
    pub notes: Vec<String>,
}

/// Address space that a program has mapped and that is not counted as memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressSpace {
    /// Reserved: the program cannot touch it (`PROT_NONE`).
    pub reserved_bytes: u64,
    /// Mapped files.
    pub mapped_file_bytes: u64,
}

/// The name of a program for people: what was typed (the file name of `argv[0]`), or else that of its executable. A program that has
/// changed its title (`nginx: worker process`) is called by that.
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

impl Source {
    /// True when every block is recorded, or stands for as many words as it has; `totals` are its figures. Where blocks are missing between two
    /// samples, it is not known what a thread allocated next, so that temporary allocations cannot be estimated.
    pub fn knows_every_block(&self, totals: &Figures) -> bool {
        let is_estimate = self.sample_rate.is_some() || totals.is_estimate();
        !is_estimate || Certainty::of(self).is_some_and(|certainty| certainty.is_exact())
    }

    /// True when it is known which blocks were resized. Of a block that is resized, a sample may hit what it was and miss what it becomes: the
    /// two are then a free and an allocation, or nothing. OCaml's runtime, which samples words, resizes no blocks.
    pub fn knows_reallocations(&self, totals: &Figures) -> bool {
        self.knows_every_block(totals) || self.word_sampling.is_some()
    }

    /// An instant, as people read it: `12.5s`, or `line 1,204` where there are no times.
    pub fn instant(&self, at: Nanos) -> String {
        if self.untimed { format!("line {}", grouped(at.0)) } else { at.to_string() }
    }

    /// A length of time, as people read it: `12.5s`, or `1,204 lines` where there are no times.
    pub fn length(&self, length: Nanos) -> String {
        match (self.untimed, length.0) {
            (false, _) => length.to_string(),
            (true, 1) => "1 line".to_owned(),
            (true, lines) => format!("{} lines", grouped(lines)),
        }
    }
}

/// A number with its thousands apart: `1,204`.
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

/// What kind of source a recording comes from: a short key such as `native` or `memtrace`.
///
/// Each input has its own key, and recordings store it as text. So an input can be added without a new version of the file, and a recording whose key is not known
/// is one of plain events.
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

    /// The kind with this key; `None` for a text that is none. Keys have lower-case letters, digits, `-` and `_`, at most [`LONGEST`](Self::LONGEST).
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

/// What was live at one instant, who owned it, and what had happened until then.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Whose memory.
    pub source: Source,
    /// The instant.
    pub at: Nanos,
    /// Blocks and figures.
    pub accounts: Accounts,
    /// What the handles in `accounts` stand for.
    pub catalog: Arc<Catalog>,
}

impl Snapshot {
    /// The same without its blocks: all that needs only figures takes a fraction of the memory. What is known is still said to be known.
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

    /// The bytes that can be used of the live blocks of [`Heap::Malloc`], which are more than were asked for; `None` where the
    /// source does not know.
    pub fn usable_bytes(&self) -> Option<u64> {
        (self.source.usable_sizes && !self.source.aggregated).then(|| {
            let of_block = |block: Block| block.weight.amount(block.usable_size());
            self.blocks_of(Heap::Malloc).map(of_block).sum::<ByteSum>().rounded()
        })
    }

    /// The figures of each heap that ever held something. Figures are kept by tag, and only those of tags: the first heap has
    /// all that the others have not.
    pub fn figures_by_heap(&self) -> BTreeMap<Heap, Figures> {
        let mut heaps: BTreeMap<Heap, Figures> = BTreeMap::new();
        let mut first = self.accounts.totals().figures;
        // To the whole a promotion is nothing, to each heap that takes part it is. Sums may pass 64 bits on the way.
        if let Some(moved) = self.accounts.tags().first() {
            first.wrapping_add(moved);
        }
        for (tag, figures) in self.catalog.tags().iter().zip(self.accounts.tags()) {
            if tag.heap != Heap::Malloc {
                heaps.entry(tag.heap).or_default().add(figures);
                first.wrapping_sub(figures);
            }
        }
        // What was promoted to the other heaps is theirs; those to the first are not told apart.
        (first.promotions, first.unrecorded_promotions) = (0, 0);
        heaps.insert(Heap::Malloc, first);
        heaps
    }

    /// The bytes of the live blocks of a heap.
    pub fn live_bytes_of(&self, heap: Heap) -> u64 {
        self.figures_by_heap().get(&heap).map_or(0, Figures::live_bytes)
    }

    /// Every way in which it breaks the laws, in words; those of single blocks are left out where they are not known.
    pub fn violations(&self) -> Vec<String> {
        if self.source.aggregated {
            laws::violations_of_figures(&self.accounts)
        } else {
            laws::violations(&self.accounts)
        }
    }

    /// The live blocks of a heap; none where only figures are known ([`Source::aggregated`]).
    pub fn blocks_of(&self, heap: Heap) -> impl Iterator<Item = Block> {
        self.accounts.blocks().filter(move |block| self.catalog.tag(block.tag).heap == heap)
    }

    /// Where a block lies. That of a mapping is recorded as [`mapped_address`](crate::mapped_address) says.
    pub fn address_of(&self, block: &Block) -> u64 {
        self.catalog.tag(block.tag).heap.true_address(block.address)
    }
}
