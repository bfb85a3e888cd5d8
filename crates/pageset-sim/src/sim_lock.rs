//! The lock that the allocator is given: a zone's waits in the engine's queue, a pageset's is only tried.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use pageset::RawLock;

use crate::engine::{Engine, LockId};

thread_local! {
    /// The engine of the world that is being built: a lock is made by default, and belongs to it.
    static BUILDING: RefCell<Option<Rc<Engine>>> = const { RefCell::new(None) };
}

/// Builds something whose locks belong to an engine.
pub(crate) fn built_on<T>(engine: &Rc<Engine>, build: impl FnOnce() -> T) -> T {
    let before = BUILDING.replace(Some(engine.clone()));
    let built = build();
    BUILDING.set(before);
    built
}

/// A lock of the simulated machine. It becomes one of the engine's when it is taken right after that lock was announced;
/// else it is a pageset's, which hardly ever anyone waits for.
pub struct SimLock {
    engine: Option<Rc<Engine>>,
    named: Cell<Option<LockId>>,
    held: Cell<bool>,
}

impl Default for SimLock {
    fn default() -> Self {
        SimLock { engine: BUILDING.with_borrow(Clone::clone), named: Cell::new(None), held: Cell::new(false) }
    }
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLock").field("named", &self.named).field("held", &self.held).finish_non_exhaustive()
    }
}

impl RawLock for SimLock {
    #[inline]
    fn lock(&self) {
        if let Some(engine) = &self.engine {
            if let Some((id, path)) = engine.announced() {
                self.named.set(Some(id));
                engine.acquire(id, path);
                return;
            }
            engine.before_light_lock();
            while self.held.get() {
                engine.relax();
            }
        }
        self.held.set(true);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        if let Some(engine) = &self.engine {
            if let Some((id, path)) = engine.announced() {
                self.named.set(Some(id));
                return engine.try_acquire(id, path);
            }
            engine.before_light_lock();
        }
        // A pageset's holder is its own CPU, or one that drains it for another: no queue.
        !self.held.replace(true)
    }

    #[inline]
    fn unlock(&self) {
        match (&self.engine, self.named.get()) {
            (Some(engine), Some(id)) => engine.release(id),
            _ => self.held.set(false),
        }
    }
}
