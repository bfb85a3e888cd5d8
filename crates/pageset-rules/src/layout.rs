//! The layout of a zone as keys describe it: each part by itself, so that changes apply one after the other. The allocator has one value
//! for all of them, [`Backing`], which has no value for parts that exclude each other.

use pageset::Tuning;
use pageset::policy::{
    Backing, BulkFree, ClaimRule, ClusterRule, HAS_RESEARCH, Holds, OwnerRule, RegionRule, TuningError,
};

use crate::set::RuleSet;

/// How a drain frees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drains {
    PickLocked,
    TwoPass,
    SinglePass,
    Chunked,
    ShortHolds,
}

/// One field for each key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) regions: RegionRule,
    pub(crate) bulk_free: Drains,
    pub(crate) merge_skip: bool,
    pub(crate) clusters: bool,
    pub(crate) cluster_free: bool,
    pub(crate) depot: bool,
    pub(crate) bitmaps: bool,
    pub(crate) claim_blocks: bool,
    pub(crate) owners: OwnerRule,
    pub(crate) merge_blocks: bool,
}

impl From<Backing> for Layout {
    /// Looks at the variants themselves: in a build without the feature `research`, the methods of [`Backing`] do not see its rules.
    fn from(backing: Backing) -> Layout {
        let (merge_skip, clusters) = match backing {
            Backing::MergeSkip { clusters, .. } => (true, clusters),
            _ => (false, ClusterRule::Off),
        };
        let blocks = match backing {
            Backing::Claims { blocks, .. } => Some(blocks),
            _ => None,
        };
        let (claim_blocks, owners) = match blocks {
            Some(ClaimRule::Claim(owners) | ClaimRule::ClaimAndMerge(owners)) => (true, owners),
            _ => (false, OwnerRule::Off),
        };
        Layout {
            regions: backing.regions(),
            bulk_free: match backing.bulk_free() {
                Some(BulkFree::PickLocked) => Drains::PickLocked,
                Some(BulkFree::TwoPass) => Drains::TwoPass,
                Some(BulkFree::SinglePass) => Drains::SinglePass,
                Some(BulkFree::Chunked) => Drains::Chunked,
                None => Drains::ShortHolds,
            },
            merge_skip,
            clusters: clusters != ClusterRule::Off,
            cluster_free: clusters == ClusterRule::RefillsAndDrains,
            depot: backing.depot(),
            bitmaps: backing.bitmaps(),
            claim_blocks,
            owners,
            merge_blocks: matches!(blocks, Some(ClaimRule::Merge | ClaimRule::ClaimAndMerge(_))),
        }
    }
}

impl Layout {
    /// The value of the allocator.
    ///
    /// # Errors
    /// If a part needs one that is off, or the feature `research` in a build without it.
    pub(crate) fn backing(self) -> Result<Backing, TuningError> {
        let research = self.research_rule();
        if let (Some((rule, _)), false) = (research, HAS_RESEARCH) {
            return Err(TuningError::NeedsResearch { rule });
        }
        let needs = |rule, needs| Err(TuningError::Needs { rule, needs });
        let off = match self {
            Layout { clusters: true, merge_skip: false, .. } => Some(("clusters", "merge_skip = on")),
            Layout { cluster_free: true, clusters: false, .. } => Some(("cluster_free", "clusters = on")),
            Layout { claim_blocks: false, owners, .. } if owners != OwnerRule::Off => {
                Some(("owners", "claim_blocks = on"))
            }
            _ => None,
        };
        if let Some((rule, other)) = off {
            return needs(rule, other);
        }
        let is_kernels =
            self.regions == RegionRule::One && self.bulk_free != Drains::ShortHolds && !self.depot && !self.bitmaps;
        if let (Some((rule, all)), false) = (research, is_kernels) {
            return needs(rule, all);
        }
        let hides = if self.depot { Some("depot") } else { self.bitmaps.then_some("bitmaps") };
        let bulk_free = match self.bulk_free {
            Drains::PickLocked => BulkFree::PickLocked,
            Drains::TwoPass => BulkFree::TwoPass,
            Drains::SinglePass => BulkFree::SinglePass,
            Drains::Chunked => BulkFree::Chunked,
            Drains::ShortHolds => {
                let holds = Holds::Short { depot: self.depot, bitmaps: self.bitmaps };
                return Ok(Backing::Regions { count: self.regions, holds });
            }
        };
        if let Some(rule) = hides {
            return needs(rule, "bulk_free = short-holds");
        }
        let blocks = match (self.claim_blocks, self.merge_blocks) {
            (true, true) => Some(ClaimRule::ClaimAndMerge(self.owners)),
            (true, false) => Some(ClaimRule::Claim(self.owners)),
            (false, true) => Some(ClaimRule::Merge),
            (false, false) => None,
        };
        let (rule, chunked) =
            (if self.claim_blocks { "claim_blocks" } else { "merge_blocks" }, bulk_free == BulkFree::Chunked);
        match (blocks, bulk_free) {
            (None, _) if self.merge_skip => {
                let clusters = match (self.clusters, self.cluster_free) {
                    (false, _) => ClusterRule::Off,
                    (true, false) => ClusterRule::Refills,
                    (true, true) => ClusterRule::RefillsAndDrains,
                };
                Ok(Backing::MergeSkip { bulk_free, clusters })
            }
            (None, _) => Ok(Backing::Kernel(bulk_free).with_regions(self.regions)),
            (Some(_), _) if self.merge_skip => needs(rule, "merge_skip = off"),
            (Some(blocks), BulkFree::SinglePass | BulkFree::Chunked) => Ok(Backing::Claims { chunked, blocks }),
            (Some(_), _) => needs(rule, "bulk_free = single-pass or chunked"),
        }
    }

    /// The first part that kernels dropped or never merged, and all that it needs of the parts that no kernel has: a message that names
    /// them one by one lets a user fail four times.
    fn research_rule(self) -> Option<(&'static str, &'static str)> {
        const KERNELS: &str = "regions = one, depot = off and bitmaps = off";
        const SKIPS: &str =
            "regions = one, depot = off, bitmaps = off, and bulk_free = pick-locked, two-pass, single-pass or chunked";
        const CLAIMS: &str = "regions = one, depot = off, bitmaps = off, and bulk_free = single-pass or chunked";
        let parts = [
            (self.merge_skip, "merge_skip", SKIPS),
            (self.clusters, "clusters", SKIPS),
            (self.bulk_free == Drains::PickLocked, "bulk_free = pick-locked", KERNELS),
            (self.bulk_free == Drains::TwoPass, "bulk_free = two-pass", KERNELS),
            (self.claim_blocks, "claim_blocks", CLAIMS),
            (self.merge_blocks, "merge_blocks", CLAIMS),
            (self.owners != OwnerRule::Off, "owners", CLAIMS),
        ];
        parts.into_iter().find_map(|(on, rule, needs)| on.then_some((rule, needs)))
    }
}

/// A set of rules while keys change it, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Draft {
    /// All rules but the layout, whose field here means nothing.
    pub(crate) tuning: Tuning,
    pub(crate) layout: Layout,
    pub(crate) high_fraction: Option<u32>,
    pub(crate) cache_slice_pages: Option<u64>,
}

impl Draft {
    pub(crate) fn new(rules: &RuleSet) -> Draft {
        let RuleSet { tuning, high_fraction, cache_slice_pages, .. } = *rules;
        Draft { tuning, layout: tuning.backing.into(), high_fraction, cache_slice_pages }
    }

    /// The rules.
    ///
    /// # Errors
    /// If they contradict each other.
    pub(crate) fn tuning(&self) -> Result<Tuning, TuningError> {
        let tuning = Tuning { backing: self.layout.backing()?, ..self.tuning };
        tuning.check().map(|()| tuning)
    }
}

#[cfg(test)]
mod tests {
    use pageset::policy::PRESETS;
    use pageset::policy::presets::{LINUX_6_19, PAGESET, PCP_CLAIM, PCP_MERGE};

    use super::*;

    fn all() -> impl Iterator<Item = Layout> {
        let drains = [Drains::PickLocked, Drains::TwoPass, Drains::SinglePass, Drains::Chunked, Drains::ShortHolds];
        let owners = [OwnerRule::Off, OwnerRule::Wait, OwnerRule::Try, OwnerRule::List];
        let regions = [RegionRule::One, RegionRule::PerCpu, RegionRule::Fixed(3)];
        let words = regions
            .into_iter()
            .flat_map(move |regions| drains.map(|bulk_free| (regions, bulk_free)))
            .flat_map(move |(regions, bulk_free)| owners.map(|owners| (regions, bulk_free, owners)));
        words.flat_map(|(regions, bulk_free, owners)| {
            (0..1 << 7).map(move |bits: u32| {
                let on = |bit: u32| bits >> bit & 1 == 1;
                let (merge_skip, clusters, cluster_free, depot) = (on(0), on(1), on(2), on(3));
                let (bitmaps, claim_blocks, merge_blocks) = (on(4), on(5), on(6));
                Layout {
                    regions,
                    bulk_free,
                    merge_skip,
                    clusters,
                    cluster_free,
                    depot,
                    bitmaps,
                    claim_blocks,
                    owners,
                    merge_blocks,
                }
            })
        })
    }

    /// Whether the parts go together, as a table of what each needs.
    fn go_together(l: Layout) -> bool {
        let (short, one) = (l.bulk_free == Drains::ShortHolds, l.regions == RegionRule::One);
        let claims = l.claim_blocks || l.merge_blocks;
        let old = matches!(l.bulk_free, Drains::PickLocked | Drains::TwoPass);
        let needs = [
            (l.clusters, l.merge_skip),
            (l.cluster_free, l.clusters),
            (l.depot || l.bitmaps, short),
            (l.owners != OwnerRule::Off, l.claim_blocks),
            (claims, one && !short && !old && !l.merge_skip),
            (l.merge_skip, one && !short),
            (old, one),
        ];
        needs.iter().all(|&(rule, other)| !rule || other)
    }

    #[test]
    fn each_layout_has_one_value_or_contradicts_itself() {
        let mut valid = 0;
        for layout in all() {
            let backing = layout.backing();
            assert_eq!(backing.is_ok(), go_together(layout), "{layout:?}: {backing:?}");
            assert_eq!(backing.map_or(layout, Layout::from), layout);
            valid += usize::from(backing.is_ok());
        }
        // 4 kernels; 3 counts of regions with short holds and 4 choices of stores, 2 with two drains; 4 drains with 3 rules for clusters;
        // 2 drains with 1 + 4 + 4 rules for claims.
        assert_eq!(valid, 4 + 3 * 4 + 2 * 2 + 4 * 3 + 2 * 9);
        for preset in PRESETS {
            assert_eq!(Layout::from(preset.tuning.backing).backing(), Ok(preset.tuning.backing), "{}", preset.name);
        }
    }

    #[test]
    fn what_each_part_needs() {
        let [chunked, own, claim, merge] =
            [LINUX_6_19, PAGESET, PCP_CLAIM, PCP_MERGE].map(|tuning| Layout::from(tuning.backing));
        let skip = Layout { merge_skip: true, ..chunked };
        let kernels = "regions = one, depot = off and bitmaps = off";
        let skips =
            "regions = one, depot = off, bitmaps = off, and bulk_free = pick-locked, two-pass, single-pass or chunked";
        let claims = "regions = one, depot = off, bitmaps = off, and bulk_free = single-pass or chunked";
        for (layout, rule, needs) in [
            (Layout { clusters: true, ..chunked }, "clusters", "merge_skip = on"),
            (Layout { clusters: true, ..claim }, "clusters", "merge_skip = on"),
            (Layout { cluster_free: true, ..skip }, "cluster_free", "clusters = on"),
            (Layout { merge_skip: true, ..own }, "merge_skip", skips),
            (Layout { regions: RegionRule::PerCpu, ..skip }, "merge_skip", skips),
            (Layout { bulk_free: Drains::ShortHolds, ..skip }, "merge_skip", skips),
            (Layout { depot: true, ..skip }, "merge_skip", skips),
            (Layout { bitmaps: true, ..skip }, "merge_skip", skips),
            (Layout { merge_skip: true, ..claim }, "claim_blocks", "merge_skip = off"),
            (Layout { merge_skip: true, ..merge }, "merge_blocks", "merge_skip = off"),
            (Layout { bulk_free: Drains::PickLocked, ..own }, "bulk_free = pick-locked", kernels),
            (Layout { bulk_free: Drains::TwoPass, depot: true, ..chunked }, "bulk_free = two-pass", kernels),
            (Layout { depot: true, ..chunked }, "depot", "bulk_free = short-holds"),
            (Layout { bitmaps: true, ..chunked }, "bitmaps", "bulk_free = short-holds"),
            (Layout { bulk_free: Drains::Chunked, depot: false, ..own }, "bitmaps", "bulk_free = short-holds"),
            (Layout { owners: OwnerRule::Wait, ..chunked }, "owners", "claim_blocks = on"),
            (Layout { regions: RegionRule::PerCpu, ..claim }, "claim_blocks", claims),
            (Layout { regions: RegionRule::PerCpu, ..merge }, "merge_blocks", claims),
            (Layout { bulk_free: Drains::ShortHolds, ..claim }, "claim_blocks", claims),
            (Layout { bulk_free: Drains::ShortHolds, ..merge }, "merge_blocks", claims),
            (Layout { bulk_free: Drains::PickLocked, ..claim }, "claim_blocks", "bulk_free = single-pass or chunked"),
            (Layout { bulk_free: Drains::TwoPass, ..merge }, "merge_blocks", "bulk_free = single-pass or chunked"),
        ] {
            assert_eq!(layout.backing(), Err(TuningError::Needs { rule, needs }), "{layout:?}");
        }
    }
}
