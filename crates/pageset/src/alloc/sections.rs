//! From a page to its zone in constant time: a table of the zones by sections of physical memory.

use core::sync::atomic::AtomicU32;

use crate::frame::{Order, PageRange, Pfn};
use crate::sync::LockedWord;

/// The most sections. A guess: 16 KiB, half of a first-level cache; with 1 TiB a section has 256 MiB.
const MOST: u64 = 4096;
/// Stands for no zone.
const NO_ZONE: u32 = u32::MAX;

/// The zone that has most of each section. Sections begin at the first frame of all zones.
#[derive(Debug)]
pub(crate) struct Sections<'a> {
    base: u64,
    /// Pages of a section, as a power of two.
    order: u32,
    zones: &'a [AtomicU32],
}

/// The first frame of all zones, the order of a section, and the number of sections: none for a single zone.
fn layout(spans: impl ExactSizeIterator<Item = PageRange> + Clone) -> (u64, u32, usize) {
    let base = spans.clone().map(|span| span.start.0).min().unwrap_or(0);
    let end = spans.clone().map(|span| span.end().0).max().unwrap_or(0);
    // At least a pageblock: a smaller section never separates two zones.
    let order = ((end - base).div_ceil(MOST)).next_power_of_two().ilog2().max(u32::from(Order::PAGEBLOCK.get()));
    let sections = if spans.len() > 1 { (end - base).div_ceil(1 << order) } else { 0 };
    (base, order, sections as usize)
}

impl<'a> Sections<'a> {
    /// The words of the table for zones with these spans.
    pub(crate) fn words(spans: impl ExactSizeIterator<Item = PageRange> + Clone) -> usize {
        layout(spans).2
    }

    /// Fills the table, in [`Self::words`] words.
    pub(crate) fn build(spans: impl ExactSizeIterator<Item = PageRange> + Clone, words: &'a [AtomicU32]) -> Self {
        let (base, order, _) = layout(spans.clone());
        for (number, word) in (0_u64..).zip(words) {
            let section = PageRange::new(Pfn(base + (number << order)), 1 << order);
            let share =
                |span: &PageRange| span.end().0.min(section.end().0).saturating_sub(span.start.0.max(section.start.0));
            let best = (0..).zip(spans.clone()).max_by_key(|(_, span)| share(span));
            word.set(best.filter(|(_, span)| share(span) > 0).map_or(NO_ZONE, |(index, _)| index));
        }
        Sections { base, order, zones: words }
    }

    /// The zone that has most of a page's section. The page may belong to another zone, or to none.
    #[inline(always)]
    pub(crate) fn find(&self, pfn: Pfn) -> Option<usize> {
        let section = pfn.0.wrapping_sub(self.base) >> self.order;
        Some(self.zones.get(usize::try_from(section).ok()?)?.get() as usize)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    /// Three zones, a hole between two of them, and a boundary inside a section.
    #[test]
    fn the_zone_with_most_of_a_section() {
        let spans =
            [(0, 4096), (4096, 1 << 20), (1 << 30, 3 << 20)].map(|(start, pages)| PageRange::new(Pfn(start), pages));
        let words: Vec<_> = (0..Sections::words(spans.into_iter())).map(|_| AtomicU32::new(0)).collect();
        assert!(words.len() as u64 <= MOST);
        let sections = Sections::build(spans.into_iter(), &words);
        for (pfn, expected) in [
            // A section has 2^19 pages here, so the DMA zone has less of the first than its neighbour.
            (0, Some(1)),
            (5000, Some(1)),
            (1 << 20, Some(1)),
            (1 << 25, Some(NO_ZONE as usize)),
            (1 << 30, Some(2)),
            ((1 << 30) + (3 << 20) - 1, Some(2)),
            (1 << 31, None),
        ] {
            assert_eq!(sections.find(Pfn(pfn)), expected, "{pfn}");
        }
        assert_eq!(Sections::words(spans[..1].iter().copied()), 0, "one zone needs no table");
    }
}
