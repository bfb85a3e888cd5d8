//! Countdowns to drains of other nodes' idle pages: those that began before the replay, and those that a change without an event began.

use pageset::CpuId;
use pageset::policy::expiry::Expiry;
use rustc_hash::{FxHashMap, FxHashSet};

/// The countdowns of the pagesets of other nodes, by zone and CPU. They follow those of the allocator, which knows neither the start nor the
/// kernel's drains.
#[derive(Debug)]
pub(super) struct Countdowns<'r> {
    of: FxHashMap<(usize, CpuId), Expiry>,
    /// The kernel's drains of such pagesets: place, zone and CPU. `None` if the replay takes the events only.
    shown: Option<&'r FxHashSet<(u64, usize, CpuId)>>,
}

/// What a countdown comes to at a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Whether a counter of the zone has changed on this CPU since the last tick.
    pub(super) changed: bool,
    /// The pages that are due.
    pub(super) due: u32,
    /// Whether pages are due by the events, and the kernel drained none: a counter has changed.
    pub(super) is_delayed: bool,
    /// Whether pages are due only because the kernel drained some.
    pub(super) is_shown: bool,
}

impl<'r> Countdowns<'r> {
    pub(super) fn new(
        start: &FxHashMap<(usize, CpuId), Expiry>,
        shown: Option<&'r FxHashSet<(u64, usize, CpuId)>>,
    ) -> Self {
        Countdowns { of: start.clone(), shown }
    }

    /// The number of countdowns that run.
    pub(super) fn running(&self) -> u64 {
        self.of.values().filter(|expiry| expiry.left > 0).count() as u64
    }

    /// The tick at this place, on this zone and CPU. `changed`: a counter of the zone has changed on this CPU, as far as the events show it.
    pub(super) fn tick(&mut self, at: (u64, usize, CpuId), changed: bool, count: u32, batch: u32) -> Ends {
        let expiry = self.of.entry((at.1, at.2)).or_default();
        let before = *expiry;
        let due = expiry.tick(changed, true, count, batch, false).drain;
        let ends = Ends { changed, due, is_delayed: false, is_shown: false };
        match self.shown.map(|shown| shown.contains(&at)) {
            Some(false) if due > 0 => {
                *expiry = before;
                let _ = expiry.tick(true, true, count, batch, false);
                Ends { changed: true, due: 0, is_delayed: true, ..ends }
            }
            // The drain is a change itself, which begins the next countdown.
            Some(true) if due == 0 => Ends { due: count.min(batch), is_shown: true, ..ends },
            _ => ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use pageset::policy::expiry::TICKS;

    use super::*;

    const AT: (usize, CpuId) = (2, CpuId(4));

    /// The pages that are due at each of the places from 0 on; a change before the first.
    fn due(left: u8, shown: Option<&[u64]>) -> Vec<(u32, bool, bool)> {
        let start = FxHashMap::from_iter([(AT, Expiry { left })]);
        let shown: Option<FxHashSet<_>> = shown.map(|places| places.iter().map(|place| (*place, AT.0, AT.1)).collect());
        let mut all = Countdowns::new(&start, shown.as_ref());
        (0..6)
            .map(|place| {
                let ends = all.tick((place, AT.0, AT.1), place == 0 && left == 0, 90, 31);
                (ends.due, ends.is_delayed, ends.is_shown)
            })
            .collect()
    }

    #[test]
    fn the_kernels_drains_show_changes_without_an_event() {
        let (none, drained, delayed, shown) =
            ((0, false, false), (31, false, false), (0, true, false), (31, false, true));
        assert_eq!(due(TICKS, None), [none, none, drained, none, none, none], "a countdown at the start");
        assert_eq!(due(0, None), [none, none, drained, none, none, none]);
        assert_eq!(due(0, Some(&[2])), [none, none, drained, none, none, none]);
        assert_eq!(due(0, Some(&[4])), [none, none, delayed, none, drained, none]);
        assert_eq!(due(0, Some(&[2, 5])), [none, none, drained, none, none, shown]);
        assert_eq!(due(0, Some(&[])), [none, none, delayed, none, delayed, none]);
    }
}
