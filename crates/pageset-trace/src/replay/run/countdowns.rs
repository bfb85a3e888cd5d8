//! Countdowns to drains of other nodes' idle pages: those that began before the replay, and those that a change without an event began.

use pageset::CpuId;
use pageset::policy::expiry::Expiry;
use rustc_hash::FxHashMap;

/// The countdowns of the pagesets of other nodes, by zone and CPU. They follow those of the allocator, which knows neither the start nor the
/// kernel's drains.
#[derive(Debug)]
pub(super) struct Countdowns<'r> {
    of: FxHashMap<(usize, CpuId), Expiry>,
    /// The kernel's drains of such pagesets, by place, zone and CPU, and whether they cannot be of the decay. One that may be shows nothing:
    /// neither that pages were due, nor that they were not. `None` if the replay takes the events only.
    shown: Option<&'r FxHashMap<(u64, usize, CpuId), bool>>,
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
        shown: Option<&'r FxHashMap<(u64, usize, CpuId), bool>>,
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
        match self.shown.map(|shown| shown.get(&at)) {
            Some(None) if due > 0 => {
                *expiry = before;
                let _ = expiry.tick(true, true, count, batch, false);
                Ends { changed: true, due: 0, is_delayed: true, ..ends }
            }
            // The drain is a change itself, which begins the next countdown.
            Some(Some(true)) if due == 0 => Ends { due: count.min(batch), is_shown: true, ..ends },
            _ => ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use pageset::policy::expiry::TICKS;

    use super::*;

    const AT: (usize, CpuId) = (2, CpuId(4));

    /// The pages that are due at each of the places from 0 on; a change before the first. `shown`: the places of the kernel's drains, and
    /// whether they cannot be of the decay.
    fn due(left: u8, shown: Option<&[(u64, bool)]>) -> Vec<(u32, bool, bool)> {
        let start = FxHashMap::from_iter([(AT, Expiry { left })]);
        let shown: Option<FxHashMap<_, _>> =
            shown.map(|drains| drains.iter().map(|(place, only)| ((*place, AT.0, AT.1), *only)).collect());
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
        assert_eq!(due(0, Some(&[(2, true)])), [none, none, drained, none, none, none]);
        assert_eq!(due(0, Some(&[(4, true)])), [none, none, delayed, none, drained, none]);
        assert_eq!(due(0, Some(&[(2, true), (5, true)])), [none, none, drained, none, none, shown]);
        assert_eq!(due(0, Some(&[])), [none, none, delayed, none, delayed, none]);
        // A drain that may be of the decay, which the replay must make itself: it forces none and delays none.
        assert_eq!(due(0, Some(&[(2, true), (5, false)])), [none, none, drained, none, none, none]);
        assert_eq!(due(0, Some(&[(2, false)])), [none, none, drained, none, none, none]);
    }
}
