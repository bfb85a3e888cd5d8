//! The invariants of a model and its world.

use crate::support::Known;
use pageset::policy::{Bounds, ListRule, PcpState, RegionRule};
use pageset::{CpuId, MigrateType, Order, Pfn, Request, Urgency, Wait};

use super::Model;
use crate::ops::CAPACITY;

impl Model<'_> {
    pub(super) fn check_empty(&self, zone: usize) {
        let stats = self.world.at(zone).stats();
        assert_eq!((stats.pagesets.count, stats.waiting, stats.deferred), (0, 0, 0), "zone {zone}: drained");
    }

    /// A request that may wait for memory fails only after all reserved pageblocks with free pages were returned.
    pub(super) fn check_nothing_reserved(&self, request: &Request) {
        let local = self.map.cpus()[self.cpu as usize];
        for zone in (0..self.world.zones().len()).filter(|_| request.wait == Wait::Memory) {
            let stats = self.world.at(zone).stats();
            let allowed = stats.kind <= request.highest && (!request.this_node_only || stats.node == local);
            assert!(!allowed || stats.nr_free_highatomic == 0, "{request:?} failed; zone {zone} has {stats:?}");
        }
    }

    /// A request that may take the zone's lock fails only after all deferred frees. Without marks it fails only if no list
    /// that serves it has a block.
    pub(super) fn check_nothing_left(&self, request: &Request) {
        // Before 5.14 a request for a single page fails if its pageset cannot be refilled.
        let past_pageset = self.world.tuning().lists != ListRule::OrderZero || request.order > Order::ZERO;
        let last_resort = match (request.urgency, request.wait) {
            (_, Wait::Nothing) => false,
            (Urgency::OomVictim, _) | (_, Wait::Lock) => past_pageset,
            _ => false,
        };
        let local = self.map.cpus()[self.cpu as usize];
        for zone in 0..self.world.zones().len() {
            let stats = self.world.at(zone).stats();
            if stats.kind > request.highest || request.this_node_only && stats.node != local {
                continue;
            }
            if request.wait != Wait::Nothing {
                assert_eq!(stats.deferred, 0, "{request:?} failed; zone {zone} has deferred frees");
            }
            if request.watermarks {
                continue;
            }
            for order in Order::all().skip(request.order.index()) {
                for migratetype in MigrateType::ALL {
                    let serves = match migratetype {
                        MigrateType::Isolate => false,
                        MigrateType::HighAtomic => last_resort,
                        MigrateType::Cma => request.cma,
                        _ => true,
                    };
                    let blocks = self.world.at(zone).free_blocks(order, migratetype);
                    assert!(
                        !serves || blocks == 0,
                        "{request:?} failed; zone {zone} has order {order} {migratetype:?}"
                    );
                }
            }
        }
    }

    /// Compares the counters with each other, after every step.
    pub(super) fn check_counters(&self) {
        for zone in 0..self.world.zones().len() {
            let stats = self.world.at(zone).stats();
            assert_eq!(stats.pgalloc() - stats.pgfree(), self.in_use[zone], "zone {zone}: pages in use");
            assert!(stats.nr_free_highatomic + stats.nr_free_cma <= stats.nr_free_pages, "zone {zone}: {stats:?}");
            assert!(stats.watermark_boost <= stats.watermarks.min, "zone {zone}: {stats:?}");
            assert!(
                [stats.nr_reserved_highatomic, stats.cma]
                    .iter()
                    .all(|pages| pages.is_multiple_of(Order::PAGEBLOCK.pages())),
                "zone {zone}: {stats:?}"
            );
            let one_region = self.world.tuning().backing.regions() == RegionRule::One;
            let without_locks = self.world.tuning().backing.bitmaps();
            assert!(without_locks || stats.lock_refill >= stats.pagesets.refills);
            assert!(without_locks || stats.lock_drain >= stats.pagesets.drains);
            assert!(!one_region || stats.lock_drain == stats.pagesets.drains);
            for cpu in 0..self.map.cpus().len() as u32 {
                let s = self.world.pageset(zone, CpuId(cpu)).stats();
                let flow = s.refill_pages + s.pgfree - s.pgalloc - s.drain_pages;
                assert_eq!(flow, s.count, "zone {zone}, CPU {cpu}: what came and went against what is held");
                assert!(s.refills <= s.refill_pages && s.drains <= s.drain_pages);
                let gone = self.gone[cpu as usize];
                assert_eq!(self.world.is_cpu_online(CpuId(cpu)), !gone);
                let PcpState { batch, high_min, high_max, .. } = self.world.pageset(zone, CpuId(cpu)).state();
                if gone || self.disabled[zone] > 0 {
                    let kept = (s.count, Bounds { batch, high_min, high_max });
                    assert_eq!(kept, (0, Bounds::DISABLED), "zone {zone}, CPU {cpu}: keeps nothing");
                } else {
                    // Both are within the capacity. They may cross if the low mark is above an eighth of the zone.
                    assert!(batch > 0 && high_min.max(high_max) <= CAPACITY + 64, "zone {zone}, CPU {cpu}");
                }
            }
        }
    }

    /// Audits every zone and compares the result with the model.
    pub fn audit(&self) {
        for zone in 0..self.world.zones().len() {
            let books = self.world.at(zone).audit().unwrap_or_else(|error| panic!("{error}"));
            let stats = self.world.at(zone).stats();
            assert_eq!(books.in_use, self.in_use[zone], "zone {zone}: pages in use");
            assert_eq!(stats.deferred, 0, "zone {zone}: the audit has completed deferred frees");
            assert_eq!(books.cached, stats.cached_pages(), "zone {zone}: pages in caches");
            assert_eq!(books.free + books.cached + books.in_use, stats.managed, "zone {zone}: all pages");
            let isolated: u64 = Order::all()
                .map(|order| order.pages() * u64::from(self.world.at(zone).free_blocks(order, MigrateType::Isolate)))
                .sum();
            assert_eq!(stats.nr_free_pages + isolated, books.free, "zone {zone}: free pages");
            let unused = stats.nr_free_pages + stats.cached_pages();
            assert_eq!(self.world.at(zone).unused_pages(), unused, "zone {zone}: unused pages");
        }
    }

    /// Frees all blocks and checks that all memory merges as far as the map allows.
    pub fn finish(mut self) {
        self.audit();
        while let Some(block) = self.drop_block(self.live.len() / 2) {
            self.world.free(block.pfn, block.order).expect("it is in use");
        }
        self.world.drain_all();
        self.audit();
        for zone in 0..self.world.zones().len() {
            self.merge_skipped(zone);
            assert_eq!(self.world.at(zone).stats().pagesets.count, 0, "zone {zone}: drained");
        }
        // Pageblocks of different types may stay apart, so all get one type first.
        for range in &self.online {
            for pfn in
                (range.start.align_down(Order::PAGEBLOCK).0..range.end().0).step_by(Order::PAGEBLOCK.pages() as usize)
            {
                let pfn = Pfn(pfn.max(range.start.0));
                self.world.set_pageblock_type(pfn, MigrateType::Movable).expect("the page is in the zone");
            }
        }
        self.audit();
        for zone in 0..self.world.zones().len() {
            let found: Vec<u32> = Order::all()
                .map(|order| MigrateType::ALL.iter().map(|&t| self.world.at(zone).free_blocks(order, t)).sum())
                .collect();
            assert_eq!(found, self.largest_blocks(zone), "zone {zone}: free blocks by order, all merged");
        }
    }

    /// The number of blocks of each order if the pages of a zone merge completely.
    pub(super) fn largest_blocks(&self, zone: usize) -> Vec<u32> {
        let mut ranges: Vec<(u64, u64)> = vec![];
        let mut online = self.online.clone();
        online.sort_by_key(|range| range.start);
        for range in
            online.iter().filter(|range| self.world.zone_of(range.start).map(|zone| zone.number()) == Some(zone))
        {
            match ranges.last_mut() {
                Some((_, end)) if *end == range.start.0 => *end = range.end().0,
                _ => ranges.push((range.start.0, range.end().0)),
            }
        }
        let mut blocks = vec![0; Order::COUNT];
        for (mut at, end) in ranges {
            while at < end {
                let fits = |o: &Order| Pfn(at).is_aligned(*o) && at + o.pages() <= end;
                let largest = Order::all().rev().find(fits).expect("a page is a block of order 0");
                blocks[largest.index()] += 1;
                at += largest.pages();
            }
        }
        blocks
    }
}
