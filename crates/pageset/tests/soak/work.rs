//! The calls of a worker: phases of allocations and frees.

use std::mem;

use pageset::{AllocError, Block, CpuId, MigrateType, NodeId, Order, Pfn, Request, Wait, ZoneKind};

use crate::Random;
use crate::world::{CPU, Shared, World};

/// What a worker does for a while.
pub(crate) struct Phase {
    /// Calls left.
    left: u32,
    pub(crate) request: Request,
    /// The orders of allocations, equally often.
    orders: &'static [u8],
    /// Allocations of 256 calls, and the pages above which the worker only frees.
    allocs: u64,
    limit: u64,
    /// Frees before the next allocation.
    frees_first: u32,
    /// The CPUs that allocate and free.
    cpus: [u32; 2],
    /// Which block is freed: the newest, one after the other, or any.
    frees: Frees,
}

#[derive(Clone, Copy)]
pub(crate) enum Frees {
    Newest,
    InTurn,
    Any,
}

pub(crate) struct Worker<'w, 'a> {
    pub(crate) shared: &'w Shared<'w, 'a>,
    pub(crate) world: &'w World<'a>,
    pub(crate) random: Random,
    live: Vec<Block>,
    live_pages: u64,
    turn: usize,
    pub(crate) phase: Phase,
    pub(crate) calls: u64,
    pub(crate) refused: u64,
    /// Whether this worker takes CPUs and pagesets away, as an administrator does.
    pub(crate) is_admin: bool,
    pub(crate) offline: Vec<CpuId>,
    pub(crate) disabled: Vec<usize>,
}

impl<'w, 'a> Worker<'w, 'a> {
    pub(crate) fn new(shared: &'w Shared<'w, 'a>, mut random: Random, is_admin: bool) -> Self {
        let phase = Phase::new(shared, &mut random);
        Worker {
            shared,
            world: shared.world,
            random,
            live: vec![],
            live_pages: 0,
            turn: 0,
            phase,
            calls: 0,
            refused: 0,
            is_admin,
            offline: vec![],
            disabled: vec![],
        }
    }

    pub(crate) fn work(&mut self, calls: u64) {
        let end = self.calls + calls;
        while self.calls < end {
            if self.phase.left == 0 {
                self.next_phase();
            }
            self.phase.left -= 1;
            let random = self.random.next();
            match random % 2048 {
                0..4 => self.rare_call(),
                4..20 => self.bulk(),
                _ if (random >> 11) % 256 < self.phase.allocs
                    && self.live_pages < self.phase.limit
                    && self.phase.frees_first == 0 =>
                {
                    let order = self.phase.orders[(random >> 20) as usize % self.phase.orders.len()];
                    CPU.set(self.phase.cpus[0]);
                    let request = Request { order: self::order(order), ..self.phase.request };
                    if !self.alloc(&request) {
                        // Makes room, also for the other worker. A refused call takes as long as some dozens of others.
                        self.phase.frees_first = 150;
                    }
                }
                _ => {
                    CPU.set(self.phase.cpus[1]);
                    let Some(block) = self.drop_one() else {
                        // Not the request of this phase: it may find no memory.
                        self.next_phase();
                        self.phase.allocs = self.phase.allocs.max(150);
                        self.calls += 1;
                        continue;
                    };
                    self.phase.frees_first = self.phase.frees_first.saturating_sub(1);
                    self.calls += 1;
                    self.world.free(block.pfn, block.order).expect("it is in use");
                }
            }
        }
    }

    fn next_phase(&mut self) {
        self.phase = Phase::new(self.shared, &mut self.random);
        if self.random.one_in(2) {
            let mut mail = self.shared.mail();
            let theirs: Vec<_> = mail.drain(..).collect();
            let mine = self.live.split_off(self.live.len() / 2);
            self.live_pages -= mine.iter().map(|block| block.order.pages()).sum::<u64>();
            mail.extend(mine);
            drop(mail);
            self.live_pages += theirs.iter().map(|block| block.order.pages()).sum::<u64>();
            self.live.extend(theirs);
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, block: Block) {
        self.shared.note(block, 0);
        self.live_pages += block.order.pages();
        self.live.push(block);
    }

    #[inline]
    pub(crate) fn alloc(&mut self, request: &Request) -> bool {
        self.calls += 1;
        match self.world.alloc(request) {
            Ok(pfn) => {
                self.take(Block { pfn, order: request.order });
                true
            }
            Err(AllocError::OutOfMemory(_) | AllocError::Node(_)) => {
                self.refused += 1;
                false
            }
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    /// The next block to free.
    #[inline]
    pub(crate) fn drop_one(&mut self) -> Option<Block> {
        let last = self.live.len().checked_sub(1)?;
        let at = match self.phase.frees {
            Frees::Newest => last,
            Frees::InTurn => self.turn % (last + 1),
            Frees::Any => self.random.next() as usize % (last + 1),
        };
        self.turn = at + 1;
        let block = self.live.swap_remove(at);
        self.live_pages -= block.order.pages();
        self.shared.note(block, 1);
        Some(block)
    }

    pub(crate) fn drop_some(&mut self, most: u64) -> Vec<Block> {
        (0..most).map_while(|_| self.drop_one()).collect()
    }

    fn bulk(&mut self) {
        self.calls += 1;
        let number = self.random.pick(&[1, 3, 32, 64, 300]);
        if self.random.one_in(2) && self.live_pages < self.phase.limit {
            CPU.set(self.phase.cpus[0]);
            let mut pages = [Pfn(0); 300];
            let request = Request { order: Order::ZERO, ..self.phase.request };
            let got = self.world.alloc_bulk(&request, &mut pages[..number]).unwrap_or(0);
            pages[..got].iter().for_each(|&pfn| self.take(Block { pfn, order: Order::ZERO }));
        } else {
            CPU.set(self.phase.cpus[1]);
            let blocks = self.drop_some(number as u64);
            self.world.free_bulk(&blocks).expect("all are in use");
        }
    }

    /// A planted error: the worker's books forget a page.
    pub(crate) fn forget_a_page(&mut self) {
        while self.live.is_empty() {
            self.work(100);
        }
        let _ = self.drop_one();
    }

    /// Frees everything.
    pub(crate) fn end(&mut self) {
        self.enable_pagesets();
        self.cpus_online();
        let theirs: Vec<_> = self.shared.mail().drain(..).collect();
        self.live.extend(theirs);
        for block in mem::take(&mut self.live) {
            self.shared.note(block, 1);
            self.calls += 1;
            self.world.free(block.pfn, block.order).expect("it is in use");
        }
    }
}

pub(crate) fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

impl Phase {
    fn new(shared: &Shared<'_, '_>, random: &mut Random) -> Phase {
        let cpus = shared.plan.cpus.len() as u64;
        let managed: u64 =
            (0..shared.world.zones().len()).map(|zone| shared.world.zone(zone).expect("a zone").stats().managed).sum();
        let kinds = [MigrateType::Movable, MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];
        let one = random.below(cpus) as u32;
        let request = Request {
            highest: random.pick(&[ZoneKind::Movable, ZoneKind::Movable, ZoneKind::Normal, ZoneKind::Dma32]),
            watermarks: random.one_in(2),
            wait: random.pick(&[Wait::Memory, Wait::Memory, Wait::Lock, Wait::Nothing]),
            this_node_only: random.one_in(8),
            node: random.one_in(4).then(|| NodeId(random.below(2) as u32)),
            ..Request::new(Order::ZERO, random.pick(&kinds))
        };
        Phase {
            left: 500 + random.below(12_000) as u32,
            request,
            orders: random.pick::<&[u8]>(&[
                &[0],
                &[0],
                &[0, 0, 0, 0, 0, 0, 1, 2, 3],
                &[0, 1, 2, 3],
                &[3],
                &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
                &[9],
            ]),
            allocs: random.pick(&[100, 128, 128, 140, 200, 250]),
            frees_first: 0,
            limit: managed * random.pick(&[1, 1, 4, 8, 14, 14, 16]) / 16,
            cpus: if random.one_in(2) { [one, one] } else { [one, random.below(cpus) as u32] },
            frees: random.pick(&[Frees::Newest, Frees::Newest, Frees::InTurn, Frees::Any]),
        }
    }
}
