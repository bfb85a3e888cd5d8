//! A page allocator with per-CPU page caches.
//!
//! It deals in page frame numbers and never touches the pages; it has no heap: the caller gives the memory for its
//! books. One [`Allocator`] has any number of nodes and zones. A zone is a buddy system behind one lock; in front
//! of the lock each CPU has a *pageset*, filled and emptied in batches whose sizes the [`Tuning`] decides.
//!
//! ```
//! use pageset::alloc::owned::OwnedMetadata;
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
//! Layers, bottom to top. Each uses only those above it in this table.
//!
//! | layer | contents |
//! | --- | --- |
//! | [`frame`] | page frame numbers, orders, migratetypes, and the metadata of each page |
//! | [`machine`] | the trait through which CPU numbers, locks and memory costs come in |
//! | [`policy`] | every rule as data; how many pages move: numbers in, numbers out |
//! | `buddy` | free lists, split, merge, claiming and stealing |
//! | `zone` | a zone's lock, watermarks and counters |
//! | [`pcp`] | the per-CPU pagesets: allocation, free, refill, drain |
//! | [`alloc`] | requests and zonelists; the fast, the general and the slow path |
//! | [`admin`] | CPUs and memory that come and go, contiguous ranges, compaction, statistics, audit |
//! | `history` | rules that kernels dropped or never merged |
#![no_std]
#![cfg_attr(not(feature = "history"), allow(dead_code, reason = "the rules of `history` alone use some helpers below"))]
#![forbid(unsafe_code)]

pub mod admin;
pub mod alloc;
mod buddy;
pub mod frame;
mod history;
pub mod machine;
#[cfg(all(loom, test))]
mod models;
pub mod pcp;
pub mod policy;
mod sync;
mod zone;

pub use admin::compact::{CompactMode, CompactOutcome, CompactReport};
pub use admin::owner::{Immovable, MoveError, Owner};
pub use admin::range::{Obstacle, RangeError};
pub use alloc::Allocator;
pub use alloc::config::{Config, MapError, Metadata, MetadataSize, ZoneSpec};
pub use alloc::error::{AllocError, FreeError, HotplugError, WrongFree};
pub use alloc::request::{Block, Request, Urgency, Wait};
pub use alloc::shortage::OutOfMemory;
pub use frame::{CpuId, MigrateType, NodeId, Order, PageRange, PageState, Pfn, ZoneKind};
pub use machine::{Access, CpuHint, Line, LockPath, Machine, RawLock, SpinLock};
pub use pcp::CachedZone;
pub use policy::Tuning;

// The former paths, until all crates use the new ones.
#[cfg(feature = "alloc")]
pub use alloc::owned;
pub use {admin::audit, admin::compact, admin::stats, alloc::config, alloc::shortage, policy as tuning};
