//! The LRU lists: lists through the descriptors of their pages, each behind its lock, one for each node and, in kernels
//! that have it so, each memory control group.
//!
//! A new page waits in its CPU's batch; the lock is taken for a batch of them, and for as many of those that are freed.
//! Specification: `linux-page-allocator.md` 5.

use std::cell::{Cell, RefCell};

use pageset::Pfn;

use super::System;
use crate::engine::{LineState, LockId, Socket};
use crate::world::{MemoryMap, PageBook, SimMachine};

#[derive(Debug)]
struct List {
    head: Cell<u32>,
    tail: Cell<u32>,
    /// The line of the list's head, and that of the counters that a hold changes.
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

/// Which way an LRU lock is come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Path {
    Add,
    Delete,
}

impl Lru {
    /// Empty lists whose locks are those from `first_lock` on.
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

    /// The list of a node's pages that tasks of a CPU have charged to their group.
    fn list_of(&self, cpu: u32, node: Socket) -> u32 {
        (cpu % self.groups) * self.nodes + node.0
    }
}

impl System<'_> {
    /// Puts a new page in this CPU's batch, and the batch on the LRU once it is full.
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

    /// Puts one page on the LRU, past the batch.
    pub(super) fn lru_add_now(&self, pfn: Pfn) {
        self.move_pages(&[pfn], Path::Add);
    }

    /// Puts what waits in this CPU's batch on the LRU.
    pub(crate) fn lru_flush(&self) {
        let mut batch = self.lru.batches[self.engine().cpu() as usize].borrow_mut();
        self.move_pages(&batch, Path::Add);
        batch.clear();
    }

    /// Takes pages off the LRU, so many a hold of its lock. Returns how many were on it: who takes a page off has it.
    pub(super) fn lru_delete(&self, pages: &[Pfn]) -> usize {
        let mut chunks = pages.chunks(self.era.lru_release());
        let (mut next, mut taken) = (chunks.next(), 0);
        while let Some(chunk) = next {
            next = chunks.next();
            // They have come when this hold ends, which is the time for their neighbours.
            self.machine().fetch_books(next.into_iter().flatten());
            taken += self.move_pages(chunk, Path::Delete);
        }
        taken
    }

    /// Moves pages under one hold of the lock for each run of pages of one node. Returns how many there were to move.
    fn move_pages(&self, pages: &[Pfn], path: Path) -> usize {
        let (engine, map) = (self.engine(), &self.lru.map);
        let mut moved = 0;
        for run in pages.chunk_by(|a, b| map.home(*a) == map.home(*b)) {
            let node = map.home(run[0]);
            let number = self.lru.list_of(engine.cpu(), node);
            let lock = LockId(self.lru.first_lock.0 + number);
            engine.acquire(lock, path as usize);
            let list = &self.lru.lists[number as usize];
            list.lines.iter().for_each(|line| engine.touch(line, node));
            if path == Path::Delete {
                self.machine().fetch_neighbours(run);
            }
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
        let book = self.machine().book_at(index);
        book.lru_next.set(old);
        book.lru_prev.set(0);
        match self.neighbour(old) {
            Some(first) => first.lru_prev.set(index as u32 + 1),
            None => list.tail.set(index as u32 + 1),
        }
        true
    }

    /// Takes a page off its list. False if it is on none: another CPU was quicker.
    fn unlink(&self, list: &List, node: Socket, pfn: Pfn) -> bool {
        let index = self.lru.map.index(pfn);
        let book = self.machine().book_at(index);
        let (next, prev) = (book.lru_next.replace(0), book.lru_prev.replace(0));
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

    /// An end of the list that a page is on: mostly of the expected one; a page that another group's task allocated is on
    /// that group's.
    fn own_list<'l>(&'l self, expected: &'l List, end: fn(&List) -> &Cell<u32>, index: usize) -> &'l Cell<u32> {
        let is_own = |list: &&List| end(list).get() == index as u32 + 1;
        let own = std::iter::once(expected).chain(self.lru.lists.iter()).find(is_own);
        end(own.unwrap_or(expected))
    }

    /// Takes up to so many of a node's oldest pages off the LRU of this CPU's group.
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

    /// The page at a place plus one, whose links are about to be written.
    #[inline]
    fn neighbour(&self, place: u32) -> Option<&PageBook> {
        let index = place.checked_sub(1)? as usize;
        self.machine().touch_page(self.lru.map.page(index));
        Some(self.machine().book_at(index))
    }
}
