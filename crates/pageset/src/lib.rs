//! A page allocator with per-CPU page caches.
//!
//! It deals in page frame numbers and never touches the pages; it has no heap: the caller gives the memory for its
//! books. One [`Allocator`] has any number of nodes and zones. A zone is a buddy system behind one lock; in front
//! of the lock each CPU has a *pageset*, filled and emptied in batches whose sizes the [`Tuning`] decides.
//!
//! ```
//! use pageset::owned::OwnedMetadata;
//! use pageset::{Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request};
//! use pageset::{SpinLock, ZoneKind, ZoneSpec};
//!
//! /// What the allocator asks of the world: which CPU this is, and a lock.
//! struct OneCpu;
//!
//! impl Machine for OneCpu {
//!     type Lock = SpinLock;
//!
//!     fn cpu(&self) -> CpuId {
//!         CpuId(0)
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One zone of 4 GiB, all of it there, and one CPU on its node.
//! let ranges = [PageRange::new(Pfn(0x10_0000), 1 << 20)];
//! let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
//! let config = Config::new(&zones, &[NodeId(0)]);
//! // Without the feature `alloc` the caller brings the memory: `Config::metadata_size` says how much.
//! let metadata = OwnedMetadata::new(&config)?;
//! let mut zones = metadata.zones();
//! let allocator = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
//!
//! let page = allocator.alloc(&Request::new(Order::ZERO, MigrateType::Movable))?;
//! allocator.free(page, Order::ZERO)?;
//!
//! // The zone lock was taken once, for a batch of 63 pages, all of which the CPU has again.
//! let stats = allocator.zone_stats(0);
//! assert_eq!((stats.lock_refill, stats.pagesets.refill_pages, stats.pagesets.count), (1, 63, 63));
//! // A second free is an error that names the page, and changes nothing.
//! let twice = allocator.free(page, Order::ZERO).unwrap_err();
//! assert_eq!(twice.to_string(), "page 0x100000 cannot be freed as a block of order 0: it is free, in a pageset");
//! # Ok(())
//! # }
//! ```
//!
//! Modules, bottom to top; each uses those before it:
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`machine`] | the trait through which CPU numbers, locks and memory costs come in |
//! | `sync`, `word` | the atomics of protocols; how other shared words are read and written |
//! | [`migrate`], [`frame`] | migratetypes; page frame numbers, orders, tags |
//! | `pageblock` | the byte of a pageblock: its type, and compaction's skip bit |
//! | `list` | lists threaded through the pages' links |
//! | `flags` | a zone's flags |
//! | `flight` | refills on their way, and how others wait for them |
//! | `cluster` | runs of single pages, taken and given whole |
//! | `chunks` | the arrays of pagesets' lists |
//! | [`tuning`] | every rule as data; how many pages move: numbers in, numbers out |
//! | [`zone`] | a zone's metadata and lock |
//! | `hold` | holds of a zone's lock |
//! | `watermark`, `boost` | whether a zone has enough for a request; its marks higher for a while |
//! | [`request`] | what callers ask for |
//! | `buddy` | free lists, split, merge |
//! | `skip` | merging put off until high orders are needed |
//! | `fallback` | claiming and stealing other types' pageblocks |
//! | `highatomic` | pageblocks kept for urgent requests |
//! | `attempt` | one look at the zones: under which mark, with which rights |
//! | [`pcp`] | pagesets: alloc, free, refill, drain |
//! | `hot` | the fast path: a block taken or given where nothing else is to do |
//! | [`config`], `node` | the memory map and its metadata; zonelists |
//! | [`shortage`], [`error`] | what callers get instead of a page |
//! | [`allocator`] | what callers call: alloc and free |
//! | [`owner`] | who the pages belong to: what slow paths ask of it |
//! | [`compact`] | free blocks made by moving pages |
//! | `walk`, `slow` | one request on its way through zones and marks; what stands behind it |
//! | `bulk` | many pages at once |
//! | `drains`, `cpus` | pagesets emptied by request and by time; CPUs that come and go |
//! | [`range`] | pages by their numbers, whoever has them now |
//! | `hotplug`, `admin` | memory that comes and goes; what is set by hand |
//! | [`reclaim`] | for a reclaimer in the background: where it is needed, when it may rest |
//! | [`stats`], [`audit`] | counters, the zoneinfo view; the books checked |
//! | `owned` | metadata from a heap, with the feature `alloc` |
//!
//! Exceptions: a zone holds its pagesets, its deferral and what compaction remembers, so `zone` names types of `pcp` and
//! `compact`; a free may be captured, so `buddy` and `pcp` name one of `compact`; a machine is told of kinds of zones, so
//! `machine` names a type of `zone`.
#![no_std]
#![forbid(unsafe_code)]

mod admin;
pub mod allocator;
mod attempt;
pub mod audit;
mod boost;
mod buddy;
mod bulk;
mod chunks;
mod cluster;
pub mod compact;
pub mod config;
mod cpus;
mod drains;
pub mod error;
mod fallback;
mod flags;
mod flight;
pub mod frame;
mod highatomic;
mod hold;
mod hot;
mod hotplug;
mod list;
pub mod machine;
pub mod migrate;
#[cfg(all(loom, test))]
mod models;
mod node;
#[cfg(feature = "alloc")]
pub mod owned;
pub mod owner;
mod pageblock;
pub mod pcp;
mod place;
pub mod range;
pub mod reclaim;
pub mod request;
pub mod shortage;
mod skip;
mod slow;
pub mod stats;
mod sync;
pub mod tuning;
mod walk;
mod watermark;
mod word;
pub mod zone;

pub use allocator::Allocator;
pub use compact::{CompactMode, CompactOutcome, CompactReport};
pub use config::{Config, MapError, Metadata, MetadataSize, PageRange, ZoneSpec};
pub use error::{AllocError, FreeError, HotplugError, WrongFree};
pub use frame::{CpuId, Order, PageState, Pfn};
pub use machine::{Line, LockPath, Machine, RawLock, SpinLock, Spot};
pub use migrate::MigrateType;
pub use owner::{Immovable, MoveError, Owner};
pub use range::{Obstacle, RangeError};
pub use request::{Block, Request, Urgency, Wait};
pub use shortage::OutOfMemory;
pub use tuning::Tuning;
pub use zone::{NodeId, Zone, ZoneKind};
