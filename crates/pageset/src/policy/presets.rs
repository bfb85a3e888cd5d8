//! The sets of rules that were in use or proposed, each as a difference from another one.
//!
//! Specification: eras in section 0, the auto-tuning series in section 4.

#[cfg(feature = "research")]
mod research;
#[cfg(feature = "research")]
pub use research::*;
#[cfg(feature = "research")]
use research::{CLAIMS, EARLIER};

use super::{
    Backing, BatchRule, BulkFree, DecayRule, FallbackRule, HighAtomicRule, HighRule, Holds, ListRule, RegionRule,
    Tuning,
};

/// A named set of rules.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name on a command line.
    pub name: &'static str,
    /// Where the rules were in use.
    pub about: &'static str,
    /// The rules.
    pub tuning: Tuning,
}

/// 6.15, and 6.12.29 on: claiming before stealing.
pub const LINUX_6_15: Tuning = Tuning {
    batch: BatchRule::FromZone { cap_kib: 1024 },
    high: HighRule::FromLowWatermark,
    lists: ListRule::HugeByMobility,
    backing: Backing::Kernel(BulkFree::SinglePass),
    fallback: FallbackRule::ClaimThenSteal,
    fallback_tail: true,
    cma_skip: false,
    no_fragment: true,
    highatomic: HighAtomicRule::Free,
    merge_by_type: true,
    type_at_drain: true,
    scale_drain: true,
    drain_high_order: true,
    reclaim_limit: true,
    prev_high_order: true,
    cache_slice: true,
    // As merged. Specification 4.3.
    cache_slice_batches: 3,
    scale_cap: true,
    alloc_factor: true,
    auto_high: true,
    below_high: true,
    count_min: false,
    free_count: true,
    shrink_by_count: false,
    high_threshold_616: false,
    below_high_by_pages: false,
    below_high_at_tick: false,
    expire_all: false,
    bulk_counts: false,
    long_runs: false,
    double_blocks: false,
    batch_blocks: 0,
    high_share: 0,
    whole_blocks: false,
    drain_for_requests: false,
    decay: DecayRule::Eighth,
    // The kernel's default. Specification 9.
    batch_scale_max: 5,
    // No further limit.
    block_scale_max: 6,
    kept_fraction: 0,
};

/// 6.16 and 6.17: a higher threshold for high-order draining.
pub const LINUX_6_16: Tuning = Tuning { high_threshold_616: true, ..LINUX_6_15 };

/// 6.18: the rules that were checked against recordings of a live machine.
pub const LINUX_6_18: Tuning = LINUX_6_16;

/// E7, 6.19 on: drains release the zone lock after each batch.
pub const LINUX_6_19: Tuning = Tuning { backing: Backing::Kernel(BulkFree::Chunked), ..LINUX_6_18 };

/// This project's own: 6.18 without four of its defects; with regions, depots and bitmaps, lists for all orders, short holds of the
/// regions' locks, long ones of a pageset's own for bulk frees, and whole blocks.
pub const PAGESET: Tuning = Tuning {
    lists: ListRule::AllOrders,
    backing: Backing::Regions { count: RegionRule::PerCpu, holds: Holds::Short { depot: true, bitmaps: true } },
    double_blocks: true,
    batch_blocks: 16,
    high_share: 3,
    cache_slice_batches: 0,
    below_high_by_pages: true,
    below_high_at_tick: true,
    expire_all: true,
    bulk_counts: true,
    long_runs: true,
    whole_blocks: true,
    drain_for_requests: true,
    batch_scale_max: 3,
    block_scale_max: 2,
    kept_fraction: 4,
    ..LINUX_6_18
};

/// [`PAGESET`], with the free parts of pageblocks on lists.
pub const PAGESET_LISTS: Tuning = Tuning { backing: PAGESET.backing.with_stores(true, false), ..PAGESET };

const fn preset(name: &'static str, about: &'static str, tuning: Tuning) -> Preset {
    Preset { name, about, tuning }
}

/// All presets, oldest first. Those of kernels before 6.15 (6.12.29 in its series) and of RFCs need the feature `research`. `linux-A.B` and `linux-A.B.0` name the first release with these rules. `linux-A.B.C`
/// names the first update of the stable series A.B with these rules; it does not apply to other series. [`TUNED_6_6`] is no release.
pub const PRESETS: &[Preset] = &{
    let parts = [EARLIER, LATER, CLAIMS, OWN];
    let mut all = [OWN[0]; EARLIER.len() + LATER.len() + CLAIMS.len() + OWN.len()];
    let (mut part, mut at, mut filled) = (0, 0, 0);
    while part < parts.len() {
        if at == parts[part].len() {
            (part, at) = (part + 1, 0);
        } else {
            all[filled] = parts[part][at];
            (at, filled) = (at + 1, filled + 1);
        }
    }
    all
};

#[cfg(not(feature = "research"))]
const EARLIER: &[Preset] = &[];
#[cfg(not(feature = "research"))]
const CLAIMS: &[Preset] = &[];

const LATER: &[Preset] = &[
    preset("linux-6.12.29", "6.12.29 on: as 6.15", LINUX_6_15),
    preset("linux-6.15", "6.15: pageblocks are claimed before blocks are stolen", LINUX_6_15),
    preset("linux-6.16", "6.16-6.17: higher threshold for high-order drains", LINUX_6_16),
    preset("linux-6.18", "6.18: as 6.16", LINUX_6_18),
    preset("linux-6.19", "6.19 on: drains in chunks of a batch", LINUX_6_19),
];

/// The name of the rules of distributions that have the auto-tuning of 6.7 in 6.6. Their versions do not tell: only lists and traffic do.
pub const TUNED_6_6: &str = "linux-6.6-tuned";

const OWN: &[Preset] = &[
    preset("pageset", "this project's default: 6.18 without four of its defects", PAGESET),
    preset("pageset-lists", "the same, with the free parts of pageblocks on lists, not in bitmaps", PAGESET_LISTS),
];

/// Whether this build has the rules and the presets that need the feature `research`.
pub const HAS_RESEARCH: bool = cfg!(feature = "research");

/// The series of kernels whose rules are known, and the newest minor number of each. A series before 4.0 is not: nobody
/// compared its rules with those of 4.16.
pub const KNOWN_SERIES: [(u32, u32); 4] = [(4, 20), (5, 19), (6, 19), (7, 3)];

/// A kernel release, such as 6.1.192.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The update of the stable series; `None` for the newest.
    pub update: Option<u32>,
}

impl Release {
    /// The newest update of a series.
    #[must_use]
    pub const fn newest(major: u32, minor: u32) -> Self {
        Release { major, minor, update: None }
    }

    /// One update of a series.
    #[must_use]
    pub const fn update(major: u32, minor: u32, update: u32) -> Self {
        Release { major, minor, update: Some(update) }
    }

    /// Parses `A.B` or `A.B.C` at the start of a text. The next character must not be a digit or a point.
    #[must_use]
    pub fn parse(text: &str) -> Option<Release> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut numbers = text.get(..end)?.split('.').map(|number| number.parse::<u32>().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        let update = match numbers.next() {
            None => None,
            Some(update) => Some(update?),
        };
        Some(Release { major, minor, update })
    }
}

impl Preset {
    /// The preset of this name. For any other name `linux-A.B` or `linux-A.B.C`, the preset of that release; without an update `C`
    /// the newest: `linux-6.12` is `linux-6.12.29`, not `linux-6.12.0`. `None` for a release that does not exist or
    /// whose rules nobody has compared: before 4.0, and after the last of [`KNOWN_SERIES`]; and for one whose rules need the feature
    /// `research` in a build without it.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Preset> {
        let exact = || PRESETS.iter().find(|p| p.name == name);
        let release = name.strip_prefix("linux-").and_then(|number| Some((Release::parse(number)?, number)));
        let of_release = release.filter(|(_, number)| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        let is_known = |release: &Release| {
            KNOWN_SERIES.iter().any(|&(major, newest)| release.major == major && release.minor <= newest)
        };
        let is_here = |release: Release| HAS_RESEARCH || PRESETS.iter().any(|p| p.is_of(release));
        let of_release = of_release.filter(|(release, _)| is_known(release) && is_here(*release));
        exact().or_else(|| of_release.map(|(release, _)| Self::of_release(release)))
    }

    /// The rules of a kernel release: those of its stable series if they are known to differ by this update, else those
    /// of the mainline. For kernels before 4.16 and future ones, the nearest known preset; in a build without the feature `research`
    /// for all kernels before 6.12.29.
    #[must_use]
    pub fn of_release(release: Release) -> &'static Preset {
        PRESETS.iter().rev().find(|preset| preset.is_of(release)).unwrap_or(&PRESETS[0])
    }

    /// Whether a release has these rules or newer ones of its series.
    fn is_of(&self, release: Release) -> bool {
        self.first_release().is_some_and(|since| match since.update {
            None | Some(0) => (since.major, since.minor) <= (release.major, release.minor),
            Some(update) => {
                (since.major, since.minor) == (release.major, release.minor)
                    && release.update.is_none_or(|recorded| recorded >= update)
            }
        })
    }

    /// The release in the preset's name.
    fn first_release(&self) -> Option<Release> {
        Release::parse(self.name.strip_prefix("linux-").filter(|_| self.name != TUNED_6_6)?)
    }
}

#[cfg(test)]
#[path = "presets_tests.rs"]
mod tests;
