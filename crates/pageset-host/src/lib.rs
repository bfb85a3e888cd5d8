//! Pages for programs: a [`PagePool`] reserves address space and hands out page-aligned runs of 2^order pages.
//!
//! The pool is `pageset`'s allocator over mapped memory: a buddy system behind a lock for each NUMA node, and in front
//! of it a cache of pages for each CPU that sizes itself. Wrong frees are errors that change nothing.
//!
//! ```
//! use pageset_host::{Order, PagePool};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 64 MiB of address space; memory comes as it is touched.
//! let pool = PagePool::builder(64 << 20).build()?;
//!
//! // A handle that frees on drop: 2^2 pages, 16 KiB.
//! let mut buffer = pool.pages(Order::new(2).ok_or("an order")?)?;
//! buffer[..5].copy_from_slice(b"hello");
//! assert_eq!(buffer.len(), 16 << 10);
//! drop(buffer);
//!
//! // The raw calls, for those who keep their own books.
//! let page = pool.alloc(Order::ZERO)?;
//! // SAFETY: the page is ours, and nothing refers to it any more.
//! unsafe { pool.free(page.cast(), Order::ZERO)? };
//! assert_eq!(pool.stats().in_use_bytes, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, bottom to top; each uses those before it:
//!
//! | module | what lives there |
//! | --- | --- |
//! | `sys` | all that is unsafe: mappings, the books in them, CPU numbers, residency, NUMA binding |
//! | [`topology`] | what the machine is: possible CPUs, nodes, distances, cache |
//! | [`lock`] | the lock of zones and pagesets: spins, then yields, then sleeps |
//! | `machine` | CPU numbers and the lock, as the allocator asks for them |
//! | [`error`] | what callers get instead of memory, or for a wrong free |
//! | [`builder`] | what a pool is made from |
//! | [`pool`] | raw calls: one block, many pages |
//! | `resize` | a pool that grows and shrinks |
//! | [`give_back`] | free memory that goes back to the system |
//! | [`tick`] | what is due once a second, by a caller or a thread |
//! | [`stats`] | how much is where |
//! | [`pages`] | handles that free on drop |
//! | [`contig`] | contiguous runs of any size |
//! | `api2`, `shared_bytes` | the traits of the ecosystem, each behind its feature |
//!
//! # Threads, CPUs, forks, panics
//!
//! Every call may be made by any thread at any time. A thread that is moved to another CPU in the middle of a call
//! finishes it on the cache whose lock it has, or passes by the one whose lock it does not have yet; so is a cache that
//! is busy. A child of `vfork` that has not yet run its program makes no calls. No thread owns anything in the
//! pool, so a thread that ends leaves nothing behind; what the cache of a CPU holds that no thread runs on any more
//! comes back when the pool runs out, or with a [`PagePool::tick`] on that CPU. There are caches for the CPUs that are
//! online; a [`Ticker`] looks which those are, so that the pages of one that is taken away come back. A panic inside a
//! caller unwinds through its handles, which free their pages; the pool itself holds no lock while it calls anything of
//! the caller's.
//!
//! After a `fork` the pool belongs to the parent. In the child each call that takes or gives memory is refused with an
//! error, and handles that are dropped there free nothing; whether the child sees a copy of the memory or none is
//! [`OnFork`]'s to say.
#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "pageset-host needs Linux and 64-bit addresses: a pool is address space that is set apart, up to 16 TiB"
);

#[cfg(feature = "allocator-api2")]
mod allocator_trait;
pub mod builder;
pub mod contig;
pub mod error;
pub mod give_back;
#[cfg(feature = "bytes")]
mod into_bytes;
pub mod lock;
mod machine;
pub mod pages;
pub mod pool;
mod resize;
pub mod stats;
#[allow(unsafe_code, reason = "the lowest modules, with numbered reasons at each block")]
mod sys;
pub mod tick;
pub mod topology;

pub use builder::{HugePages, OnFork, PoolBuilder};
pub use contig::ContigPages;
pub use error::{AllocError, FreeError, FreeReason, PoolError};
pub use give_back::GiveBack;
pub use pages::{Pages, PoolRef};
pub use pageset::{MigrateType, NodeId, Order, PageState, Tuning, WrongFree};
pub use pool::{PAGE_BYTES, PagePool, order_for};
pub use stats::PoolStats;
pub use sys::cpu::CpuNumber;
pub use tick::Ticker;
