//! Code of callers that the pool calls: wakers and reports may panic and may call the pool again. `hostile.rs` does both at
//! random.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pageset_host::topology::Topology;
use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool, Pages, Ticker};

use crate::common::MIB;

/// Far longer than any call of a test.
const LONG: Duration = Duration::from_secs(60);

fn pool() -> Arc<PagePool> {
    let nodes = [Topology::of_this_machine().nodes[0]];
    let builder = PagePool::builder(2 * MIB).reserve(16 * MIB).nodes(&nodes).give_back(GiveBack::OFF);
    Arc::new(builder.huge_pages(HugePages::None).build().expect("a pool"))
}

fn fill(pool: &PagePool) -> Vec<Pages<&PagePool>> {
    std::iter::from_fn(|| pool.pages(Order::ZERO).ok()).collect()
}

/// A waker that counts, and then runs a function.
struct Caller<W: Fn()> {
    woken: AtomicUsize,
    when_woken: W,
    panics_when_dropped: bool,
}

impl<W: Fn()> Wake for Caller<W> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.fetch_add(1, Relaxed);
        (self.when_woken)();
    }
}

impl<W: Fn()> Drop for Caller<W> {
    fn drop(&mut self) {
        if self.panics_when_dropped && !thread::panicking() {
            resume_unwind(Box::new(()));
        }
    }
}

fn caller<W: Fn()>(when_woken: W) -> Arc<Caller<W>> {
    Arc::new(Caller { woken: AtomicUsize::new(0), when_woken, panics_when_dropped: false })
}

#[test]
fn a_waker_may_change_the_size_and_the_limit() {
    let calls: [fn(&PagePool); 3] = [
        |pool| assert!(pool.grow(2 * MIB).is_ok(), "a reserve"),
        |pool| pool.set_limit(Some(pool.stats().size_bytes)).expect("all of the pool"),
        |pool| pool.set_limit(None).expect("no limit"),
    ];
    for outer in calls {
        for inner in calls {
            let (done, wait) = mpsc::channel();
            // Another thread, in case that the call never returns.
            thread::spawn(move || {
                let pool = pool();
                let _all = fill(&pool);
                let again = Arc::clone(&pool);
                let waker = caller(move || match again.limit() {
                    // A pool with a limit keeps its size.
                    Some(_) => again.set_limit(None).expect("no limit"),
                    None => inner(&again),
                });
                let mut future = pin!(pool.pages_async(Order::MAX));
                assert!(future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&waker)))).is_pending());
                outer(&pool);
                done.send(waker.woken.load(Relaxed)).expect("the test waits");
            });
            assert_eq!(wait.recv_timeout(LONG), Ok(1), "the call does not return");
        }
    }
}

/// A future that gets a run wakes the next one, whose waker panics.
#[test]
fn a_waker_that_panics_loses_no_run() {
    let pool = pool();
    let mut all = fill(&pool);
    let [quiet, hostile] = [Waker::noop().clone(), Waker::from(caller(|| resume_unwind(Box::new(()))))];
    let mut first = pin!(pool.pages_async(Order::ZERO));
    let mut second = pin!(pool.pages_async(Order::ZERO));
    assert!(first.as_mut().poll(&mut Context::from_waker(&quiet)).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&hostile)).is_pending());
    drop(all.pop());
    let polled = catch_unwind(AssertUnwindSafe(|| first.as_mut().poll(&mut Context::from_waker(&quiet))));
    assert!(polled.is_err(), "the second future was not woken");
    assert_eq!(pool.stats().in_use_bytes, (all.len() * PAGE_BYTES) as u64, "a run was lost");
}

/// A future that sleeps gets a run all the same, and wakes the next one. The drop of its own waker panics.
#[test]
fn a_waker_that_panics_in_its_drop_loses_no_turn() {
    let pool = pool();
    let mut all = fill(&pool);
    let quiet = Waker::noop();
    let hostile = Arc::new(Caller { woken: AtomicUsize::new(0), when_woken: || (), panics_when_dropped: true });
    let counter = caller(|| ());
    let [mut first, mut second, mut third] = [(); 3].map(|()| Box::pin(pool.pages_async(Order::ZERO)));
    assert!(first.as_mut().poll(&mut Context::from_waker(quiet)).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&Waker::from(hostile))).is_pending());
    assert!(third.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&counter)))).is_pending());
    drop(all.pop());
    let polled = catch_unwind(AssertUnwindSafe(|| second.as_mut().poll(&mut Context::from_waker(quiet))));
    assert!(polled.is_err(), "the waker was not dropped");
    assert_eq!(counter.woken.load(Relaxed), 1, "the turn was lost");
    assert!(matches!(third.as_mut().poll(&mut Context::from_waker(quiet)), Poll::Ready(Ok(_))), "the run was lost");
}

/// A report may call everything that it has a pool for, and a ticker of its own.
#[test]
fn a_report_may_call_the_pool() {
    let pool = pool();
    let (done, wait) = mpsc::channel();
    let weak = Arc::downgrade(&pool);
    let report = move |pool: &PagePool| {
        pool.tick().expect("a tick");
        pool.drain();
        pool.give_back(u64::MAX).expect("given back");
        let in_use = pool.stats().metrics().len();
        drop(pool.pages(Order::ZERO));
        drop(pool.contig_pages(PAGE_BYTES));
        let nested = weak.upgrade().map(|pool| pool.start_ticker(Duration::from_millis(1), |pool| _ = pool.stats()));
        thread::sleep(Duration::from_millis(3));
        drop(nested.transpose().expect("a thread"));
        let _ = done.send(in_use);
    };
    let ticker = pool.start_ticker(Duration::from_millis(1), report).expect("a thread");
    for _ in 0..3 {
        assert!(wait.recv_timeout(LONG).expect("a report returns") > 0);
    }
    drop(ticker);
}

/// The ticker's thread cannot wait for itself.
#[test]
fn a_report_may_drop_its_ticker() {
    let pool = pool();
    let slot: Arc<Mutex<Option<Ticker>>> = Arc::default();
    let (done, wait) = mpsc::channel();
    let own = Arc::clone(&slot);
    let ticker = pool.start_ticker(Duration::from_millis(1), move |_| {
        let ticker = own.lock().unwrap_or_else(PoisonError::into_inner).take();
        if ticker.is_some() {
            drop(ticker);
            done.send(()).expect("the test waits");
        }
    });
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticker.expect("a thread"));
    assert_eq!(wait.recv_timeout(LONG), Ok(()), "the drop panicked, or does not return");
    // The thread then ends, and drops the report.
    assert_eq!(wait.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected), "the thread goes on");
}
