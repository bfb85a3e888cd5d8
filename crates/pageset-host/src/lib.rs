//! A pool of pages for programs: [`PagePool`] reserves address space and hands out page-aligned runs of 2^order pages.
//!
//! The pool is `pageset`'s allocator over mapped memory. Each NUMA node has a buddy system behind one lock. In front of
//! that lock, each CPU has a cache of pages, and the allocator sizes it. A wrong free is an error and changes nothing.
//!
//! ```
//! use pageset_host::{Order, PagePool};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 64 MiB of address space. A page takes memory when it is first touched.
//! let pool = PagePool::builder(64 << 20).build()?;
//!
//! // A handle of 2^2 pages, 16 KiB. Dropping the handle frees the pages.
//! let mut buffer = pool.pages(Order::new(2).ok_or("an order")?)?;
//! buffer[..5].copy_from_slice(b"hello");
//! assert_eq!(buffer.len(), 16 << 10);
//! drop(buffer);
//!
//! // The raw calls, for callers that keep track of their pages.
//! let page = pool.alloc(Order::ZERO)?;
//! // SAFETY: the page is allocated, and nothing refers to it.
//! unsafe { pool.free(page.cast(), Order::ZERO)? };
//! assert_eq!(pool.stats().in_use_bytes, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, bottom to top. Each uses only modules above it in this table.
//!
//! | module | contents |
//! | --- | --- |
//! | `size` | sizes of pages, runs and nodes |
//! | `chunk_mask` | sets of the pages of one 2 MiB chunk |
//! | [`error`] | errors of building, allocating and freeing |
//! | `sys` | the unsafe code: mappings, metadata in mapped memory, CPU numbers, restartable sequences, NUMA binding |
//! | [`topology`] | the machine: possible CPUs, nodes, distances, cache |
//! | [`lock`] | the lock of zones and pagesets: spins, then yields, then sleeps |
//! | `machine` | the allocator's trait `Machine`: CPU numbers and locks |
//! | `looks` | which pages of a chunk have stayed free |
//! | [`give_back`] | the policy of returning free memory to the system, and the state of its scans |
//! | `contig_runs` | the sizes of contiguous runs in use |
//! | `run_hooks` | what a pool does to the memory of a run that is allocated or freed |
//! | `withheld` | the limit of a pool, and the memory that it withholds |
//! | `waiters` | the queue of callers that wait for memory |
//! | [`memory`] | what the memory is: private or shared, its name, huge pages, what forked children see |
//! | `spec` | what a call allocates, if it is not common |
//! | [`pool`] | raw calls: one run, many pages |
//! | `scan_blocks` | blocks that a scan holds |
//! | `scan_parts` | the part of a scan that returns parts of chunks |
//! | `scan` | scans that return free memory |
//! | [`tick`] | periodic work, by a caller or by a thread |
//! | [`builder`] | the settings of a pool, and its construction |
//! | `resize` | growing and shrinking |
//! | `limit` | a limit below the size |
//! | `offsets` | pages by their offset, and the descriptor of shared memory |
//! | [`shared_view`] | the memory of another process's pool |
//! | [`stats`] | counters |
//! | [`pressure`] | give-back when the system or a cgroup runs short |
//! | [`pages`] | handles that free their run on drop |
//! | [`contig`] | contiguous runs of any size |
//! | `zeroed` | runs that contain zeros; pools whose free memory contains zeros |
//! | [`wait`] | allocations that wait until memory is free |
//! | `allocator_trait`, `into_bytes` | traits of `allocator-api2` and `bytes`, each behind its feature |
//!
//! # Threads, CPUs, forks, panics
//!
//! Any thread can make any call at any time. The kernel may move a thread to another CPU during a call. If the thread
//! already holds a cache's lock, it finishes the call on that cache; otherwise it bypasses the cache. A thread also
//! bypasses a cache that is busy. A child of `vfork` must not call the pool before it runs its program.
//!
//! Threads own nothing in the pool, so a thread that ends leaves nothing behind. A CPU's cache may hold pages while no
//! thread runs there. Those pages return when the pool runs out of memory, or when a thread calls [`PagePool::tick`]
//! on that CPU. The pool has caches for the CPUs that are online. A [`Ticker`] follows changes of that set, so a CPU
//! that goes offline returns its pages.
//!
//! A panic in a caller unwinds through its handles, which free their pages. The pool holds no lock while it calls
//! code of the caller.
//!
//! After a `fork`, the pool belongs to the parent. In the child, each call that allocates or frees memory returns an
//! error, and dropped handles free nothing. [`OnFork`] selects whether the child sees a copy of the memory.
//! A child never sees the pages of a pool of shared memory, except by a [`SharedView`].
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "cannot build pageset-host for this target: a pool reserves up to 16 TiB of address space; try 64-bit Linux"
);

#[cfg(feature = "allocator-api2")]
mod allocator_trait;
pub mod builder;
mod chunk_mask;
pub mod contig;
mod contig_runs;
pub mod error;
pub mod give_back;
#[cfg(feature = "bytes")]
mod into_bytes;
mod limit;
pub mod lock;
mod looks;
mod machine;
pub mod memory;
mod offsets;
pub mod pages;
pub mod pool;
pub mod pressure;
mod resize;
mod run_hooks;
mod scan;
mod scan_blocks;
mod scan_parts;
pub mod shared_view;
mod size;
mod spec;
pub mod stats;
#[allow(unsafe_code, reason = "the lowest modules, with numbered reasons at each block")]
mod sys;
pub mod tick;
pub mod topology;
pub mod wait;
#[cfg(all(loom, test))]
mod wait_model_tests;
mod waiters;
mod withheld;
mod zeroed;

pub use builder::PoolBuilder;
pub use contig::ContigPages;
pub use error::{AllocError, FreeError, FreeReason, PoolError};
pub use give_back::{GiveBack, GiveBackParts};
pub use memory::{HugePages, Memory, OnFork};
pub use offsets::PoolMemory;
pub use pages::{Pages, PoolRef};
pub use pageset::{FreeCheck, MigrateType, NodeId, Order, PageState, Tuning, WrongFree};
pub use pool::{PAGE_BYTES, PagePool, order_for};
pub use pressure::{Pressure, PressureError, PressureSource, PressureWatcher};
pub use shared_view::{SharedView, ViewError};
pub use spec::{ContigSpec, RunSpec};
pub use stats::PoolStats;
pub use sys::cpu::CpuNumber;
pub use tick::Ticker;
pub use wait::PagesFuture;

/// The program of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/pool.md")]
struct Guide;
