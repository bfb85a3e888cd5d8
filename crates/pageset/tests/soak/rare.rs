//! Calls that are rare: other ways to allocate and free, time, and an administrator.

use pageset::policy::Bounds;
use pageset::{
    Alloc, AllocFrom, Block, CpuId, Free, FreeTo, MigrateType, Order, PageRange, Pfn, Request, Urgency, Wait,
};

use crate::work::{Worker, order};
use crate::world::{CPU, largest_at};

impl<'a> Worker<'_, 'a> {
    fn any_zone(&mut self) -> usize {
        self.random.below(self.world.zones().len() as u64) as usize
    }

    fn any_cpu(&mut self) -> CpuId {
        CpuId(self.random.below(self.shared.plan.cpus.len() as u64) as u32)
    }

    /// Any page of a zone that is on-line.
    fn any_page(&mut self) -> Pfn {
        let plan = self.shared.plan;
        let zone = &plan.zones[self.any_zone()];
        let range = zone.ranges[self.random.below(zone.ranges.len() as u64) as usize];
        range.start.offset(self.random.below(range.pages))
    }

    /// A call that is rare: another way to allocate or free, time, or an administrator.
    pub(crate) fn rare_call(&mut self) {
        self.calls += 1;
        CPU.set(self.any_cpu().0);
        let order = self::order(self.random.below(Order::COUNT as u64) as u8);
        match self.random.below(if self.is_admin { 30 } else { 18 }) {
            0..3 => {
                let _ = self.world.tick();
            }
            3 => {
                let _ = self.world.drain();
            }
            4 => self.world.zone(self.any_zone()).expect("a zone").drain_all(),
            5 => self.world.drain_cpu(self.any_cpu()),
            6 => self.free_some(FreeTo::Buddy),
            7 => self.free_some(FreeTo::Deferred),
            8 => self.free_some(FreeTo::BuddyCold),
            9 => self.free_some(FreeTo::PagesetUndrained),
            10 => {
                if let Ok(pfn) =
                    self.world.alloc_with(Alloc::new(&Request { order, ..self.phase.request }).from(AllocFrom::Buddy))
                {
                    self.take(Block { pfn, order });
                }
            }
            11 => {
                let pages = 1 + self.random.below(Order::MAX.pages());
                if let Ok(pfn) = self.world.alloc_with(Alloc::new(&self.phase.request).pages(pages)) {
                    self.take_range(PageRange::new(pfn, pages));
                }
            }
            12 => self.free_part(),
            13 => self.split(),
            14 => {
                let pfn = self.any_page().align_down(order);
                if self.world.alloc_at(pfn, order) {
                    self.take(Block { pfn, order });
                }
            }
            15 | 16 => {
                let request = Request {
                    order,
                    urgency: self.random.pick(&[Urgency::High, Urgency::OomVictim]),
                    wait: self.random.pick(&[Wait::Nothing, Wait::Lock, Wait::Memory]),
                    ..self.phase.request
                };
                let _ = self.alloc(&request);
            }
            17 => {
                let _ = self.world.tick_cpu(self.any_cpu());
            }
            _ => self.administrate(),
        }
    }

    fn free_some(&mut self, to: FreeTo) {
        let many = 1 + self.random.below(40);
        for block in self.drop_some(many) {
            self.calls += 1;
            self.world.free_with(Free::block(block.pfn, block.order).to(to)).expect("it is in use");
        }
    }

    /// Takes pages as the largest blocks that they form.
    fn take_range(&mut self, range: PageRange) {
        let mut at = range.start;
        while at < range.end() {
            let order = largest_at(at, range.end());
            self.take(Block { pfn: at, order });
            at = at.offset(order.pages());
        }
    }

    fn free_part(&mut self) {
        let Some(Block { pfn, order }) = self.drop_one() else { return };
        let first = self.random.below(order.pages());
        let pages = 1 + self.random.below(order.pages() - first);
        self.world.free_range(PageRange::new(pfn.offset(first), pages)).expect("a part of a block in use");
        self.take_range(PageRange::new(pfn, first));
        self.take_range(PageRange::new(pfn.offset(first + pages), order.pages() - first - pages));
    }

    fn split(&mut self) {
        let Some(block) = self.drop_one() else { return };
        let to = self::order(self.random.below(u64::from(block.order.get()) + 1) as u8);
        self.world.split(block.pfn, block.order, to).expect("it is in use");
        for at in (0..block.order.pages()).step_by(to.pages() as usize) {
            self.take(Block { pfn: block.pfn.offset(at), order: to });
        }
    }

    fn administrate(&mut self) {
        let (zone, cpu, on) = (self.any_zone(), self.any_cpu(), self.random.one_in(2));
        match self.random.below(12) {
            0 => self.world.drain_all(),
            1 => {
                let high_min = self.random.pick(&[0, 10, 60]);
                let bounds = Bounds {
                    batch: 1 + self.random.below(60) as u32,
                    high_min,
                    high_max: high_min + self.random.pick(&[0, 4, 400]),
                };
                // More than the pagesets have room for, or for disabled pagesets: an error.
                let _ = self.world.zone(zone).expect("a zone").set_bounds(bounds);
            }
            2 => {
                let _ = self.world.set_high_fraction(self.random.pick(&[0, 8, 50, 1000]));
            }
            3 => {
                self.world.zone(zone).expect("a zone").disable_pagesets();
                self.disabled.push(zone);
            }
            4 | 5 => self.enable_pagesets(),
            6 if self.world.cpu_offline(cpu).is_ok() => self.offline.push(cpu),
            7 => self.cpus_online(),
            8 => self.world.zone(zone).expect("a zone").set_reclaim_active(on),
            9 => self.world.zone(zone).expect("a zone").set_below_high(on),
            10 => {
                let to = self.random.pick(&[MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable]);
                self.world.set_pageblock_type(self.any_page(), to).expect("a page of the zone");
            }
            _ => {
                let _ = self.world.zone(zone).expect("a zone").decay_boost(1000);
            }
        }
    }

    pub(crate) fn enable_pagesets(&mut self) {
        for zone in self.disabled.drain(..) {
            self.world.zone(zone).expect("a zone").enable_pagesets().expect("they are disabled");
        }
    }

    pub(crate) fn cpus_online(&mut self) {
        for cpu in self.offline.drain(..) {
            self.world.cpu_online(cpu).expect("it is offline");
        }
    }
}
