//! The allocator's lock trait on the engine. CPUs queue for zone locks; pageset locks have no queue.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use pageset::RawLock;

use crate::engine::{Engine, LockId};

thread_local! {
    /// The engine of the machine under construction. The allocator creates locks through `Default`, which has no
    /// parameter.
    static BUILDING: RefCell<Option<Rc<Engine>>> = const { RefCell::new(None) };
}

/// Calls `build`; locks created inside belong to `engine`.
pub(crate) fn built_on<T>(engine: &Rc<Engine>, build: impl FnOnce() -> T) -> T {
    let before = BUILDING.replace(Some(engine.clone()));
    let built = build();
    BUILDING.set(before);
    built
}

/// A lock of the simulated machine. A lock taken right after an announcement becomes the announced engine lock. Every
/// other lock is a pageset lock, for which CPUs hardly ever wait.
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
        // Only the pageset's own CPU, or a CPU that drains it remotely, takes this lock: it needs no queue.
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
