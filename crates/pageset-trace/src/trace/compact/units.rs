//! Dense numbers for the pages of a recording.

use pageset::{Order, Pfn};
use rustc_hash::FxHashMap;

use crate::event::{Kind, StateChange};

/// Pages of a unit: those of the largest block, so that no block lies in two units.
const UNIT: u64 = Order::MAX.pages();
/// The most units. Dense numbers of pages fit 32 bits.
pub(super) const UNITS_MAX: usize = 1 << 22;

/// The units of a recording's pages, numbered from 0 in the order of their addresses. A page's dense number is its
/// unit's first number and its offset. Dense numbers keep the order of pages and the alignment of blocks.
#[derive(Debug, Default)]
pub(crate) struct Units {
    /// The unit of each number, ascending.
    units: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
}

impl Units {
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// The dense number of a page; `None` if its unit has no number.
    pub(super) fn number(&self, pfn: Pfn) -> Option<Pfn> {
        self.numbers.get(&(pfn.0 / UNIT)).map(|&number| page(number, pfn))
    }

    /// The dense number of the first numbered page at or above a page frame. All numbered pages below the frame have
    /// smaller numbers.
    pub(crate) fn bound(&self, frame: u64) -> u64 {
        match self.units.binary_search(&(frame / UNIT)) {
            Ok(number) => page(number as u32, Pfn(frame)).0,
            Err(number) => number as u64 * UNIT,
        }
    }
}

/// Units in the order of their first events.
#[derive(Debug, Default)]
pub(super) struct Seen {
    units: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    /// The unit and number of the last page: most neighbouring events are of one unit.
    last: Option<(u64, u32)>,
}

impl Seen {
    /// A preliminary number of a page; `None` if there are too many units.
    pub(super) fn number(&mut self, pfn: Pfn) -> Option<Pfn> {
        let unit = pfn.0 / UNIT;
        let number = match self.last {
            Some((last, number)) if last == unit => number,
            _ => {
                let next = self.units.len();
                let number = *self.numbers.entry(unit).or_insert(next as u32);
                if number as usize == next {
                    self.units.push(unit);
                }
                number
            }
        };
        self.last = Some((unit, number));
        (self.units.len() <= UNITS_MAX).then(|| page(number, pfn))
    }

    /// The units in the order of addresses, and the final number of each preliminary number.
    pub(super) fn sorted(self) -> (Units, Vec<u32>) {
        let mut units = self.units.clone();
        units.sort_unstable();
        let numbers: FxHashMap<u64, u32> = units.iter().copied().zip(0..).collect();
        let finals = self.units.iter().map(|unit| numbers[unit]).collect();
        (Units { units, numbers }, finals)
    }
}

/// The page of unit `number` with the same offset as `pfn`.
fn page(number: u32, pfn: Pfn) -> Pfn {
    Pfn(u64::from(number) * UNIT + pfn.0 % UNIT)
}

/// The final number of a page with a preliminary number.
pub(super) fn renumbered(pfn: Pfn, finals: &[u32]) -> Pfn {
    page(finals[(pfn.0 / UNIT) as usize], pfn)
}

pub(super) fn page_of(kind: &mut Kind) -> Option<&mut Pfn> {
    match kind {
        Kind::Alloc { pfn: Some(pfn), .. }
        | Kind::Free { pfn, .. }
        | Kind::FreeBatched { pfn }
        | Kind::ZoneLocked { pfn, .. }
        | Kind::Drain { pfn, .. }
        | Kind::ExtFrag { pfn, .. }
        | Kind::StateChange(
            StateChange::PagesetsOff(pfn) | StateChange::PagesetsOn(pfn) | StateChange::ZoneCounter { zone: pfn, .. },
        ) => Some(pfn),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any range of page frames contains the same pages by frame and by number.
    #[test]
    fn numbers_keep_order_alignment_and_ranges() {
        let pages = [70_001, 5, 1_023, 9_000_000_000, 1_024, 70_000, 5];
        let mut seen = Seen::default();
        let preliminary = pages.map(|page| seen.number(Pfn(page)).expect("a number"));
        let (units, finals) = seen.sorted();
        let numbers = preliminary.map(|pfn| renumbered(pfn, &finals).0);
        assert_eq!(numbers, [2 * 1024 + 369, 5, 1_023, 3 * 1024 + 9_000_000_000 % 1024, 1_024, 2 * 1024 + 368, 5]);
        for (page, number) in pages.into_iter().zip(numbers) {
            assert_eq!(units.number(Pfn(page)), Some(Pfn(number)));
            for frame in [0, 5, 6, 1_000, 1_024, 2_048, 3_000, 70_001, 71_000, 1 << 40] {
                assert_eq!(page < frame, number < units.bound(frame), "page {page}, frame {frame}");
            }
        }
        assert_eq!(units.number(Pfn(2_048)), None);
    }
}
