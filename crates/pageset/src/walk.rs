//! One request on its way: which zones it tries, under which marks, through the pageset or past it.
//!
//! Specification: `linux-page-allocator.md` 1.7, 2.3, 4.8.

use crate::allocator::Allocator;
use crate::error::AllocError;
use crate::fallback::{Mode, Wanted};
use crate::frame::{CpuId, Order, PageState, Pfn, Tag};
use crate::machine::{LockPath, Machine};
use crate::pcp::FromCache;
use crate::request::Request;
use crate::tuning::ListRule;
use crate::word::Held;
use crate::zone::{MarkTest, NodeId, Zone, ZoneKind};

impl<'a, M: Machine> Allocator<'a, M> {
    /// Takes a block from the first zone of the zonelist where that has plenty: what the walk would do, without its tests.
    #[inline]
    pub(crate) fn take_first(&self, request: &Request, cpu: CpuId) -> Option<Pfn> {
        if request.node.is_some() || request.zone.is_some() || !request.migratetype.is_ordinary() {
            return None;
        }
        let first = self.first_zones.get(cpu.0 as usize * ZoneKind::COUNT + request.highest.index())?.get();
        let zone = self.zones.get(first as usize)?;
        if !zone.has_plenty() || request.this_node_only && zone.node != self.rules.cpus[cpu.0 as usize] {
            return None;
        }
        self.take(zone, cpu, request).map(|page| zone.frames.pfn(page))
    }

    /// Walks the zonelist, first at the low marks, then at the min marks. Specification 1.7, 4.8.
    pub(crate) fn walk<T>(
        &self,
        request: &Request,
        cpu: CpuId,
        mut take: impl FnMut(&Zone<'a, M>) -> Option<T>,
    ) -> Result<T, AllocError> {
        let (node, list) = self.zonelist(request, cpu)?;
        loop {
            for low in [true, false] {
                for zone in list.clone() {
                    if self.may_take(zone, request, low)
                        && let Some(taken) = take(zone)
                    {
                        return Ok(taken);
                    }
                }
            }
            if !self.merge_for(request, list.clone()) {
                break;
            }
        }
        if list.clone().next().is_none() {
            return Err(AllocError::Node(node));
        }
        Err(AllocError::OutOfMemory { order: request.order, free_pages: list.map(Zone::free).sum() })
    }

    /// The node that a request begins at, and the zones that may serve it, best first.
    #[inline]
    pub(crate) fn zonelist<'r>(
        &'r self,
        request: &'r Request,
        cpu: CpuId,
    ) -> Result<(NodeId, impl Iterator<Item = &'a Zone<'a, M>> + Clone + use<'r, 'a, M>), AllocError> {
        if !request.migratetype.is_ordinary() {
            return Err(AllocError::Migratetype(request.migratetype));
        }
        let node = request.node.unwrap_or_else(|| self.rules.cpus[cpu.0 as usize]);
        let zones = self.zones.len();
        let Some(row) = self.zonelists.get(node.0 as usize * zones..(node.0 as usize + 1) * zones) else {
            return Err(AllocError::Node(node));
        };
        let allowed = move |zone: &&Zone<'a, M>| {
            zone.kind <= request.highest
                && !(request.this_node_only && zone.node != node)
                && request.zone.is_none_or(|only| zone.index == only)
        };
        Ok((node, row.iter().map(|index| &self.zones[index.get() as usize]).filter(allowed)))
    }

    /// Merges what was freed without merging, for a request above order 0 that found nothing. True if there was any.
    #[cold]
    fn merge_for<'z>(&self, request: &Request, zones: impl Iterator<Item = &'z Zone<'a, M>>) -> bool
    where
        'a: 'z,
        M: 'z,
    {
        request.order > Order::ZERO
            && zones.fold(0, |pairs, zone| pairs + zone.merge_skipped(&self.machine, &self.tuning)) > 0
    }

    /// Whether a zone's marks let it serve a request.
    #[inline]
    fn may_take(&self, zone: &Zone<'a, M>, request: &Request, low: bool) -> bool {
        let test = request.mark_test();
        let marks = zone.watermarks();
        if self.tuning.below_high && !zone.pressure().below_high {
            if zone.passes(marks.high, &test) {
                return true;
            }
            let pages = MarkTest { order: Order::ZERO, ..test };
            if !self.tuning.below_high_by_pages || !zone.passes(marks.high, &pages) {
                zone.set_below_high(true);
            }
        }
        !request.watermarks || zone.passes(if low { marks.low } else { marks.min }, &test)
    }

    /// The list of a pageset that serves a request, where one does.
    #[inline]
    pub(crate) fn cached_list(&self, wanted: Wanted) -> Option<usize> {
        if self.tuning.cma_skip && wanted.skips_for_cma() {
            return None;
        }
        self.tuning.lists.list(wanted.order, wanted.migratetype)
    }

    /// Takes a block from a zone, through the pageset or past it. Specification 2.3.
    #[inline]
    pub(crate) fn take(&self, zone: &Zone<'a, M>, cpu: CpuId, request: &Request) -> Option<u32> {
        let (machine, tuning, wanted) = (&self.machine, &self.tuning, request.wanted());
        if let Some(list) = self.cached_list(wanted) {
            match zone.alloc_cached(machine, tuning, cpu, list, wanted) {
                FromCache::Page(page) => return Some(page),
                // Before 5.14 a refill that failed was the zone's answer. Specification 2.3.
                FromCache::Empty if tuning.lists == ListRule::OrderZero => return None,
                FromCache::Empty | FromCache::Busy => {}
            }
        }
        self.take_direct(zone, wanted)
    }

    #[cold]
    pub(crate) fn take_direct(&self, zone: &Zone<'a, M>, wanted: Wanted) -> Option<u32> {
        let _guard = zone.lock(&self.machine, LockPath::DirectAlloc);
        let page = zone.take(&self.machine, &self.tuning, wanted, &mut Mode::default())?;
        zone.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
        crate::word::add(&zone.direct_alloc_pages, wanted.order.pages());
        Some(page)
    }
}
