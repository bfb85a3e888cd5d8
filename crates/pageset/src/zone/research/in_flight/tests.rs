//! A model of a refill and of a CPU that acts on a page's tag, under a scheduler that chooses at each step. The same
//! model without the wait must fail.

extern crate std;

use super::InFlight;
use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::SeqCst};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::panic::catch_unwind;
use std::string::String;
use std::vec::Vec;

const FREE: u8 = 1;
const CACHED: u8 = 2;
const MERGED: u8 = 3;
const PAGES: usize = 4;

/// Pages with their tags; `listed` is how many are on the free list, under the lock.
#[derive(Default)]
struct Zone {
    lock: Mutex<()>,
    flight: InFlight,
    listed: AtomicU32,
    tags: [AtomicU8; PAGES],
    wrong: AtomicBool,
}

impl Zone {
    /// Records a violation. The run asserts once, after all threads have ended: a second panic during an unwind would
    /// abort the exploration.
    fn expect(&self, right: bool) {
        self.wrong.fetch_or(!right, SeqCst);
    }

    /// Cuts two pages off the list at once, and writes them afterwards.
    fn refill(&self) {
        let guard = self.lock.lock().expect("no thread panics");
        let listed = self.listed.load(SeqCst) as usize;
        if listed < 2 || self.flight.is_disabled() {
            return;
        }
        self.listed.store(listed as u32 - 2, SeqCst);
        self.flight.begin();
        drop(guard);
        for tag in &self.tags[listed - 2..listed] {
            self.expect(tag.swap(CACHED, SeqCst) == FREE);
        }
        self.flight.end();
    }

    /// Merges pages that look free, as a claim or a merge does.
    fn act(&self, waits: bool) {
        let _guard = self.lock.lock().expect("no thread panics");
        if waits {
            self.flight.wait(thread::yield_now);
        }
        self.take_free();
    }

    fn take_free(&self) {
        let free = self.tags.iter().filter(|tag| tag.load(SeqCst) == FREE);
        let taken = free.map(|tag| tag.store(MERGED, SeqCst)).count() as u32;
        self.expect(self.listed.swap(0, SeqCst) == taken);
    }

    /// Acts without the lock, while new refills are forbidden.
    fn act_disabled(&self, waits: bool) {
        {
            let _guard = self.lock.lock().expect("no thread panics");
            self.flight.disable();
            if waits {
                self.flight.wait(thread::yield_now);
            }
        }
        self.expect(self.flight.refills() == 0);
        self.take_free();
        let _guard = self.lock.lock().expect("no thread panics");
        self.flight.enable();
    }
}

/// Explores schedules of two refills and one CPU that acts on tags. Returns the first violation.
fn explore(act: fn(&Zone, bool), waits: bool) -> Result<(), String> {
    let run = move || {
        let zone = Arc::new(Zone { listed: AtomicU32::new(PAGES as u32), ..Zone::default() });
        zone.tags.iter().for_each(|tag| tag.store(FREE, SeqCst));
        let mut threads: Vec<_> = (0..2)
            .map(|_| {
                let zone = zone.clone();
                thread::spawn(move || zone.refill())
            })
            .collect();
        let acts = zone.clone();
        threads.push(thread::spawn(move || act(&acts, waits)));
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        zone.flight.wait(|| panic!("all have ended"));
        assert!(!zone.wrong.load(SeqCst), "a page in flight was taken");
    };
    catch_unwind(|| shuttle::check_random(run, 2000)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into())).unwrap_or_default()
    })
}

#[test]
fn nobody_takes_a_page_in_flight() {
    assert_eq!(explore(Zone::act, true), Ok(()));
    assert_eq!(explore(Zone::act_disabled, true), Ok(()));
}

/// The planted bug: the wait is missing.
#[test]
fn a_missing_wait_is_found() {
    for act in [Zone::act, Zone::act_disabled] {
        let found = explore(act, false).expect_err("someone did not wait");
        assert!(found.contains("a page in flight was taken"), "{found}");
    }
}
