//! The recorded kernel's own pagesets, followed page by page, to find out what the tracepoints do not show: what
//! the lists held at the start, and which pages were taken without an event.
//!
//! Specification: `trace-replay.md` 3, a and h.

use std::collections::VecDeque;

use pageset::policy::lists::{LISTS, order_of};
use pageset::{CpuId, Pfn};

use super::blocks::PageMap;

/// One list of one pageset, by place: `(zone * cpus + cpu) * LISTS + list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListId(u32);

/// A block that was taken without an event. Specification 3a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unseen {
    /// It was gone before this event.
    pub(super) event: u64,
    pub(super) list: ListId,
    pub(super) pfn: Pfn,
}

/// A page on a list, and when it came.
#[derive(Clone, Copy, Debug)]
struct Entry {
    pfn: Pfn,
    since: u64,
}

#[derive(Debug, Default)]
struct List {
    /// Bottom to top.
    known: VecDeque<Entry>,
    /// Blocks that were known to be there when the replay began.
    begun_with: u64,
    /// A refill has shown that nothing of before is left.
    closed: bool,
}

/// All lists of all pagesets of the recorded kernel.
#[derive(Debug)]
pub(super) struct KernelLists {
    cpus: usize,
    lists: Vec<List>,
    /// Blocks that nothing had brought when they were taken, by pageset in order: their lists.
    shown: Vec<Vec<u8>>,
    /// The list that a page is on, plus one.
    place: PageMap<u32>,
    unseen: Vec<Option<Unseen>>,
    /// For a page that is thought to be gone unseen: which of `unseen` says so, plus one.
    doubtful: PageMap<u32>,
    /// Events that do not fit what was known: a page where it could not be.
    pub(super) surprises: u64,
}

impl KernelLists {
    pub(super) fn new(zones: usize, cpus: usize) -> Self {
        let lists = (0..zones * cpus * LISTS).map(|_| List::default()).collect();
        let shown = vec![Vec::new(); zones * cpus];
        KernelLists {
            cpus,
            lists,
            shown,
            place: PageMap::new(),
            unseen: Vec::new(),
            doubtful: PageMap::new(),
            surprises: 0,
        }
    }

    pub(super) fn id(&self, zone: usize, cpu: CpuId, list: usize) -> ListId {
        ListId(((zone * self.cpus + cpu.0 as usize) * LISTS + list) as u32)
    }

    /// The zone, CPU and list of an id.
    pub(super) fn parts(&self, id: ListId) -> (usize, CpuId, usize) {
        let (pageset, list) = (id.0 as usize / LISTS, id.0 as usize % LISTS);
        (pageset / self.cpus, CpuId((pageset % self.cpus) as u32), list)
    }

    /// The replay begins: what is on the lists now is what they start with.
    pub(super) fn begin(&mut self) {
        for list in &mut self.lists {
            list.begun_with = list.known.len() as u64;
        }
        self.shown.iter_mut().for_each(Vec::clear);
        self.unseen.clear();
        self.doubtful = PageMap::new();
    }

    /// A freed block enters a list.
    pub(super) fn push(&mut self, id: ListId, pfn: Pfn, event: u64) {
        self.forget(pfn);
        self.list(id).known.push_back(Entry { pfn, since: event });
        self.place.set(pfn, id.0 + 1);
    }

    /// A refill: the list was empty, and these blocks come out in this order. What was still thought to be there
    /// must have gone without an event.
    pub(super) fn refill(&mut self, id: ListId, blocks: &[Pfn], event: u64) {
        let gone = std::mem::take(&mut self.list(id).known);
        gone.iter().rev().for_each(|e| self.gone(id, e.pfn, event));
        self.list(id).closed = true;
        for &pfn in blocks.iter().rev() {
            self.push(id, pfn, event);
        }
    }

    /// The bulk allocation that caused a refill took its first block, without an event.
    pub(super) fn pop_unseen(&mut self, id: ListId, pfn: Pfn, event: u64) {
        self.forget(pfn);
        self.gone(id, pfn, event);
    }

    /// Blocks that were taken without an event, as far as nothing has shown otherwise.
    pub(super) fn unseen(&self) -> impl Iterator<Item = Unseen> {
        self.unseen.iter().flatten().copied()
    }

    /// A block shows that it was not gone: two events came in another order than what they tell of.
    fn was_there(&mut self, pfn: Pfn) -> bool {
        let number = self.doubtful.take(pfn);
        if number > 0 {
            self.unseen[number as usize - 1] = None;
        }
        number > 0
    }

    /// An allocation took this block from a list. Everything above it must have gone before.
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
            0 if self.was_there(pfn) => {}
            0 if !self.list(id).closed => {
                // From before the start: all that is known lies above it.
                let above = std::mem::take(&mut self.list(id).known);
                above.iter().rev().for_each(|e| self.gone(id, e.pfn, event));
                self.show(id);
            }
            0 => self.surprises += 1,
            _ => {
                // Its type or CPU was taken for another when it was freed.
                self.forget(pfn);
            }
        }
    }

    /// A drain took this block from the bottom of a list, of the pageset that holds it or else of `id`'s. Returns
    /// the list.
    pub(super) fn drain(&mut self, id: ListId, pfn: Pfn) -> ListId {
        match self.place.get(pfn) {
            0 => {
                if self.was_there(pfn) {
                } else if self.list(id).closed {
                    self.surprises += 1;
                } else {
                    self.show(id);
                }
                id
            }
            place => {
                self.forget(pfn);
                ListId(place - 1)
            }
        }
    }

    /// A block is freed. If it was thought to be on a list, it was taken without an event while it was on top,
    /// before the next block was put over it. True where it was taken without an event, now or as known before.
    pub(super) fn freed_again(&mut self, pfn: Pfn, event: u64) -> bool {
        let place = self.place.get(pfn);
        if place == 0 {
            // It was gone indeed, if it was thought to be.
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

    /// A block turns out to be in the buddy: it never was on the list.
    pub(super) fn found_elsewhere(&mut self, pfn: Pfn) {
        if self.place.get(pfn) != 0 {
            self.forget(pfn);
            self.surprises += 1;
        }
        self.was_there(pfn);
    }

    /// A block leaves a list that nothing brought there: it was there when the replay began.
    fn show(&mut self, id: ListId) {
        self.shown[id.0 as usize / LISTS].push((id.0 as usize % LISTS) as u8);
    }

    /// Blocks left a list unseen that may have been there since the start: unless a refill has shown otherwise.
    pub(super) fn held_more(&mut self, id: ListId, blocks: u64) {
        if !self.list(id).closed {
            (0..blocks).for_each(|_| self.show(id));
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

    /// A block is thought to be taken unseen.
    fn gone(&mut self, id: ListId, pfn: Pfn, event: u64) {
        self.place.set(pfn, 0);
        self.unseen.push(Some(Unseen { event, list: id, pfn }));
        self.doubtful.set(pfn, self.unseen.len() as u32);
    }

    /// What each list held at the start, in blocks, given the pages that a pageset held in all.
    ///
    /// Blocks that were shown count in the order in which they were, as long as there is room: some come from
    /// refills that were not recorded. What no event shows goes to lists that were never seen empty.
    pub(super) fn initial(&self, zone: usize, cpu: CpuId, count: u64) -> [u64; LISTS] {
        let pageset = zone * self.cpus + cpu.0 as usize;
        let lists = &self.lists[pageset * LISTS..(pageset + 1) * LISTS];
        let mut blocks: [u64; LISTS] = std::array::from_fn(|list| lists[list].begun_with);
        let begun_with: u64 = blocks.iter().enumerate().map(|(list, n)| n * order_of(list).pages()).sum();
        let mut rest = count.saturating_sub(begun_with);
        for list in self.shown[pageset].iter().map(|&list| usize::from(list)) {
            let pages = order_of(list).pages();
            if pages <= rest {
                blocks[list] += 1;
                rest -= pages;
            }
        }
        // Single movable pages first: most of a machine's are.
        let order = [1, 0, 2].into_iter().chain(3..LISTS);
        for list in order.filter(|&list| !lists[list].closed) {
            let more = rest / order_of(list).pages();
            blocks[list] += more;
            rest -= more * order_of(list).pages();
        }
        blocks
    }
}
