//! The LRU lists, linked through the page descriptors. Each node has one list and lock, or in later eras one per memory
//! control group.
//!
//! A new page waits in its CPU's batch. One hold of the lock adds a whole batch, or removes a similar number of freed
//! pages. Specification: `linux-page-allocator.md` 5.

use std::cell::{Cell, RefCell};

use pageset::Pfn;

use super::System;
use crate::engine::{LineState, LockId, Socket};
use crate::world::{MemoryMap, PageState, SimMachine};

#[derive(Debug)]
struct List {
    head: Cell<u32>,
    tail: Cell<u32>,
    /// The line of the list's head, and the line of the counters that each hold changes.
    lines: [LineState; 2],
}

#[derive(Debug)]
pub(super) struct Lru {
    first_lock: LockId,
    map: MemoryMap,
    nodes: u32,
    groups: u32,
    lists: Box<[List]>,
    batches: Box<[RefCell<Vec<Pfn>>]>,
}

/// The path to an LRU lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Path {
    Add,
    Delete,
}

impl Lru {
    /// Empty lists whose locks start at `first_lock`.
    pub(super) fn new(machine: &SimMachine, first_lock: LockId, groups: u32, cpus: u32) -> Self {
        let nodes = machine.map.nodes();
        let list = |_| List { head: Cell::new(0), tail: Cell::new(0), lines: Default::default() };
        Lru {
            first_lock,
            map: machine.map,
            nodes,
            groups,
            lists: (0..nodes * groups).map(list).collect(),
            batches: (0..cpus).map(|_| RefCell::new(Vec::new())).collect(),
        }
    }

    fn list_of(&self, cpu: u32, node: Socket) -> u32 {
        (cpu % self.groups) * self.nodes + node.0
    }
}

impl System<'_> {
    /// Adds a new page to this CPU's batch, and adds a full batch to the LRU.
    #[inline]
    pub(super) fn lru_add(&self, pfn: Pfn) {
        let mut batch = self.lru.batches[self.engine().cpu() as usize].borrow_mut();
        batch.push(pfn);
        if batch.len() >= self.era.lru_batch() {
            self.move_pages(&batch, Path::Add);
            batch.clear();
            drop(batch);
            self.timers();
        }
    }

    /// Adds one page to the LRU without the batch.
    pub(super) fn lru_add_now(&self, pfn: Pfn) {
        self.move_pages(&[pfn], Path::Add);
    }

    /// Adds this CPU's batch to the LRU.
    pub(crate) fn lru_flush(&self) {
        let mut batch = self.lru.batches[self.engine().cpu() as usize].borrow_mut();
        self.move_pages(&batch, Path::Add);
        batch.clear();
    }

    /// Unlinks pages from the LRU, one lock hold per [`Era::lru_release`](crate::era::Era::lru_release) pages. Returns
    /// how many pages were on the LRU: whoever unlinks a page owns it.
    pub(super) fn lru_delete(&self, pages: &[Pfn]) -> usize {
        pages.chunks(self.era.lru_release()).map(|chunk| self.move_pages(chunk, Path::Delete)).sum()
    }

    /// Adds or unlinks pages, with one lock hold for each run of pages of one node. Returns the number of moved pages.
    fn move_pages(&self, pages: &[Pfn], path: Path) -> usize {
        let (engine, map) = (self.engine(), &self.lru.map);
        let mut moved = 0;
        for run in pages.chunk_by(|a, b| map.node_of(*a) == map.node_of(*b)) {
            let node = map.node_of(run[0]);
            let number = self.lru.list_of(engine.cpu(), node);
            let lock = LockId(self.lru.first_lock.0 + number);
            engine.acquire(lock, path as usize);
            let list = &self.lru.lists[number as usize];
            list.lines.iter().for_each(|line| engine.touch(line, node));
            let each = match path {
                Path::Add => self.costs.lru_page + self.costs.lru_join,
                Path::Delete => self.costs.lru_page,
            };
            for &pfn in run {
                engine.pass(each);
                self.machine().touch_page(pfn);
                let there = match path {
                    Path::Add => self.link(list, node, pfn),
                    Path::Delete => self.unlink(list, node, pfn),
                };
                moved += usize::from(there);
            }
            engine.release(lock);
        }
        moved
    }

    fn link(&self, list: &List, node: Socket, pfn: Pfn) -> bool {
        let index = self.lru.map.index(pfn);
        let old = list.head.replace(index as u32 + 1);
        self.engine().touch(&list.lines[0], node);
        let state = self.machine().page_state_at(index);
        state.lru_next.set(old);
        state.lru_prev.set(0);
        match self.neighbour(old) {
            Some(first) => first.lru_prev.set(index as u32 + 1),
            None => list.tail.set(index as u32 + 1),
        }
        true
    }

    /// Unlinks a page from its list. Returns false if the page is on no list because another CPU has unlinked it.
    fn unlink(&self, list: &List, node: Socket, pfn: Pfn) -> bool {
        let index = self.lru.map.index(pfn);
        let state = self.machine().page_state_at(index);
        let (next, prev) = (state.lru_next.replace(0), state.lru_prev.replace(0));
        let is_alone = |list: &List| list.head.get() == index as u32 + 1;
        if next == 0 && prev == 0 && !self.lru.lists.iter().any(is_alone) {
            return false;
        }
        match self.neighbour(prev) {
            Some(before) => before.lru_next.set(next),
            None => {
                self.own_list(list, |list| &list.head, index).set(next);
                self.engine().touch(&list.lines[0], node);
            }
        }
        match self.neighbour(next) {
            Some(after) => after.lru_prev.set(prev),
            None => self.own_list(list, |list| &list.tail, index).set(prev),
        }
        true
    }

    /// An end of the list that holds a page. A page that a task of another group allocated is on that group's list;
    /// other pages are on the expected list.
    fn own_list<'l>(&'l self, expected: &'l List, end: fn(&List) -> &Cell<u32>, index: usize) -> &'l Cell<u32> {
        let is_own = |list: &&List| end(list).get() == index as u32 + 1;
        let own = std::iter::once(expected).chain(self.lru.lists.iter()).find(is_own);
        end(own.unwrap_or(expected))
    }

    /// Unlinks up to `pages` of a node's oldest pages from the LRU of this CPU's group.
    pub(super) fn lru_oldest(&self, node: Socket, pages: usize) -> Vec<Pfn> {
        let engine = self.engine();
        let number = self.lru.list_of(engine.cpu(), node);
        let lock = LockId(self.lru.first_lock.0 + number);
        engine.acquire(lock, Path::Delete as usize);
        let list = &self.lru.lists[number as usize];
        let mut oldest = Vec::with_capacity(pages);
        while oldest.len() < pages {
            let Some(index) = list.tail.get().checked_sub(1) else { break };
            let pfn = self.lru.map.page(index as usize);
            engine.pass(self.costs.lru_page);
            self.machine().touch_page(pfn);
            self.unlink(list, node, pfn);
            oldest.push(pfn);
        }
        engine.release(lock);
        oldest
    }

    /// The state of the page with index `place` - 1, whose links are about to be written. Touches its descriptor.
    #[inline]
    fn neighbour(&self, place: u32) -> Option<&PageState> {
        let index = place.checked_sub(1)? as usize;
        self.machine().touch_page(self.lru.map.page(index));
        Some(self.machine().page_state_at(index))
    }
}
