//! The watermark test of a request: which zones may serve it, and against which mark they fail.
//!
//! Specification: `linux-page-allocator.md` 1.2 and 1.3.

use crate::read::request::{Class, Gfp, ZONES};
use crate::zone::Zone;

/// A zone's test for a request. Unit: pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Test {
    /// The zone's place in the list.
    pub(crate) zone: usize,
    /// The min mark that holds for this request: urgent ones may use a part of the reserve.
    pub(crate) floor: u64,
    /// Kept for requests that can use no higher zone.
    pub(crate) reserve: u64,
    /// Free pages that the request may use.
    pub(crate) usable: u64,
    /// Free pages of CMA that the request may not use.
    pub(crate) cma: u64,
    /// Pages of the reserve for atomic requests of high order that the request may not use.
    pub(crate) high_atomic: u64,
}

impl Test {
    /// Whether the zone serves the request, as far as marks decide.
    pub(crate) fn passes(&self) -> bool {
        self.usable > self.floor.saturating_add(self.reserve)
    }

    /// Pages that lack.
    pub(crate) fn lacks(&self) -> u64 {
        self.floor.saturating_add(self.reserve).saturating_add(1).saturating_sub(self.usable)
    }

    /// Whether only `lowmem_reserve` closes the zone.
    pub(crate) fn is_closed_by_reserve(&self) -> bool {
        !self.passes() && self.usable > self.floor
    }
}

/// The part of the min mark that a request must leave. Urgent requests may use half of it, and those that cannot wait a quarter of the
/// rest.
pub(crate) const fn floor(min: u64, high: bool, waits: bool) -> u64 {
    let mut floor = min;
    if high {
        floor -= floor / 2;
        if !waits {
            floor -= floor / 4;
        }
    }
    floor
}

/// The tests of the zones that may serve a request of this order. Zones without a mark or free pages in the text have none.
pub(crate) fn tests(zones: &[Zone], gfp: Option<&Gfp>, order: u8) -> Vec<Test> {
    let class = gfp.map_or(Class::Normal, |gfp| gfp.class);
    let (high, waits, movable) = gfp.map_or((false, true, false), |gfp| (gfp.high, gfp.waits, gfp.movable));
    let of = |(place, zone): (usize, &Zone)| {
        let may_serve = zone.place().is_none_or(|zone| zone <= class.place()) && zone.has_pages();
        let (free, min) = (zone.free?, zone.min?);
        let cma = if movable { 0 } else { zone.free_cma.min(free) };
        let high_atomic = if high { 0 } else { zone.high_atomic.min(free - cma) };
        let rest = free - cma - high_atomic;
        let usable = rest.saturating_sub((1_u64 << order.min(31)) - 1);
        let reserve = reserve(zones, zone, class).unwrap_or(0);
        may_serve.then(|| Test { zone: place, floor: floor(min, high, waits), reserve, usable, cma, high_atomic })
    };
    zones.iter().enumerate().filter_map(of).collect()
}

/// The pages of a zone that are kept from requests of a class.
pub(crate) fn reserve(zones: &[Zone], zone: &Zone, class: Class) -> Option<u64> {
    if zone.reserve.is_empty() {
        return None;
    }
    let names = columns(zones, zone.reserve.len());
    let at = |wanted: usize| names.iter().rposition(|name| ZONES.iter().position(|zone| zone == name) <= Some(wanted));
    at(class.place()).map(|column| zone.reserve[column])
}

/// The kinds of zones that the kernel is configured for. `lowmem_reserve` has a column for each, also for those without pages, which
/// logs do not name. Of the sets that fit the zones and the zeros of their rows, the most usual one.
fn columns(zones: &[Zone], count: usize) -> Vec<&'static str> {
    let seen = |name: &str| zones.iter().any(|zone| zone.name == name);
    let sets = (0_u32..1 << ZONES.len()).filter(|set| set.count_ones() as usize == count);
    let scored = sets.map(|set| {
        let names: Vec<&'static str> =
            (0..ZONES.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| ZONES[bit]).collect();
        let has = |name: &str| names.contains(&name);
        let mut score: i64 = 0;
        for (name, worth) in [("Normal", 16), ("Movable", 8), ("DMA", 4), ("DMA32", 3), ("Device", 2), ("HighMem", 1)] {
            score += if has(name) { worth } else { 0 };
            score -= if seen(name) && !has(name) { 1000 } else { 0 };
        }
        for zone in zones.iter().filter(|zone| zone.reserve.len() == count) {
            let Some(own) = names.iter().position(|name| *name == zone.name) else { continue };
            // A zone keeps nothing from its own requests, nor from those of lower zones.
            score -= if zone.reserve[..=own].iter().any(|pages| *pages > 0) { 100 } else { 0 };
            // A kind of zone without pages adds nothing.
            for (pair, name) in zone.reserve.windows(2).zip(&names[1..]).skip(own) {
                let is_seen = zones.iter().any(|other| other.name == *name && other.node == zone.node);
                let adds = pair[1] != pair[0] && pair[1] > 0;
                score -= if adds && !is_seen { 10 } else { 0 };
            }
        }
        (score, names)
    });
    scored.max_by_key(|(score, _)| *score).map(|(_, names)| names).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Unit;

    fn zone(name: &str, free: u64, min: u64, reserve: &[u64]) -> Zone {
        let zone = Zone::new(Some(0), name, Unit::Pages);
        Zone { free: Some(free), min: Some(min), managed: Some(1 << 20), reserve: reserve.to_vec(), ..zone }
    }

    #[test]
    fn the_floor_of_urgent_requests() {
        for (min, high, waits, expected) in [
            (1000, false, true, 1000),
            (1000, true, true, 500),
            (1000, true, false, 375),
            (3, true, false, 2),
            (0, true, false, 0),
        ] {
            assert_eq!(floor(min, high, waits), expected);
        }
    }

    #[test]
    fn the_column_of_the_reserve() {
        // x86-64, cut after the first zone; 32 bits with HighMem; 32 bits without its pages; arm64; two nodes.
        let x86 = [zone("DMA", 1, 1, &[0, 2660, 15_392, 15_392, 15_392])];
        let old = [
            zone("DMA", 1, 1, &[0, 861, 1000, 1000]),
            zone("Normal", 1, 1, &[0, 0, 1111, 1111]),
            zone("HighMem", 1, 1, &[0; 4]),
        ];
        let small = [zone("DMA", 1, 1, &[0, 861, 861, 861]), zone("Normal", 1, 1, &[0; 4])];
        let pi = [zone("DMA", 1, 1, &[0, 0, 3188, 3188]), zone("HighMem", 1, 1, &[0; 4])];
        let arm = [zone("DMA", 1, 1, &[0, 0, 976, 976]), zone("Normal", 1, 1, &[0; 4])];
        for (zones, class, expected) in [
            (&x86[..], Class::Normal, 15_392),
            (&x86, Class::Dma32, 2660),
            (&x86, Class::Dma, 0),
            (&old, Class::Normal, 861),
            (&old, Class::HighMem, 1000),
            (&small, Class::Normal, 861),
            (&pi, Class::Normal, 0),
            (&pi, Class::Movable, 3188),
            (&arm, Class::Normal, 976),
        ] {
            assert_eq!(
                reserve(zones, &zones[0], class),
                Some(expected),
                "{class:?} {:?}",
                columns(zones, zones[0].reserve.len())
            );
        }
    }

    #[test]
    fn cma_and_reserves_do_not_count() {
        let cma = Zone { free_cma: 900, high_atomic: 50, ..zone("Normal", 1000, 100, &[]) };
        let test = |gfp: &Gfp| tests(std::slice::from_ref(&cma), Some(gfp), 0).remove(0);
        let gfp = Gfp { text: String::new(), class: Class::Normal, high: false, waits: true, movable: false };
        assert_eq!((test(&gfp).usable, test(&gfp).passes(), test(&gfp).lacks()), (50, false, 51));
        let movable = Gfp { movable: true, ..gfp.clone() };
        assert!(test(&movable).passes());
        let atomic = Gfp { high: true, waits: false, ..gfp };
        assert_eq!((test(&atomic).usable, test(&atomic).floor), (100, 38));
    }
}
