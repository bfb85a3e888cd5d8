//! One replay: runs the recording's allocations and frees through the allocator under one set of rules.

mod countdowns;
mod parameters;

use std::collections::VecDeque;
use std::iter::Peekable;
use std::slice;

use pageset::admin::stats::PagesetStats;
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::PcpState;
use pageset::{
    AllocError, Allocator, CpuId, Free, FreeTo, Machine as _, MigrateType, Order, PageRange, PagesetView, Pfn, Request,
    ZoneSpec, ZoneView,
};
use rustc_hash::{FxHashMap, FxHashSet};

use self::countdowns::Countdowns;
use super::blocks::{BlockMap, Freed};
use super::corrections::{Corrections, FreeScanner};
use super::findings::{DrainRequest, SettingMoment, Taken};
use super::gfp::{highest_zone, is_for_lru, migratetype_of, urgency_of, wait_of};
use super::high_orders::{self, HighOrders};
use super::holds;
use super::hotplug::Hotplug;
use super::moves::Move;
use super::plan::Plan;
use super::reclaim::Change;
use super::setting::{State, ZoneState};
use super::types::ordinary;
use super::what_if::WhatIf;
use super::world::{self, Placed, Plans, ReplayMachine, World};
use super::zone_counters::ZoneCounters;
use super::{Level, Outcome, ReplayError};
use crate::event::{Event, Kind};

impl Plan<'_> {
    /// Runs the replay. Reports the number of events read to `progress`.
    pub(super) fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<Outcome, ReplayError> {
        let setting = self.setting;
        let reconstructed = self.level == Level::Reconstructed;
        let earlier = if reconstructed { &self.survey.earlier } else { &self.survey.first.earlier_by_input };
        let initial = &self.survey.initial;
        let plans = Plans::new(setting, earlier, initial);
        let states = || {
            std::iter::once(setting.zones.iter().map(|z| &z.start).collect::<Vec<_>>())
                .chain(setting.later.iter().map(|(_, states)| states.iter().collect()))
        };
        let limits: Vec<u32> = (0..setting.zones.len())
            .map(|zone| {
                let fewest = self.survey.first.fewest_sharers[zone];
                let cases = states().flat_map(|s| [(s[zone], None), (s[zone], fewest)]);
                let bounds = cases.map(|(state, sharers)| self.bounds(zone, state, sharers));
                bounds.map(|b| b.high_max.max(4 * b.batch)).max().unwrap_or(0)
            })
            .collect();
        let held: u64 = initial.iter().flatten().map(world::pages_of).max().unwrap_or(0);
        let capacity = limits.iter().copied().max().unwrap_or(0).max(u32::try_from(held).unwrap_or(0));

        let ranges = plans.ranges();
        let specs: Vec<ZoneSpec<'_>> = setting
            .zones
            .iter()
            .zip(&ranges)
            .map(|(z, (span, online))| ZoneSpec {
                node: z.node,
                kind: z.kind,
                span: *span,
                ranges: std::slice::from_ref(online),
            })
            .collect();
        let config = world::config(setting, self.rules, &specs, capacity);
        let metadata = OwnedMetadata::new(&config)?;
        let mut zones = metadata.zones();
        let world = Allocator::new(ReplayMachine::default(), &config, metadata.lend(&mut zones))?;
        let is_kernel = self.is_kernel();
        let keep: Vec<u32> = if is_kernel { vec![capacity; limits.len()] } else { limits };
        let placed = world::apply(&world, &plans, &keep);

        let spare = ranges.iter().map(|(span, online)| PageRange::new(online.end(), span.pages - online.pages));
        let online = ranges.iter().map(|(_, online)| *online);
        let mut run = Run::new(self, &world, placed, online, spare.collect());
        run.begin();
        let mut window = setting.window();
        for (index, event) in self.recorded.events()?.enumerate() {
            let event = event?;
            let state = window.at(&event);
            if state == State::After {
                break;
            }
            if state == State::Inside {
                run.event(index as u64, &event);
            }
            if (index as u64).is_multiple_of(high_orders::SAMPLE_EVERY) {
                run.sample_high_orders();
            }
            progress(index as u64);
        }
        Ok(run.finish())
    }
}

/// The first page of a block of the replayed machine; replayed page numbers fit 32 bits.
type ReplayedPfn = u32;

struct Run<'r, 'a> {
    plan: &'r Plan<'r>,
    world: &'r World<'a>,
    /// The recorded blocks in use, with their first pages in the replay.
    blocks: BlockMap<ReplayedPfn>,
    /// The survey's early or unseen allocations that have not been replayed yet.
    taken: Peekable<slice::Iter<'r, Taken>>,
    /// Allocations that may have come before the timer work, by its event.
    before_ticks: FxHashMap<u64, Taken>,
    /// Requested drains that have not been replayed yet.
    requests: Peekable<slice::Iter<'r, DrainRequest>>,
    /// Moments of settings that have not been replayed yet.
    moments: Peekable<slice::Iter<'r, SettingMoment>>,
    /// Changes of active reclaim that have not been replayed yet.
    reclaim: Peekable<slice::Iter<'r, Change>>,
    hotplug: Hotplug,
    /// Whether hot-plug changed a CPU or zone since the last used snapshot.
    hotplug_changed: bool,
    /// The state of each zone in the last used snapshot.
    states: Vec<&'r ZoneState>,
    /// Whether watermarks were set since the start, which ends their boost, as the input shows it.
    is_set: bool,
    /// Pages of bulk allocations by zone, the oldest first.
    bulk: Vec<VecDeque<Pfn>>,
    /// The scanner that takes blocks off the free lists, by zone.
    scanners: Vec<FreeScanner>,
    /// Events whose allocations have been replayed early.
    done: FxHashSet<u64>,
    /// The number of frees and of input events so far, including those before the window.
    free: usize,
    place: u64,
    /// Freed blocks that a later batch event commits.
    pending: FxHashMap<Pfn, Order>,
    /// The CPU that allocated each recorded block, if the blocks are freed there.
    origins: Option<FxHashMap<Pfn, CpuId>>,
    corrections: Corrections,
    counters: ZoneCounters,
    countdowns: Countdowns<'r>,
    /// Pages in all pagesets.
    held: u64,
    /// Pages in all depots.
    in_depots: u64,
    /// Acquisitions of zone locks for the set-up and for corrections.
    own_locks: u64,
    /// Pages allocated and freed past the pagesets for the same.
    own_pages: u64,
    outcome: Outcome,
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(
        plan: &'r Plan<'r>,
        world: &'r World<'a>,
        placed: Vec<Placed>,
        online: impl Iterator<Item = PageRange>,
        spare: Vec<PageRange>,
    ) -> Self {
        let mut blocks = BlockMap::new();
        for block in placed {
            blocks.insert(block.recorded, block.order, block.replayed.0 as ReplayedPfn);
        }
        let reconstructed = plan.level == Level::Reconstructed;
        let taken = if reconstructed { plan.survey.taken.as_slice() } else { plan.input_taken };
        let decides = reconstructed && plan.is_kernel();
        let reclaim = if reconstructed { &plan.survey.reclaim } else { &plan.survey.first.reclaim_by_input };
        Run {
            plan,
            world,
            blocks,
            taken: taken.iter().peekable(),
            before_ticks: if decides { plan.survey.first.undecided.before_ticks() } else { FxHashMap::default() },
            requests: plan.survey.drain_requests.iter().peekable(),
            moments: plan.survey.setting_moments.iter().peekable(),
            reclaim: reclaim.iter().peekable(),
            hotplug: Hotplug::new(plan.setting),
            hotplug_changed: false,
            states: plan.setting.zones.iter().map(|zone| &zone.start).collect(),
            is_set: false,
            bulk: vec![VecDeque::new(); plan.setting.zones.len()],
            scanners: online.map(FreeScanner::new).collect(),
            done: FxHashSet::default(),
            free: plan.survey.first.frees.before_window(),
            place: plan.survey.first.frees.places_before_window(),
            pending: FxHashMap::default(),
            origins: (plan.what_if == WhatIf::LocalFrees).then(FxHashMap::default),
            corrections: Corrections::new(spare),
            counters: ZoneCounters::new(plan.setting),
            countdowns: Countdowns::new(&plan.survey.expiring, decides.then_some(&plan.survey.expired)),
            held: 0,
            in_depots: 0,
            own_locks: 0,
            own_pages: 0,
            outcome: Outcome::new(plan.level),
        }
    }

    /// Sets watermarks, bounds and pagesets to their values in the first snapshot.
    fn begin(&mut self) {
        for (zone, z) in self.plan.setting.zones.iter().enumerate() {
            self.set_parameters(zone);
            for (cpu, snapshot) in z.start.pagesets.iter().enumerate() {
                let start = self.plan.start(zone, cpu, *snapshot);
                self.pageset(zone, CpuId(cpu as u32)).restore(&start.state);
                self.outcome.borrowed.start_counters += u64::from(start.is_shown);
                self.outcome.borrowed.unclear_starts += u64::from(start.is_unclear);
            }
            self.zone(zone).set_below_high(z.start.free <= z.start.watermarks.high);
        }
        self.outcome.borrowed.start_lists =
            self.plan.survey.initial.iter().flatten().filter(|lists| lists.iter().any(|n| *n > 0)).count() as u64;
        self.outcome.borrowed.start_countdowns = self.countdowns.running();
        self.held = self.pagesets().map(|(zone, cpu)| self.count(zone, cpu)).sum();
        self.note_held(0);
        self.own_locks = self.locks();
        self.own_pages = self.direct_pages();
        holds::start();
        let known = self.plan.setting.free_blocks_known;
        self.outcome.high_orders = known.then(|| HighOrders::new(high_orders::of_world(self.world)));
    }

    fn sample_high_orders(&mut self) {
        if let Some(high_orders) = &mut self.outcome.high_orders {
            high_orders.sample(high_orders::of_world(self.world));
        }
    }

    fn pagesets(&self) -> impl Iterator<Item = (usize, CpuId)> + use<> {
        let cpus = self.plan.setting.cpus.len() as u32;
        (0..self.world.zones().len()).flat_map(move |zone| (0..cpus).map(move |cpu| (zone, CpuId(cpu))))
    }

    /// A zone of the setting, which the world has.
    fn zone(&self, number: usize) -> ZoneView<'r, 'a, ReplayMachine> {
        world::zone_at(self.world, number)
    }

    /// The pageset of a zone and a CPU of the setting.
    fn pageset(&self, zone: usize, cpu: CpuId) -> PagesetView<'r, 'a, ReplayMachine> {
        world::pageset_at(self.world, zone, cpu)
    }

    fn count(&self, zone: usize, cpu: CpuId) -> u64 {
        self.pageset(zone, cpu).stats().count
    }

    fn locks(&self) -> u64 {
        self.world.zones().map(|zone| zone.stats().lock_acquisitions()).sum()
    }

    /// Pages allocated and freed past the pagesets so far.
    fn direct_pages(&self) -> u64 {
        let stats = self.world.zones().map(|zone| zone.stats());
        stats.map(|stats| stats.direct_alloc_pages + stats.direct_free_pages).sum()
    }

    fn event(&mut self, index: u64, event: &Event) {
        while let Some(change) = self.reclaim.next_if(|change| change.event <= index) {
            self.set_reclaim(change);
        }
        while let Some(moment) = self.moments.next_if(|moment| moment.place <= self.place) {
            self.set(moment);
        }
        while let Some(request) = self.requests.next_if(|request| request.event <= index) {
            // A recorded hot-plug event may have drained the pageset already.
            self.outcome.borrowed.drain_requests += u64::from(self.count(request.zone, request.cpu) > 0);
            self.operate(request.zone, request.cpu, Order::ZERO, |run| match request.pages {
                Some(pages) => run.zone(request.zone).drain_pages(pages),
                None => run.zone(request.zone).drain_local(),
            });
        }
        while let Some(taken) = self.taken.next_if(|taken| taken.event <= index) {
            self.take_early(taken);
        }
        if let Kind::Alloc { .. } = event.kind
            && let Some((pfn, order)) = self.plan.survey.first.frees.moved(index)
            && let Some(zone) = self.plan.setting.zone_of(pfn)
        {
            self.counters.change_lru(zone, event.cpu, order);
        }
        let moved_to = self.plan.survey.moved_tasks.get(&index).copied();
        let cpu = moved_to.unwrap_or(event.cpu);
        match &event.kind {
            Kind::Alloc { pfn: Some(pfn), order, migratetype, gfp } if !self.done.remove(&index) => {
                self.alloc(cpu, *pfn, *order, ordinary(*migratetype), *gfp);
            }
            Kind::Free { pfn, order } => {
                let number = self.free;
                self.free += 1;
                if let Some((pfn, order)) = self.plan.survey.first.frees.block(number, *pfn, *order) {
                    self.free(event, cpu, number, pfn, order);
                }
            }
            Kind::FreeBatched { pfn } => {
                if let Some(order) = self.pending.remove(pfn) {
                    self.release(cpu, *pfn, order, false);
                }
            }
            Kind::VmstatWork => {
                if let Some(taken) = self.before_ticks.remove(&index) {
                    self.decide(&taken);
                }
                self.tick(event.cpu);
            }
            Kind::BulkAlloc { taken, gfp, node, .. } => self.bulk(event.cpu, *taken, *gfp, *node),
            Kind::SnapshotEnd(tag) => self.snapshot(tag),
            Kind::StateChange(change) => self.state_change(*change, event),
            _ => {}
        }
        self.place += u64::from(event.kind.is_input());
    }

    /// Handles the event of a free. `number` counts the earlier frees.
    fn free(&mut self, event: &Event, cpu: CpuId, number: usize, pfn: Pfn, order: Order) {
        let frees = &self.plan.survey.first.frees;
        let inferred = frees.is_direct(number) && self.plan.level == Level::Reconstructed;
        self.outcome.borrowed.direct_frees += u64::from(inferred);
        let zone = self.plan.setting.zone_of(pfn);
        let offlined = zone.is_some_and(|zone| self.hotplug.is_offlined_by(zone, event.pid));
        if let (Some(zone), true) = (zone, frees.is_on_lru(number, order)) {
            self.counters.change_lru(zone, event.cpu, order);
        }
        if frees.is_batched(number) {
            self.pending.insert(pfn, order);
        } else {
            self.release(
                cpu,
                pfn,
                order,
                inferred
                    || frees.is_locked_out(number)
                    || self.plan.locked_out.binary_search(&number).is_ok()
                    || offlined,
            );
        }
    }

    fn set_reclaim(&self, change: &Change) {
        let zones = self.plan.setting.zones.iter().enumerate().filter(|(_, zone)| zone.node == change.node);
        zones.for_each(|(zone, _)| self.zone(zone).set_reclaim_active(change.active));
    }

    /// Replays a bulk allocation of single pages. Its pages are unknown until their frees.
    fn bulk(&mut self, cpu: CpuId, pages: u32, gfp: u32, node: i32) {
        self.outcome.operations += 1;
        let Some(zone) = self.plan.setting.zone_of_bulk(cpu, gfp, node) else { return };
        let request = Request { zone: Some(zone), ..Request::new(Order::ZERO, migratetype_of(gfp)) };
        for _ in 0..pages {
            self.operate(zone, cpu, Order::ZERO, |run| match run.take_in_bulk(&request) {
                Ok(page) => run.bulk[zone].push_back(page),
                Err(_) => run.outcome.failed += 1,
            });
        }
    }

    /// Replays an allocation that happened before its event, or that has no event.
    fn take_early(&mut self, taken: &Taken) {
        // A recording with events of bulk allocations needs no inferred ones.
        if taken.shown.is_none() && self.plan.setting.bulk_recorded {
            return;
        }
        let borrowed = &mut self.outcome.borrowed;
        *match (self.plan.level, taken.shown) {
            (Level::Input, _) => &mut borrowed.late_allocs,
            (Level::Reconstructed, Some(_)) => &mut borrowed.moved_allocs,
            (Level::Reconstructed, None) => &mut borrowed.inferred_allocs,
        } += 1;
        self.calibrate(taken);
        if let (Some(shown), Some(pfn)) = (taken.shown, taken.pfn) {
            if !self.done.insert(shown.event) {
                return;
            }
            return self.alloc(taken.cpu, pfn, taken.order, taken.migratetype, shown.gfp);
        }
        let request = Request { zone: Some(taken.zone), ..Request::new(taken.order, taken.migratetype) };
        self.operate(taken.zone, taken.cpu, taken.order, |run| {
            let got = run.take_in_bulk(&request);
            match taken.pfn {
                Some(pfn) => run.place(pfn, taken.order, got.ok()),
                None => run.outcome.failed += u64::from(got.is_err()),
            }
        });
    }

    /// Allocates a block in bulk if it is a single page: bulk allocations have no other orders.
    fn take_in_bulk(&self, request: &Request) -> Result<Pfn, AllocError> {
        if request.order > Order::ZERO {
            return self.world.alloc(request);
        }
        let mut pages = [Pfn(0)];
        self.world.alloc_bulk(request, &mut pages).map(|_| pages[0])
    }

    /// Sets the factor that the first refill of single pages shows. Specification: `trace-replay.md` 3g.
    fn calibrate(&self, taken: &Taken) {
        let Some(&(event, factor)) = self.plan.survey.factors.get(&(taken.zone, taken.cpu)) else { return };
        if event == taken.event && self.plan.is_kernel() {
            let state = self.pageset(taken.zone, taken.cpu).state();
            let state = PcpState { alloc_factor: factor, ..state };
            self.pageset(taken.zone, taken.cpu).restore(&state);
        }
    }

    fn alloc(&mut self, cpu: CpuId, pfn: Pfn, order: Order, migratetype: MigrateType, gfp: u32) {
        self.outcome.operations += 1;
        let Some(zone) = self.plan.setting.zone_of(pfn) else { return };
        let request = Request {
            // The recorded kernel's choice of zone is part of the input.
            zone: Some(zone),
            highest: highest_zone(gfp).max(self.plan.setting.zones[zone].kind),
            urgency: urgency_of(gfp),
            wait: wait_of(gfp),
            ..Request::new(order, migratetype)
        };
        if is_for_lru(gfp) {
            self.counters.change_lru(zone, cpu, order);
        }
        self.operate(zone, cpu, order, |run| {
            let got = run.world.alloc(&request).or_else(|_| {
                run.outcome.below_min += 1;
                run.world.alloc(&Request { watermarks: false, ..request })
            });
            run.place(pfn, order, got.ok());
        });
    }

    /// Records the replayed block of a recorded block. `None` counts as a failure.
    fn place(&mut self, recorded: Pfn, order: Order, replayed: Option<Pfn>) {
        let Some(replayed) = replayed else {
            self.outcome.failed += 1;
            return;
        };
        if let Some(origins) = &mut self.origins {
            origins.insert(recorded, self.world.machine().cpu());
        }
        // The recorded page is allocated twice: its free was not recorded.
        if let Some((old_order, old)) = self.blocks.insert(recorded, order, replayed.0 as ReplayedPfn) {
            self.outcome.lost_frees += 1;
            let _ = self.world.free(Pfn(old.into()), old_order);
        }
    }

    /// Frees a recorded block; `direct` bypasses the pageset, which was busy.
    fn release(&mut self, cpu: CpuId, pfn: Pfn, order: Order, direct: bool) {
        self.outcome.operations += 1;
        let Some(zone) = self.plan.setting.zone_of(pfn) else { return };
        let origin = self.origins.as_mut().and_then(|origins| origins.remove(&pfn));
        let origin = origin.filter(|origin| *origin != cpu && self.hotplug.is_online(*origin));
        // The pageset of another CPU was not the busy one.
        let (cpu, direct) = origin.map_or((cpu, direct), |origin| (origin, false));
        let world = self.world;
        let split = |old: ReplayedPfn, from, to| {
            let _ = world.split(Pfn(old.into()), from, to);
        };
        let freed = self.blocks.free(pfn, order, split, |old, at| old + at as ReplayedPfn);
        let (order, replayed) = match freed {
            Freed::Whole(replayed) => (order, replayed),
            Freed::Other(order, replayed) => (order, replayed),
            Freed::Unknown => return self.free_unknown(zone, cpu, order),
        };
        self.operate(zone, cpu, order, |run| {
            let page = Pfn(replayed.into());
            let freed = if direct {
                run.world.free_with(Free::block(page, order).to(FreeTo::Buddy))
            } else {
                run.world.free(page, order)
            };
            run.outcome.refused_frees += u64::from(freed.is_err());
        });
    }

    /// Frees a block without a recorded allocation: allocates it now. If the recording shows all bulk allocations, or
    /// the kernel has none, compaction took the block off the free lists, past the pagesets.
    fn free_unknown(&mut self, zone: usize, cpu: CpuId, order: Order) {
        // No event shows the pages of a bulk allocation, so any of the zone's bulk pages fits.
        if order == Order::ZERO
            && let Some(page) = self.bulk[zone].pop_front()
        {
            self.operate(zone, cpu, order, |run| {
                run.outcome.refused_frees += u64::from(run.world.free(page, order).is_err())
            });
            return;
        }
        self.outcome.unseen_allocs += 1;
        let request = Request { zone: Some(zone), ..Request::new(order, MigrateType::Movable) };
        self.operate(zone, cpu, order, |run| {
            let got = match run.plan.setting.bulk_unseen {
                true => run.take_in_bulk(&request).ok(),
                false => run.scanners[zone].take(run.world, zone, order),
            };
            let freed = got.is_some_and(|page| run.world.free(page, order).is_ok());
            run.outcome.refused_frees += u64::from(!freed);
        });
    }

    /// Takes an allocation before the timer work that comes now if the kernel's drain shows it: it has as many pages as the work has to
    /// drain without the block, and not with it.
    fn decide(&mut self, taken: &Taken) {
        let Taken { zone, cpu, order, .. } = *taken;
        let drains = &self.plan.survey.kernel.drains;
        let from = drains.partition_point(|drain| drain.place < self.place);
        let here = drains[from..].iter().take_while(|drain| drain.place == self.place);
        let of = here.filter(|drain| (drain.zone as usize, drain.cpu) == (zone, cpu));
        let drained: u32 = of.map(|drain| drain.pages).sum();
        let state = self.pageset(zone, cpu).state();
        let due = |count: u32| self.world.tuning().decay(&mut PcpState { count, ..state }).drain;
        let without = state.count.checked_sub(order.pages() as u32).map(due);
        if drained > 0 && due(state.count) != drained && without == Some(drained) {
            self.take_early(taken);
        }
    }

    fn tick(&mut self, cpu: CpuId) {
        for zone in 0..self.world.zones().len() {
            let changed = self.counters.tick(zone, cpu).filter(|_| !self.world.tuning().expire_all);
            let ends = changed.map(|changed| {
                let PcpState { count, batch, .. } = self.pageset(zone, cpu).state();
                self.countdowns.tick((self.place, zone, cpu), changed, count, batch)
            });
            let drained = |run: &Self| match run.plan.setting.cpus.get(cpu.0 as usize) {
                Some(_) => run.pageset(zone, cpu).stats().drain_pages,
                None => 0,
            };
            let drained_before = drained(self);
            self.operate(zone, cpu, Order::ZERO, |run| {
                let drains = |run: &Self| run.pageset(zone, cpu).stats().drains;
                let before = drains(run);
                let Some(ends) = ends else {
                    run.zone(zone).tick();
                    return;
                };
                run.zone(zone).tick_counted(ends.changed);
                // The kernel's drain may have been one of the decay.
                let is_missing = ends.due > 0 && drains(run) == before;
                if is_missing {
                    run.zone(zone).drain_pages(ends.due);
                }
                run.outcome.borrowed.unseen_counter_changes +=
                    u64::from(ends.is_delayed || ends.is_shown && is_missing);
            });
            // Where the timer work drains a batch only, more is a huge page, whose list is the last.
            let is_huge = drained(self) - drained_before >= Order::PAGEBLOCK.pages();
            if is_huge && !self.world.tuning().auto_high {
                self.counters.end_with_huge(zone, cpu);
            }
        }
        self.look_at_depots();
    }

    /// Runs an operation on one pageset and records its moves. A refill is of blocks of this order.
    fn operate<R>(&mut self, zone: usize, cpu: CpuId, order: Order, operation: impl FnOnce(&mut Self) -> R) {
        if cpu.0 as usize >= self.plan.setting.cpus.len() {
            self.outcome.refused_frees += 1;
            return;
        }
        self.world.machine().run_on(cpu);
        if self.world.tuning().backing.has_owners() {
            return self.operate_on_all(zone, operation);
        }
        let before = self.pageset(zone, cpu).stats();
        let free = self.counters.counts(zone, cpu).then(|| self.zone(zone).stats().nr_free_pages);
        operation(self);
        self.note_moves(zone, cpu, before);
        if let Some(free) = free {
            let refill = (self.pageset(zone, cpu).stats().refills > before.refills).then_some(order);
            self.counters.change_free(zone, cpu, free, self.zone(zone).stats().nr_free_pages, refill);
        }
        self.note_held(0);
    }

    /// Runs an operation that may change the pagesets of several CPUs, and records the moves of all.
    fn operate_on_all<R>(&mut self, zone: usize, operation: impl FnOnce(&mut Self) -> R) {
        let cpus = || (0..self.plan.setting.cpus.len() as u32).map(CpuId);
        let before: Vec<_> = cpus().map(|cpu| self.pageset(zone, cpu).stats()).collect();
        let cpus: Vec<_> = cpus().collect();
        operation(self);
        cpus.into_iter().zip(before).for_each(|(cpu, before)| self.note_moves(zone, cpu, before));
        let waiting: u64 = self.world.zones().map(|zone| zone.stats().waiting).sum();
        self.note_held(waiting);
    }

    /// Records the pages that are held now, `waiting` of them on lists of owners.
    fn note_held(&mut self, waiting: u64) {
        let outcome = &mut self.outcome;
        outcome.held_pages_max = outcome.held_pages_max.max(self.held + waiting);
        outcome.depot_pages = outcome.depot_pages.max(self.in_depots);
        outcome.cached_pages_max = outcome.cached_pages_max.max(self.held + waiting + self.in_depots);
    }

    /// Records what an operation moved between a pageset and the zone.
    fn note_moves(&mut self, zone: usize, cpu: CpuId, before: PagesetStats) {
        let after = self.pageset(zone, cpu).stats();
        let moved = |pages: u64| Move { place: self.place, zone: zone as u32, cpu, pages: pages as u32 };
        let (refilled, drained) = (after.refills > before.refills, after.drains > before.drains);
        if refilled {
            self.outcome.moves.refills.push(moved(after.refill_pages - before.refill_pages));
        }
        if drained {
            self.outcome.moves.drains.push(moved(after.drain_pages - before.drain_pages));
        }
        if refilled || drained {
            self.look_at_depots();
        }
        self.held = self.held + after.count - before.count;
    }

    /// Counts the pages in depots, after an operation that may have moved some.
    fn look_at_depots(&mut self) {
        if self.world.tuning().backing.depot() {
            self.in_depots = self.world.zones().map(|zone| zone.stats().depot).sum();
        }
    }

    fn finish(mut self) -> Outcome {
        self.sample_high_orders();
        let holds = holds::stop();
        self.outcome.zone_lock_acquisitions = self.locks() - self.own_locks;
        self.outcome.direct_pages = self.direct_pages() - self.own_pages;
        self.outcome.bitmap_pages = self.world.zones().map(|zone| zone.stats().bitmap_pages).sum();
        debug_assert_eq!(holds.acquisitions, self.outcome.zone_lock_acquisitions, "two counts of the same locks");
        self.outcome.zone_lock_lines = holds.lines;
        self.outcome.longest_hold_lines = holds.longest_lines;
        self.outcome
    }
}
