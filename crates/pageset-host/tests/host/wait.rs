//! Allocations that wait: with a time limit and as futures. No wake-up is lost, and a dropped future leaves nothing behind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pageset_host::{AllocError, GiveBack, HugePages, NodeId, Order, PAGE_BYTES, PagePool, Pages, PagesFuture, RunSpec};

use crate::common::{MIB, order};

fn pool(mib: u64) -> PagePool {
    let builder = PagePool::builder(mib * MIB).give_back(GiveBack::OFF).huge_pages(HugePages::None);
    builder.nodes(&[first_node()]).build().expect("a pool")
}

fn first_node() -> pageset_host::NodeId {
    pageset_host::topology::Topology::of_this_machine().nodes[0]
}

fn fill(pool: &PagePool, order: Order) -> Vec<Pages<&PagePool>> {
    std::iter::from_fn(|| pool.pages(order).ok()).collect()
}

/// Far longer than any wait of a test, and short enough to see a lost wake-up as a failure.
const LONG: Duration = Duration::from_secs(60);

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A small executor: polls a future on this thread, parked between polls.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    let end = Instant::now() + LONG;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        assert!(Instant::now() < end, "a wake-up was lost");
        thread::park_timeout(LONG);
    }
}

#[test]
fn a_wait_ends_with_its_time_and_says_so() {
    let mut pool = pool(2);
    assert!(
        pool.alloc_with(&RunSpec::new(Order::ZERO).timeout(Duration::ZERO)).is_ok_and(|run| run.len() == PAGE_BYTES)
    );
    let all = fill(&pool, Order::ZERO);
    let failed = pool.stats().failed_allocs;
    for time in [Duration::ZERO, Duration::from_millis(30)] {
        let start = Instant::now();
        let error = pool.alloc_with(&RunSpec::new(order(1)).timeout(time)).expect_err("no memory");
        assert!(start.elapsed() >= time, "{:?}", start.elapsed());
        assert_eq!(error, AllocError::TimedOut { order: order(1), timeout: time });
        let text = format!(
            "cannot allocate a run of 8192 bytes: no run of that size was free within {time:?}; try a longer time, or a \
             larger pool"
        );
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(pool.stats().failed_allocs, failed + 2, "each wait counts once");
    let start = Instant::now();
    let error = pool.alloc_with(&RunSpec::new(Order::MAX).timeout(LONG)).expect_err("larger than the pool");
    assert!(matches!(error, AllocError::OutOfMemory { .. }) && start.elapsed() < LONG / 2, "{error}");
    drop(all);
    pool.audit().expect("a consistent pool");
}

#[test]
fn every_kind_of_free_ends_a_wait() {
    let pool = PagePool::builder(4 * MIB).reserve(8 * MIB).nodes(&[first_node()]).build().expect("a pool");
    type Free = fn(&PagePool, std::ptr::NonNull<u8>);
    let free: [(&str, Free); 4] = [
        // SAFETY, here and below: the test owns the page.
        ("free", |pool, page| unsafe { pool.free(page, Order::ZERO).expect("in use") }),
        ("bulk", |pool, page| unsafe { pool.free_bulk(Order::ZERO, &[page]).expect("in use") }),
        ("deferred", |pool, page| unsafe { pool.free_deferred(page, Order::ZERO).expect("in use") }),
        ("grow", |pool, page| {
            pool.grow(2 * MIB).expect("a reserve");
            unsafe { pool.free(page, Order::ZERO).expect("in use") }
        }),
    ];
    for (name, free) in free {
        let mut all = fill(&pool, Order::ZERO);
        let page = all.pop().expect("a page").into_raw().cast::<u8>();
        let address = page.addr();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(30));
                free(&pool, pool.memory().address_space().cast::<u8>().map_addr(|_| address));
            });
            let start = Instant::now();
            let waited = pool
                .pages_with(&RunSpec::new(Order::ZERO).timeout(LONG))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(start.elapsed() < LONG / 2, "{name}: {:?}", start.elapsed());
            drop(waited);
        });
    }
    let run = pool.alloc_contig(6 << 20).expect("an empty pool");
    let address = run.cast::<u8>().addr();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(30));
            let start = pool.memory().address_space().cast::<u8>().map_addr(|_| address);
            // SAFETY: the test owns the run.
            unsafe { pool.free_contig(std::ptr::NonNull::slice_from_raw_parts(start, 6 << 20)).expect("in use") };
        });
        drop(pool.pages_with(&RunSpec::new(order(9)).timeout(LONG)).expect("the contiguous run"));
    });
    assert_eq!((pool.stats().in_use_bytes, pool.stats().failed_allocs > 0), (0, true));
}

#[test]
fn a_future_is_woken_once_by_a_free_and_a_dropped_one_leaves_nothing() {
    let mut pool = pool(2);
    let mut all = fill(&pool, Order::ZERO);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut context = Context::from_waker(&waker);
    {
        let mut first = pin!(pool.pages_async(Order::ZERO));
        let mut second = pin!(pool.pages_async(Order::ZERO));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(counter.0.load(Relaxed), 0);
        drop(all.pop());
        assert_eq!(counter.0.load(Relaxed), 1, "one free wakes one future");
        let got = first.as_mut().poll(&mut context);
        assert!(matches!(got, Poll::Ready(Ok(_))));
        assert_eq!(counter.0.load(Relaxed), 2, "a future that got memory passes the turn on");
        assert!(second.as_mut().poll(&mut context).is_pending());
    }
    // The second future was dropped in the queue. A free then finds no one.
    let woken = counter.0.load(Relaxed);
    drop(all.pop());
    assert_eq!(counter.0.load(Relaxed), woken, "a dropped future was woken");
    assert_eq!(Arc::strong_count(&counter), 2, "the queue keeps a waker");
    drop(all);
    assert_eq!(pool.stats().in_use_bytes, 0);
    pool.audit().expect("a consistent pool");
}

/// A future that has the turn and is dropped passes the turn on.
#[test]
fn a_dropped_future_passes_its_turn_on() {
    let pool = pool(2);
    let mut all = fill(&pool, Order::ZERO);
    let [one, two] = [(); 2].map(|()| Arc::new(Counter::default()));
    let wakers = [Waker::from(Arc::clone(&one)), Waker::from(Arc::clone(&two))];
    let mut first = Box::pin(pool.pages_async(Order::ZERO));
    let mut second = Box::pin(pool.pages_async(Order::ZERO));
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    drop(all.pop());
    assert_eq!((one.0.load(Relaxed), two.0.load(Relaxed)), (1, 0));
    drop(first);
    assert_eq!(two.0.load(Relaxed), 1, "the turn was lost");
    assert!(matches!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])), Poll::Ready(Ok(_))));
}

/// A caller that waits for a large run does not keep a small run from the next caller.
#[test]
fn a_large_request_does_not_block_smaller_ones() {
    let pool = pool(2);
    let mut all = fill(&pool, Order::ZERO);
    let [large, small] = [(); 2].map(|()| Arc::new(Counter::default()));
    let wakers = [Waker::from(Arc::clone(&large)), Waker::from(Arc::clone(&small))];
    let mut first = pin!(pool.pages_async(order(9)));
    let mut second = pin!(pool.pages_async(Order::ZERO));
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    drop(all.pop());
    assert_eq!((large.0.load(Relaxed), small.0.load(Relaxed)), (1, 0));
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    assert_eq!(small.0.load(Relaxed), 1, "the smaller request was not tried");
    let page = second.as_mut().poll(&mut Context::from_waker(&wakers[1]));
    assert!(matches!(page, Poll::Ready(Ok(_))));
    drop((all, page));
    assert!(matches!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])), Poll::Ready(Ok(_))));
}

/// A caller that waits for a run of one node does not keep a run of another node from the next caller.
#[test]
fn a_request_of_one_node_does_not_block_those_of_others() {
    let builder = PagePool::builder(4 * MIB).pretended_nodes(2).give_back(GiveBack::OFF);
    let pool = builder.huge_pages(HugePages::None).build().expect("a pool");
    let node = |number| RunSpec::new(Order::ZERO).node(NodeId(number));
    let of_node = |number| std::iter::from_fn(|| pool.pages_with(&node(number)).ok()).collect::<Vec<_>>();
    let (mut first, mut second) = (of_node(0), of_node(1));
    assert_eq!((first.len(), second.len()), (512, 512));
    thread::scope(|scope| {
        let waits = scope.spawn(|| pool.pages_with(&node(1).timeout(LONG)).map(drop));
        // Until that caller is in the queue. If it is not, it cannot fail to pass its turn on.
        thread::sleep(Duration::from_millis(50));
        let next = scope.spawn(|| block_on(pool.pages_async(Order::ZERO)).map(drop));
        thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        drop(first.pop());
        next.join().expect("no panic").expect("the page of node 0");
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
        assert!(!waits.is_finished(), "node 1 has no page");
        drop(second.pop());
        waits.join().expect("no panic").expect("the page of node 1");
    });
}

/// More threads than runs, so that all of them wait, block and free all the time. A lost wake-up stops the test.
#[test]
fn no_wake_up_is_lost_between_threads() {
    for restartable in [true, false] {
        let builder = PagePool::builder(2 * MIB).nodes(&[first_node()]).give_back(GiveBack::OFF);
        let mut pool = builder.restartable_sequences(restartable).build().expect("a pool");
        // Only two pages are left.
        let mut held = fill(&pool, Order::ZERO);
        held.truncate(510);
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for n in 0..6 {
                let (pool, done) = (&pool, &done);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let pages = if n % 2 == 0 {
                            pool.pages_with(&RunSpec::new(Order::ZERO).timeout(LONG)).expect("memory in time")
                        } else {
                            block_on(pool.pages_async(Order::ZERO)).expect("memory")
                        };
                        // Cancelled futures between the others.
                        drop(pool.pages_async(order(1)));
                        let mut cancelled = Box::pin(pool.pages_async(order(2)));
                        let _ = cancelled.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        drop(pages);
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.load(Relaxed), 6 * 200);
        drop(held);
        assert_eq!(pool.stats().in_use_bytes, 0);
        pool.audit().expect("a consistent pool");
    }
}

#[test]
fn a_shared_future_moves_to_another_thread_and_keeps_the_pool() {
    let pool = Arc::new(pool(2));
    let mut all: Vec<_> = std::iter::from_fn(|| Pages::new(Arc::clone(&pool), Order::ZERO).ok()).collect();
    let future = PagesFuture::new(Arc::clone(&pool), Order::ZERO);
    let waiter = thread::spawn(move || block_on(future).expect("memory").len());
    thread::sleep(Duration::from_millis(20));
    all.pop();
    assert_eq!(waiter.join().expect("no panic"), PAGE_BYTES);
}
