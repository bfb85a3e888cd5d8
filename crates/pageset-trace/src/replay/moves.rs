//! Refills and drains, of the kernel or of a replay, and how near one's are to the other's.

use pageset::CpuId;

/// A refill or drain within this many input events of the other's counts as near. Specification: `trace-replay.md` 1.
const NEAR_EVENTS: u64 = 512;

/// Pages that moved between a pageset and the buddy in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The place in the recording: how many input events (allocations, frees, ticks) came before. The kernel's
    /// events about refills and drains do not count, else their own length would be a distance.
    pub place: u64,
    /// The zone, as numbered in the setting.
    pub zone: u32,
    /// The pageset's CPU.
    pub cpu: CpuId,
    /// How many pages.
    pub pages: u32,
}

/// Refills and drains in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// From the zone into a pageset.
    pub refills: Vec<Move>,
    /// From a pageset into the zone.
    pub drains: Vec<Move>,
}

/// What moved, in sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Refills.
    pub refills: u64,
    /// Pages that they moved.
    pub refill_pages: u64,
    /// Drains.
    pub drains: u64,
    /// Pages that they moved.
    pub drain_pages: u64,
}

impl Moves {
    /// The sums over the moves that `wanted` picks.
    pub fn totals(&self, wanted: impl Fn(&Move) -> bool) -> Totals {
        let sum = |moves: &[Move]| {
            let picked = moves.iter().filter(|m| wanted(m));
            picked.fold((0, 0), |(count, pages), m| (count + 1, pages + u64::from(m.pages)))
        };
        let ((refills, refill_pages), (drains, drain_pages)) = (sum(&self.refills), sum(&self.drains));
        Totals { refills, refill_pages, drains, drain_pages }
    }
}

/// Which share of the kernel's moves the replay does near the same place on the same pageset, in percent; each of
/// the replay's counts once. Nothing where the kernel has none.
#[must_use]
pub fn near_pct(kernel: &[Move], replay: &[Move]) -> Option<f64> {
    if kernel.is_empty() {
        return None;
    }
    let key = |m: &Move| (m.zone, m.cpu, m.place);
    let sorted = |moves: &[Move]| {
        let mut moves = moves.to_vec();
        moves.sort_by_key(key);
        moves
    };
    let (kernel, replay) = (sorted(kernel), sorted(replay));
    let (mut near, mut next) = (0, 0);
    for k in &kernel {
        let too_early = |r: &Move| (r.zone, r.cpu) < (k.zone, k.cpu) || same(r, k) && r.place + NEAR_EVENTS < k.place;
        while replay.get(next).is_some_and(too_early) {
            next += 1;
        }
        if replay.get(next).is_some_and(|r| same(r, k) && r.place <= k.place + NEAR_EVENTS) {
            near += 1;
            next += 1;
        }
    }
    Some(100.0 * f64::from(near) / kernel.len() as f64)
}

fn same(a: &Move, b: &Move) -> bool {
    (a.zone, a.cpu) == (b.zone, b.cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(places: &[u64], cpu: u32) -> Vec<Move> {
        places.iter().map(|&place| Move { place, zone: 0, cpu: CpuId(cpu), pages: 63 }).collect()
    }

    #[test]
    fn each_counts_once_and_on_its_own_pageset() {
        assert_eq!(near_pct(&[], &at(&[1], 0)), None);
        assert_eq!(near_pct(&at(&[1000, 2000], 0), &at(&[1000, 2000], 0)), Some(100.0));
        assert_eq!(near_pct(&at(&[1000, 2000], 0), &at(&[1000, 2000], 1)), Some(0.0));
        assert_eq!(near_pct(&at(&[1000, 1001], 0), &at(&[1000], 0)), Some(50.0));
        assert_eq!(near_pct(&at(&[1000], 0), &at(&[487], 0)), Some(0.0));
        assert_eq!(near_pct(&at(&[1000], 0), &at(&[488], 0)), Some(100.0));
        assert_eq!(near_pct(&at(&[1000], 0), &at(&[1512], 0)), Some(100.0));
        assert_eq!(near_pct(&at(&[1000], 0), &at(&[1513], 0)), Some(0.0));
    }
}
