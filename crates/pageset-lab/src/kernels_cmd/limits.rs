//! The strict check: the largest allowed difference between a replay and the kernel.

use serde::{Deserialize, Serialize};

/// The compared quantities, in the order of the tables.
pub(super) const QUANTITIES: [&str; 4] = ["refill pages", "refills", "drain pages", "drains"];

/// The largest allowed difference of each quantity: percent of the kernel's number, and an absolute floor for small
/// samples. The larger of the two applies.
const LIMITS: [(f64, u64); 4] = [(2.0, 128), (5.0, 2), (6.0, 256), (10.0, 3)];

/// Refills and drains of a recording or a replay.
#[derive(Serialize, Deserialize, Default, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(default)]
pub(super) struct Amounts {
    pub(super) refill_pages: u64,
    pub(super) refills: u64,
    pub(super) drain_pages: u64,
    pub(super) drains: u64,
}

impl Amounts {
    /// In the order of [`QUANTITIES`].
    pub(super) fn all(self) -> [u64; 4] {
        [self.refill_pages, self.refills, self.drain_pages, self.drains]
    }
}

/// For each quantity out of limits: its index in [`QUANTITIES`], and the numbers of the kernel and of the replay.
pub(super) fn out_of_limits(kernel: Amounts, replay: Amounts) -> Vec<(usize, u64, u64)> {
    let pairs = kernel.all().into_iter().zip(replay.all()).enumerate();
    pairs.filter(|&(index, (kernel, replay))| !within(index, kernel, replay)).map(|(i, (k, r))| (i, k, r)).collect()
}

fn within(quantity: usize, kernel: u64, replay: u64) -> bool {
    let (percent, floor) = LIMITS[quantity];
    let difference = kernel.abs_diff(replay);
    difference <= floor || difference as f64 * 100.0 <= percent * kernel as f64
}

/// A description of the limits in one line.
pub(super) fn described() -> String {
    let each = QUANTITIES.iter().zip(LIMITS).map(|(name, (percent, floor))| format!("{name} {percent} % or {floor}"));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_share_and_floor() {
        // Refill pages, refills, drain pages, drains: the floor, and the share of 100,000.
        for (quantity, floor, share) in [(0, 128, 2_000), (1, 2, 5_000), (2, 256, 6_000), (3, 3, 10_000)] {
            assert!(within(quantity, 10, 10 + floor) && !within(quantity, 10, 11 + floor));
            assert!(within(quantity, 0, floor) && within(quantity, floor, 0) && !within(quantity, 0, floor + 1));
            assert!(within(quantity, 100_000, 100_000 - share) && within(quantity, 100_000, 100_000 + share));
            assert!(!within(quantity, 100_000, 99_999 - share) && !within(quantity, 100_000, 100_001 + share));
        }
    }

    #[test]
    fn what_is_out() {
        let kernel = Amounts { refill_pages: 10_000, refills: 100, drain_pages: 0, drains: 295 };
        let replay = Amounts { refill_pages: 10_200, refills: 106, drain_pages: 0, drains: 613 };
        assert_eq!(out_of_limits(kernel, kernel), []);
        assert_eq!(out_of_limits(kernel, replay), [(1, 100, 106), (3, 295, 613)]);
        assert_eq!(described(), "refill pages 2 % or 128, refills 5 % or 2, drain pages 6 % or 256, drains 10 % or 3");
    }
}
