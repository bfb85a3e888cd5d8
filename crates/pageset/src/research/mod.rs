//! Rules that kernels dropped or never merged: clusters, skipped merges, round-robin and two-pass drains, stealing before
//! 6.15; pageblocks that CPUs claim and own, and merges in the pageset. Uses all layers below.
//!
//! # The seam
//!
//! The layers below use nothing of this folder by name. They call the methods in this table. Without the feature
//! `research` the methods in `off` replace them, return the values in the last column, and compile to nothing; `Research` in a
//! zone and `PcpResearch` in a pageset have no memory. [`Tuning::check`](crate::Tuning::check) then rejects rules that need this folder.
//!
//! | method | called by | without the feature |
//! | --- | --- | --- |
//! | `ZoneGuard::note_put`, `remove_from_cluster` | a block that enters or leaves a free list | false: no list has clusters |
//! | `ZoneGuard::put_unmerged` | a block that is freed | false: every block merges |
//! | `ZoneGuard::end_ownership` | pageblocks that change their type or are captured | none has an owner |
//! | `ZoneGuard::wait_for_refills` | a look at a page that may be in flight | no refill is in flight |
//! | `ZoneGuard::steal_before_615` | a request that its own type cannot serve | none |
//! | `CachedZone::refill_by_claims` | a refill | none: the stores refill the pageset |
//! | `Zone::refill_from_clusters` | the refill of the stores | none |
//! | `CachedZone::free_to_owner` | a free | none: the block enters the caller's pageset |
//! | `CachedZone::drain_by_research` | a drain | none: whole lists are drained |
//! | `CachedZone::absorb`, `nothing_waits`, `end_drain` | drains and ticks | others leave nothing |
//! | `CachedZone::audit_waiting`, `Zone::has_skipped`, `check_research` | the audit | nothing to check |
//! | `CachedZone::research_counts` | the statistics | zeros |
//! | `Zone::merges`, `merge_skipped` | compaction, ranges, a request that found nothing | nothing was skipped |
//!
//! | module | contents |
//! | --- | --- |
//! | `claims` | whole pageblocks in pagesets, and their owners |
//! | `cluster` | runs of pages on an order-0 list that move as a whole between zone and pageset |
//! | `merge_skip` | frees without merging until high orders are needed |
//! | `round_robin` | drains before 5.18 |
//! | `steal` | fallback before 6.15 |

#[cfg(feature = "research")]
mod claims;
#[cfg(feature = "research")]
mod cluster;
#[cfg(feature = "research")]
mod merge_skip;
#[cfg(not(feature = "research"))]
mod off;
#[cfg(feature = "research")]
mod round_robin;
#[cfg(feature = "research")]
mod steal;

use crate::machine::Machine;
use crate::pcp::CachedZone;
#[cfg(feature = "research")]
use crate::zone::{Mismatch, Zone};

impl<M: Machine> CachedZone<'_, M> {
    /// The counters of these rules, at a recent moment: pages that other CPUs left for pagesets; pages that came to pagesets so, and merges
    /// in pagesets; those of [`Research`](crate::zone::research::Research). The first is read first: what such pages turn into then counts
    /// twice rather than not at all.
    pub(crate) fn research_counts(&self) -> (u64, [u64; 2], [u64; 6]) {
        let waiting = self.pagesets.iter().map(|pageset| u64::from(pageset.research.waiting())).sum();
        let each = self.pagesets.iter().map(|pageset| pageset.research.counters());
        let pagesets = each.fold([0; 2], |[pages, merges], [more, merged]| [pages + more, merges + merged]);
        (waiting, pagesets, self.shared.research.counters())
    }
}

#[cfg(feature = "research")]
impl<M: Machine> Zone<'_, M> {
    /// Checks, for the audit, clusters and owners.
    pub(crate) fn check_research(&self) -> Result<(), Mismatch> {
        self.check_clusters().and_then(|()| self.check_owners())
    }
}
