//! The data model of Highwater: every source is converted to it, and every view reads it.
//!
//! * An [`Event`] is a fact that a source reports, keyed by address, with handles into a [`Catalog`] of names and stacks.
//! * An [`AddressLedger`] decides by the laws what an event means, and emits [`Op`]s keyed by allocation number; a [`NumberLedger`] replays those.
//!   Both keep the same [`Accounts`]: live blocks and [`Figures`] per thread, site and tag.
//! * A [`Snapshot`] is accounts at one instant; [`groups`] makes rows of it, [`diff`] compares two.
//!
//! The laws (checked by [`laws::violations`] and by property tests):
//!
//! 1. `live = allocated − freed`, in blocks and bytes, in total, per site, per thread, per type; the sums over sites and over
//!    threads are the total, at every instant.
//! 2. A block belongs to the site and thread that allocated it, or last resized it, until it dies. A free on another thread is
//!    charged to the owner and counted as a cross-thread free.
//! 3. A reallocation is one event: no instant shows both places or neither. The block keeps its identity.
//! 4. Identity is the allocation's number, never its address.
//! 5. Nothing is silently wrong: every anomaly has a counter in [`Anomalies`]. Never a panic, never a wrap.
//! 6. A sampled source says so ([`Source::sample_rate`]): its blocks have a [`Weight`], and every figure made of them is an estimate.
//!
//! ```
//! use highwater_model::{AddressLedger, Event, EventKind, Nanos, Placement, ThreadId};
//!
//! let mut ledger = AddressLedger::default();
//! let place = Placement { address: 0x1000, size: 64, ..Placement::default() };
//! let mut happen = |time, thread, kind| {
//!     ledger.record(&Event { time: Nanos(time), thread: ThreadId(thread), kind }, &mut ());
//! };
//! happen(10, 1, EventKind::Allocate(place));
//! happen(20, 2, EventKind::free(0x1000, None));
//!
//! let totals = ledger.accounts().totals();
//! assert_eq!((totals.figures.live_bytes(), totals.figures.peak_bytes), (0, 64));
//! assert_eq!(ledger.accounts().threads()[0].figures.cross_thread_frees, 1);
//! assert!(highwater_model::laws::violations(ledger.accounts()).is_empty());
//! ```
#![forbid(unsafe_code)]

mod accounts;
mod address_index;
mod allocator_names;
mod anomalies;
mod blocks;
mod byte_sum;
mod catalog;
mod clock;
mod code_offset;
mod damage;
pub mod diff;
mod disturbing;
mod event;
mod figures;
mod frame_roles;
pub mod groups;
mod heap;
mod ids;
mod interval;
mod known;
pub mod laws;
mod learned_wrappers;
mod ledger;
mod lifetimes;
mod naming;
mod part;
mod plumbing;
mod pools;
mod row_details;
mod row_identity;
mod rss;
mod short_name;
mod sink;
mod sites;
mod slots;
mod snapshot;
mod spacing;
mod stack_numbers;
mod stacks;
mod strings;
mod timeline;
mod type_facts;
mod types;
mod utc;
mod weight;
mod when;
mod window;
mod word_sampling;
mod wrappers;

pub use accounts::{Accounts, AccountsState, Applied, BlockSlot, PlainEvent, ThreadAccount};
pub use allocator_names::{AllocatorName, AllocatorNames, NoAllocatorName};
pub use anomalies::{Anomalies, Anomaly};
pub use blocks::{Block, Blocks};
pub use byte_sum::ByteSum;
pub use catalog::{Catalog, FrameText, GUESSED, Tag, ThreadName};
pub use clock::Clock;
pub use code_offset::CodeOffset;
pub use damage::Damage;
pub use disturbing::disturbs_text;
pub use event::{Event, EventKind, Placement};
pub use figures::{Figures, Rests, Totals};
pub use frame_roles::FrameRoles;
pub use heap::{Heap, mapped_address, usable_of_size};
pub use ids::{AllocId, FrameId, Nanos, StackId, StoreId, StringId, TagId, ThreadId};
pub use interval::{Certainty, Interval, expected_samples};
pub use known::KnownFigures;
pub use learned_wrappers::LearnedWrappers;
pub use ledger::{AddressLedger, BlockExtent, NumberLedger, Op, Step, StepSink};
pub use lifetimes::{LifetimeBucket, Lifetimes};
pub use naming::{Naming, SiteName};
pub use plumbing::{is_background, is_plumbing};
pub use row_details::RowDetails;
pub use row_identity::{CatalogIdentities, RowIdentities, RowIdentity};
pub use rss::{
    AllocatorMemory, AreaKind, BreakdownReason, FilePages, HeapArea, MemoryLimit, PageOwner, PageRun, ProcessMemory,
    RssBreakdown, RssKind, RssRow, SitePages,
};
pub use short_name::{short_name, short_name_with_arguments};
pub use sink::EventSink;
pub use sites::Sites;
pub use snapshot::{
    AddressSpace, ENDED_EARLY, Snapshot, Source, SourceKind, grouped, program_name, without_cargo_hash,
};
pub use spacing::SampleSpacing;
pub use stack_numbers::{StackNumbers, TooManyCalls, Trie};
pub use stacks::{ColumnRange, Frame, Module, Resolution, StackNode, StackTable};
pub use strings::StringTable;
pub use timeline::{GaugeReading, NamedInstant, Timeline, TimelinePoint, gauge};
pub use type_facts::{MadeType, SizeOfType, TypeFacts};
pub use types::{ElementSum, SiteType, SiteTypes, TypeClaim, TypeDetails, type_details};
pub use utc::{rfc3339, utc_date};
pub use weight::Weight;
pub use when::{UnknownWhen, When, parse_duration};
pub use window::Window;
pub use word_sampling::WordSampling;
pub use wrappers::is_wrapper;
