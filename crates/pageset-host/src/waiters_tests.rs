//! Who gets the turn after a free, and who gets it next. `wait_model_tests.rs` has the races.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use super::*;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A caller that sleeps.
struct Caller {
    id: WaiterId,
    counter: Arc<Counter>,
}

impl Caller {
    fn new(waiters: &Waiters, order: u8, one_node: bool) -> Self {
        let (id, _) = waiters.add(Order::new(order).expect("an order"), one_node, || true);
        let caller = Caller { id, counter: Arc::default() };
        caller.sleeps(waiters);
        caller
    }

    /// A try fails, and the caller goes to sleep.
    fn sleeps(&self, waiters: &Waiters) {
        assert!(waiters.sleep(self.id, waiters.frees(), &Waker::from(Arc::clone(&self.counter))), "no free came");
    }

    fn woken(&self) -> usize {
        self.counter.0.load(Relaxed)
    }
}

/// Callers in the order of their places, the first of which fails after a free: whom it wakes.
#[test]
fn a_caller_that_fails_passes_its_turn_to_whom_the_run_may_suit() {
    const ONE: bool = true;
    const ANY: bool = false;
    for (callers, next) in [
        // The run may be too small for the first, so it is for all that want as much.
        (&[(3, ANY), (3, ANY), (4, ANY), (2, ANY)][..], Some(3)),
        (&[(3, ANY), (3, ONE), (2, ONE), (0, ANY)], Some(2)),
        (&[(0, ANY), (0, ANY), (0, ONE)], None),
        // It may be on another node, where it suits the next one, whatever that wants.
        (&[(0, ONE), (0, ANY), (0, ANY)], Some(1)),
        (&[(0, ONE), (3, ANY), (0, ANY)], Some(1)),
        (&[(0, ONE), (0, ONE)], Some(1)),
        (&[(3, ONE)], None),
    ] {
        let waiters = Waiters::default();
        let sleeping: Vec<_> = callers.iter().map(|&(order, node)| Caller::new(&waiters, order, node)).collect();
        waiters.freed();
        let woken = || sleeping.iter().map(Caller::woken).collect::<Vec<_>>();
        let mut expected = vec![0; callers.len()];
        expected[0] = 1;
        assert_eq!(woken(), expected, "{callers:?}: the first has waited longest");
        sleeping[0].sleeps(&waiters);
        next.into_iter().for_each(|next: usize| expected[next] += 1);
        assert_eq!(woken(), expected, "{callers:?}");
    }
}

/// Each caller of one node fails once, and the turn ends, or one free would keep two callers of different nodes awake for ever.
#[test]
fn a_turn_of_callers_of_one_node_ends() {
    let waiters = Waiters::default();
    let callers = [(); 3].map(|()| Caller::new(&waiters, 0, true));
    waiters.freed();
    for (at, caller) in callers.iter().enumerate() {
        assert_eq!(callers.each_ref().map(Caller::woken), std::array::from_fn(|other| usize::from(other <= at)));
        caller.sleeps(&waiters);
    }
    assert_eq!(callers.each_ref().map(Caller::woken), [1; 3]);
}
