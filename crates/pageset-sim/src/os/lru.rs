//! The LRU list of each node: a list through the descriptors of its pages, behind one lock.
//!
//! A new page waits in its CPU's batch; the lock is taken for a batch of them, and for as many of those that are freed.
//! Specification: `linux-page-allocator.md` 5.

use std::cell::{Cell, RefCell};

use pageset::Pfn;

use super::System;
use crate::engine::{LineState, LockId, Socket};
use crate::world::{MemoryMap, PageBook, SimMachine};

#[derive(Debug)]
struct NodeList {
    head: Cell<u32>,
    /// The line of the list's head, and that of the counters that a hold changes.
    lines: [LineState; 2],
}

#[derive(Debug)]
pub(super) struct Lru {
    first_lock: LockId,
    map: MemoryMap,
    nodes: Box<[NodeList]>,
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
    pub(super) fn new(machine: &SimMachine, first_lock: LockId, cpus: usize) -> Self {
        let list = |_| NodeList { head: Cell::new(0), lines: Default::default() };
        Lru {
            first_lock,
            map: machine.map,
            nodes: (0..first_lock.0).map(list).collect(),
            batches: (0..cpus).map(|_| RefCell::new(Vec::new())).collect(),
        }
    }
}

impl System<'_> {
    /// Puts a new page in this CPU's batch, and the batch on the LRU once it is full.
    #[inline]
    pub(super) fn lru_add(&self, pfn: Pfn) {
        let mut batch = self.lru.batches[self.engine().cpu() as usize].borrow_mut();
        batch.push(pfn);
        if batch.len() >= self.era.lru_batch {
            self.move_pages(&batch, Path::Add);
            batch.clear();
            drop(batch);
            self.timers();
        }
    }

    /// Puts what waits in this CPU's batch on the LRU.
    pub(super) fn lru_flush(&self) {
        let mut batch = self.lru.batches[self.engine().cpu() as usize].borrow_mut();
        self.move_pages(&batch, Path::Add);
        batch.clear();
    }

    /// Takes pages off the LRU, so many a hold of its lock.
    pub(super) fn lru_delete(&self, pages: &[Pfn]) {
        pages.chunks(self.era.lru_release).for_each(|chunk| self.move_pages(chunk, Path::Delete));
    }

    /// Moves pages under one hold of the lock for each run of pages of one node.
    fn move_pages(&self, pages: &[Pfn], path: Path) {
        let (engine, map) = (self.engine(), &self.lru.map);
        for run in pages.chunk_by(|a, b| map.home(*a) == map.home(*b)) {
            let node = map.home(run[0]);
            let lock = LockId(self.lru.first_lock.0 + node.0);
            engine.acquire(lock, path as usize);
            let list = &self.lru.nodes[node.0 as usize];
            list.lines.iter().for_each(|line| engine.touch(line, node));
            for &pfn in run {
                engine.pass(self.costs.lru_page);
                self.machine().touch_page(pfn);
                match path {
                    Path::Add => self.link(list, node, pfn),
                    Path::Delete => self.unlink(list, node, pfn),
                }
            }
            engine.release(lock);
        }
    }

    fn link(&self, list: &NodeList, node: Socket, pfn: Pfn) {
        let index = self.lru.map.index(pfn);
        let old = list.head.replace(index as u32 + 1);
        self.engine().touch(&list.lines[0], node);
        let book = self.machine().book_at(index);
        book.lru_next.set(old);
        book.lru_prev.set(0);
        if let Some(first) = self.neighbour(old) {
            first.lru_prev.set(index as u32 + 1);
        }
    }

    fn unlink(&self, list: &NodeList, node: Socket, pfn: Pfn) {
        let book = self.machine().book_at(self.lru.map.index(pfn));
        let (next, prev) = (book.lru_next.get(), book.lru_prev.get());
        match self.neighbour(prev) {
            Some(before) => before.lru_next.set(next),
            None => {
                list.head.set(next);
                self.engine().touch(&list.lines[0], node);
            }
        }
        if let Some(after) = self.neighbour(next) {
            after.lru_prev.set(prev);
        }
    }

    /// The page at a place plus one, whose links are about to be written.
    #[inline]
    fn neighbour(&self, place: u32) -> Option<&PageBook> {
        let index = place.checked_sub(1)? as usize;
        self.machine().touch_page(self.lru.map.page(index));
        Some(self.machine().book_at(index))
    }
}
