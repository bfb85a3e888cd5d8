//! Rules that kernels dropped or never merged: clusters, skipped merges, round-robin and two-pass drains, stealing before
//! 6.15. Uses all layers below.
//!
//! # The seam
//!
//! The layers below use nothing of this folder by name. They call the methods in this table. Without the feature
//! `history` the methods in `off` replace them, return the values in the last column, and compile to nothing.
//! [`Tuning::check`](crate::Tuning::check) then rejects rules that need this folder.
//!
//! | method | called by | without the feature |
//! | --- | --- | --- |
//! | `Locked::put_in_cluster`, `remove_from_cluster` | a block that enters or leaves a free list | false: no list has clusters |
//! | `Locked::skips_merge`, `count_skips` | a block that is freed | false: every block merges |
//! | `Locked::wait_for_refills` | a look at a page that may be in flight | no refill is in flight |
//! | `Locked::steal_before_615` | a request that its own type cannot serve | none |
//! | `CachedZone::refill_from_clusters` | a refill | no page; the lock is still held |
//! | `CachedZone::drain_by_old_rules` | a drain | none: whole lists are drained |
//! | `Zone::merges`, `merge_skipped` | compaction, ranges, a request that found nothing | nothing was skipped |
//! | `Clusters::new`, `words` | the layout of a zone | no memory |
//!
//! | module | contents |
//! | --- | --- |
//! | `cluster` | runs of pages on an order-0 list that move as a whole between zone and pageset |
//! | `merge_skip` | frees without merging until high orders are needed |
//! | `round_robin` | drains before 5.18 |
//! | `steal` | fallback before 6.15 |

#[cfg(feature = "history")]
pub(crate) mod cluster;
#[cfg(feature = "history")]
mod merge_skip;
#[cfg(not(feature = "history"))]
mod off;
#[cfg(feature = "history")]
mod round_robin;
#[cfg(feature = "history")]
mod steal;
