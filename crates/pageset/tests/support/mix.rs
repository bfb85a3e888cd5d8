//! Operations by many threads at once. Each result that may depend on another thread is accepted. But no page is
//! allocated twice, and every block in use can be freed.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use crate::support::Known;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Alloc, Allocator, Block, CpuId, Free, FreeTo, Machine, MapError, MigrateType, MoveError, NodeId, Order, Owner,
    PageRange, Pfn, Request, WrongFree, ZoneKind,
};

use crate::ops::{Op, Wrong, request};

const PAGEBLOCK: u64 = Order::PAGEBLOCK.pages();
/// Start of the zone, a page frame number.
pub const BASE: u64 = 1 << 20;
/// The zone's pages at the start: two blocks of the largest order.
pub const PAGES: u64 = 2 * Order::MAX.pages();
/// The range that may come online later.
pub const HOLE: PageRange = PageRange::new(Pfn(BASE + PAGES), Order::MAX.pages());
/// Capacity of each pageset in pages.
pub const CAPACITY: u32 = 64;
/// Fewer CPUs than threads, so that pagesets are found busy.
pub const CPUS: u32 = 2;

/// Accepts a result that depends on the other threads.
fn either_way<T, E>(_: Result<T, E>) {}

/// The shared state of the threads: blocks in transit to another thread, and the pages in use.
pub struct Shared {
    mail: Mutex<Vec<Block>>,
    held: Vec<AtomicBool>,
}

impl Shared {
    pub fn new() -> Self {
        let held = (0..PAGES + HOLE.pages).map(|_| AtomicBool::new(false)).collect();
        Shared { mail: Mutex::new(vec![]), held }
    }

    pub fn mail(&self) -> MutexGuard<'_, Vec<Block>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pages(&self, block: Block) -> &[AtomicBool] {
        &self.held[(block.pfn.0 - BASE) as usize..][..block.order.pages() as usize]
    }

    /// Records that a block's pages are not in use.
    pub fn let_go(&self, block: Block) {
        self.pages(block).iter().for_each(|page| page.store(false, Relaxed));
    }

    fn hold(&self, block: Block, held: bool) {
        for page in self.pages(block) {
            assert_eq!(page.swap(held, Relaxed), !held, "{block:?}: a page was handed out twice");
        }
    }
}

/// Moves the blocks of one thread and those in the mail. Isolated blocks belong to no thread until they return.
struct Mover<'m> {
    shared: &'m Shared,
    mine: RefCell<&'m mut Vec<Block>>,
    /// The isolated blocks, and whether each came from the mail.
    isolated: RefCell<Vec<(Block, bool)>>,
    /// Selects the moves that fail.
    faults: u8,
}

impl Mover<'_> {
    fn return_as(&self, from: Pfn, now: Pfn) {
        let mut isolated = self.isolated.borrow_mut();
        let at = isolated.iter().position(|(block, _)| block.pfn == from).expect("it is isolated");
        let (block, from_mail) = isolated.swap_remove(at);
        let block = Block { pfn: now, ..block };
        if from_mail { self.shared.mail().push(block) } else { self.mine.borrow_mut().push(block) }
    }
}

impl Owner for Mover<'_> {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        let take = |blocks: &mut Vec<Block>| {
            let at = blocks.iter().position(|block| block.pfn == pfn)?;
            Some(blocks.swap_remove(at))
        };
        let mine = take(&mut self.mine.borrow_mut()).map(|block| (block, false));
        let block = mine.or_else(|| Some((take(&mut self.shared.mail())?, true)))?;
        self.isolated.borrow_mut().push(block);
        Some(block.0.order)
    }

    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
        match self.faults {
            1 => return Err(MoveError::NoMemory),
            n if n & 2 != 0 && from.0.is_multiple_of(3) => return Err(MoveError::Busy),
            _ => {}
        }
        self.shared.hold(Block { pfn: from, order }, false);
        self.shared.hold(Block { pfn: to, order }, true);
        self.return_as(from, to);
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, _order: Order) {
        self.return_as(pfn, pfn);
    }
}

/// One thread and its blocks.
pub struct Mix<'w, 'a, M: Machine> {
    world: &'w Allocator<'a, M>,
    shared: &'w Shared,
    mine: Vec<Block>,
}

impl<'w, 'a, M: Machine> Mix<'w, 'a, M> {
    pub fn new(world: &'w Allocator<'a, M>, shared: &'w Shared) -> Self {
        Mix { world, shared, mine: vec![] }
    }

    /// Runs one operation, with smaller numbers than it states: a few blocks give as many interleavings as many blocks.
    /// `run_on` receives the CPU of the next operations.
    pub fn step(&mut self, op: Op, run_on: impl Fn(CpuId)) {
        let world = self.world;
        match op {
            Op::RunOn(cpu) => run_on(CpuId(u32::from(cpu) % CPUS)),
            Op::Alloc { order, migratetype, rights, times, .. } => {
                let request = request(order, migratetype, ZoneKind::Movable, rights);
                for _ in 0..times.min(3) {
                    self.alloc(&request);
                }
            }
            // The mover moves blocks for compaction; it has none to free.
            Op::AllocWith { order, migratetype, rights, .. } => {
                let request = request(order, migratetype, ZoneKind::Movable, rights);
                let got = world.alloc_with(Alloc::new(&request).owner(&self.mover(rights)));
                got.into_iter().for_each(|pfn| self.take(Block { pfn, order: request.order }));
            }
            Op::AllocBulk { order, migratetype, pages } => {
                let (mut got, order) = ([Pfn(0); 4], self.order(order));
                let wanted = &mut got[..usize::from(pages) % 5];
                let number = world.alloc_bulk(&Request::new(order, migratetype), wanted).unwrap_or(0);
                got[..number].iter().for_each(|&pfn| self.take(Block { pfn, order }));
            }
            Op::Exhaust { order, migratetype } => {
                let request = Request { watermarks: false, ..Request::new(self.order(order), migratetype) };
                for _ in 0..8 {
                    if !self.alloc(&request) {
                        break;
                    }
                }
            }
            Op::Free { from, times, undrained } => {
                self.free_some(from, times, |Block { pfn, order }| {
                    let undrained_free = Free::block(pfn, order).to(FreeTo::PagesetUndrained);
                    let freed = if undrained { world.free_with(undrained_free) } else { world.free(pfn, order) };
                    freed.expect("it is in use");
                });
            }
            Op::FreeDirect { from, times } => {
                self.free_some(from, times, |b| {
                    world.free_with(Free::block(b.pfn, b.order).to(FreeTo::Buddy)).expect("it is in use")
                });
            }
            Op::FreeCold { from, times } => {
                self.free_some(from, times, |b| {
                    world.free_with(Free::block(b.pfn, b.order).to(FreeTo::BuddyCold)).expect("it is in use")
                });
            }
            Op::FreeDeferred { from, times } => {
                self.free_some(from, times, |b| {
                    world.free_with(Free::block(b.pfn, b.order).to(FreeTo::Deferred)).expect("it is in use")
                });
            }
            Op::FreePart { nth, first, pages } => self.free_part(nth, first, pages),
            Op::AllocExact { pages, migratetype, rights, .. } => {
                let pages = 1 + u64::from(pages) % 40;
                if let Ok(pfn) =
                    world.alloc_with(Alloc::new(&request(0, migratetype, ZoneKind::Movable, rights)).pages(pages))
                {
                    self.take_range(PageRange::new(pfn, pages));
                }
            }
            Op::AllocAt { from, order } => {
                let order = self.order(order);
                let pfn = Pfn(BASE + u64::from(from) % PAGES).align_down(order);
                if world.alloc_at(pfn, order) {
                    self.take(Block { pfn, order });
                }
            }
            Op::FreeBulk { from, blocks } => {
                let blocks: Vec<_> = (0..blocks % 5).filter_map(|_| self.give(from)).collect();
                world.free_bulk(&blocks).expect("all are in use");
            }
            Op::Wrong(wrong, nth) => self.wrong(wrong, nth),
            Op::Split { nth, to } => {
                if let Some(at) = usize::from(nth).checked_rem(self.mine.len()) {
                    let Block { pfn, order: from } = self.mine.swap_remove(at);
                    // At most five orders down: from order 10 that gives 32 blocks, which is enough.
                    let to = self.order(from.get() - to.min(from.get()).min(5));
                    world.split(pfn, from, to).expect("it is in use");
                    let firsts = (0..from.pages()).step_by(to.pages() as usize);
                    self.mine.extend(firsts.map(|i| Block { pfn: pfn.offset(i), order: to }));
                }
            }
            Op::Tick => {
                world.tick();
            }
            Op::Drain => {
                world.drain();
            }
            Op::DrainAll => world.drain_all(),
            Op::DrainZone(_) => world.at(0).drain_all(),
            // The last CPU stays online. Each CPU changes only once; the second thread gets an error.
            Op::CpuOffline(cpu) => either_way(world.cpu_offline(CpuId(u32::from(cpu) % CPUS))),
            Op::CpuOnline(cpu) => either_way(world.cpu_online(CpuId(u32::from(cpu) % CPUS))),
            Op::DisablePagesets(_) => world.at(0).disable_pagesets(),
            Op::EnablePagesets(_) => either_way(world.at(0).enable_pagesets()),
            Op::HighFraction(fraction) => either_way(world.set_high_fraction(fraction)),
            Op::SetBounds { batch, high_min, high_max, .. } => {
                let high_min = high_min % 12;
                let bounds = Bounds { batch: 1 + batch % 4, high_min, high_max: high_min + high_max % 12 };
                match world.at(0).set_bounds(bounds) {
                    Ok(()) | Err(MapError::PagesetsDisabled { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Op::MergeSkipped(_) => {
                world.at(0).merge_skipped();
            }
            Op::Compact { order, migratetype, mode, faults } => {
                let request = Request::new(self.order(order), migratetype);
                if let Some(pfn) = world.compact(&request, mode, &self.mover(faults)).captured {
                    self.take(Block { pfn, order: request.order });
                }
            }
            Op::CompactZone { order, mode, faults, .. } => {
                world.at(0).compact(Order::new(order), mode, &self.mover(faults));
            }
            Op::CompactNode { order, proactive: false, faults, .. } => {
                world.node(NodeId(0)).compact(self.order(order), ZoneKind::Movable, &self.mover(faults));
            }
            Op::CompactNode { order, faults, .. } => {
                world.node(NodeId(0)).compact_proactively(10 * order, &self.mover(faults));
            }
            Op::AllocRange { from, pages, migratetype, faults } => {
                let start = u64::from(from) % (PAGES + HOLE.pages);
                let range = PageRange::new(Pfn(BASE + start), 1 + u64::from(pages) % 600);
                if world.alloc_range(range, migratetype, &self.mover(faults)).is_ok() {
                    self.take_range(range);
                }
            }
            Op::FreeRange { nth, .. } => {
                if let Some(block) = self.give(nth) {
                    world
                        .free_with(Free::whole_blocks(PageRange::new(block.pfn, block.order.pages())))
                        .expect("it is in use");
                }
            }
            Op::Offline { faults, .. } => either_way(world.offline(HOLE, &self.mover(faults))),
            Op::BlockType { pageblock, migratetype } => {
                let pfn = Pfn(BASE + u64::from(pageblock) % (PAGES / PAGEBLOCK) * PAGEBLOCK);
                world.set_pageblock_type(pfn, migratetype).expect("the page is in the zone");
            }
            Op::Online(_) => either_way(world.online(HOLE)),
            Op::ReclaimActive { on, .. } => world.at(0).set_reclaim_active(on),
            Op::BelowHigh { on, .. } => world.at(0).set_below_high(on),
            Op::NodeReclaim { highest, on, .. } => world.node(NodeId(0)).set_reclaim_active(highest, on),
            Op::Marks { min, .. } => {
                let min = u64::from(min) % 40 * (PAGES / 100);
                world.at(0).set_watermarks(Watermarks { min, low: 2 * min, high: 3 * min }, [0; ZoneKind::COUNT]);
            }
            Op::DecayBoost { pages, .. } => {
                world.at(0).decay_boost(pages.into());
            }
        }
    }

    /// Sends a block to another thread, or receives one.
    pub fn post(&mut self, send: bool) {
        if send {
            self.shared.mail().extend(self.mine.pop());
        } else {
            let theirs = self.shared.mail().pop();
            self.mine.extend(theirs);
        }
    }

    /// Frees all blocks of this thread.
    pub fn finish(mut self) {
        while let Some(block) = self.give(0) {
            self.world.free(block.pfn, block.order).expect("it is in use");
        }
    }

    fn mover(&mut self, faults: u8) -> Mover<'_> {
        Mover {
            shared: self.shared,
            mine: RefCell::new(&mut self.mine),
            isolated: RefCell::default(),
            faults: faults & 3,
        }
    }

    /// Records the blocks of allocated pages: the largest aligned ones.
    fn take_range(&mut self, range: PageRange) {
        let mut pfn = range.start;
        while pfn < range.end() {
            let fits = |of: &Order| pfn.is_aligned(*of) && pfn.offset(of.pages()) <= range.end();
            let order = Order::all().rev().find(fits).expect("order 0 fits");
            self.take(Block { pfn, order });
            pfn = pfn.offset(order.pages());
        }
    }

    /// Frees a part of a block. The rest stays in use.
    fn free_part(&mut self, nth: u16, first: u16, pages: u16) {
        let Some(block) = self.give(nth) else { return };
        let end = block.pfn.offset(block.order.pages());
        let start = block.pfn.offset(u64::from(first) % block.order.pages());
        let part = PageRange::new(start, 1 + u64::from(pages) % (end.0 - start.0));
        self.world.free_range(PageRange::new(part.start, part.pages)).expect("a part of a block in use");
        self.take_range(PageRange::new(block.pfn, start.0 - block.pfn.0));
        self.take_range(PageRange::new(part.end(), end.0 - part.end().0));
    }

    fn order(&self, order: u8) -> Order {
        Order::new(order % Order::COUNT as u8).expect("in range")
    }

    fn alloc(&mut self, request: &Request) -> bool {
        let got = self.world.alloc(request);
        if let Ok(pfn) = got {
            self.take(Block { pfn, order: request.order });
        }
        got.is_ok()
    }

    fn take(&mut self, block: Block) {
        self.shared.hold(block, true);
        self.mine.push(block);
    }

    /// Removes a block from the list of blocks in use, to free it.
    fn give(&mut self, from: u16) -> Option<Block> {
        let at = usize::from(from).checked_rem(self.mine.len())?;
        let block = self.mine.swap_remove(at);
        self.shared.hold(block, false);
        Some(block)
    }

    fn free_some(&mut self, from: u16, times: u8, free: impl Fn(Block)) {
        (0..times.min(3)).filter_map(|_| self.give(from)).for_each(free);
    }

    /// Frees that are wrong whatever the other threads do.
    fn wrong(&self, wrong: Wrong, nth: u16) {
        let block = usize::from(nth).checked_rem(self.mine.len()).map(|at| self.mine[at]);
        let (pfn, order) = match (wrong, block) {
            (Wrong::AnotherOrder, Some(block)) => (block.pfn, self.order(u8::from(block.order == Order::ZERO))),
            (Wrong::Tail, Some(block)) if block.order > Order::ZERO => (block.pfn.offset(1), Order::ZERO),
            _ => (Pfn(u64::MAX), Order::ZERO),
        };
        let error = match (wrong, block) {
            (Wrong::NoPart, Some(block)) => self.world.free_range(PageRange::new(block.pfn, 0)),
            _ => self.world.free(pfn, order),
        };
        let error = error.expect_err("a wrong free");
        assert!(!matches!(error.reason, WrongFree::NotAllocated(_)), "{error}");
    }
}

/// Frees everything after the threads have ended. The accounting must add up, and all memory must merge.
pub fn check_end<M: Machine>(world: &Allocator<'_, M>, shared: &Shared) {
    let left = std::mem::take(&mut *shared.mail());
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!(books.in_use, left.iter().map(|block| block.order.pages()).sum::<u64>(), "pages in use");
    world.free_bulk(&left).expect("they are in use");
    (0..CPUS).for_each(|cpu| either_way(world.cpu_online(CpuId(cpu))));
    while world.at(0).enable_pagesets().is_ok() {}
    world.drain_all();
    world.at(0).merge_skipped();
    let managed = world.at(0).stats().managed;
    for pfn in (BASE..BASE + managed).step_by(PAGEBLOCK as usize) {
        world.set_pageblock_type(Pfn(pfn), MigrateType::Movable).expect("the page is in the zone");
    }
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!((books.in_use, books.cached), (0, 0), "after everything was freed and drained");
    let stats = world.at(0).stats();
    assert_eq!((stats.pgalloc() - stats.pgfree(), stats.deferred), (0, 0), "the counters agree");
    let largest: u32 = MigrateType::ALL.iter().map(|&list| world.at(0).free_blocks(Order::MAX, list)).sum();
    assert_eq!(u64::from(largest) * Order::MAX.pages(), managed, "all memory merges");
}
