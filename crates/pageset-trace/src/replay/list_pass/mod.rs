//! The second pass: follows the kernel's lists page by page and counts its refills and drains.
//!
//! | module | contents |
//! | --- | --- |
//! | `refills` | blocks that a CPU takes from a free list one after the other, and bulk allocations |
//! | `drains` | blocks that go from a pageset to the buddy, and their causes |
//! | `settings` | the moments of settings, which drains show |
//!
//! Both go on with [`ListPass`], each with state of its own. Specification: `linux-page-allocator.md` 8.4, `trace-replay.md` 1 and 3.

mod drains;
mod refills;
mod settings;

use std::collections::{HashMap, HashSet};

use pageset::policy::expiry::Expiry;
use pageset::policy::lists::order_of;
use pageset::policy::{FallbackRule, Tuning};
use pageset::{CpuId, MigrateType, Order, Pfn};
use rustc_hash::FxHashMap;

use self::drains::Drains;
use self::refills::{Refills, Run, Unfinished};
use self::settings::Settings;
use super::balance::Balance;
use super::blocks::{BlockMap, Freed, PageMap};
use super::findings::{DrainRequest, Earlier, Notes, SettingMoment, Shown, Taken};
use super::free_pass::FreeNotes;
use super::hotplug::Hotplug;
use super::kernel_lists::{KernelLists, Unseen};
use super::moves::Moves;
use super::setting::{Setting, State};
use super::start_state::{Histories, Step};
use super::types::{list_type, ordinary};
use crate::event::{Context, Event, Kind};

/// The index of a context, 0 to 3.
fn level(context: Context) -> usize {
    match context {
        Context::Process => 0,
        Context::SoftIrq => 1,
        Context::HardIrq => 2,
        Context::Nmi => 3,
    }
}

/// The result of the pass.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) lists: KernelLists,
    pub(super) kernel: Moves,
    pub(super) earlier: Vec<Earlier>,
    pub(super) taken: Vec<Taken>,
    pub(super) factors: FxHashMap<(usize, CpuId), (u64, u8)>,
    pub(super) histories: Histories,
    pub(super) drain_requests: Vec<DrainRequest>,
    pub(super) setting_moments: Vec<SettingMoment>,
    /// The events of drains of at most three batches. Under reclaim a pageset keeps four batches and drains three.
    pub(super) small_drains: Vec<u64>,
    /// The countdowns of pagesets of other nodes at the start, as the first drain of each shows them.
    pub(super) expiring: FxHashMap<(usize, CpuId), Expiry>,
    /// The drains of other nodes' pagesets by the timer work, by place, zone and CPU, and whether they cannot be of the decay.
    pub(super) expired: FxHashMap<(u64, usize, CpuId), bool>,
    /// The events of allocations and frees that used the pageset of another CPU.
    pub(super) moved_tasks: FxHashMap<u64, CpuId>,
}

/// The state of the pass.
#[derive(Debug)]
pub(super) struct ListPass<'s> {
    setting: &'s Setting,
    tuning: Tuning,
    frees: &'s FreeNotes,
    /// Frees so far.
    free: usize,
    /// Input events so far.
    place: u64,
    /// Frees that a later batch event commits: order and list type, by page.
    pending: FxHashMap<Pfn, (Order, MigrateType)>,
    refills: Refills,
    drains: Drains,
    settings: Settings,
    live: BlockMap<u32>,
    /// Pages freed since the replay began.
    freed: PageMap<bool>,
    balance: Balance,
    hotplug: Hotplug,
    began: bool,
    ended: bool,
    found: Found,
}

impl<'s> ListPass<'s> {
    pub(super) fn new(setting: &'s Setting, frees: &'s FreeNotes) -> Self {
        ListPass {
            setting,
            tuning: setting.kernel_tuning(),
            frees,
            free: 0,
            place: 0,
            pending: FxHashMap::default(),
            refills: Refills::new(setting.cpus.len()),
            drains: Drains::new(setting.cpus.len()),
            settings: Settings::after(setting, None),
            live: BlockMap::new(),
            freed: PageMap::new(),
            balance: Balance::new(setting.zones.len(), setting.cpus.len()),
            hotplug: Hotplug::new(setting),
            began: false,
            ended: false,
            found: Found {
                lists: KernelLists::new(setting.zones.len(), setting.cpus.len()),
                kernel: Moves::default(),
                earlier: Vec::new(),
                taken: Vec::new(),
                factors: FxHashMap::default(),
                histories: Histories::new(setting.zones.len(), setting.cpus.len()),
                drain_requests: Vec::new(),
                setting_moments: Vec::new(),
                small_drains: Vec::new(),
                expiring: FxHashMap::default(),
                expired: FxHashMap::default(),
                moved_tasks: FxHashMap::default(),
            },
        }
    }

    pub(super) fn event(&mut self, notes: &mut Notes, index: u64, event: &Event, state: State) {
        if state == State::Inside && !self.began {
            self.began = true;
            self.found.lists.begin();
            self.balance.begin(self.setting.zones.iter().map(|zone| &zone.start));
            self.live = BlockMap::new();
        }
        let cpu = event.cpu;
        if self.ended {
            return;
        }
        if cpu.0 as usize >= self.setting.cpus.len() {
            self.place += u64::from(event.kind.is_input());
            return;
        }
        self.follow_drains(event, state);
        if state == State::After {
            self.after(notes, index, event);
            return;
        }
        self.note_cause(event);
        let finished = self.finish_refill(event);
        match event.kind {
            Kind::ZoneLocked { pfn, order, migratetype, .. } => {
                self.extend_run(notes, index, event, pfn, order, migratetype);
            }
            Kind::ExtFrag { pfn, alloc_order, alloc_migratetype, .. }
                if self.tuning.fallback == FallbackRule::ClaimThenSteal =>
            {
                let run = self.run(event);
                // A claim within a pageblock shows the block before this event.
                if run.as_ref().is_none_or(|run| run.blocks.last() != Some(&pfn)) {
                    self.extend_run(notes, index, event, pfn, alloc_order, alloc_migratetype);
                }
            }
            Kind::SnapshotBegin(_) => self.balance.snapshot_begins(),
            Kind::SnapshotEnd(ref tag) => {
                if let Some(zones) = self.setting.snapshot(tag) {
                    self.balance.snapshot_ends(index, zones);
                    if self.settings.is_open() {
                        self.close_histories();
                    }
                    self.settings = Settings::after(self.setting, Some(tag));
                }
            }
            Kind::ExtFrag { .. } => {}
            Kind::Alloc { pfn: Some(pfn), order, migratetype, gfp } => {
                let shown = Shown { event: index, gfp };
                self.allocated(notes, event, (pfn, order, migratetype), shown, finished);
            }
            Kind::BulkAlloc { taken, gfp, node, .. } => self.bulk(notes, index, event, (taken, gfp, node)),
            _ => {
                if let Some(run) = self.run(event).take() {
                    self.close_run(notes, cpu, run, None);
                }
                self.other(notes, index, event);
            }
        }
        // This event of the same process may have closed the run of a refill.
        self.finish_refill(event);
        self.place += u64::from(event.kind.is_input());
    }

    /// Notes that the allocation or free at an event used the pageset of another CPU.
    fn move_task(&mut self, notes: &mut Notes, event: u64, to: CpuId) {
        if self.began {
            notes.found.moved_tasks += 1;
            self.found.moved_tasks.insert(event, to);
        }
    }

    fn other(&mut self, notes: &mut Notes, index: u64, event: &Event) {
        match event.kind {
            Kind::Free { pfn, order } => {
                let number = self.free;
                self.free += 1;
                let Some((pfn, order)) = self.frees.block(number, pfn, order) else { return };
                self.freed(index, pfn, order, number);
                if self.setting.zone_of(pfn).is_some_and(|zone| self.hotplug.is_offlined_by(zone, event.pid)) {
                    return;
                }
                let migratetype = self.frees.list_type(number);
                if self.frees.is_batched(number) {
                    self.pending.insert(pfn, (order, migratetype));
                } else if self.frees.is_direct(number) {
                    let cached = self.tuning.lists.list(order, migratetype).is_some();
                    notes.found.direct_frees += u64::from(self.began && cached);
                } else {
                    self.commit(notes, index, event.cpu, pfn, order, migratetype);
                }
            }
            Kind::FreeBatched { pfn } => {
                if let Some((order, migratetype)) = self.pending.remove(&pfn) {
                    self.commit(notes, index, event.cpu, pfn, order, migratetype);
                }
            }
            Kind::Drain { pfn, order, migratetype } => {
                self.drained(notes, index, event, (pfn, order, migratetype));
            }
            Kind::VmstatWork if self.began => {
                for zone in 0..self.setting.zones.len() {
                    if self.balance.pages(zone, event.cpu) > 0 {
                        self.drains.tick(zone, event.cpu);
                    }
                    self.found.histories.step(zone, event.cpu, Step::Tick { drained: 0 });
                }
            }
            // The state machine does not know reclaim and hot-plug.
            Kind::KswapdWake | Kind::StateChange(_) if self.began => {
                if let Kind::StateChange(change) = event.kind {
                    self.hotplug.change(change, event.pid, self.setting.zone_of_change(change));
                }
                self.close_histories();
            }
            _ => {}
        }
    }

    /// Handles an allocation. `late` is the refill that its process has just finished, if any.
    fn allocated(
        &mut self,
        notes: &mut Notes,
        event: &Event,
        block: (Pfn, Order, u8),
        shown: Shown,
        late: Option<Unfinished>,
    ) {
        let (pfn, order, _) = block;
        let begins_with = |run: &Run| run.blocks.first() == Some(&pfn);
        let run = self.run(event).take();
        let moved = if run.as_ref().is_some_and(begins_with) { None } else { self.moved_run(event, pfn) };
        let ends_run = moved.is_some() || run.as_ref().is_some_and(begins_with);
        if let Some(run) = run {
            let shown = begins_with(&run).then_some(shown);
            self.close_run(notes, event.cpu, run, shown);
        }
        if let Some((from, run)) = moved {
            self.close_run(notes, from, run, Some(shown));
            self.move_task(notes, shown.event, from);
        }
        if !ends_run {
            let late = late.filter(|refill| refill.taken.pfn == Some(pfn));
            let from = late.as_ref().map_or(event.cpu, |refill| refill.taken.cpu);
            if let Some(refill) = &late {
                self.found.taken.push(Taken { shown: Some(shown), ..refill.taken });
            }
            if from != event.cpu {
                self.move_task(notes, shown.event, from);
            }
            self.alloc(notes, shown.event, from, block, late.is_some());
        }
        self.live.insert(pfn, order, 0);
    }

    /// Handles an allocation outside a run: it took the block from a list, if its order is cached. `is_counted` says
    /// that the history already has the allocation with its refill.
    fn alloc(&mut self, notes: &mut Notes, index: u64, cpu: CpuId, block: (Pfn, Order, u8), is_counted: bool) {
        let (pfn, order, migratetype) = block;
        let Some(zone) = self.zone_of(notes, pfn) else { return };
        let Some(list) = self.tuning.lists.list(order, ordinary(migratetype)) else { return };
        let pages = order.pages() as i64;
        let mut cpu = cpu;
        if let Some(held) = self.found.lists.held(pfn)
            && let (held_in, other, same) = self.found.lists.parts(held.list)
            && (held_in, same) == (zone, list)
            && other != cpu
        {
            if held.is_newest {
                // The allocation took the page before its task moved.
                self.move_task(notes, index, other);
                cpu = other;
            } else {
                // The free put the page on this list after its task had moved.
                self.move_task(notes, held.since, cpu);
                self.found.lists.push(self.found.lists.id(zone, cpu, list), pfn, index);
                self.balance.add(zone, other, -pages);
                self.balance.add(zone, cpu, pages);
            }
        }
        let id = self.found.lists.id(zone, cpu, list);
        self.found.lists.pop(id, pfn, index);
        self.balance.add(zone, cpu, -pages);
        if self.began && !is_counted {
            self.found.histories.step(zone, cpu, Step::Alloc { order, refill: 0 });
        }
    }

    fn freed(&mut self, index: u64, pfn: Pfn, order: Order, number: usize) {
        if self.found.lists.freed_again(pfn, index) {
            // The block was allocated without an event and is free again.
            return;
        }
        let known = self.live.free(pfn, order, |_, _, _| {}, |_, _| 0);
        // A page that was freed earlier was free at the start, and was allocated without an event since.
        let again = self.freed.get(pfn);
        self.freed.set(pfn, self.began);
        if self.began && known == Freed::Unknown && !again {
            self.found.earlier.push(Earlier { pfn, order, migratetype: self.frees.list_type(number) });
        }
    }

    fn commit(&mut self, notes: &mut Notes, index: u64, cpu: CpuId, pfn: Pfn, order: Order, migratetype: MigrateType) {
        let Some(list) = self.tuning.lists.list(order, migratetype) else { return };
        let Some(zone) = self.zone_of(notes, pfn) else { return };
        let id = self.found.lists.id(zone, cpu, list);
        self.found.lists.push(id, pfn, index);
        self.balance.add(zone, cpu, order.pages() as i64);
        if self.began {
            self.found.histories.step(zone, cpu, Step::Free { order, drained: 0, last: 0 });
        }
    }

    /// Notes that something was set before this many input events.
    fn set_before(&mut self, place: u64) {
        if self.began {
            self.found.setting_moments.extend(self.settings.make(place));
            self.close_histories();
        }
    }

    /// Ends the histories of all pagesets: the state machine does not know what follows.
    fn close_histories(&mut self) {
        for zone in 0..self.setting.zones.len() {
            self.cpus().for_each(|cpu| self.found.histories.close(zone, cpu));
        }
    }

    fn zone_of(&self, notes: &mut Notes, pfn: Pfn) -> Option<usize> {
        let zone = self.setting.zone_of(pfn);
        notes.found.foreign += u64::from(zone.is_none() && self.began);
        zone
    }

    fn close_all(&mut self, notes: &mut Notes) {
        self.end_all_interrupted();
        for cpu in self.cpus() {
            self.close_drain(cpu);
            self.close_runs(notes, cpu);
        }
    }

    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.setting.cpus.len() as u32).map(CpuId)
    }

    pub(super) fn finish(mut self, notes: &mut Notes) -> Found {
        if !self.ended {
            self.close_all(notes);
        }
        let Found { lists, taken, .. } = &mut self.found;
        let mut known: HashMap<_, Vec<_>> = HashMap::new();
        for Unseen { event, list, pfn } in lists.unseen() {
            let (zone, cpu, list) = lists.parts(list);
            let (order, migratetype) = (order_of(list), list_type(list));
            known.entry((zone, cpu)).or_default().push((event, order.pages()));
            taken.push(Taken { event, zone, cpu, pfn: Some(pfn), order, migratetype, shown: None });
        }
        notes.found.bulk_allocs = lists.unseen().count() as u64;
        for (zone, cpu, event, pages) in self.balance.unseen(&known) {
            notes.found.bulk_allocs += pages;
            // Most bulk allocations are for kernel memory.
            let (order, migratetype) = (Order::ZERO, MigrateType::Unmovable);
            lists.held_more(lists.id(zone, cpu, 0), pages);
            let page = Taken { event, zone, cpu, pfn: None, order, migratetype, shown: None };
            taken.extend((0..pages).map(|_| page));
        }
        notes.found.surprises = lists.surprises;
        // The recording ended within these allocations, so no event of them is replayed.
        let unfinished: HashSet<usize> = self.refills.unfinished.values().map(|refill| refill.refill).collect();
        let mut place = 0;
        self.found.kernel.refills.retain(|_| {
            place += 1;
            !unfinished.contains(&(place - 1))
        });
        // An interrupted drain ends after later ones.
        self.found.kernel.drains.sort_by_key(|drain| drain.place);
        self.found.small_drains.sort_unstable();
        self.found.drain_requests.sort_by_key(|request| request.event);
        let Found { taken, .. } = &mut self.found;
        // The sort is stable and keeps the order of allocations before the same event.
        taken.sort_by_key(|t| t.event);
        self.found
    }
}
