//! Rare operations: settings, CPUs and memory that come and go, contiguous ranges, compaction, reclaim, statistics, audit.
//! Uses all layers from `frame` to `alloc`.
//!
//! | module | contents |
//! | --- | --- |
//! | `build` | an allocator built from a configuration |
//! | `settings` | fractions, watermarks, bounds, pageblock types |
//! | `drains`, `cpus` | drains of pagesets, by time and by request; CPUs that come and go |
//! | `hotplug`, [`range`], `free_blocks` | memory that comes and goes; contiguous ranges; free blocks taken by page number |
//! | [`owner`] | the trait for the owner of the memory, which compaction, ranges and reclaim call |
//! | [`compact`], `direct_reclaim`, [`reclaim`] | free blocks made by moving pages; requests that wait for memory; background reclaim |
//! | [`stats`], [`audit`] | counters and the zoneinfo view; the consistency check |

pub mod audit;
mod build;
pub mod compact;
mod cpus;
mod direct_reclaim;
pub(crate) mod drains;
mod free_blocks;
mod hotplug;
pub mod owner;
pub mod range;
pub mod reclaim;
mod settings;
pub mod stats;
