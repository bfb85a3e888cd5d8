//! Follows the recorded kernel's pagesets page by page. This shows what the tracepoints do not: the contents of the
//! lists at the start, and allocations without an event.
//!
//! Specification: `trace-replay.md` 3, a and h.

use std::collections::VecDeque;
use std::ops::Range;

use pageset::policy::lists::{KERNEL_LISTS, order_of};
use pageset::{CpuId, Pfn};

use super::blocks::PageMap;

/// One list of one pageset, by index: `(zone * cpus + cpu) * KERNEL_LISTS + list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListId(u32);

/// A block that was allocated without an event. Specification: `trace-replay.md` 3a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unseen {
    /// The allocation happened before this event.
    pub(super) event: u64,
    pub(super) list: ListId,
    pub(super) pfn: Pfn,
}

/// A page on a list, and the event that put it there.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pfn: Pfn,
    since: u64,
}

/// A block on a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) list: ListId,
    /// The event that put it there.
    pub(super) since: u64,
    /// Whether the next allocation from the list takes it.
    pub(super) is_newest: bool,
}

#[derive(Debug, Default)]
struct List {
    /// Known blocks, bottom to top.
    known: VecDeque<Entry>,
    /// Known blocks on the list when the replay begins.
    begun_with: u64,
    /// Whether a refill or a drain has shown that no block from before the start is left.
    closed: bool,
}

/// All lists of all pagesets of the recorded kernel.
#[derive(Debug)]
pub(super) struct KernelLists {
    cpus: usize,
    lists: Vec<List>,
    /// The lists of blocks that left a pageset without a known arrival, by pageset, in order.
    departed: Vec<Vec<u8>>,
    /// The list of each page, plus one; 0 for none.
    place: PageMap<u32>,
    unseen: Vec<Option<Unseen>>,
    /// For a page that was probably allocated without an event: its index in `unseen`, plus one.
    doubtful: PageMap<u32>,
    /// Events that contradict the lists, such as a page on a list where it cannot be.
    pub(super) surprises: u64,
}

impl KernelLists {
    pub(super) fn new(zones: usize, cpus: usize) -> Self {
        let lists = (0..zones * cpus * KERNEL_LISTS).map(|_| List::default()).collect();
        let departed = vec![Vec::new(); zones * cpus];
        KernelLists {
            cpus,
            lists,
            departed,
            place: PageMap::new(),
            unseen: Vec::new(),
            doubtful: PageMap::new(),
            surprises: 0,
        }
    }

    pub(super) fn id(&self, zone: usize, cpu: CpuId, list: usize) -> ListId {
        ListId(((zone * self.cpus + cpu.0 as usize) * KERNEL_LISTS + list) as u32)
    }

    /// The zone, CPU and list of an id.
    pub(super) fn parts(&self, id: ListId) -> (usize, CpuId, usize) {
        let (pageset, list) = (id.0 as usize / KERNEL_LISTS, id.0 as usize % KERNEL_LISTS);
        (pageset / self.cpus, CpuId((pageset % self.cpus) as u32), list)
    }

    /// Notes that the replay begins. The current blocks are the lists' contents at the start.
    pub(super) fn begin(&mut self) {
        for list in &mut self.lists {
            list.begun_with = list.known.len() as u64;
        }
        self.departed.iter_mut().for_each(Vec::clear);
        self.unseen.clear();
        self.doubtful = PageMap::new();
    }

    /// Puts a freed block on top of a list.
    pub(super) fn push(&mut self, id: ListId, pfn: Pfn, event: u64) {
        self.forget(pfn);
        self.list(id).known.push_back(Entry { pfn, since: event });
        self.place.set(pfn, id.0 + 1);
    }

    /// Handles a refill. The list was empty, and `blocks` leave it in this order. Known blocks still on the list must
    /// have been allocated without an event.
    pub(super) fn refill(&mut self, id: ListId, blocks: &[Pfn], event: u64) {
        let gone = std::mem::take(&mut self.list(id).known);
        gone.iter().rev().for_each(|e| self.gone(id, e.pfn, event));
        self.list(id).closed = true;
        for &pfn in blocks.iter().rev() {
            self.push(id, pfn, event);
        }
    }

    /// The known blocks of a list.
    pub(super) fn known(&self, id: ListId) -> u64 {
        self.lists[id.0 as usize].known.len() as u64
    }

    /// Takes a page for a bulk allocation: the newest known page. Without one, it takes a page from before the start.
    /// Returns whether the page is known.
    pub(super) fn pop_in_bulk(&mut self, id: ListId, event: u64) -> bool {
        match self.list(id).known.pop_back() {
            Some(entry) => {
                self.gone(id, entry.pfn, event);
                true
            }
            None => {
                self.held_more(id, 1);
                false
            }
        }
    }

    /// Takes the first block of a refill for the bulk allocation that caused it, which has no event.
    pub(super) fn pop_unseen(&mut self, id: ListId, pfn: Pfn, event: u64) {
        self.forget(pfn);
        self.gone(id, pfn, event);
    }

    /// Blocks that were allocated without an event, unless a later event contradicts that.
    pub(super) fn unseen(&self) -> impl Iterator<Item = Unseen> {
        self.unseen.iter().flatten().copied()
    }

    /// Removes a block from the unseen allocations and returns whether it was one. Two events came in another order
    /// than the operations.
    fn retract_unseen(&mut self, pfn: Pfn) -> bool {
        let number = self.doubtful.take(pfn);
        if number > 0 {
            self.unseen[number as usize - 1] = None;
        }
        number > 0
    }

    /// The list that holds a block, if it is known.
    pub(super) fn held(&self, pfn: Pfn) -> Option<Held> {
        let list = ListId(self.place.get(pfn).checked_sub(1)?);
        let known = &self.lists[list.0 as usize].known;
        let at = known.iter().rposition(|e| e.pfn == pfn)?;
        Some(Held { list, since: known[at].since, is_newest: at + 1 == known.len() })
    }

    /// Takes an allocated block off a list. All blocks above it must have left the list before.
    pub(super) fn pop(&mut self, id: ListId, pfn: Pfn, event: u64) {
        match self.place.get(pfn) {
            place if place == id.0 + 1 => {
                let list = self.list(id);
                let at = list.known.iter().rposition(|e| e.pfn == pfn).unwrap_or(0);
                let above = list.known.split_off(at + 1);
                list.known.pop_back();
                self.place.set(pfn, 0);
                above.iter().rev().for_each(|e| self.gone(id, e.pfn, event));
            }
            0 if self.retract_unseen(pfn) => {}
            0 if !self.list(id).closed => {
                // The block is from before the start, so all known blocks lie above it.
                let above = std::mem::take(&mut self.list(id).known);
                above.iter().rev().for_each(|e| self.gone(id, e.pfn, event));
                self.add_departed(id);
            }
            0 => self.surprises += 1,
            _ => {
                // The free was assigned to the wrong type or CPU.
                self.forget(pfn);
            }
        }
    }

    /// Takes a drained block off the bottom of the list that contains it, else of list `id`. Returns that list.
    pub(super) fn drain(&mut self, id: ListId, pfn: Pfn) -> ListId {
        match self.place.get(pfn) {
            0 => {
                if self.retract_unseen(pfn) {
                } else if self.list(id).closed {
                    self.surprises += 1;
                } else {
                    self.add_departed(id);
                }
                id
            }
            place => {
                self.forget(pfn);
                ListId(place - 1)
            }
        }
    }

    /// Notes that a drain has passed lists of a pageset: no block from before the start is left on them.
    pub(super) fn passed(&mut self, zone: usize, cpu: CpuId, lists: Range<usize>) {
        lists.for_each(|list| {
            let id = self.id(zone, cpu, list);
            self.list(id).closed = true;
        });
    }

    /// Handles the free of a block. If the lists still contain the block, it was allocated without an event while on
    /// top, before the next block came. Returns whether the block was allocated without an event, now or as known
    /// before.
    pub(super) fn freed_again(&mut self, pfn: Pfn, event: u64) -> bool {
        let place = self.place.get(pfn);
        if place == 0 {
            // If the block was marked as unseen, the free confirms it.
            return self.doubtful.take(pfn) > 0;
        }
        let id = ListId(place - 1);
        let known = &self.list(id).known;
        let at = known.iter().rposition(|e| e.pfn == pfn);
        let covered = at.and_then(|at| known.get(at + 1)).map_or(event, |above| above.since);
        self.forget(pfn);
        self.unseen.push(Some(Unseen { event: covered, list: id, pfn }));
        true
    }

    /// Removes a block that is in the buddy: it never was on the list.
    pub(super) fn found_in_buddy(&mut self, pfn: Pfn) {
        if self.place.get(pfn) != 0 {
            self.forget(pfn);
            self.surprises += 1;
        }
        self.retract_unseen(pfn);
    }

    /// Notes a block that leaves a list without a known arrival: it was there when the replay began.
    fn add_departed(&mut self, id: ListId) {
        self.departed[id.0 as usize / KERNEL_LISTS].push((id.0 as usize % KERNEL_LISTS) as u8);
    }

    /// Notes blocks that left a list without an event. They may have been there since the start, unless a refill shows
    /// otherwise.
    pub(super) fn held_more(&mut self, id: ListId, blocks: u64) {
        if !self.list(id).closed {
            (0..blocks).for_each(|_| self.add_departed(id));
        }
    }

    fn list(&mut self, id: ListId) -> &mut List {
        &mut self.lists[id.0 as usize]
    }

    fn forget(&mut self, pfn: Pfn) {
        let place = self.place.take(pfn);
        if place == 0 {
            return;
        }
        let known = &mut self.lists[(place - 1) as usize].known;
        if known.front().is_some_and(|e| e.pfn == pfn) {
            known.pop_front();
        } else if let Some(at) = known.iter().rposition(|e| e.pfn == pfn) {
            known.remove(at);
        }
    }

    /// Notes that a block was probably allocated without an event.
    fn gone(&mut self, id: ListId, pfn: Pfn, event: u64) {
        self.place.set(pfn, 0);
        self.unseen.push(Some(Unseen { event, list: id, pfn }));
        self.doubtful.set(pfn, self.unseen.len() as u32);
    }

    /// The blocks of each list at the start, given the pageset's count in pages.
    ///
    /// Departed blocks count in their order as long as the count allows, because some come from refills that were not
    /// recorded. The remaining pages go to lists that were never seen empty.
    pub(super) fn initial(&self, zone: usize, cpu: CpuId, count: u64) -> [u64; KERNEL_LISTS] {
        let pageset = zone * self.cpus + cpu.0 as usize;
        let lists = &self.lists[pageset * KERNEL_LISTS..(pageset + 1) * KERNEL_LISTS];
        let mut blocks: [u64; KERNEL_LISTS] = std::array::from_fn(|list| lists[list].begun_with);
        let begun_with: u64 = blocks.iter().enumerate().map(|(list, n)| n * order_of(list).pages()).sum();
        let mut rest = count.saturating_sub(begun_with);
        for list in self.departed[pageset].iter().map(|&list| usize::from(list)) {
            let pages = order_of(list).pages();
            if pages <= rest {
                blocks[list] += 1;
                rest -= pages;
            }
        }
        // Single movable pages first, because most pages of a machine are movable.
        let order = [1, 0, 2].into_iter().chain(3..KERNEL_LISTS);
        for list in order.filter(|&list| !lists[list].closed) {
            let more = rest / order_of(list).pages();
            blocks[list] += more;
            rest -= more * order_of(list).pages();
        }
        blocks
    }
}
