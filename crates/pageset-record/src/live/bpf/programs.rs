//! The BPF programs, one for each tracepoint.
//!
//! Each program uses its CPU's map element, which has these words:
//!
//! | words | contents |
//! | --- | --- |
//! | 0 to 15 | blocks taken from the free lists, by order |
//! | 16 to 31 | blocks that pagesets drained, by order |
//! | 32 | blocks taken from another migratetype's pageblocks |
//! | 33 to 35 | the contended zone lock, the start of the wait, and the number of its [`Path`] |
//! | 36 to 39 | recent zone locks |
//! | 40 to 47 | for each [`Path`], the number and the duration of waits for zone locks |
//! | 48 to 63 | recent other locks, and the remaining skips of each |
//! | 64 to 319 | for each [`Path`], the number of waits in each of [`BUCKETS`] classes of duration |
//! | 320 to 584 | see `by_hold` |
//! | 585 to 594 | see `by_process` |
//! | 595 to 656 | see `by_site` |
//!
//! The call chain shows the purpose of a lock. It is read before the wait, because reading takes microseconds, which
//! must not pass with the lock held. Most contended locks are not zone locks, and reading their call chains would cost
//! too much. Such a lock is remembered and checked again only after [`SKIPS`] waits, because a zone lock may also
//! be taken outside any [`Path`].
//!
//! The zone lock is taken with interrupts off, and the page events occur under it. So no other of these programs runs
//! on the CPU between the read and the write of a word.

use std::ops::Range;

use super::by_hold::{FIRST, Way};
use super::by_site::{self, WAIT};
use super::code::{Code, Helper, Insn, Label, R, R0, R1, R2, R3, R6, R7, R8, R9, When, offset};
use super::sys::Words;
use super::table::Of;
use crate::live::Wait;
use crate::live::times::BUCKETS;

/// The number of orders with a word. The largest order of any kernel is 10 on x86-64; the rest is spare.
pub(super) const ORDERS: usize = 16;
/// Words of a CPU's element.
pub(super) const REFILLS: usize = 0;
pub(super) const DRAINS: usize = REFILLS + ORDERS;
pub(super) const FALLBACKS: usize = DRAINS + ORDERS;
const LOCK: usize = FALLBACKS + 1;
const SINCE: usize = LOCK + 1;
const PATH: usize = SINCE + 1;
const ZONES: usize = PATH + 1;
const WAITS: usize = ZONES + ZONE_LOCKS;
const OTHERS: usize = WAITS + 2 * Path::ALL.len();
const PASSES: usize = OTHERS + OTHER_LOCKS;
const TIMES: usize = PASSES + OTHER_LOCKS;
const _: () = assert!(TIMES + Path::ALL.len() * BUCKETS == FIRST);

/// The numbers of remembered locks, powers of two: zone locks of a node, and as many other locks as fit.
const ZONE_LOCKS: usize = 4;
const OTHER_LOCKS: usize = 8;
/// The number of waits for which a lock that was no zone lock is skipped. A guess: a hundredth of a call chain each.
const SKIPS: i32 = 100;
/// The multiplier that hashes lock addresses: locks of the same kind of two CPUs or zones differ only in high bits. 2
/// to the 64th divided by the golden ratio (Knuth's multiplicative hash).
const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The purpose of a zone lock, from the function that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Refill,
    Drain,
    DirectAlloc,
    DirectFree,
}

impl Path {
    pub(super) const ALL: [Path; 4] = [Path::Refill, Path::Drain, Path::DirectAlloc, Path::DirectFree];

    /// The functions that take a zone lock for this purpose. The compiler may have inlined the first ones into the
    /// others. Source: call chains of `lock:contention_begin` on 6.18, and the names in the kernel's commit messages
    /// since 5.14.
    pub(super) const fn functions(self) -> &'static [&'static str] {
        match self {
            Path::Refill => &["rmqueue_bulk", "__rmqueue_pcplist"],
            Path::Drain => &["free_pcppages_bulk"],
            Path::DirectAlloc => &["rmqueue_buddy", "rmqueue", "get_page_from_freelist"],
            Path::DirectFree => &["free_one_page", "__free_pages_ok"],
        }
    }

    /// The waits of this purpose in a CPU's element.
    pub(super) fn wait(self, words: &Words) -> Wait {
        let at = WAITS + 2 * self as usize;
        Wait { times: words[at], ns: words[at + 1] }
    }

    /// The number of waits of this purpose by duration, in a CPU's element.
    pub(super) fn times(self, words: &Words) -> &[u64] {
        let at = TIMES + BUCKETS * self as usize;
        &words[at..at + BUCKETS]
    }
}

/// Whether a wait for any spin lock has begun on a CPU, by its element. The kernel does not show each such wait, but it has shown one.
pub(super) fn has_waited(words: &Words) -> bool {
    let recent = [&words[ZONES..ZONES + ZONE_LOCKS], &words[OTHERS..OTHERS + OTHER_LOCKS]];
    recent.into_iter().flatten().any(|lock| *lock != 0)
}

/// The maps that programs add to.
#[derive(Clone, Copy)]
pub(super) struct Maps {
    /// The elements of the CPUs.
    pub(super) cpus: i32,
    /// The table of processes, if the kernel has one.
    pub(super) processes: Option<i32>,
    /// The table of call sites, if the kernel has one.
    pub(super) sites: Option<i32>,
    /// The pages by which the largest lists hold more.
    pub(super) extra: i32,
}

/// The flag of `contention_begin` for spinning; a plain spin lock sets only this flag. Source: the event's format.
const SPIN: i32 = 1;
/// The number of call chain entries that show the purpose of a lock: the slow path of the lock, the function that took
/// it, and the functions of tracing above.
const PATH_ENTRIES: i16 = 8;
const _: () = assert!(PATH_ENTRIES as usize <= by_site::CHAIN_ENTRIES);
/// Offsets on the stack.
const CPU: i16 = -8;

const END: R = R(10);

impl Code {
    /// Sets R0 to the element of this CPU; jumps to `none` if there is none.
    fn element(&mut self, map: i32, none: Label) -> &mut Self {
        self.call(Helper::GetSmpProcessorId).store_half(END, CPU, R0).copy(R2, END).add_number(R2, CPU.into());
        self.set_map(R1, map).call(Helper::MapLookupElem).jump_if(R0, When::Equal, 0, none)
    }

    /// Increments word `word` of R0. Clobbers R1.
    pub(super) fn count(&mut self, word: usize) -> &mut Self {
        self.load(R1, R0, offset(word)).add_number(R1, 1).store(R0, offset(word), R1)
    }
}

/// Counts a page event by its second argument, the order, in the words from `first`, its hold of the zone lock, its pages in a word of
/// the current process, and samples of them at call sites.
pub(super) fn by_order(maps: Maps, first: usize, of: Of) -> Vec<Insn> {
    let mut code = Code::default();
    let out = code.label();
    if maps.sites.is_some() {
        code.keep_context();
    }
    code.load(R6, R1, offset(1)).narrow(R6).jump_if(R6, When::Greater, ORDERS as i32 - 1, out);
    code.element(maps.cpus, out).copy(R8, R0).copy(R1, R6).shift_left(R1, 3).add(R0, R1).count(first);
    let cached = code.label();
    for order in crate::live::ORDERS {
        code.jump_if(R6, When::Equal, order as i32, cached);
    }
    let way = if of == Of::DrainPages { Way::Drain } else { Way::Refill };
    code.count_direct().jump(out).here(cached).move_to_larger(way, maps.extra).count_hold(way);
    if maps.processes.is_some() || maps.sites.is_some() {
        code.set(R7, 1).shift_left_by(R7, R6);
    }
    if let Some(table) = maps.sites {
        code.sample_pages(table, of);
    }
    if let Some(table) = maps.processes {
        code.add_to_process(table, of, out);
    }
    code.here(out).exit();
    code.done()
}

/// Counts an event in one word.
pub(super) fn all(map: i32, word: usize) -> Vec<Insn> {
    let mut code = Code::default();
    let out = code.label();
    code.element(map, out).count(word).here(out).exit();
    code.done()
}

impl Code {
    /// Sets `to` to R8, the element, plus the offset of a lock's slot among `places` remembered locks.
    fn place(&mut self, to: R, lock: R, places: usize) -> &mut Self {
        self.set_wide(to, HASH_MULTIPLIER).multiply(to, lock).shift_right(to, 64 - places.ilog2() as i32);
        self.shift_left(to, 3).add(to, R8)
    }
}

/// Notes the start of a wait for a zone lock, if the function that takes the lock is one of `paths`. `locks` is the
/// address range of the kernel's lock functions.
pub(super) fn wait_begins(map: i32, locks: &Range<u64>, paths: &[(Path, Range<u64>)]) -> Vec<Insn> {
    let mut code = Code::default();
    let [out, walk, taker, found] = [(); 4].map(|()| code.label());
    code.copy(R9, R1).load(R6, R1, offset(0)).load(R7, R1, offset(1));
    code.narrow(R7).jump_if(R7, When::NotEqual, SPIN, out).element(map, out).copy(R8, R0);
    // R6 = the lock, R7 = its slot among other locks.
    code.place(R7, R6, OTHER_LOCKS).load(R1, R7, offset(OTHERS)).jump_if(R1, When::NotEqual, R6, walk);
    code.load(R1, R7, offset(PASSES)).jump_if(R1, When::Equal, 0, walk);
    code.add_number(R1, -1).store(R7, offset(PASSES), R1).jump(out);
    code.here(walk).copy(R1, R9).chain(WAIT);
    // R0 = bytes of the call chain, R1 = whether a lock function was among them, R2 = a return address.
    code.jump_if(R0, When::SignedLessEqual, 0, out).set(R1, 0);
    for frame in 0..PATH_ENTRIES {
        let (next, other) = (code.label(), code.label());
        code.jump_if(R0, When::LessEqual, i32::from(8 * frame), out).load(R2, R8, offset(WAIT + frame as usize));
        code.set_wide(R3, locks.start).jump_if(R2, When::Less, R3, other);
        code.set_wide(R3, locks.end).jump_if(R2, When::Greater, R3, other);
        code.set(R1, 1).jump(next);
        // The first function after the lock functions takes the lock.
        code.here(other).jump_if(R1, When::NotEqual, 0, taker).here(next);
    }
    code.jump(out).here(taker);
    for (path, range) in paths {
        let other = code.label();
        // A return address is after the call: never the function's first address, but the next function's first one
        // after a final call.
        code.set_wide(R3, range.start).jump_if(R2, When::LessEqual, R3, other);
        code.set_wide(R3, range.end).jump_if(R2, When::Greater, R3, other);
        code.set(R9, *path as i32).jump(found).here(other);
    }
    code.place(R1, R6, ZONE_LOCKS).load(R2, R1, offset(ZONES)).jump_if(R2, When::Equal, R6, out);
    code.store(R7, offset(OTHERS), R6).set(R1, SKIPS).store(R7, offset(PASSES), R1).jump(out);
    code.here(found).place(R1, R6, ZONE_LOCKS).store(R1, offset(ZONES), R6);
    // The next wait for this lock reads its call chain.
    code.set(R1, 0).store(R7, offset(PASSES), R1).call(Helper::KtimeGetNs);
    code.store(R8, offset(SINCE), R0).store(R8, offset(PATH), R9).store(R8, offset(LOCK), R6);
    code.here(out).exit();
    code.done()
}

impl Code {
    /// Sets `to` to the bucket of the duration in `ns`, as [`crate::live::times::bucket`] does. Clobbers `rest`.
    pub(super) fn bucket(&mut self, to: R, ns: R, rest: R) -> &mut Self {
        let fits = self.label();
        self.copy(rest, ns).set_wide(to, u32::MAX.into()).jump_if(rest, When::LessEqual, to, fits).copy(rest, to);
        self.here(fits).set(to, 0);
        for bits in [16, 8, 4, 2, 1] {
            let small = self.label();
            self.jump_if(rest, When::Less, 2 << bits, small).shift_right(rest, bits).add_number(to, bits).here(small);
        }
        // The mask changes nothing; it shows the verifier that the bucket exists.
        self.shift_left(to, 1).add(to, rest).mask(to, BUCKETS as i32 - 1)
    }
}

/// Adds a finished wait to its path and to the current process.
pub(super) fn wait_ends(maps: Maps) -> Vec<Insn> {
    let mut code = Code::default();
    let out = code.label();
    code.load(R7, R1, offset(0)).element(maps.cpus, out).copy(R8, R0);
    code.load(R1, R8, offset(LOCK)).jump_if(R1, When::NotEqual, R7, out);
    code.set(R1, 0).store(R8, offset(LOCK), R1).call(Helper::KtimeGetNs);
    // R9 = the duration, R0 = the element plus the offset of the path's words.
    code.load(R1, R8, offset(SINCE)).copy(R9, R0).subtract(R9, R1);
    code.load(R1, R8, offset(PATH)).mask(R1, Path::ALL.len() as i32 - 1).shift_left(R1, 4).copy(R0, R8).add(R0, R1);
    code.count(WAITS).load(R1, R0, offset(WAITS + 1)).add(R1, R9).store(R0, offset(WAITS + 1), R1);
    code.bucket(R3, R9, R2);
    // R0 = the element plus the offset of the bucket.
    code.load(R1, R8, offset(PATH)).mask(R1, Path::ALL.len() as i32 - 1);
    code.shift_left(R1, 3 + BUCKETS.ilog2() as i32).shift_left(R3, 3).copy(R0, R8).add(R0, R1).add(R0, R3);
    code.count(TIMES);
    code.copy(R7, R9);
    if let Some(table) = maps.sites {
        code.add_wait_to_site(table);
    }
    if let Some(table) = maps.processes {
        code.add_to_process(table, Of::WaitNs, out);
    }
    code.here(out).exit();
    code.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions from call chains of contended locks, as perf shows them on 6.18.
    #[test]
    fn the_function_that_takes_the_lock_shows_the_path() {
        let path = |function: &str| Path::ALL.into_iter().find(|path| path.functions().contains(&function));
        for (function, expected) in [
            ("__rmqueue_pcplist", Some(Path::Refill)),
            ("free_pcppages_bulk", Some(Path::Drain)),
            ("get_page_from_freelist", Some(Path::DirectAlloc)),
            ("free_one_page", Some(Path::DirectFree)),
            ("folio_lruvec_lock_irqsave", None),
        ] {
            assert_eq!(path(function), expected, "{function}");
        }
    }

    /// What counting by process and by call site costs in instructions, at the most.
    #[test]
    fn only_programs_with_a_table_count_processes_and_call_sites() {
        let maps = |processes, sites| Maps { cpus: 3, processes, sites, extra: 1000 };
        let length = |processes, sites| by_order(maps(processes, sites), REFILLS, Of::RefillPages).len();
        let none = length(None, None);
        assert_eq!((none, length(Some(4), None) - none, length(None, Some(5)) - none), (99, 122, 107));
        let length = |processes, sites| wait_ends(maps(processes, sites)).len();
        let none = length(None, None);
        assert_eq!((length(Some(4), None) - none, length(None, Some(5)) - none), (119, 60));
    }

    #[test]
    fn a_wait_for_any_lock_is_seen() {
        let with = |word: usize| has_waited(&std::array::from_fn(|at| u64::from(at == word)));
        assert!(with(36) && with(39) && with(48) && with(55));
        assert!(![0, 16, 35, 40, 47, 56, 64].into_iter().any(with));
    }

    #[test]
    fn each_path_has_its_own_words() {
        let words: Words = std::array::from_fn(|word| word as u64);
        let waits = Path::ALL.map(|path| (path.wait(&words).times, path.wait(&words).ns));
        assert_eq!(waits, [(40, 41), (42, 43), (44, 45), (46, 47)]);
        let times = Path::ALL.map(|path| (path.times(&words)[0], path.times(&words).len()));
        assert_eq!(times, [(64, 64), (128, 64), (192, 64), (256, 64)]);
        assert_eq!(FIRST, 320);
    }
}
