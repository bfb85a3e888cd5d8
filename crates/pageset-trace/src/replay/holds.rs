//! The work under zone locks: the cache lines that each hold touches.
//!
//! A hold begins when a zone's lock is taken and ends when no lock of a zone is held any more. A line counts once per hold. The
//! allocator reports memory that several CPUs write ([`Line`]). The lists of a CPU's own pageset do not count. A page is one line, as
//! a kernel's page descriptor is; so is the head of a free list.

use std::cell::{Cell, RefCell};

use pageset::RawLock;
use pageset::machine::{Access, Line};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::blocks::PageMap;

/// Lines of one batch in a depot, see [`Line::Depot`].
const BATCH_LINES: u64 = 4;

/// The holds of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Holds {
    /// Acquisitions of zone locks. A hold of several locks has several.
    pub(super) acquisitions: u64,
    /// The sum of the lines of all holds.
    pub(super) lines: u64,
    /// The most lines of one hold.
    pub(super) longest_lines: u64,
}

/// The count of the replay that runs on this thread.
struct Count {
    runs: Cell<bool>,
    /// The allocator takes a zone's lock next.
    announced: Cell<bool>,
    /// Zone locks held now.
    locks: Cell<u32>,
    /// Lines of the present hold.
    lines: Cell<u64>,
    /// The last hold that touched each page of the replayed machine, by number.
    pages: RefCell<PageMap<u32>>,
    /// The number of the present or next hold; above 0.
    hold: Cell<u32>,
    /// The lines of the present hold other than pages, which are few.
    others: RefCell<FxHashSet<u64>>,
    holds: Cell<Holds>,
}

thread_local! {
    // A lock is made by `Default` and knows no machine, so what both need is here. A thread runs one replay at a time.
    static COUNT: Count = const {
        Count {
            runs: Cell::new(false),
            announced: Cell::new(false),
            locks: Cell::new(0),
            lines: Cell::new(0),
            pages: RefCell::new(PageMap::new()),
            hold: Cell::new(1),
            others: RefCell::new(FxHashSet::with_hasher(FxBuildHasher)),
            holds: Cell::new(Holds { acquisitions: 0, lines: 0, longest_lines: 0 }),
        }
    };
}

/// Starts counting from zero on this thread, outside of any hold.
pub(super) fn start() {
    COUNT.with(|count| {
        count.runs.set(true);
        count.holds.set(Holds::default());
    });
}

/// Stops counting. Returns the holds since [`start`].
pub(super) fn stop() -> Holds {
    COUNT.with(|count| {
        count.runs.set(false);
        *count.pages.borrow_mut() = PageMap::new();
        count.holds.get()
    })
}

/// Runs `work` without counting its holds.
pub(super) fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    let ran = COUNT.with(|count| count.runs.replace(false));
    let result = work();
    COUNT.with(|count| count.runs.set(ran));
    result
}

/// Notes a report of the allocator.
#[inline]
pub(super) fn note(access: Access) {
    match access {
        Access::ZoneLock { .. } => COUNT.with(|count| count.announced.set(true)),
        Access::Touch(line) => COUNT.with(|count| count.touch(line)),
        Access::Prefetch(_) => {}
    }
}

/// A number that no other line has.
fn key(line: Line) -> u64 {
    // Page numbers of a replay fit 32 bits; numbers of zones, 8.
    let of = |kind: u64, zone: usize, number: u64| kind << 56 | (zone as u64) << 48 | number;
    match line {
        Line::Page(pfn) => pfn.0,
        Line::Zone { zone, region } => of(1, zone, region as u64),
        Line::Depot { zone, region } => of(2, zone, region as u64),
        Line::FreeList { zone, region, order, migratetype } => {
            of(3, zone, (region as u64) << 16 | u64::from(order) << 8 | u64::from(migratetype))
        }
        Line::Pageset { zone, cpu } => of(4, zone, cpu.0.into()),
        Line::OwnerList { zone, cpu } => of(5, zone, cpu.0.into()),
        Line::Cluster { zone, number } => of(6, zone, number.into()),
    }
}

/// A lock of the replayed machine, which runs on one thread: nothing ever waits.
#[derive(Debug, Default)]
pub(super) struct HoldLock {
    held: Cell<bool>,
    /// Whether this lock is a zone's, as of the last time it was taken.
    is_zone: Cell<bool>,
}

impl RawLock for HoldLock {
    fn lock(&self) {
        assert!(self.try_lock(), "the lock is held, and no other thread will release it");
    }

    #[inline]
    fn try_lock(&self) -> bool {
        COUNT.with(|count| {
            let is_zone = count.announced.take();
            if self.held.replace(true) {
                return false;
            }
            self.is_zone.set(is_zone);
            if is_zone {
                count.begin();
            }
            true
        })
    }

    #[inline]
    fn unlock(&self) {
        self.held.set(false);
        if self.is_zone.get() {
            COUNT.with(Count::end);
        }
    }
}

impl Count {
    #[inline]
    fn touch(&self, line: Line) {
        if self.runs.get() && self.locks.get() > 0 {
            let is_new = match line {
                Line::Page(pfn) => self.pages.borrow_mut().replace(pfn, self.hold.get()) != self.hold.get(),
                _ => self.others.borrow_mut().insert(key(line)),
            };
            let batch = if matches!(line, Line::Depot { .. }) { BATCH_LINES } else { 0 };
            self.lines.set(self.lines.get() + u64::from(is_new) + batch);
        }
    }

    fn begin(&self) {
        self.locks.set(self.locks.get() + 1);
        if self.runs.get() {
            let holds = self.holds.get();
            self.holds.set(Holds { acquisitions: holds.acquisitions + 1, ..holds });
        }
    }

    fn end(&self) {
        self.locks.set(self.locks.get() - 1);
        let lines = self.lines.get();
        if self.locks.get() > 0 || lines == 0 {
            return;
        }
        self.lines.set(0);
        self.others.borrow_mut().clear();
        self.hold.set(self.hold.get().wrapping_add(1));
        if self.hold.get() == 0 {
            // The numbers of earlier holds come again.
            *self.pages.borrow_mut() = PageMap::new();
            self.hold.set(1);
        }
        let holds = self.holds.get();
        let longest_lines = holds.longest_lines.max(lines);
        self.holds.set(Holds { lines: holds.lines + lines, longest_lines, ..holds });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageset::{CpuId, LockPath, Pfn};

    fn announced() {
        note(Access::ZoneLock { zone: 0, region: 0, path: LockPath::Refill });
    }

    fn touch_pages(pages: impl IntoIterator<Item = u64>) {
        pages.into_iter().for_each(|page| note(Access::Touch(Line::Page(Pfn(page)))));
    }

    /// A hold of a zone's lock that touches some pages.
    fn hold(lock: &HoldLock, pages: impl IntoIterator<Item = u64>) {
        announced();
        lock.lock();
        touch_pages(pages);
        lock.unlock();
    }

    #[test]
    fn lines_count_once_per_hold_and_only_in_holds() {
        let lock = HoldLock::default();
        hold(&lock, [7]);
        start();
        touch_pages([1, 2]);
        hold(&lock, [1, 2, 1, 3]);
        hold(&lock, [3]);
        hold(&lock, []);
        uncounted(|| hold(&lock, 0..100));
        touch_pages([4]);
        assert_eq!(stop(), Holds { acquisitions: 3, lines: 4, longest_lines: 3 });
        hold(&lock, [7]);
        assert_eq!(stop().lines, 4, "after the end");
        start();
        assert_eq!(stop(), Holds::default());
    }

    /// The numbers of holds repeat after 2^32 - 1 holds.
    #[test]
    fn a_page_counts_again_when_numbers_of_holds_repeat() {
        let lock = HoldLock::default();
        start();
        COUNT.with(|count| count.hold.set(1));
        hold(&lock, [7]);
        COUNT.with(|count| count.hold.set(u32::MAX));
        hold(&lock, [8]);
        hold(&lock, [7, 9]);
        assert_eq!(stop().lines, 4);
    }

    /// A pageset's lock is no zone's, also if the zone's lock was not free.
    #[test]
    fn only_announced_locks_are_zones() {
        let (zone, pageset) = (HoldLock::default(), HoldLock::default());
        start();
        pageset.lock();
        touch_pages([1]);
        announced();
        zone.lock();
        announced();
        assert!(!zone.try_lock());
        let marks = HoldLock::default();
        marks.lock();
        touch_pages([2]);
        marks.unlock();
        touch_pages([3]);
        zone.unlock();
        touch_pages([4]);
        pageset.unlock();
        assert_eq!(stop(), Holds { acquisitions: 1, lines: 2, longest_lines: 2 });
    }

    #[test]
    fn a_hold_of_two_locks_ends_with_the_last() {
        let locks = [HoldLock::default(), HoldLock::default()];
        start();
        announced();
        locks[0].lock();
        hold(&locks[1], [1, 2]);
        touch_pages([2, 3]);
        locks[0].unlock();
        assert_eq!(stop(), Holds { acquisitions: 2, lines: 3, longest_lines: 3 });
    }

    #[test]
    fn every_kind_of_line_has_its_own_key() {
        let (zone, region, cpu) = (1, 2, CpuId(2));
        let depot = Line::Depot { zone, region };
        let list = |order, migratetype| Line::FreeList { zone, region, order, migratetype };
        let lines = [
            Line::Page(Pfn(2)),
            Line::Zone { zone, region },
            Line::Zone { zone: 2, region },
            Line::Zone { zone, region: 1 },
            list(0, 1),
            list(1, 0),
            Line::Pageset { zone, cpu },
            Line::OwnerList { zone, cpu },
            Line::Cluster { zone, number: 2 },
            // The head of the depot once, and two batches.
            depot,
            depot,
        ];
        let lock = HoldLock::default();
        start();
        announced();
        lock.lock();
        lines.iter().for_each(|&line| note(Access::Touch(line)));
        lines[..9].iter().for_each(|&line| note(Access::Touch(line)));
        note(Access::Prefetch(Line::Page(Pfn(9))));
        lock.unlock();
        assert_eq!(stop().lines, 9 + 1 + 2 * BATCH_LINES);
    }

    #[test]
    #[should_panic(expected = "the lock is held")]
    fn a_lock_that_nobody_releases_is_not_waited_for() {
        let lock = HoldLock::default();
        lock.lock();
        lock.lock();
    }
}
