//! Refills and drains of the kernel or of a replay, and the comparison of two sets of them.

use std::collections::HashMap;

use pageset::CpuId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest distance at which two moves count as near. Specification: `trace-replay.md` 1. Unit: input events.
const NEAR_EVENTS_MAX: u64 = 512;

/// Pages that moved between a pageset and the buddy in one refill or drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The place in the recording: the number of earlier input events (allocations, frees, ticks). The kernel's refill
    /// and drain events do not count, because their number would add to the distance.
    pub place: u64,
    /// The zone, as numbered in the setting.
    pub zone: u32,
    /// The pageset's CPU.
    pub cpu: CpuId,
    /// Pages moved.
    pub pages: u32,
}

/// Refills and drains, each in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// From the zone into a pageset.
    pub refills: Vec<Move>,
    /// From a pageset into the zone.
    pub drains: Vec<Move>,
}

/// The sums of a set of moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// How often a pageset was empty and took pages from its zone. Each refill holds the zone lock once, unless a rule
    /// changes that.
    #[schemars(extend("tables" = "amounts", "rank" = 3,
        "bad" = "Many refills for few pages, on many CPUs: the zone lock becomes the limit.",
        "todo" = "Compare rule sets. On a stock kernel see `pageset advise`."))]
    pub refills: u64,
    /// Pages that refills moved from zones to pagesets.
    #[schemars(extend("better" = "lower", "per" = "1000 ops", "tables" = "amounts", "rank" = 6,
        "bad" = "Near the number of allocated pages: freed pages do not serve allocations. Either pages travel between \
        CPUs, or pagesets are too small.", "todo" = "See the patterns travelling-pages and exit-bursts."))]
    pub refill_pages: u64,
    /// How often a pageset returned pages to its zone, also in the once-a-second work. Each drain holds the zone lock
    /// once.
    #[schemars(extend("as" = "refills", "tables" = "amounts", "rank" = 2))]
    pub drains: u64,
    /// Pages that drains moved from pagesets to zones.
    #[schemars(extend("as" = "refill pages", "better" = "lower", "per" = "1000 ops", "tables" = "amounts", "rank" = 7))]
    pub drain_pages: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.refills += other.refills;
        self.refill_pages += other.refill_pages;
        self.drains += other.drains;
        self.drain_pages += other.drain_pages;
    }
}

impl Moves {
    /// The sums over the moves for which `wanted` is true.
    pub fn totals(&self, wanted: impl Fn(&Move) -> bool) -> Totals {
        let sum = |moves: &[Move]| {
            let picked = moves.iter().filter(|m| wanted(m));
            picked.fold((0, 0), |(count, pages), m| (count + 1, pages + u64::from(m.pages)))
        };
        let ((refills, refill_pages), (drains, drain_pages)) = (sum(&self.refills), sum(&self.drains));
        Totals { refills, refill_pages, drains, drain_pages }
    }

    /// The refills and drains of the CPU that has most of them.
    pub fn busiest(&self) -> u64 {
        busiest(self.refills.iter().chain(&self.drains).map(|m| (m.cpu.0, 1)))
    }
}

/// The refills and drains of the CPU that has most, from the moves of CPUs, each any number of times.
pub fn busiest(moves: impl Iterator<Item = (u32, u64)>) -> u64 {
    let mut of = HashMap::<u32, u64>::new();
    moves.for_each(|(cpu, moves)| *of.entry(cpu).or_default() += moves);
    of.into_values().max().unwrap_or(0)
}

/// The share of the kernel's moves that the replay makes near the same place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// The share of the kernel's moves with a near move of the replay on the same pageset, in percent. Each move of the
    /// replay counts once.
    pub pct: f64,
    /// The expected share if the replay made as many moves at random places, in percent.
    pub chance_pct: f64,
}

/// Compares the replay's moves with the kernel's in a recording of `places` input events; `None` if the kernel has no
/// moves.
/// Two moves are near if their distance is at most a tenth of the mean distance between the kernel's moves on that
/// pageset. The limit is 512 events.
#[must_use]
pub fn near(kernel: &[Move], replay: &[Move], places: u64) -> Option<Near> {
    if kernel.is_empty() {
        return None;
    }
    let windows = Windows::new(kernel);
    let mut replayed: HashMap<(u32, CpuId), u32> = HashMap::new();
    replay.iter().for_each(|r| *replayed.entry((r.zone, r.cpu)).or_default() += 1);
    let by_chance = |k: &Move| {
        let share = ((2 * windows.of(k) + 1) as f64 / places.max(1) as f64).min(1.0);
        1.0 - (1.0 - share).powf(f64::from(replayed.get(&(k.zone, k.cpu)).copied().unwrap_or(0)))
    };
    let share = |sum: f64| 100.0 * sum / kernel.len() as f64;
    Some(Near {
        pct: share(near_pairs(kernel, replay).count() as f64),
        chance_pct: share(kernel.iter().map(by_chance).sum()),
    })
}

/// Pairs each of the kernel's moves with a near move of the replay. Each move of the replay appears once.
pub(super) fn near_pairs<'m>(kernel: &'m [Move], replay: &'m [Move]) -> impl Iterator<Item = (Move, Move)> {
    let windows = Windows::new(kernel);
    let sorted = |moves: &[Move]| {
        let mut moves = moves.to_vec();
        moves.sort_by_key(|m: &Move| (m.zone, m.cpu, m.place));
        moves
    };
    let (kernel, replay) = (sorted(kernel), sorted(replay));
    let mut next = 0;
    kernel.into_iter().filter_map(move |k| {
        let window = windows.of(&k);
        let too_early =
            |r: &Move| (r.zone, r.cpu) < (k.zone, k.cpu) || same_pageset(r, &k) && r.place + window < k.place;
        while replay.get(next).is_some_and(too_early) {
            next += 1;
        }
        let found = *replay.get(next).filter(|r| same_pageset(r, &k) && r.place <= k.place + window)?;
        next += 1;
        Some((k, found))
    })
}

/// The largest distance of a near move, by pageset. Unit: input events.
struct Windows {
    of: HashMap<(u32, CpuId), u64>,
}

impl Windows {
    fn new(kernel: &[Move]) -> Self {
        let mut spans: HashMap<(u32, CpuId), (u64, u64, u64)> = HashMap::new();
        for m in kernel {
            let (first, last, count) = spans.entry((m.zone, m.cpu)).or_insert((m.place, m.place, 0));
            (*first, *last, *count) = ((*first).min(m.place), (*last).max(m.place), *count + 1);
        }
        let window = |(first, last, count): (u64, u64, u64)| match count {
            0 | 1 => NEAR_EVENTS_MAX,
            _ => ((last - first) / (count - 1) / 10).min(NEAR_EVENTS_MAX),
        };
        Windows { of: spans.into_iter().map(|(pageset, span)| (pageset, window(span))).collect() }
    }

    fn of(&self, m: &Move) -> u64 {
        self.of.get(&(m.zone, m.cpu)).copied().unwrap_or(NEAR_EVENTS_MAX)
    }
}

fn same_pageset(a: &Move, b: &Move) -> bool {
    (a.zone, a.cpu) == (b.zone, b.cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(places: &[u64], cpu: u32) -> Vec<Move> {
        places.iter().map(|&place| Move { place, zone: 0, cpu: CpuId(cpu), pages: 63 }).collect()
    }

    fn pct(kernel: &[Move], replay: &[Move]) -> Option<f64> {
        near(kernel, replay, 100_000).map(|near| near.pct)
    }

    #[test]
    fn each_move_counts_once_and_only_on_its_pageset() {
        assert_eq!(pct(&[], &at(&[1], 0)), None);
        assert_eq!(pct(&at(&[1000, 2000], 0), &at(&[1000, 2000], 0)), Some(100.0));
        assert_eq!(pct(&at(&[1000, 2000], 0), &at(&[1000, 2000], 1)), Some(0.0));
        assert_eq!(pct(&at(&[1000, 1001], 0), &at(&[1000], 0)), Some(50.0));
    }

    #[test]
    fn near_is_a_tenth_of_the_distance_between_refills() {
        // A kernel move every 1000 events gives a window of 100 events.
        assert_eq!(pct(&at(&[1000, 2000], 0), &at(&[900, 2100], 0)), Some(100.0));
        assert_eq!(pct(&at(&[1000, 2000], 0), &at(&[899, 2101], 0)), Some(0.0));
        // One move, or few moves, give the maximum window of 512 events.
        assert_eq!(pct(&at(&[1000], 0), &at(&[488], 0)), Some(100.0));
        assert_eq!(pct(&at(&[1000], 0), &at(&[487], 0)), Some(0.0));
        assert_eq!(pct(&at(&[10_000, 90_000], 0), &at(&[10_512, 90_513], 0)), Some(50.0));
    }

    #[test]
    fn near_reports_the_share_by_chance() {
        // A refill every 33 events, as on an AF_UNIX stream, gives a window of 3 events. Chance alone hits about a
        // sixth.
        let kernel: Vec<u64> = (0..1000).map(|i| 33 * i).collect();
        let near = near(&at(&kernel, 0), &at(&kernel, 0), 33_000).unwrap();
        assert_eq!(near.pct, 100.0);
        assert!((17.0..21.0).contains(&near.chance_pct), "{near:?}");
    }
}
