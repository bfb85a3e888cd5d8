//! The programs: what each does when its tracepoint is passed.
//!
//! Each works on the element of its CPU, whose words are:
//!
//! | words | what |
//! | --- | --- |
//! | 0 to 15 | blocks taken from the free lists, by order |
//! | 16 to 31 | blocks that pagesets gave back, by order |
//! | 32 | blocks taken from another migratetype's pageblocks |
//! | 33 to 35 | the zone lock that is waited for, since when, and the number of its [`Path`] |
//! | 36 to 39 | zone locks met lately |
//! | 40 to 47 | for each [`Path`], how often and how long a zone lock was waited for |
//! | 48 to 63 | other locks met lately, and how often each is still passed over |
//!
//! What a lock is wanted for is found from the call chain, before the wait: a call chain takes microseconds to read, which
//! are not to be spent with the lock held. Nor are they for locks that are none of zones, which are many more: such a lock is
//! remembered, and looked at again after [`PASSED_OVER`] times, for a zone lock may be wanted for what is no [`Path`].
//!
//! The zone lock is taken with interrupts off, and the page events come under it, so no other program of ours runs on the
//! CPU between reading a word and writing it.

use std::ops::Range;

use super::code::{Code, Helper, Insn, Label, R, When};
use super::sys::{WORDS, Words};
use crate::live::Wait;

/// Orders that have a word. The largest of any kernel is 10 on x86-64; 15 are room.
pub(super) const ORDERS: usize = 16;
/// Words of a CPU's element.
pub(super) const REFILLS: usize = 0;
pub(super) const DRAINS: usize = REFILLS + ORDERS;
pub(super) const FALLBACKS: usize = DRAINS + ORDERS;
const LOCK: usize = FALLBACKS + 1;
const SINCE: usize = LOCK + 1;
const PATH: usize = SINCE + 1;
const ZONES: usize = PATH + 1;
const WAITS: usize = ZONES + ZONES_MET;
const OTHERS: usize = WAITS + 2 * Path::ALL.len();
const PASSES: usize = OTHERS + OTHERS_MET;
const _: () = assert!(PASSES + OTHERS_MET == WORDS);

/// Locks remembered, a power of two each: the zones of a node, and as many others as there is room for.
const ZONES_MET: usize = 4;
const OTHERS_MET: usize = 8;
/// How often a lock that was no zone's is passed over. A guess: a hundredth of a call chain for each.
const PASSED_OVER: i32 = 100;
/// Spreads addresses over the places: locks of the same kind of two CPUs or zones differ in high bits only. 2 to the 64th
/// divided by the golden ratio (Knuth's multiplicative hash).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A word's place in bytes.
const fn offset(word: usize) -> i16 {
    (word * 8) as i16
}

/// What a zone lock was wanted for, told by the function that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Refill,
    Drain,
    DirectAlloc,
    DirectFree,
}

impl Path {
    pub(super) const ALL: [Path; 4] = [Path::Refill, Path::Drain, Path::DirectAlloc, Path::DirectFree];

    /// The functions that take a zone lock for it; the compiler may have put the first ones into the others. Source: call
    /// chains of `lock:contention_begin` on 6.18, and the names in the kernel's commit messages since 5.14.
    pub(super) const fn functions(self) -> &'static [&'static str] {
        match self {
            Path::Refill => &["rmqueue_bulk", "__rmqueue_pcplist"],
            Path::Drain => &["free_pcppages_bulk"],
            Path::DirectAlloc => &["rmqueue_buddy", "rmqueue", "get_page_from_freelist"],
            Path::DirectFree => &["free_one_page", "__free_pages_ok"],
        }
    }

    /// What a CPU's element says of it.
    pub(super) fn wait(self, words: &Words) -> Wait {
        let at = WAITS + 2 * self as usize;
        Wait { times: words[at], ns: words[at + 1] }
    }
}

/// The flag of `contention_begin` that stands for spinning, alone for a plain spin lock. Source: the event's format.
const SPIN: i32 = 1;
/// Callers that are looked at: the slow path of the lock, the function that took it, and room for what tracing puts on top.
const FRAMES: i16 = 8;
/// Of the stack.
const CPU: i16 = -8;
const STACK: i16 = CPU - 8 * FRAMES;

const R0: R = R(0);
const R1: R = R(1);
const R2: R = R(2);
const R3: R = R(3);
const R4: R = R(4);
const R6: R = R(6);
const R7: R = R(7);
const R8: R = R(8);
const R9: R = R(9);
const END: R = R(10);

impl Code {
    /// R0 = the element of this CPU; jumps to `none` where it has none.
    fn element(&mut self, map: i32, none: Label) -> &mut Self {
        self.call(Helper::GetSmpProcessorId).store_half(END, CPU, R0).copy(R2, END).add_number(R2, CPU.into());
        self.set_map(R1, map).call(Helper::MapLookupElem).jump_if(R0, When::Equal, 0, none)
    }

    /// Word `word` of R0 is one more. R1 is lost.
    fn count(&mut self, word: usize) -> &mut Self {
        self.load(R1, R0, offset(word)).add_number(R1, 1).store(R0, offset(word), R1)
    }
}

/// Counts a page event whose second argument is the order, in the words from `first`.
pub(super) fn by_order(map: i32, first: usize) -> Vec<Insn> {
    let mut code = Code::default();
    let out = code.label();
    code.load(R6, R1, offset(1)).narrow(R6).jump_if(R6, When::Greater, ORDERS as i32 - 1, out);
    code.element(map, out).shift_left(R6, 3).add(R0, R6).count(first);
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
    /// `to` = R8, the element, moved on by the place that a lock has among `places` remembered.
    fn place(&mut self, to: R, lock: R, places: usize) -> &mut Self {
        self.set_wide(to, SPREAD).multiply(to, lock).shift_right(to, 64 - places.ilog2() as i32);
        self.shift_left(to, 3).add(to, R8)
    }
}

/// Notes that a zone lock is waited for, if the function that takes it is one of `paths`; `locks` is where the functions
/// that take spin locks for others lie.
pub(super) fn wait_begins(map: i32, locks: &Range<u64>, paths: &[(Path, Range<u64>)]) -> Vec<Insn> {
    let mut code = Code::default();
    let [out, walk, taker, found] = [(); 4].map(|()| code.label());
    code.copy(R9, R1).load(R6, R1, offset(0)).load(R7, R1, offset(1));
    code.narrow(R7).jump_if(R7, When::NotEqual, SPIN, out).element(map, out).copy(R8, R0);
    // R6 = the lock, R7 = its place among others.
    code.place(R7, R6, OTHERS_MET).load(R1, R7, offset(OTHERS)).jump_if(R1, When::NotEqual, R6, walk);
    code.load(R1, R7, offset(PASSES)).jump_if(R1, When::Equal, 0, walk);
    code.add_number(R1, -1).store(R7, offset(PASSES), R1).jump(out);
    code.here(walk).copy(R1, R9).copy(R2, END).add_number(R2, STACK.into());
    code.set(R3, i32::from(8 * FRAMES)).set(R4, 0).call(Helper::GetStack);
    // R0 = bytes of the call chain, R1 = whether a function of locks was among them, R2 = an address to go back to.
    code.jump_if(R0, When::SignedLessEqual, 0, out).set(R1, 0);
    for frame in 0..FRAMES {
        let (next, other) = (code.label(), code.label());
        code.jump_if(R0, When::LessEqual, i32::from(8 * frame), out).load(R2, END, STACK + 8 * frame);
        code.set_wide(R3, locks.start).jump_if(R2, When::Less, R3, other);
        code.set_wide(R3, locks.end).jump_if(R2, When::Greater, R3, other);
        code.set(R1, 1).jump(next);
        // The first function after those of locks is the one that takes it.
        code.here(other).jump_if(R1, When::NotEqual, 0, taker).here(next);
    }
    code.jump(out).here(taker);
    for (path, range) in paths {
        let other = code.label();
        // The address is after the call: never the first of the function, and the next one's first after a last call.
        code.set_wide(R3, range.start).jump_if(R2, When::LessEqual, R3, other);
        code.set_wide(R3, range.end).jump_if(R2, When::Greater, R3, other);
        code.set(R9, *path as i32).jump(found).here(other);
    }
    code.place(R1, R6, ZONES_MET).load(R2, R1, offset(ZONES)).jump_if(R2, When::Equal, R6, out);
    code.store(R7, offset(OTHERS), R6).set(R1, PASSED_OVER).store(R7, offset(PASSES), R1).jump(out);
    code.here(found).place(R1, R6, ZONES_MET).store(R1, offset(ZONES), R6);
    // The next wait for it looks at its call chain.
    code.set(R1, 0).store(R7, offset(PASSES), R1).call(Helper::KtimeGetNs);
    code.store(R8, offset(SINCE), R0).store(R8, offset(PATH), R9).store(R8, offset(LOCK), R6);
    code.here(out).exit();
    code.done()
}

/// Adds the wait that ends to its path.
pub(super) fn wait_ends(map: i32) -> Vec<Insn> {
    let mut code = Code::default();
    let out = code.label();
    code.load(R7, R1, offset(0)).element(map, out).copy(R8, R0);
    code.load(R1, R8, offset(LOCK)).jump_if(R1, When::NotEqual, R7, out);
    code.set(R1, 0).store(R8, offset(LOCK), R1).call(Helper::KtimeGetNs);
    // R9 = how long it was, R0 = the element moved on by the path's words.
    code.load(R1, R8, offset(SINCE)).copy(R9, R0).subtract(R9, R1);
    code.load(R1, R8, offset(PATH)).mask(R1, Path::ALL.len() as i32 - 1).shift_left(R1, 4).copy(R0, R8).add(R0, R1);
    code.count(WAITS).load(R1, R0, offset(WAITS + 1)).add(R1, R9).store(R0, offset(WAITS + 1), R1);
    code.here(out).exit();
    code.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Call chains of contended locks as perf shows them on 6.18, the function that took the lock first.
    #[test]
    fn the_function_that_takes_the_lock_tells_the_path() {
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

    #[test]
    fn each_path_has_its_own_words() {
        let words: Words = std::array::from_fn(|word| word as u64);
        let waits = Path::ALL.map(|path| (path.wait(&words).times, path.wait(&words).ns));
        assert_eq!(waits, [(40, 41), (42, 43), (44, 45), (46, 47)]);
    }
}
