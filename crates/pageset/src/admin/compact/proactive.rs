//! Proactive compaction: when to compact a node before any request needs a block, by the node's fragmentation score.
//!
//! Specification: `linux-page-allocator.md` 7.6, last paragraph.

/// Kernel default of `compaction_proactiveness`. Unit: percent. Source: specification 7.6.
pub const PROACTIVENESS: u8 = 20;
/// Interval of the checks of a node. Unit: milliseconds. Source: specification 9.
pub const PERIOD_MS: u32 = 500;
/// Lowest score to compact down to. Unit: percent. Source: specification 7.6.
const LOWEST_TARGET: u8 = 5;
/// A node is compacted when its score exceeds the target by more than this. Unit: percent. Source: specification 7.6.
const LEEWAY: u8 = 10;
/// Checks that are skipped after a compaction that did not lower the score: 2^6. Source: specification 7.6.
const PAUSE: u8 = 64;

/// The score to compact down to. `proactiveness` is a percentage; values above 100 count as 100.
#[must_use]
pub const fn target_score(proactiveness: u8) -> u8 {
    let target = 100_u8.saturating_sub(proactiveness);
    if target < LOWEST_TARGET { LOWEST_TARGET } else { target }
}

/// Whether a node with this score needs compaction.
#[must_use]
pub const fn is_due(score: u8, proactiveness: u8) -> bool {
    let above = target_score(proactiveness) + LEEWAY;
    score > if above > 100 { 100 } else { above }
}

/// Paces the proactive compaction of one node. Call [`Pace::is_due`] every [`PERIOD_MS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    pause: u8,
}

impl Pace {
    /// Whether to compact the node now, given its score.
    pub const fn is_due(&mut self, score: u8, proactiveness: u8) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        is_due(score, proactiveness)
    }

    /// Records a compaction: the node's score before and after. Without improvement the next checks are skipped.
    pub const fn compacted(&mut self, before: u8, after: u8) {
        self.pause = if after < before { 0 } else { PAUSE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Specification 7.6: down to max(100 - p, 5), from above min(that + 10, 100).
    #[test]
    fn targets_by_hand() {
        for (proactiveness, target, last_not_due) in
            [(20, 80, 90), (0, 100, 100), (5, 95, 100), (90, 10, 20), (97, 5, 15), (100, 5, 15), (255, 5, 15)]
        {
            assert_eq!(target_score(proactiveness), target);
            assert!(!is_due(last_not_due, proactiveness), "{proactiveness}");
            assert!(last_not_due == 100 || is_due(last_not_due + 1, proactiveness), "{proactiveness}");
        }
    }

    #[test]
    fn what_was_no_use_is_not_tried_again_soon() {
        let mut pace = Pace::default();
        assert!(pace.is_due(95, PROACTIVENESS));
        pace.compacted(95, 94);
        assert!(pace.is_due(95, PROACTIVENESS));
        pace.compacted(95, 95);
        assert_eq!((0..100).take_while(|_| !pace.is_due(95, PROACTIVENESS)).count(), 64);
    }
}
