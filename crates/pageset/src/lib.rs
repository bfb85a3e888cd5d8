//! A page allocator with per-CPU page caches.
//!
//! The allocator works with page frame numbers and never touches the pages. It has no heap: the caller provides the
//! memory for its metadata. One [`Allocator`] has any number of nodes and zones. A zone is a buddy system behind one
//! lock, or divided into regions with a lock each. In front of the lock each CPU has a *pageset*, refilled and drained in
//! batches whose sizes the [`Tuning`] decides.
//!
//! ```
//! use core::mem::MaybeUninit;
//! use pageset::{Allocator, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request};
//! use pageset::{SpinLock, ZoneKind, ZoneSpec};
//!
//! /// The allocator's view of the machine: the current CPU, and a lock.
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
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // One zone of 4 GiB, completely present, and one CPU on its node.
//!     let ranges = [PageRange::new(Pfn(0x10_0000), 1 << 20)];
//!     let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
//!     let config = Config::new(&zones, &[NodeId(0)]);
//!     // The caller brings the memory for the metadata. A kernel takes it from its boot memory.
//!     let bytes = config.metadata_bytes::<OneCpu>()?;
//!     let memory = Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice());
//!     let allocator = Allocator::from_bytes(OneCpu, &config, memory)?;
//!
//!     let page = allocator.alloc(&Request::new(Order::ZERO, MigrateType::Movable))?;
//!     allocator.free(page, Order::ZERO)?;
//!
//!     // The zone lock was taken once, for a batch of 63 pages. The CPU's pageset now holds all of them.
//!     let stats = allocator.zone(0).expect("a zone").stats();
//!     assert_eq!((stats.lock_refill, stats.pagesets.refill_pages, stats.pagesets.count), (1, 63, 63));
//!     // A second free is an error that names the page; it changes nothing.
//!     let twice = allocator.free(page, Order::ZERO).unwrap_err();
//!     assert_eq!(twice.to_string(), "cannot free page 0x100000 as a block of order 0: it is free, in a pageset");
//!     Ok(())
//! }
//! ```
//!
//! Layers, bottom to top. Each uses only those above it in this table.
//!
//! | layer | contents |
//! | --- | --- |
//! | [`frame`] | page frame numbers, orders, migratetypes, and the metadata of each page |
//! | [`machine`] | the trait that provides CPU numbers, locks and memory costs |
//! | [`policy`] | every rule as data; the pure functions that decide how many pages move |
//! | `zone` | a zone and its regions: what it knows of its pages, free lists, marks, counters, and the locks |
//! | `buddy` | what changes free lists: split, merge, claiming and stealing |
//! | `store` | what lies behind a pageset: depots, bitmaps, free lists |
//! | [`pcp`] | the per-CPU pagesets: allocation, free, refill, drain |
//! | [`alloc`] | requests and zonelists; the fast, the general and the slow path |
//! | [`admin`] | CPUs and memory that come and go, contiguous ranges, compaction, statistics, audit |
//! | `research` | rules that kernels dropped or never merged; pageblocks with owners |
//!
//! Below all of them, `sync` has the atomics and the words that a lock protects. The one exception to the order is the seam of
//! `research`: the layers below call the methods that its module lists, without naming the module.
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `alloc` | metadata from a heap: the module `alloc::owned` |
//! | `bytes` | metadata in one piece of memory, or in one for each zone: `Allocator::from_bytes`, `Allocator::from_zone_bytes` |
//! | `rules` (on by default) | rules other than [`Tuning::default`]. Without it the default rules are constants, all other code disappears, and calls that allocate many blocks have no fast path of their own: for a kernel that is to be small |
//! | `bulk` (in `rules`) | calls that free many blocks treat those of one kind together. Without it a pageset has room for at most 322 blocks, in 2 KiB |
//! | `research` | the layer `research`: the rules of kernels before 6.15 (6.12.29 in its series) and of the RFCs of 2018 and 2026, and their presets. Without it [`Tuning::check`] refuses these rules, and [`Tuning::research_rule`] names the rule |
//!
//! `ci/no-std-check/src/main.rs` in the repository is a complete example. Without `alloc` and `bytes` the caller fills a [`Metadata`] of
//! slices.
//!
//! # In a kernel
//!
//! 1. A lock that masks interrupts while it is held: [`RawLock`].
//! 2. Zones with a span and no ranges, because the metadata lie in the zones' own memory.
//! 3. The metadata: `Allocator::from_bytes`, or `Allocator::from_zone_bytes` with memory on each zone's node.
//! 4. [`Allocator::online`] for all memory but the image and the metadata.
//! 5. [`Allocator::cpu_online`] for each CPU before it allocates, and [`Allocator::tick`] once a second on each.
//!
//! A zone whose metadata lie in its own first pages:
//!
//! ```
//! # use core::mem::MaybeUninit;
//! # use pageset::{Allocator, Config, CpuId, Machine, NodeId, PageRange, Pfn, SpinLock, ZoneKind, ZoneSpec};
//! # struct OneCpu;
//! # impl Machine for OneCpu {
//! #     type Lock = SpinLock;
//! #     fn cpu(&self) -> CpuId {
//! #         CpuId(0)
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const PAGE: usize = Pfn::PAGE_BYTES as usize;
//! const PAGES: usize = 4096;
//! // What the boot loader found, from a page boundary on.
//! let memory = Box::leak(vec![MaybeUninit::uninit(); (PAGES + 1) * PAGE].into_boxed_slice());
//! let (_, memory) = memory.split_at_mut(memory.as_ptr().align_offset(PAGE));
//! let start = Pfn::at_address(memory.as_ptr().addr());
//! let span = PageRange::new(start, PAGES as u64);
//! // Without ranges: nothing is free yet.
//! let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, ranges: &[] }];
//! let config = Config::new(&zones, &[NodeId(0)]);
//! let used = config.metadata_bytes::<OneCpu>()?.next_multiple_of(PAGE);
//! let (metadata, _pages) = memory.split_at_mut(used);
//! let allocator = Allocator::from_bytes(OneCpu, &config, metadata)?;
//! let used = (used / PAGE) as u64;
//! allocator.online(PageRange::new(start.offset(used), span.pages - used))?;
//! assert_eq!(allocator.zone(0).expect("a zone").stats().managed, 4096 - used);
//! # Ok(())
//! # }
//! ```
//!
//! In the repository, `docs/reference/contexts.md` says which call is allowed in which context, and `kernel/src/frames.rs` is an
//! example with several CPUs and nodes. [`RawLock`] has the order of the locks.
//!
//! # Page size and orders
//!
//! The build chooses the page size and two orders, as the configuration of a kernel does: the fast path relies on constants.
//! Environment variables of the build set them. Without them the sizes are those of Linux on x86-64.
//!
//! | variable | meaning | allowed | default |
//! | --- | --- | --- | --- |
//! | `PAGESET_PAGE_KIB` | the size of a page in KiB, [`Pfn::PAGE_BYTES`] | 4, 16, 64 | 4 |
//! | `PAGESET_PAGEBLOCK_ORDER` | the order of a pageblock and of a huge page, [`Order::PAGEBLOCK`] | 4 to 15 | 9; 11 for pages of 16 KiB, 13 for 64 KiB |
//! | `PAGESET_MAX_ORDER` | the largest order, [`Order::MAX`] | the pageblock order to 15 | 10; 11 for pages of 16 KiB, 13 for 64 KiB |
//!
//! The build refuses other values and names the allowed ones. A kernel sets the variables in its `.cargo/config.toml`:
//!
//! ```toml
//! [env]
//! PAGESET_PAGE_KIB = "16"
//! ```
//!
//! Caps in bytes, such as that of a batch, become fewer pages where pages are larger. If unsure, use the values of the Linux
//! kernel for the same machine. `pageset-host` and the adapter for the crate `x86_64` need pages of 4 KiB.
//!
//! # 32-bit machines
//!
//! The crate needs atomics of 8 and 32 bits with compare-and-exchange, as riscv32imac and ARMv7-M have. Without 64-bit atomics
//! each counter is three words of 32 bits. Nobody waits for them, so interrupts may read counters at any time.
//!
//! # What to call
//!
//! | for | methods of [`Allocator`] |
//! | --- | --- |
//! | one block | `alloc`, `free`, `split`, `block_of` |
//! | any number of pages, an owner who gives some, pages for long | `alloc_with` and [`Alloc`] |
//! | any pages in use | `free_range` |
//! | pages that are not needed soon, frees that wait for nothing, memory that the owner clears before it is free | `free_with` and [`Free`] |
//! | handlers that no lock keeps out | [`Allocator::non_blocking`]: the calls that wait for nothing |
//! | many pages | `alloc_bulk`, `free_bulk`, `free_bulk_of`, `alloc_range` |
//! | pagesets | `tick` once a second on each CPU; `drain`, `drain_cpu`, `drain_all` |
//! | CPUs and memory that come and go | `cpu_online`, `cpu_offline`, `online`, `offline` |
//! | settings, counters and checks of a zone | `zones`, `zone`, `zone_of`, which give a [`ZoneView`]; its `pageset` gives a [`PagesetView`] |
//! | reclaim and compaction of a node | `node`, which gives a [`NodeView`] |
//! | the whole as text | `zoneinfo` |
//!
//! Comments such as "Specification 2.4" name a section of a description of the kernel's behaviour, `linux-page-allocator.md`. It is not
//! part of this repository, and the documentation stands without it.
#![no_std]
#![forbid(unsafe_code)]

pub mod admin;
pub mod alloc;
mod buddy;
pub mod frame;
pub mod machine;
#[cfg(all(loom, test))]
mod models;
pub mod pcp;
pub mod policy;
mod research;
mod store;
mod sync;
mod zone;

pub use admin::alloc_with::Alloc;
pub use admin::compact::{CompactMode, CompactOutcome, CompactReport};
pub use admin::owner::{Immovable, MoveError, Owner};
pub use admin::range::{Obstacle, RangeError};
pub use admin::views::{NodeView, PagesetView, ZoneView};
pub use alloc::config::{
    Config, FreeCheck, MapError, Metadata, MetadataSize, ZoneMetadata, ZoneMetadataSize, ZoneSpec,
};
pub use alloc::error::{AllocError, FreeError, HotplugError, SplitError, WrongFree};
pub use alloc::request::{AllocFrom, Block, PageHandle, Request, Urgency, Wait};
pub use alloc::shortage::OutOfMemory;
pub use alloc::{Allocator, FastPath, Free, FreeTo, NonBlocking};
pub use frame::{CpuId, MigrateType, NodeId, Order, PageRange, PageState, Pfn, ZoneKind};
pub use machine::{CpuHint, LockPath, Machine, RawLock, SpinLock};
pub use pcp::CachedZone;
pub use policy::{Backing, OwnerRule, RegionRule, Tuning};
pub use zone::region::Region;
