//! Stackful coroutines that any function they call can suspend: with advice to the host, on memory and its cache, the
//! only unsafe code of this crate.
//!
//! The allocator takes a lock deep inside ordinary code, which knows no coroutine. So the running fiber is kept in a
//! thread-local variable, and [`suspend`] stops whichever that is.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

/// Bytes of stack a fiber. A guess: tests at low optimisation use less than a quarter. Pages that are never touched cost
/// nothing.
const STACK_BYTES: usize = 256 << 10;

type Suspender = Option<NonNull<Yielder<(), ()>>>;

thread_local! {
    /// What suspends the fiber that runs on this thread's stack now.
    static CURRENT: Cell<Suspender> = const { Cell::new(None) };
}

/// Fibers that may borrow what lives as long as `'env`.
pub(crate) struct Fibers<'env> {
    all: Vec<Fiber>,
    /// Invariant: what a fiber borrows must not be taken to live shorter or longer.
    env: PhantomData<&'env mut &'env ()>,
}

struct Fiber {
    coroutine: Coroutine<(), (), ()>,
    /// Known from its first suspension on.
    suspender: Suspender,
}

/// Makes room for fibers, and drops them all before it returns: their stacks unwind.
pub(crate) fn scope<'env, T>(body: impl FnOnce(&mut Fibers<'env>) -> T) -> T {
    let mut fibers = Fibers { all: Vec::new(), env: PhantomData };
    body(&mut fibers)
}

impl<'env> Fibers<'env> {
    /// Adds a fiber, which begins at its first [`Self::resume`]; its number is how many there were before.
    ///
    /// # Errors
    /// The system has no memory for its stack.
    pub(crate) fn spawn(&mut self, body: impl FnOnce() + 'env) -> io::Result<()> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let main = move |yielder: &Yielder<(), ()>, ()| {
            CURRENT.set(Some(NonNull::from(yielder)));
            body();
        };
        // SAFETY: what `main` borrows must live until the coroutine has ended or been dropped.
        // 1. It lives for `'env`, which is longer than the call of `scope`: a parameter of that function.
        // 2. The coroutine stays in a `Fibers`, which nobody outside of `scope` ever owns: `body` gets a reference, there
        //    is no other way to make one, and no method gives a coroutine out. So none can be forgotten.
        // 3. `scope` drops its `Fibers` on every way out, and with them the coroutines. If two of them were swapped by
        //    their references, both are dropped inside of calls of `scope` with the same `'env`.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, main) };
        self.all.push(Fiber { coroutine, suspender: None });
        Ok(())
    }

    /// Runs a fiber until it suspends or ends. Does nothing when it has ended; its panics come out here.
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
        // What unwinds must not suspend, least of all a fiber around this one.
        let _outer = Outer(CURRENT.replace(None));
        self.coroutine.force_unwind();
    }
}

/// Restores what was current.
struct Outer(Suspender);

impl Drop for Outer {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Suspends the running fiber until it is resumed. Returns at once where none runs.
pub(crate) fn suspend() {
    if let Some(current) = CURRENT.get() {
        // SAFETY: the pointer must lead to a live yielder, that of the coroutine on whose stack this runs.
        // 1. A yielder lies at the root of its coroutine's stack and lives until the coroutine ends.
        // 2. CURRENT is written here only. It is a fiber's yielder from when `resume` (or, the first time, the fiber
        //    itself) sets it until `resume` returns, which is when that fiber has suspended or ended.
        // 3. Between, this thread runs on the fiber's stack, or on that of a fiber resumed from there, for which CURRENT is
        //    replaced, or on a stack that is being unwound, for which it is empty.
        // 4. CURRENT is of this thread, and neither `Fibers` nor a yielder can be sent to another.
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
    fn a_suspended_fiber_unwinds_and_suspends_no_more() {
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
                    unreachable!("it is never resumed again");
                })
                .unwrap();
            fibers.resume(0);
        });
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_fiber_runs_fibers() {
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
    fn panics_come_out() {
        scope(|fibers| {
            fibers.spawn(|| panic!("from inside")).unwrap();
            fibers.resume(0);
        });
    }
}
