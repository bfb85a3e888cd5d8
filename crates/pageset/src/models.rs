//! The small protocols under a model checker, which explores every order of their steps and every value that a relaxed
//! load may return.
//!
//! Each model runs a protocol of the crate, and variants of it with one step wrong, which the checker must find. Words
//! are relaxed, as in the crate, so a lock or a wait with too weak an ordering shows. How to run them:
//! `docs/contributing/testing.md`.

extern crate std;

mod bitmaps;

use std::boxed::Box;

use loom::sync::Arc;
use loom::thread;

use crate::admin::drains::Exclusive;
use crate::machine::{Guard, RawLock, SpinLock};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};
use crate::sync::split::SplitWord;
use crate::sync::{LockedWord, hint};
use crate::zone::deferred::Deferred;
use crate::zone::research::in_flight::InFlight;
use crate::zone::{BELOW_HIGH, Flags, RECLAIM_ACTIVE};

/// A word whose writers hold a lock.
#[derive(Debug, Default)]
struct Word(AtomicU32);

impl Word {
    fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    fn add(&self) {
        self.set(self.get() + 1);
    }
}

/// Explores two threads on a shared value; `check` sees the final state.
fn explore<S: Send + Sync + 'static>(
    new: fn() -> S,
    first: fn(&S),
    second: fn(&S),
    check: impl Fn(&S) + Send + Sync + 'static,
) {
    loom::model(move || {
        let shared = Arc::new(new());
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || second(&shared)
        });
        first(&shared);
        other.join().expect("a thread that ends");
        check(&shared);
    });
}

/// A pageset in front of a zone, as in `CachedZone::free_cached` and its fallback.
#[derive(Default)]
struct Caches<L> {
    pageset: L,
    zone: L,
    cached: Word,
    drained: Word,
    direct: Word,
}

/// Runs a closure with a lock held, if the lock is free.
type TryHold<L> = fn(&L, &dyn Fn()) -> bool;

fn with_guard<L: RawLock>(lock: &L, then: &dyn Fn()) -> bool {
    Guard::try_lock(lock).map(|_guard| then()).is_some()
}

/// Frees one block to the pageset and from there to the zone, or directly to the zone if the pageset is busy.
fn free_one<L: RawLock>(caches: &Caches<L>, try_hold: TryHold<L>) {
    let through = || {
        caches.cached.add();
        // Lock order: pageset, then zone.
        let _zone = Guard::lock(&caches.zone);
        caches.drained.add();
    };
    if !try_hold(&caches.pageset, &through) {
        let _zone = Guard::lock(&caches.zone);
        caches.direct.add();
    }
}

fn no_block_is_lost<L: RawLock>(caches: &Caches<L>) {
    let (cached, drained, direct) = (caches.cached.get(), caches.drained.get(), caches.direct.get());
    assert!(cached == drained && cached + direct == 3, "lost blocks: {cached} in, {drained} out, {direct} past");
}

fn explore_caches<L: RawLock + Send + Sync + 'static>(one: fn(&Caches<L>), two: fn(&Caches<L>)) {
    explore(Caches::<L>::default, one, two, no_block_is_lost::<L>);
}

#[test]
fn a_busy_pageset_is_passed_by() {
    explore_caches::<SpinLock>(
        |caches| free_one(caches, with_guard),
        |caches| (0..2).for_each(|_| free_one(caches, with_guard)),
    );
}

/// The wrong variant makes its guard even if it did not get the lock, and so releases another thread's lock.
#[test]
#[should_panic(expected = "lost blocks")]
fn a_guard_without_its_lock_is_found() {
    fn eager<L: RawLock>(lock: &L, then: &dyn Fn()) -> bool {
        struct Unlock<'l, L: RawLock>(&'l L);
        impl<L: RawLock> Drop for Unlock<'_, L> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        lock.try_lock().then_some(Unlock(lock)).map(|_guard| then()).is_some()
    }
    explore_caches::<SpinLock>(|caches| free_one(caches, eager), |caches| (0..2).for_each(|_| free_one(caches, eager)));
}

/// A spin lock that omits one ordering.
#[derive(Debug, Default)]
struct Unordered<const ACQUIRES: bool>(AtomicBool);

impl<const ACQUIRES: bool> RawLock for Unordered<ACQUIRES> {
    fn lock(&self) {
        while !self.try_lock() {
            hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        let success = if ACQUIRES { Acquire } else { Relaxed };
        self.0.compare_exchange(false, true, success, Relaxed).is_ok()
    }

    fn unlock(&self) {
        let order = if ACQUIRES { Relaxed } else { crate::sync::atomic::Ordering::Release };
        self.0.store(false, order);
    }
}

fn explore_lock<L: RawLock + Send + Sync + 'static>() {
    let part: fn(&(L, Word)) = |(lock, word)| {
        let _guard = Guard::lock(lock);
        word.add();
    };
    explore(|| (L::default(), Word::default()), part, part, |(_, word)| assert_eq!(word.get(), 2, "a lost update"));
}

#[test]
fn what_one_holder_wrote_the_next_sees() {
    explore_lock::<SpinLock>();
}

#[test]
#[should_panic(expected = "a lost update")]
fn an_unlock_that_does_not_release_is_found() {
    explore_lock::<Unordered<true>>();
}

#[test]
#[should_panic(expected = "a lost update")]
fn a_lock_that_does_not_acquire_is_found() {
    explore_lock::<Unordered<false>>();
}

/// The interface of [`InFlight`] and its wrong variants.
trait Flights: Default + Send + Sync + 'static {
    fn begin(&self);
    fn end(&self);
    fn wait(&self);
    fn disable(&self);
    fn is_disabled(&self) -> bool;
}

impl Flights for InFlight {
    fn begin(&self) {
        self.begin();
    }
    fn end(&self) {
        self.end();
    }
    fn wait(&self) {
        self.wait(hint::spin_loop);
    }
    fn disable(&self) {
        self.disable();
    }
    fn is_disabled(&self) -> bool {
        self.is_disabled()
    }
}

/// A wrong variant for each step: [`InFlight`] with that step wrong.
#[derive(Default)]
struct Wrong<const STEP: u8> {
    refills: AtomicU32,
    right: InFlight,
}

const NO_WAIT: u8 = 0;
const NO_LOOK: u8 = 1;
const NO_RELEASE: u8 = 2;

impl<const STEP: u8> Flights for Wrong<STEP> {
    fn begin(&self) {
        self.right.begin();
        self.refills.fetch_add(1, Relaxed);
    }
    fn end(&self) {
        if STEP == NO_RELEASE {
            self.refills.fetch_sub(1, Relaxed);
        } else {
            self.right.end();
        }
    }
    fn wait(&self) {
        match STEP {
            NO_WAIT => {}
            NO_RELEASE => {
                while self.refills.load(Acquire) > 0 {
                    hint::spin_loop();
                }
            }
            _ => self.right.wait(hint::spin_loop),
        }
    }
    fn disable(&self) {
        self.right.disable();
    }
    fn is_disabled(&self) -> bool {
        STEP != NO_LOOK && self.right.is_disabled()
    }
}

/// A zone with one page, which a refill takes and a scan reads.
struct OnePage<F> {
    lock: SpinLock,
    flights: F,
    /// Accessed under the lock.
    on_list: Word,
    /// Written without the lock by the refill that took the page.
    looks_free: Word,
}

impl<F: Flights> OnePage<F> {
    fn new() -> Self {
        let page = OnePage {
            lock: SpinLock::default(),
            flights: F::default(),
            on_list: Word::default(),
            looks_free: Word::default(),
        };
        page.on_list.set(1);
        page.looks_free.set(1);
        page
    }

    /// Cuts the page off its list, and writes it without the lock.
    fn refill(&self) {
        {
            let _zone = Guard::lock(&self.lock);
            if self.flights.is_disabled() {
                return;
            }
            self.on_list.set(0);
            self.flights.begin();
        }
        self.looks_free.set(0);
        self.flights.end();
    }

    /// Reads the page without the lock, when no refill is in flight and none can begin.
    fn scan(&self) {
        {
            let _zone = Guard::lock(&self.lock);
            self.flights.disable();
            self.flights.wait();
        }
        let (on_list, looks_free) = (self.on_list.get(), self.looks_free.get());
        assert!(on_list == looks_free, "a page looks free and is on no list");
    }
}

fn explore_flights<F: Flights>() {
    explore(OnePage::<F>::new, OnePage::scan, OnePage::refill, |_| {});
}

#[test]
fn a_page_that_looks_free_is_on_a_list() {
    explore_flights::<InFlight>();
}

#[test]
#[should_panic(expected = "looks free and is on no list")]
fn a_scan_that_does_not_wait_is_found() {
    explore_flights::<Wrong<NO_WAIT>>();
}

#[test]
#[should_panic(expected = "looks free and is on no list")]
fn a_refill_that_does_not_look_whether_it_may_begin_is_found() {
    explore_flights::<Wrong<NO_LOOK>>();
}

#[test]
#[should_panic(expected = "looks free and is on no list")]
fn a_refill_whose_end_does_not_release_is_found() {
    explore_flights::<Wrong<NO_RELEASE>>();
}

type SetFlag<F> = fn(&F, u8, bool);

/// One thread sets "below high" while another sets and clears reclaim: no update is lost.
fn explore_flags<F: Default + Send + Sync + 'static>(set: SetFlag<F>, get: fn(&F) -> u8) {
    loom::model(move || {
        let flags = Arc::new(F::default());
        let reclaim = thread::spawn({
            let flags = Arc::clone(&flags);
            move || {
                set(&flags, RECLAIM_ACTIVE, true);
                set(&flags, RECLAIM_ACTIVE, false);
            }
        });
        set(&flags, BELOW_HIGH, true);
        reclaim.join().expect("a thread that ends");
        assert_eq!(get(&flags), BELOW_HIGH, "a lost flag");
    });
}

#[test]
fn no_flag_is_lost() {
    explore_flags::<Flags>(Flags::set, Flags::get);
}

#[test]
#[should_panic(expected = "a lost flag")]
fn flags_that_are_read_and_then_written_are_found() {
    let set = |flags: &AtomicU8, flag: u8, on| {
        let rest = flags.load(Relaxed) & !flag;
        flags.store(if on { rest | flag } else { rest }, Relaxed);
    };
    explore_flags::<AtomicU8>(set, |flags| flags.load(Relaxed));
}

/// Two drains of all CPUs: one waits for its turn, the other returns. Each sees the writes of the previous drain.
fn explore_drains<G>(try_begin: fn(&'static AtomicBool) -> Option<G>)
where
    G: 'static,
{
    loom::model(move || {
        // Leaked: a guard of a loom value that lives as long as the model.
        let draining: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let drains = Arc::new(Word::default());
        let waits = thread::spawn({
            let drains = Arc::clone(&drains);
            move || {
                let _draining = loop {
                    match try_begin(draining) {
                        Some(guard) => break guard,
                        None => hint::spin_loop(),
                    }
                };
                drains.add();
            }
        });
        let began = try_begin(draining).map(|_draining| drains.add()).is_some();
        waits.join().expect("a thread that ends");
        assert_eq!(drains.get(), 1 + u32::from(began), "two drains at once");
    });
}

#[test]
fn drains_of_all_cpus_come_one_by_one() {
    explore_drains(Exclusive::try_begin);
}

#[test]
#[should_panic(expected = "two drains at once")]
fn a_drain_that_looks_and_then_begins_is_found() {
    struct Begun(&'static AtomicBool);
    impl Drop for Begun {
        fn drop(&mut self) {
            self.0.store(false, crate::sync::atomic::Ordering::Release);
        }
    }
    explore_drains(|draining| {
        if draining.load(Acquire) {
            return None;
        }
        draining.store(true, Relaxed);
        Some(Begun(draining))
    });
}

/// A list of deferred frees, the links of two blocks, and which blocks were taken.
#[derive(Default)]
struct DeferredFrees {
    list: Deferred,
    links: [Word; 2],
    taken: [Word; 2],
}

impl DeferredFrees {
    fn take(&self) {
        if let Some(block) = self.list.take(|block| self.links[block as usize].get()) {
            self.taken[block as usize].add();
        }
    }
}

/// Two contexts defer the frees of two blocks, and the first takes a block in between. `push` is the way to defer.
fn explore_deferred(push: fn(&DeferredFrees, u32)) {
    type Context = fn(&DeferredFrees, fn(&DeferredFrees, u32));
    let contexts: [Context; 2] = [
        |frees, push| {
            push(frees, 0);
            frees.take();
        },
        |frees, push| push(frees, 1),
    ];
    loom::model(move || {
        let frees = Arc::new(DeferredFrees::default());
        let other = thread::spawn({
            let frees = Arc::clone(&frees);
            move || contexts[1](&frees, push)
        });
        contexts[0](&frees, push);
        other.join().expect("a thread that ends");
        frees.take();
        frees.take();
        assert!(frees.taken.iter().all(|taken| taken.get() == 1), "a deferred free was lost, or came twice");
    });
}

#[test]
fn each_deferred_free_comes_once() {
    explore_deferred(|frees, block| frees.list.push(block, |before| frees.links[block as usize].set(before)));
}

#[test]
#[should_panic(expected = "a deferred free was lost, or came twice")]
fn a_link_that_is_written_too_late_is_found() {
    explore_deferred(|frees, block| {
        let before = core::cell::Cell::new(0);
        frees.list.push(block, |newest| before.set(newest));
        frees.links[block as usize].set(before.get());
    });
}

/// A word of 64 bits in two halves, without the copy of the upper half.
#[derive(Debug)]
struct TwoHalves {
    low: AtomicU32,
    high: AtomicU32,
}

impl LockedWord for TwoHalves {
    type Value = u64;

    fn get(&self) -> u64 {
        let low = self.low.load(Acquire);
        u64::from(self.high.load(Acquire)) << 32 | u64::from(low)
    }

    fn set(&self, value: u64) {
        self.high.store((value >> 32) as u32, Release);
        self.low.store(value as u32, Release);
    }
}

/// The largest value whose upper half is 0.
const BEFORE: u64 = (1 << 32) - 1;

/// One thread counts beyond 2^32, another reads the word twice.
fn explore_split<W: LockedWord<Value = u64> + Send + Sync + 'static>(new: fn() -> W) {
    let count = |word: &W| (1..=2).for_each(|n| word.set(BEFORE + n));
    let read = |word: &W| {
        let (first, second) = (word.get(), word.get());
        assert!((BEFORE..=BEFORE + 2).contains(&first) && second >= first, "a torn value: {first:#x}, {second:#x}");
    };
    explore(new, count, read, |word| assert_eq!(word.get(), BEFORE + 2, "the last value"));
}

#[test]
fn a_split_word_is_never_torn() {
    explore_split(|| SplitWord::new(BEFORE));
}

#[test]
#[should_panic(expected = "a torn value")]
fn a_word_of_two_halves_is_found() {
    explore_split(|| TwoHalves { low: AtomicU32::new(BEFORE as u32), high: AtomicU32::new(0) });
}
