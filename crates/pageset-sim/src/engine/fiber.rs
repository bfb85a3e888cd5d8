//! Stackful coroutines that any called function can suspend. This module contains the only unsafe code of this
//! crate.
//!
//! The allocator takes locks deep inside ordinary code that knows no coroutines. A thread-local variable therefore
//! holds the running fiber, and [`suspend`] suspends that fiber.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

/// Bytes of stack per fiber. A guess: tests at low optimisation use less than a quarter. Untouched pages cost nothing.
const STACK_BYTES: usize = 256 << 10;

type Suspender = Option<NonNull<Yielder<(), ()>>>;

thread_local! {
    /// The yielder of the fiber that runs on this thread now.
    static CURRENT: Cell<Suspender> = const { Cell::new(None) };
}

/// Fibers that may borrow data with the lifetime `'env`.
pub(crate) struct Fibers<'env> {
    all: Vec<Fiber>,
    /// Makes `'env` invariant: the compiler must neither shorten nor extend the lifetime of borrowed data.
    env: PhantomData<&'env mut &'env ()>,
}

struct Fiber {
    coroutine: Coroutine<(), (), ()>,
    /// Set from the first suspension on.
    suspender: Suspender,
}

/// Calls `body` with an empty set of fibers. Drops all fibers, which unwinds their stacks, before it returns.
pub(crate) fn scope<'env, T>(body: impl FnOnce(&mut Fibers<'env>) -> T) -> T {
    let mut fibers = Fibers { all: Vec::new(), env: PhantomData };
    body(&mut fibers)
}

impl<'env> Fibers<'env> {
    /// Adds a fiber that starts at its first [`Self::resume`]. Its number is the number of earlier fibers.
    pub(crate) fn spawn(&mut self, body: impl FnOnce() + 'env) -> io::Result<()> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let main = move |yielder: &Yielder<(), ()>, ()| {
            CURRENT.set(Some(NonNull::from(yielder)));
            body();
        };
        // SAFETY: data that `main` borrows must live until the coroutine has ended or been dropped.
        // 1. The data live for `'env`, which outlives the call of `scope` because `'env` is a parameter of `scope`.
        // 2. The coroutine stays in a `Fibers` that only `scope` owns: `body` gets a reference, no other constructor
        //    exists, and no method returns a coroutine. So no coroutine can be forgotten.
        // 3. `scope` drops its `Fibers`, and so the coroutines, on every exit. Two `Fibers` swapped through their
        //    references are both dropped inside calls of `scope` with the same `'env`.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, main) };
        self.all.push(Fiber { coroutine, suspender: None });
        Ok(())
    }

    /// Runs a fiber until it suspends or ends. Does nothing for an ended fiber. Panics of the fiber propagate to the
    /// caller.
    pub(crate) fn resume(&mut self, index: usize) {
        let fiber = &mut self.all[index];
        if fiber.coroutine.done() {
            return;
        }
        let outer = Outer(CURRENT.replace(fiber.suspender));
        fiber.coroutine.resume(());
        fiber.suspender = CURRENT.get();
        drop(outer);
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // Unwinding code must not suspend any fiber, including one around this fiber.
        let _outer = Outer(CURRENT.replace(None));
        self.coroutine.force_unwind();
    }
}

/// Restores the previous value of `CURRENT` when dropped.
struct Outer(Suspender);

impl Drop for Outer {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Suspends the running fiber until it is resumed. Returns at once if no fiber runs.
pub(crate) fn suspend() {
    if let Some(current) = CURRENT.get() {
        // SAFETY: the pointer must point to a live yielder: the yielder of the coroutine on whose stack this code runs.
        // 1. A yielder is at the root of its coroutine's stack and lives until the coroutine ends.
        // 2. Only this module writes `CURRENT`. `resume`, or the fiber itself at its first start, sets it to the
        //    fiber's yielder. The value stays until `resume` returns, which is when that fiber has suspended or ended.
        // 3. In between, this thread runs on the fiber's stack, on the stack of a fiber resumed from there, for which
        //    `CURRENT` is replaced, or on a stack that unwinds, for which `CURRENT` is empty.
        // 4. `CURRENT` is thread-local, and neither `Fibers` nor a yielder is `Send`.
        unsafe { current.as_ref() }.suspend(());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn fibers_take_turns_and_may_borrow() {
        let log = RefCell::new(Vec::new());
        scope(|fibers| {
            for name in ["a", "b"] {
                let log = &log;
                fibers
                    .spawn(move || {
                        for turn in 0..2 {
                            log.borrow_mut().push((name, turn));
                            suspend();
                        }
                    })
                    .unwrap();
            }
            for index in [0, 1, 1, 0, 1, 0, 0] {
                fibers.resume(index);
            }
        });
        assert_eq!(log.into_inner(), [("a", 0), ("b", 0), ("b", 1), ("a", 1)]);
    }

    #[test]
    fn a_dropped_fiber_unwinds_without_suspending() {
        struct OnDrop<'d>(&'d Cell<u32>);
        impl Drop for OnDrop<'_> {
            fn drop(&mut self) {
                suspend();
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Cell::new(0);
        scope(|fibers| {
            let dropped = &dropped;
            fibers
                .spawn(move || {
                    let _guard = OnDrop(dropped);
                    suspend();
                    unreachable!("the fiber must not be resumed again");
                })
                .unwrap();
            fibers.resume(0);
        });
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn fibers_can_nest() {
        let steps = Cell::new(0);
        scope(|outer| {
            let steps = &steps;
            outer
                .spawn(move || {
                    scope(|inner| {
                        inner
                            .spawn(|| {
                                suspend();
                                steps.set(steps.get() + 1);
                            })
                            .unwrap();
                        inner.resume(0);
                        suspend();
                        inner.resume(0);
                    });
                    steps.set(steps.get() + 10);
                })
                .unwrap();
            outer.resume(0);
            assert_eq!(steps.get(), 0);
            outer.resume(0);
        });
        assert_eq!(steps.get(), 11);
    }

    #[test]
    #[should_panic(expected = "from inside")]
    fn panics_propagate_to_resume() {
        scope(|fibers| {
            fibers.spawn(|| panic!("from inside")).unwrap();
            fibers.resume(0);
        });
    }
}
