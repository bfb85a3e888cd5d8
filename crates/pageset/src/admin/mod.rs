//! Rare operations: settings, CPUs and memory that come and go, contiguous ranges, compaction, reclaim, statistics, audit.
//! Uses all layers from `frame` to `alloc`.
//!
//! | module | contents |
//! | --- | --- |
//! | `build`, `bytes` | an allocator built from a configuration; its metadata in one piece of memory |
//! | `settings` | fractions, watermarks, bounds, pageblock types |
//! | `drains` | drains of pagesets, by time and by request |
//! | `views` | zones, nodes and pagesets, as values that the allocator gives out |
//! | `online` | CPUs and memory that come and go, free blocks taken by page number |
//! | [`alloc_with`] | allocations other than the common one: of any number of pages, from elsewhere, with an owner |
//! | [`range`], `contig` | contiguous ranges; runs of any number of pages |
//! | [`owner`] | the trait for the owner of the memory, which compaction, ranges and reclaim call |
//! | [`compact`], [`reclaim`] | free blocks made by moving pages; requests that wait for memory, and background reclaim |
//! | [`stats`], [`audit`] | counters and the zoneinfo view; the consistency check |

pub mod alloc_with;
pub mod audit;
mod build;
#[cfg(feature = "bytes")]
mod bytes;
pub mod compact;
mod contig;
pub(crate) mod drains;
mod online;
pub mod owner;
pub mod range;
pub mod reclaim;
mod settings;
pub mod stats;
pub(crate) mod views;
