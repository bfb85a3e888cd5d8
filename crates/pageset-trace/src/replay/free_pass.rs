//! The first pass: finds the list of each free from the next event of the page.
//!
//! Specification: `trace-replay.md` 3, c and e.

use std::collections::HashMap;

use pageset::{MigrateType, Order, Pfn};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::blocks::{BlockMap, Freed, PageMap};
use super::findings::{Earlier, Notes};
use super::gfp::{is_for_migration, migratetype_of};
use super::setting::{Setting, State};
use super::split_blocks::{SplitBlock, SplitBlocks};
use super::types::ordinary;
use crate::event::{Context, Event, Kind};

/// The facts about one free, in one byte: the migratetype of its list, whether a batch committed it, and whether it
/// bypassed the pageset.
#[derive(Clone, Copy, Debug, Default)]
struct FreeNote(u8);

impl FreeNote {
    const KNOWN: u8 = 4;
    const BATCHED: u8 = 8;
    const DIRECT: u8 = 16;
    /// An interrupt freed the block while the interrupted batch held the pageset's lock. The input shows it.
    const LOCKED_OUT: u8 = 32;
    /// The page is a part of a block that a later free puts back whole.
    const PART: u8 = 64;
    /// The page has moved to another page before, so it is on no list of reclaim any more.
    const MOVED: u8 = 128;
    /// Pages of type 3 and above are on the movable list.
    const SPECIAL: u8 = 3;

    fn set_type(&mut self, migratetype: u8) {
        self.0 = self.0 & !3 | Self::KNOWN | migratetype.min(Self::SPECIAL);
    }

    fn list_type(self) -> MigrateType {
        // Unknown types count as movable, because most pages are movable.
        if self.0 & Self::KNOWN == 0 { MigrateType::Movable } else { ordinary(self.0 & 3) }
    }
}

/// The facts about all frees of a recording, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct FreeNotes {
    notes: Vec<FreeNote>,
    /// The orders of blocks that were freed page by page and went back whole, by the free of the last page.
    whole: FxHashMap<usize, Order>,
    /// Blocks that move to another node, by the index of the event of the allocation that they move to.
    moved: FxHashMap<u64, (Pfn, Order)>,
    before_window: usize,
    places_before_window: u64,
}

impl FreeNotes {
    /// Whether a later batch event committed this free.
    pub(super) fn is_batched(&self, free: usize) -> bool {
        self.notes.get(free).is_some_and(|note| note.0 & FreeNote::BATCHED != 0)
    }

    /// Whether this free went directly to the buddy because the pageset was busy.
    pub(super) fn is_direct(&self, free: usize) -> bool {
        self.notes.get(free).is_some_and(|note| note.0 & (FreeNote::DIRECT | FreeNote::LOCKED_OUT) != 0)
    }

    /// Whether this free went directly to the buddy because the CPU held the pageset's lock, by the input alone.
    pub(super) fn is_locked_out(&self, free: usize) -> bool {
        self.notes.get(free).is_some_and(|note| note.0 & FreeNote::LOCKED_OUT != 0)
    }

    /// The block that this free puts back: usually the freed one. `None` for a part of a block that a later free puts back.
    pub(super) fn block(&self, free: usize, pfn: Pfn, order: Order) -> Option<(Pfn, Order)> {
        if self.whole.is_empty() {
            return Some((pfn, order));
        }
        if self.notes.get(free).is_some_and(|note| note.0 & FreeNote::PART != 0) {
            return None;
        }
        Some(self.whole.get(&free).map_or((pfn, order), |order| (pfn.align_down(*order), *order)))
    }

    /// Whether the freed pages probably were pages of a process or a file. Larger blocks of unknown type are mostly the kernel's own.
    pub(super) fn is_on_lru(&self, free: usize, order: Order) -> bool {
        let has = |flag: u8| self.notes.get(free).is_some_and(|note| note.0 & flag != 0);
        let is_probable = has(FreeNote::KNOWN) || order == Order::ZERO;
        self.list_type(free) == MigrateType::Movable && is_probable && !has(FreeNote::MOVED)
    }

    /// The block that moves to the block of this allocation. It leaves the lists of reclaim about now, and its free comes later, perhaps on
    /// another CPU.
    pub(super) fn moved(&self, event: u64) -> Option<(Pfn, Order)> {
        self.moved.get(&event).copied()
    }

    /// The number of frees before the replayed window.
    pub(super) fn before_window(&self) -> usize {
        self.before_window
    }

    /// The number of input events before the replayed window.
    pub(super) fn places_before_window(&self) -> u64 {
        self.places_before_window
    }

    /// The migratetype of the list of this free.
    pub(super) fn list_type(&self, free: usize) -> MigrateType {
        self.notes.get(free).map_or(MigrateType::Movable, |note| note.list_type())
    }
}

/// The frees of one interrupt, numbered as in the notes.
#[derive(Debug, Default)]
struct Interrupt {
    frees: Vec<u32>,
    /// Whether the interrupt came between a refill's last block and the event of its allocation.
    in_refill: bool,
}

/// A batched free in progress on a CPU. It holds the pageset's lock between the blocks of one zone.
#[derive(Debug)]
struct Batch {
    pid: u32,
    context: Context,
    zone: Option<usize>,
    /// Frees by interrupts since the last block of the batch.
    inside: Vec<u32>,
}

/// The state of the pass.
#[derive(Debug)]
pub(super) struct FreePass {
    notes: Vec<FreeNote>,
    /// The last free of each page without a later event: the free's number plus one.
    last: PageMap<u32>,
    /// Frees by interrupts: the current interrupt of each CPU, and all completed interrupts.
    interrupt: HashMap<u32, Interrupt, FxBuildHasher>,
    interrupts: Vec<Interrupt>,
    preemptible: bool,
    /// The batched frees in progress, by CPU.
    batches: HashMap<u32, Batch, FxBuildHasher>,
    split: SplitBlocks,
    /// The allocation for a page that moves, if it is the last event of its process: its event, page and order.
    targets: FxHashMap<u32, (u64, Pfn, Order)>,
    moved: FxHashMap<u64, (Pfn, Order)>,
    /// CPUs with a refill whose allocation event has not come yet, and the refill's context.
    refilling: HashMap<u32, Context, FxBuildHasher>,
    /// The last known migratetype of each pageblock, and the last one that an allocation from the pageblock requested.
    pageblocks: PageMap<Option<u8>>,
    requested: PageMap<Option<u8>>,
    /// Blocks in use, by the input alone; and pages that the replayed window freed.
    live: BlockMap<u32>,
    freed: PageMap<bool>,
    earlier: Vec<Earlier>,
    /// Pages of bulk allocations that were not freed yet, and the migratetype of the last one.
    bulk: (u64, u8),
    began: Option<u64>,
    before_window: usize,
    places_before_window: u64,
}

impl FreePass {
    /// `preemptible` says whether interrupts can come while a pageset's lock is held. This is certain from 6.7 on and
    /// likely from 6.2 to 6.6; those kernels are treated like older ones.
    ///
    /// `bulk_unseen`: see [`Setting::bulk_unseen`]. `page_size` is in bytes.
    pub(super) fn new(preemptible: bool, bulk_unseen: bool, page_size: u32) -> Self {
        FreePass {
            preemptible,
            batches: HashMap::default(),
            split: SplitBlocks::new(bulk_unseen, page_size),
            notes: Vec::new(),
            last: PageMap::new(),
            interrupt: HashMap::default(),
            interrupts: Vec::new(),
            targets: FxHashMap::default(),
            moved: FxHashMap::default(),
            refilling: HashMap::default(),
            pageblocks: PageMap::new(),
            requested: PageMap::new(),
            live: BlockMap::new(),
            freed: PageMap::new(),
            earlier: Vec::new(),
            bulk: (0, 0),
            began: None,
            before_window: 0,
            places_before_window: 0,
        }
    }

    pub(super) fn event(&mut self, notes: &mut Notes, setting: &Setting, event: &Event, state: State) {
        notes.events += 1;
        if self.began.is_none() {
            self.before_window = self.notes.len();
            self.places_before_window += u64::from(event.kind.is_input() && state != State::Inside);
        }
        let mut is_earlier = false;
        if state == State::Inside {
            let began = *self.began.get_or_insert(event.time_ns);
            notes.duration_ns = event.time_ns.saturating_sub(began);
            self.count(notes, event);
            is_earlier = self.follow_input(event);
        }
        let in_interrupt = event.context != Context::Process;
        if !(in_interrupt && matches!(event.kind, Kind::Free { .. })) {
            self.interrupts.extend(self.interrupt.remove(&event.cpu.0));
        }
        match event.kind {
            Kind::ZoneLocked { .. } if self.preemptible => _ = self.refilling.insert(event.cpu.0, event.context),
            _ if self.refilling.get(&event.cpu.0) == Some(&event.context) => _ = self.refilling.remove(&event.cpu.0),
            _ => {}
        }
        self.follow_batch(setting, event);
        self.split.event(|pfn| setting.zone_of(pfn), event);
        match event.kind {
            Kind::Free { pfn, order } => {
                // A page freed twice was allocated without an event in between. No later event shows the list of the
                // first free.
                self.settle_by_pageblock(pfn, self.last.get(pfn));
                let moved = if self.has_moved(setting, event, pfn, order) { FreeNote::MOVED } else { 0 };
                self.notes.push(FreeNote(moved));
                // Beyond 2^32 frees, the types stay unknown.
                let free = u32::try_from(self.notes.len()).unwrap_or(0);
                self.split.freed(event, free, state == State::Inside, is_earlier);
                self.last.set(pfn, free);
                if let Some(batch) = self.batches.get_mut(&event.cpu.0)
                    && free > 0
                    && batch.zone == setting.zone_of(pfn)
                {
                    batch.inside.push(free - 1);
                }
                if in_interrupt && free > 0 {
                    let refilling = self.refilling.get(&event.cpu.0);
                    let interrupt = self.interrupt.entry(event.cpu.0).or_default();
                    interrupt.in_refill |= refilling.is_some_and(|context| *context != event.context);
                    interrupt.frees.push(free - 1);
                }
            }
            Kind::FreeBatched { pfn } => {
                // The CPU does not matter, because the process may have migrated.
                let free = self.last.get(pfn);
                if free > 0 {
                    self.notes[free as usize - 1].0 |= FreeNote::BATCHED;
                }
            }
            Kind::Drain { pfn, migratetype, .. } => {
                self.pageblocks.set(pageblock(pfn), Some(migratetype));
                self.settle(pfn, migratetype);
            }
            Kind::ZoneLocked { pfn, migratetype, .. } => {
                self.pageblocks.set(pageblock(pfn), Some(migratetype));
                self.settle_direct(pfn, migratetype);
            }
            Kind::ExtFrag { pfn, fallback_migratetype, change_ownership, alloc_migratetype, .. } => {
                let now = if change_ownership { alloc_migratetype } else { fallback_migratetype };
                self.pageblocks.set(pageblock(pfn), Some(now));
                self.settle_direct(pfn, fallback_migratetype);
            }
            Kind::Alloc { pfn: Some(pfn), migratetype, order, gfp } => {
                self.requested.set(pageblock(pfn), Some(migratetype));
                self.settle(pfn, migratetype);
                if is_for_migration(gfp, order) && !in_interrupt {
                    self.targets.insert(event.pid, (notes.events - 1, pfn, order));
                } else if !in_interrupt && !self.targets.is_empty() {
                    self.targets.remove(&event.pid);
                }
            }
            _ => {}
        }
    }

    /// Whether the freed block has moved to the one on another node that its process allocated for this just before. A block that could
    /// not move stays where it is, and its new place is freed.
    fn has_moved(&mut self, setting: &Setting, event: &Event, pfn: Pfn, order: Order) -> bool {
        if event.context != Context::Process || self.targets.is_empty() {
            return false;
        }
        let node = |pfn: Pfn| setting.zone_of(pfn).map(|zone| setting.zones[zone].node);
        let Some((to, target, _)) = self.targets.remove(&event.pid).filter(|&(_, target, wanted)| {
            // Later frees of the process are of other pages: someone else freed this one.
            wanted == order && (pfn == target || node(pfn) != node(target))
        }) else {
            return false;
        };
        if pfn != target {
            self.moved.insert(to, (pfn, order));
        }
        true
    }

    /// Sets the list of a page's last free from the page's next event.
    fn settle(&mut self, pfn: Pfn, migratetype: u8) {
        let free = self.last.take(pfn);
        if free > 0 {
            self.notes[free as usize - 1].set_type(migratetype);
        }
    }

    /// Sets the list of a free whose page is on a buddy free list without a drain. The free bypassed a busy pageset.
    fn settle_direct(&mut self, pfn: Pfn, migratetype: u8) {
        let free = self.last.get(pfn);
        self.settle(pfn, migratetype);
        if free > 0 {
            let note = &mut self.notes[free as usize - 1];
            if note.0 & FreeNote::BATCHED == 0 {
                note.0 |= FreeNote::DIRECT;
            }
        }
    }

    /// Marks frees of interrupts that bypassed the pageset. All frees of one interrupt meet the same pageset. If one
    /// page bypassed it, the pages without a later event bypassed it too.
    /// The same holds if no page has a later event and the interrupt came within a refill. A refill holds the zone lock
    /// with interrupts off and the pageset's lock slightly longer, so a pending interrupt comes in between.
    fn settle_interrupts(&mut self) {
        self.interrupts.extend(std::mem::take(&mut self.interrupt).into_values());
        for Interrupt { frees, in_refill } in std::mem::take(&mut self.interrupts) {
            let notes = &mut self.notes;
            let any = |flags: u8| frees.iter().any(|&free| notes[free as usize].0 & flags != 0);
            if any(FreeNote::DIRECT) || in_refill && !any(FreeNote::KNOWN | FreeNote::BATCHED) {
                for free in frees {
                    let note = &mut notes[free as usize];
                    if note.0 & FreeNote::KNOWN == 0 {
                        note.0 |= FreeNote::DIRECT;
                    }
                }
            }
        }
    }

    /// Sets the list of a free from its pageblock's last known or requested type, the best information left.
    fn settle_by_pageblock(&mut self, pfn: Pfn, free: u32) {
        if free == 0 {
            return;
        }
        let pageblock = pageblock(pfn);
        if let Some(seen) = self.pageblocks.get(pageblock).or_else(|| self.requested.get(pageblock)) {
            self.notes[free as usize - 1].set_type(seen);
        }
    }

    /// Follows batched frees. Between two blocks of a batch the CPU holds the lock of the zone's pageset, unless the
    /// second is of another zone.
    fn follow_batch(&mut self, setting: &Setting, event: &Event) {
        if !self.preemptible {
            return;
        }
        let Kind::FreeBatched { pfn } = event.kind else {
            let interrupts = |batch: &Batch| event.context as u8 > batch.context as u8;
            let goes_on = !event.kind.is_input() || self.batches.get(&event.cpu.0).is_some_and(interrupts);
            if !goes_on {
                self.batches.remove(&event.cpu.0);
            }
            return;
        };
        let zone = setting.zone_of(pfn);
        let batch = Batch { pid: event.pid, context: event.context, zone, inside: Vec::new() };
        match self.batches.get_mut(&event.cpu.0) {
            // An interrupt's own batch leaves the interrupted one alone.
            Some(outer) if event.context as u8 > outer.context as u8 => {}
            Some(open) if (open.pid, open.context) == (event.pid, event.context) => {
                let Batch { zone: held, inside, .. } = std::mem::replace(open, batch);
                for free in inside.into_iter().filter(|_| held == zone) {
                    let note = &mut self.notes[free as usize];
                    // A block of a batch has an event only if it entered the pageset.
                    if note.0 & FreeNote::BATCHED == 0 {
                        note.0 |= FreeNote::LOCKED_OUT;
                    }
                }
            }
            _ => _ = self.batches.insert(event.cpu.0, batch),
        }
    }

    fn count(&mut self, notes: &mut Notes, event: &Event) {
        notes.replayed += 1;
        match event.kind {
            Kind::Alloc { pfn, .. } => {
                notes.operations += 1;
                notes.found.failed += u64::from(pfn.is_none());
            }
            Kind::Free { .. } => notes.operations += 1,
            Kind::VmstatWork => notes.found.ticks += 1,
            Kind::ExtFrag { .. } => notes.found.fallbacks += 1,
            Kind::KswapdWake | Kind::DirectReclaim => notes.found.reclaims += 1,
            Kind::SnapshotEnd(_) => notes.found.markers += 1,
            _ => {}
        }
    }

    /// Follows the blocks in use. Returns whether the event is the free of a block that was in use before the replay.
    fn follow_input(&mut self, event: &Event) -> bool {
        match event.kind {
            Kind::Alloc { pfn: Some(pfn), order, .. } => {
                self.live.insert(pfn, order, 0);
            }
            Kind::Free { pfn, order } => {
                let known = self.live.free(pfn, order, |_, _, _| {}, |_, _| 0);
                if known == Freed::Unknown && order == Order::ZERO && self.bulk.0 > 0 {
                    // A page of a bulk allocation has the type of its request.
                    self.bulk.0 -= 1;
                    let requested = self.requested.get(pageblock(pfn)).unwrap_or(self.bulk.1);
                    self.requested.set(pageblock(pfn), Some(requested));
                }
                let is_earlier = known == Freed::Unknown && !self.freed.get(pfn);
                if is_earlier {
                    // `finish` sets the type.
                    self.earlier.push(Earlier { pfn, order, migratetype: MigrateType::Movable });
                }
                self.freed.set(pfn, true);
                return is_earlier;
            }
            Kind::BulkAlloc { taken, gfp, .. } => {
                self.bulk = (self.bulk.0 + u64::from(taken), migratetype_of(gfp).index() as u8);
            }
            _ => {}
        }
        false
    }

    /// The facts about all frees, and the pages that were in use before, by the input alone.
    /// `frees_whole`: see [`Setting::frees_runs_whole`].
    pub(super) fn finish(mut self, notes: &mut Notes, frees_whole: bool) -> (FreeNotes, Vec<Earlier>) {
        let whole = self.rejoin(notes, frees_whole);
        self.settle_interrupts();
        for (pfn, free) in std::mem::take(&mut self.last).iter() {
            self.settle_by_pageblock(pfn, free);
        }
        // No event shows the type of a page that was in use before. Allocations from its pageblock usually have the
        // same type.
        for page in &mut self.earlier {
            page.migratetype = self.requested.get(pageblock(page.pfn)).map_or(MigrateType::Movable, ordinary);
        }
        let Self { notes, moved, before_window, places_before_window, .. } = self;
        (FreeNotes { notes, whole, moved, before_window, places_before_window }, self.earlier)
    }

    /// Joins the pages of blocks that were in use before the replay.
    fn rejoin_earlier(&mut self, blocks: &[SplitBlock]) {
        let stacks: FxHashMap<Pfn, Order> = blocks.iter().filter_map(SplitBlock::earlier).collect();
        if stacks.is_empty() {
            return;
        }
        let pages = |(pfn, order): (&Pfn, &Order)| (0..order.pages()).map(|at| pfn.offset(at)).collect::<Vec<_>>();
        let parts: FxHashSet<Pfn> = stacks.iter().flat_map(pages).collect();
        self.earlier.retain_mut(|page| match stacks.get(&page.pfn) {
            Some(order) => {
                page.order = *order;
                true
            }
            None => !parts.contains(&page.pfn),
        });
    }

    /// Joins the frees of blocks that the kernel put back whole. Returns the orders of these blocks by their last frees.
    fn rejoin(&mut self, notes: &mut Notes, frees_whole: bool) -> FxHashMap<usize, Order> {
        let mut whole = FxHashMap::default();
        let split = std::mem::take(&mut self.split);
        let is_batched = |free: u32| self.notes[free as usize].0 & FreeNote::BATCHED != 0;
        let blocks = split.rejoined(frees_whole, is_batched);
        self.rejoin_earlier(&blocks);
        for block in blocks {
            let Some((last, parts)) = block.frees.split_last() else { continue };
            for part in parts {
                self.notes[*part as usize].0 |= FreeNote::PART;
            }
            self.notes[*last as usize].set_type(block.migratetype);
            whole.insert(*last as usize, block.order);
            notes.found.rejoined_blocks += u64::from(block.is_inside);
            notes.found.rejoined_proofs += u64::from(block.is_inside && block.proof == Some(true));
        }
        whole
    }
}

/// The number of a page's pageblock, as the index of a [`PageMap`].
fn pageblock(pfn: Pfn) -> Pfn {
    Pfn(pfn.0 / Order::PAGEBLOCK.pages())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pageset::CpuId;

    use super::*;
    use crate::trace::Trace;

    /// The flags of a request for a page's new place.
    const MIGRATION: u32 = 0x3d_20ca;
    const FAULT: u32 = 0x14_0dca;

    /// Of a process's events after a request for a page's new place on node 0, the first is the free of the page, on another node.
    #[test]
    fn a_page_that_moves_is_freed_next_and_on_another_node() {
        let piece = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/real/moved_page.pstrace");
        let setting = Setting::new(&Trace::open(Path::new(piece)).unwrap()).unwrap();
        let first = |node: u32| {
            let zone = setting.zones.iter().rfind(|zone| zone.node.0 == node).unwrap();
            Pfn(zone.frames.end - 512)
        };
        let [target, elsewhere, other] = [first(0), first(1), Pfn(first(0).0 + 1)];
        let event = |pid, kind| Event { time_ns: 0, cpu: CpuId(0), pid, context: Context::Process, kind };
        let alloc = |pfn, gfp| Kind::Alloc { pfn: Some(pfn), order: Order::ZERO, migratetype: 1, gfp };
        let free = |pfn| Kind::Free { pfn, order: Order::ZERO };
        let moved = |after: &[(u32, Kind)]| {
            let (mut pass, mut notes) = (FreePass::new(true, false, 4096), Notes::default());
            let request = (7, alloc(target, MIGRATION));
            for (pid, kind) in [request].iter().chain(after) {
                pass.event(&mut notes, &setting, &event(*pid, kind.clone()), State::Inside);
            }
            let frees = pass.finish(&mut notes, false).0;
            (frees.moved(0).map(|(pfn, _)| pfn), frees.is_on_lru(0, Order::ZERO))
        };
        assert_eq!(moved(&[(7, free(elsewhere))]), (Some(elsewhere), false));
        assert_eq!(moved(&[(8, alloc(other, FAULT)), (7, free(elsewhere))]), (Some(elsewhere), false));
        assert_eq!(moved(&[(7, free(target))]).0, None, "it could not move");
        assert_eq!(moved(&[(7, free(other))]).0, None, "a page of the same node");
        assert_eq!(moved(&[(7, free(other)), (7, free(elsewhere))]).0, None, "a later free");
        assert_eq!(moved(&[(7, alloc(other, FAULT)), (7, free(elsewhere))]).0, None, "after another request");
    }
}
